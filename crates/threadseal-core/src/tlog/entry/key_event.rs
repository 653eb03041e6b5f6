//! Key events in a seal log: create a key, delegate a record to another key, rotate, revoke.
//!
//! ```text
//! {"public":HEX,"signature":BASE64,"type":"key/create"}
//! {"public":HEX,"record":HEX,"signature":BASE64,"to":HEX,"type":"key/delegate"}
//! {"next":HEX,"public":HEX,"signature":BASE64,"type":"key/rotate"}
//! {"public":HEX,"signature":BASE64,"type":"key/revoke"}
//! {"public":HEX,"signature":BASE64,"type":"key/revoke/observed"}     a key of another usage
//! signature   by `public`, over tagged(TAG, [type, public, next or nothing])
//!             of key/delegate: tagged(TAG, ["delegate", public, to, record])
//! ```
//! TAG is that of the usage of the key, so that each key signs a message of its own usage. A key of
//! another usage than native only ends.
//!
//! A key signs only its own events, so no key ends another. The key need not be known to any
//! reader. Names stay outside the log.
//!
//! A delegation event alone permits no seal. The record names the keys that may seal it
//! (`spec/transcript.md` §5), and the log shows that this host knows of the delegation.
//!
//! [`KeyHistory`] gives the entry at which a key ended. Entries before it were sealed while the key
//! was valid.

use super::BadEntry;
use crate::canon::json::Value;
use crate::digest::Digest;
use crate::encoding;
use crate::error::Error;
use crate::key::{KeyUsage, Message, PublicKey, Signature, Signer};
use crate::record::RecordId;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of all types of key events.
pub(super) const KEY: &str = "key/";

const TAG: &str = "threadseal/1 key event";
const OBSERVED_TAG: &str = "threadseal/observed/1 key event";
const SCROLL_TAG: &str = "threadseal/scroll/1 key event";
const IGOR_TAG: &str = "threadseal/igor/1 key event";

/// A change in the state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// The key was created.
    Create,
    /// The key lets another key seal a record of its own.
    Delegate {
        /// The record.
        record: RecordId,
        /// The other key.
        to: PublicKey,
    },
    /// The key ends, and this one replaces it.
    Rotate(PublicKey),
    /// The key ends.
    Revoke,
}

impl KeyChange {
    /// `create`, `delegate`, `rotate` or `revoke`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delegate { .. } => "delegate",
            Self::Rotate(_) => "rotate",
            Self::Revoke => "revoke",
        }
    }

    /// Whether the key ends with this event.
    pub fn ends(&self) -> bool {
        matches!(self, Self::Rotate(_) | Self::Revoke)
    }

    /// The other key that it names.
    fn other(&self) -> Option<&PublicKey> {
        match self {
            Self::Rotate(other) | Self::Delegate { to: other, .. } => Some(other),
            Self::Create | Self::Revoke => None,
        }
    }

    fn next(&self) -> Option<&PublicKey> {
        self.other().filter(|_| self.ends())
    }

    /// The message that a native key signs for this change.
    pub fn message(&self, public: &PublicKey) -> Message {
        Message::tagged(TAG, &self.parts(public))
    }

    /// The message that a key of this usage signs for this change; `None` where such a key makes no
    /// such change.
    pub fn message_of(&self, usage: KeyUsage, public: &PublicKey) -> Option<Message> {
        let parts = self.parts(public);
        let tag = match usage {
            KeyUsage::Native => return Some(self.message(public)),
            KeyUsage::Rye if self.ends() => {
                return Some(Message::rye_hash(&Digest::tagged(TAG, &parts)));
            }
            KeyUsage::Observed => OBSERVED_TAG,
            KeyUsage::Scroll => SCROLL_TAG,
            KeyUsage::Igor => IGOR_TAG,
            KeyUsage::Rye | KeyUsage::Log | KeyUsage::Witness | KeyUsage::Recovery => return None,
        };
        self.ends().then(|| Message::tagged(tag, &parts))
    }

    fn parts<'p>(&'p self, public: &'p PublicKey) -> Vec<&'p [u8]> {
        let other = self.other().map_or(&[][..], |other| other.as_bytes());
        let mut parts = vec![self.as_str().as_bytes(), public.as_bytes(), other];
        if let Self::Delegate { record, .. } = self {
            parts.push(record.as_bytes());
        }
        parts
    }
}

/// A key event. The key that it changes has signed it: no other constructor exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEvent {
    usage: KeyUsage,
    change: KeyChange,
    public: PublicKey,
    signature: Signature,
}

impl KeyEvent {
    /// Signs a change with the key that it changes.
    ///
    /// # Errors
    /// Kind `Refused` when a key of this usage makes no such change, or would rotate or delegate to
    /// itself; those of the signer.
    pub fn sign(change: KeyChange, signer: &dyn Signer) -> Result<Self, Error> {
        let (usage, public) = (signer.usage(), *signer.public_key());
        if change.other() == Some(&public) {
            return Err(Error::refused(
                "a key cannot replace itself, and needs no delegation to seal",
            ));
        }
        let message = change.message_of(usage, &public).ok_or_else(|| {
            let word = change.as_str();
            Error::refused(format!(
                "a key with the usage `{usage}` signs no event `{word}`"
            ))
        })?;
        let signature = signer.sign(&message)?;
        Ok(Self {
            usage,
            change,
            public,
            signature,
        })
    }

    /// The rotation from `public` to `next` with this signature, as a key of `usage` signed it;
    /// `None` where it did not.
    pub fn rotation(
        usage: KeyUsage,
        public: PublicKey,
        next: PublicKey,
        signature: Signature,
    ) -> Option<Self> {
        Self {
            usage,
            change: KeyChange::Rotate(next),
            public,
            signature,
        }
        .checked()
    }

    fn checked(self) -> Option<Self> {
        let message = self.change.message_of(self.usage, &self.public)?;
        let signed = self.public.verify(&message, &self.signature);
        let holds = signed.is_ok() && self.change.other() != Some(&self.public);
        holds.then_some(self)
    }

    /// The usage of the key.
    pub fn usage(&self) -> KeyUsage {
        self.usage
    }

    /// The change.
    pub fn change(&self) -> &KeyChange {
        &self.change
    }

    /// The key that it changes.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The signature of that key.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Its only text.
    pub(super) fn to_text(&self) -> String {
        let (mut next, mut record, mut to) = (String::new(), String::new(), String::new());
        match &self.change {
            KeyChange::Create | KeyChange::Revoke => {}
            KeyChange::Rotate(key) => next = format!("\"next\":\"{}\",", key.to_hex()),
            KeyChange::Delegate {
                record: of,
                to: key,
            } => {
                record = format!("\"record\":\"{of}\",");
                to = format!("\"to\":\"{}\",", key.to_hex());
            }
        }
        let usage = match self.usage {
            KeyUsage::Native => String::new(),
            usage => format!("/{usage}"),
        };
        format!(
            "{{{next}\"public\":\"{}\",{record}\"signature\":\"{}\",{to}\"type\":\"{KEY}{}{usage}\"}}",
            self.public.to_hex(),
            encoding::base64(self.signature.as_bytes()),
            self.change.as_str()
        )
    }

    /// The event of this kind; `None` where the kind is of a later version.
    pub(super) fn read(kind: &str, value: &Value) -> Result<Option<Self>, BadEntry> {
        let key = |name| {
            let text = value.get(name).and_then(Value::as_str);
            text.and_then(|text| PublicKey::from_hex(text).ok())
                .ok_or(BadEntry)
        };
        let (kind, usage) = match kind.split_once('/') {
            None => (kind, KeyUsage::Native),
            Some((kind @ ("rotate" | "revoke"), usage)) => match KeyUsage::parse(usage) {
                Some(
                    usage
                    @ (KeyUsage::Observed | KeyUsage::Rye | KeyUsage::Scroll | KeyUsage::Igor),
                ) => (kind, usage),
                _ => return Ok(None),
            },
            Some(_) => return Ok(None),
        };
        let change = match kind {
            "create" => KeyChange::Create,
            "delegate" => KeyChange::Delegate {
                record: value
                    .get("record")
                    .and_then(Value::as_str)
                    .and_then(RecordId::parse_hex)
                    .ok_or(BadEntry)?,
                to: key("to")?,
            },
            "rotate" => KeyChange::Rotate(key("next")?),
            "revoke" => KeyChange::Revoke,
            _ => return Ok(None),
        };
        let public = key("public")?;
        let signature = value.get("signature").and_then(Value::as_str);
        let signature = signature.and_then(encoding::parse_base64);
        let signature = signature
            .and_then(|bytes| Signature::from_slice(&bytes))
            .ok_or(BadEntry)?;
        let event = Self {
            usage,
            change,
            public,
            signature,
        };
        event.checked().ok_or(BadEntry).map(Some)
    }
}

/// The key events of a log: where keys ended, and which keys replace them.
#[derive(Debug, Clone, Default)]
pub struct KeyHistory {
    ended: BTreeMap<PublicKey, (u64, KeyEvent)>,
    revoked: BTreeSet<PublicKey>,
    rotated: BTreeMap<PublicKey, Vec<KeyEvent>>,
}

impl KeyHistory {
    /// Takes the events of a log with the numbers of their entries, in order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e (u64, KeyEvent)>) -> Self {
        let mut history = Self::default();
        for (at, event) in events {
            if event.change.ends() {
                // The holder of an ended key may write more events; the first end counts.
                let ended = history.ended.entry(event.public);
                ended.or_insert_with(|| (*at, event.clone()));
            }
            if event.change == KeyChange::Revoke {
                history.revoked.insert(event.public);
            }
            // Records follow the rotations of native keys alone.
            if event.usage == KeyUsage::Native && event.change.next().is_some() {
                let of_key = history.rotated.entry(event.public).or_default();
                of_key.push(event.clone());
            }
        }
        history
    }

    /// The entry at which a key ended, if it did.
    pub fn ended(&self, key: &PublicKey) -> Option<u64> {
        self.ended.get(key).map(|(at, _)| *at)
    }

    /// The event by which a key ended, if it did.
    pub fn end(&self, key: &PublicKey) -> Option<&KeyEvent> {
        self.ended.get(key).map(|(_, event)| event)
    }

    /// Whether the key ever revoked itself, before or after another end.
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.revoked.contains(key)
    }

    /// The key that took the place of a key which ended and never revoked itself.
    pub fn next(&self, key: &PublicKey) -> Option<PublicKey> {
        let next = self.end(key)?.change.next()?;
        (!self.is_revoked(key)).then_some(*next)
    }

    /// The rotations by which keys ended, from `from` up to `to`, in order; `None` where another
    /// key, or none, took the place of one of them.
    pub fn handed_over(&self, from: &PublicKey, to: &PublicKey) -> Option<Vec<&KeyEvent>> {
        let (mut rotations, mut key) = (Vec::new(), *from);
        while key != *to {
            let event = self.end(&key)?;
            key = *event.change.next()?;
            rotations.push(event);
            if rotations.len() > self.ended.len() {
                return None;
            }
        }
        Some(rotations)
    }

    /// The rotations of native keys that lead from `from` to `to`, in order; `None` where no path
    /// exists.
    ///
    /// The result proves that each key signed its rotation. It does not prove that the signer of a
    /// rotation was still trusted then. The caller that trusts `to` must decide that.
    pub fn succession(&self, from: &PublicKey, to: &PublicKey) -> Option<Vec<&KeyEvent>> {
        let mut ways: BTreeMap<PublicKey, &KeyEvent> = BTreeMap::new();
        let mut open = vec![*from];
        while let Some(key) = open.pop() {
            for event in self.rotated.get(&key).into_iter().flatten() {
                let Some(next) = event.change.next().filter(|next| *next != from) else {
                    continue;
                };
                if let Entry::Vacant(way) = ways.entry(*next) {
                    way.insert(event);
                    open.push(*next);
                }
            }
        }
        let mut words = Vec::new();
        let mut key = *to;
        while key != *from {
            let word = ways.get(&key)?;
            words.push(*word);
            key = word.public;
        }
        words.reverse();
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::super::LogEntry;
    use super::*;
    use crate::key::{KeyUsage, LocalSigner};
    use crate::testing::{self, key};

    fn signer(seed: u8) -> LocalSigner {
        testing::signer(seed, KeyUsage::Native)
    }

    fn event(change: KeyChange) -> KeyEvent {
        KeyEvent::sign(change, &signer(1)).unwrap()
    }

    fn delegation() -> KeyEvent {
        event(KeyChange::Delegate {
            record: RecordId::from_bytes([7; 32]),
            to: key(2),
        })
    }

    fn events() -> Vec<KeyEvent> {
        vec![
            event(KeyChange::Create),
            delegation(),
            event(KeyChange::Rotate(key(2))),
            event(KeyChange::Revoke),
        ]
    }

    #[test]
    fn events_are_entries_that_read_back_and_are_canonical() {
        for event in events() {
            let bytes = LogEntry::Key(Box::new(event.clone())).to_bytes().unwrap();
            assert_eq!(crate::canon::jcs::canonicalize(&bytes).unwrap(), bytes);
            assert_eq!(LogEntry::read(&bytes), Ok(LogEntry::Key(Box::new(event))));
        }
        let later = br#"{"type":"key/other"}"#;
        assert_eq!(LogEntry::read(later), Ok(LogEntry::Unknown));
    }

    // T-KLOG-07 T-KLOG-31
    #[test]
    fn an_event_of_one_kind_or_key_is_none_of_another() {
        let [own, next, other] = [1, 2, 3].map(|seed| key(seed).to_hex());
        for event in events() {
            let text = event.to_text();
            let changed = [
                text.replace(&own, &other),
                text.replace(&next, &other),
                text.replace(&next, &own),
                text.replace("key/create", "key/revoke"),
                text.replace("key/delegate", "key/create"),
                text.replace(&"07".repeat(32), &"08".repeat(32)),
                text.replace("\"to\"", "\"next\"")
                    .replace("key/delegate", "key/rotate"),
                text.replace("\"next\"", "\"to\"")
                    .replace("key/rotate", "key/delegate"),
                text.replace("key/revoke", "key/create"),
                text.replace(&format!("\"next\":\"{next}\","), ""),
                text.replace("key/rotate", "key/revoke"),
                text.replacen('{', &format!("{{\"next\":\"{next}\","), 1),
            ];
            for bad in changed.iter().filter(|changed| **changed != text) {
                assert_eq!(LogEntry::read(bad.as_bytes()), Err(BadEntry), "{bad}");
            }
        }
    }

    #[test]
    fn a_key_of_another_usage_and_one_that_follows_itself_say_nothing() {
        let record = RecordId::from_bytes([7; 32]);
        for usage in KeyUsage::ALL.into_iter().chain([KeyUsage::Recovery]) {
            let signer = testing::signer(1, usage);
            let signs = |change| KeyEvent::sign(change, &signer).is_ok();
            let has_place = !matches!(
                usage,
                KeyUsage::Log | KeyUsage::Witness | KeyUsage::Recovery
            );
            assert_eq!(signs(KeyChange::Revoke), has_place, "{usage}");
            assert_eq!(signs(KeyChange::Rotate(key(2))), has_place, "{usage}");
            let is_native = usage == KeyUsage::Native;
            assert_eq!(signs(KeyChange::Create), is_native, "{usage}");
            let delegate = KeyChange::Delegate { record, to: key(2) };
            assert_eq!(signs(delegate), is_native, "{usage}");
        }
        let to = key(1);
        for own in [KeyChange::Rotate(to), KeyChange::Delegate { record, to }] {
            assert!(KeyEvent::sign(own, &signer(1)).is_err());
        }
    }

    /// The ends of keys of the other usages: each has one text, and none is that of another usage.
    // T-KLOG-50
    #[test]
    fn an_end_of_one_usage_is_none_of_another() {
        let usages = [
            KeyUsage::Native,
            KeyUsage::Observed,
            KeyUsage::Rye,
            KeyUsage::Scroll,
            KeyUsage::Igor,
        ];
        for usage in usages {
            for change in [KeyChange::Rotate(key(2)), KeyChange::Revoke] {
                let event = KeyEvent::sign(change, &testing::signer(1, usage)).unwrap();
                let own = LogEntry::Key(Box::new(event.clone()));
                let bytes = own.to_bytes().unwrap();
                assert_eq!(crate::canon::jcs::canonicalize(&bytes).unwrap(), bytes);
                assert_eq!(LogEntry::read(&bytes), Ok(own));
                let text = event.to_text();
                let kind = |usage: KeyUsage| match usage {
                    KeyUsage::Native => format!("{KEY}{}\"", change.as_str()),
                    usage => format!("{KEY}{}/{usage}\"", change.as_str()),
                };
                for other in usages.into_iter().filter(|other| *other != usage) {
                    let bad = text.replace(&kind(usage), &kind(other));
                    assert_eq!(LogEntry::read(bad.as_bytes()), Err(BadEntry), "{bad}");
                }
            }
        }
        for later in ["rotate/log", "revoke/native", "create/observed", "rotate/"] {
            let entry = format!("{{\"type\":\"key/{later}\"}}");
            assert_eq!(LogEntry::read(entry.as_bytes()), Ok(LogEntry::Unknown));
        }
    }

    #[test]
    fn the_text_of_a_delegation_is_the_documented_one() {
        let event = delegation();
        let (public, to) = (key(1).to_hex(), key(2).to_hex());
        let (record, signature) = ("07".repeat(32), event.signature.as_bytes());
        let signature = encoding::base64(signature);
        let expected = format!(
            r#"{{"public":"{public}","record":"{record}","signature":"{signature}","to":"{to}","type":"key/delegate"}}"#
        );
        assert_eq!(event.to_text(), expected);
    }

    /// The delegation in the record is a different text. A copy of it is no event for a log.
    // T-KLOG-31
    #[test]
    fn the_word_of_a_record_is_no_word_for_a_log() {
        let to = key(2);
        let word = Message::tagged("threadseal/1 delegation", &[&[7; 32], to.as_bytes()]);
        let copied = KeyEvent {
            signature: signer(1).sign(&word).unwrap(),
            ..delegation()
        };
        assert_eq!(LogEntry::read(copied.to_text().as_bytes()), Err(BadEntry));
    }

    #[test]
    fn the_first_end_of_a_key_stands() {
        let [create, delegate, rotate, revoke] = <[_; 4]>::try_from(events()).unwrap();
        let history = KeyHistory::of(&[(3, create.clone()), (4, delegate)]);
        assert_eq!(history.ended(&key(1)), None);
        assert_eq!(history.succession(&key(1), &key(2)), None);
        let history = KeyHistory::of(&[(3, create), (5, rotate), (9, revoke)]);
        assert_eq!(history.ended(&key(1)), Some(5));
        assert_eq!(history.ended(&key(2)), None);
    }

    // T-KLOG-51
    #[test]
    fn a_key_is_handed_over_by_its_first_end_only() {
        let rotate = |from, to| {
            let signer = testing::signer(from, KeyUsage::Observed);
            KeyEvent::sign(KeyChange::Rotate(key(to)), &signer).unwrap()
        };
        let events = [
            (0, rotate(1, 2)),
            (1, rotate(1, 9)),
            (2, rotate(2, 3)),
            (3, rotate(3, 1)),
        ];
        let history = KeyHistory::of(&events);
        let handed = |from, to| history.handed_over(&key(from), &key(to));
        assert_eq!(handed(1, 3).unwrap(), [&events[0].1, &events[2].1]);
        assert_eq!(handed(1, 1), Some(Vec::new()));
        assert_eq!(handed(1, 9), None);
        assert_eq!(handed(4, 1), None);
    }

    #[test]
    fn a_succession_leads_through_every_rotation_and_never_in_a_circle() {
        let rotate = |from, to| {
            let event = KeyEvent::sign(KeyChange::Rotate(key(to)), &signer(from));
            event.unwrap()
        };
        let events = [
            (0, rotate(1, 9)),
            (1, rotate(1, 2)),
            (2, rotate(2, 3)),
            (3, rotate(3, 1)),
        ];
        let history = KeyHistory::of(&events);
        let words = history.succession(&key(1), &key(3)).unwrap();
        assert_eq!(words, [&events[1].1, &events[2].1]);
        assert_eq!(history.succession(&key(1), &key(1)), Some(Vec::new()));
        assert_eq!(history.succession(&key(2), &key(9)).unwrap().len(), 3);
        assert_eq!(history.succession(&key(9), &key(1)), None);
        assert_eq!(history.succession(&key(1), &key(4)), None);
    }
}
