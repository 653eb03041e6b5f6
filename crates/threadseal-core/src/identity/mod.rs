//! Identities: the public keys of one person or machine, in one signed file
//! (`spec/keys-and-trust.md` §13).
//!
//! ```text
//! id         tagged("threadseal/1 identity id", [first native key, recovery key or nothing])
//! signature  by the present native key, over tagged("threadseal/1 identity", [the file without it])
//! links      first native key ─► next ─► … ─► present one; each signed by the key before it, or by
//!            the recovery key
//! proofs     each native, observed and Rye key signs that it belongs to this id
//! ```
//! An [`Identity`] value was verified: no other constructor exists. It proves that one party holds
//! all keys that have a proof. It does not prove who that party is: people compare
//! [`IdentityId::words`] over another channel.
//!
//! Elsewhere: the bytes (`file`), what may follow what (`succession`), the words (`words`).

mod file;
mod succession;
#[cfg(test)]
mod tests;
mod words;

pub use succession::{Conflict, Step};

use crate::digest::Digest;
use crate::error::Error;
use crate::key::{KeyUsage, Message, PublicKey, Signature, Signer};
use crate::limits::{
    MAX_IDENTITY_KEYS, MAX_IDENTITY_LINKS, MAX_IDENTITY_NAME_BYTES, MAX_SAFE_INTEGER,
    MAX_TRUST_TEXT_BYTES,
};
use crate::time::Timestamp;
use crate::tlog::entry::key_event::KeyChange;
use crate::trust::{Revocation, TrustName, TrustedKey};
use std::collections::BTreeSet;
use std::fmt;

const TAG: &str = "threadseal/1 identity";
const ID_TAG: &str = "threadseal/1 identity id";
const PROOF_TAG: &str = "threadseal/1 identity key";
const OBSERVED_PROOF_TAG: &str = "threadseal/observed/1 identity key";
const RECOVERY_TAG: &str = "threadseal/recovery/1 link";

/// The name of an identity for programs; it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityId(Digest);

impl IdentityId {
    /// The id of the identity that begins with this native key, and that this key can recover.
    pub fn of(first: &PublicKey, recovery: Option<&PublicKey>) -> Self {
        let recovery = recovery.map_or(&[][..], |key| key.as_bytes());
        Self(Digest::tagged(ID_TAG, &[first.as_bytes(), recovery]))
    }

    /// Reads 64 lower-case hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        Digest::parse_hex(text).map(Self)
    }

    /// Twelve words for people to compare: the first 132 bits.
    pub fn words(&self) -> [&'static str; 12] {
        words::of(&self.0)
    }

    /// What a key signs to belong to this identity; none for usages whose messages have no place
    /// for it.
    pub fn proof_message(&self, key: &PublicKey, usage: KeyUsage) -> Option<Message> {
        let parts: [&[u8]; 2] = [self.0.as_bytes(), key.as_bytes()];
        match usage {
            KeyUsage::Native => Some(Message::tagged(PROOF_TAG, &parts)),
            KeyUsage::Observed => Some(Message::tagged(OBSERVED_PROOF_TAG, &parts)),
            KeyUsage::Rye => Some(Message::rye_hash(&Digest::tagged(PROOF_TAG, &parts))),
            KeyUsage::Scroll
            | KeyUsage::Igor
            | KeyUsage::Log
            | KeyUsage::Witness
            | KeyUsage::Recovery => None,
        }
    }
}

impl fmt::Display for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One key of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityKey {
    /// The key.
    pub key: PublicKey,
    /// The only messages for which it counts.
    pub usage: KeyUsage,
    /// It counts from this moment on.
    pub from: Option<Timestamp>,
    /// It counts until this moment.
    pub until: Option<Timestamp>,
    /// When and why it ended.
    pub ended: Option<Ended>,
    /// Its signature on [`IdentityId::proof_message`]; none for usages without one.
    pub proof: Option<Signature>,
}

/// The end of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Seals that a verifier held before this moment still count.
    pub at: Timestamp,
    /// How it ended.
    pub how: EndedHow,
}

/// How a key ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedHow {
    /// Its owner rotated it to this key.
    Rotated(PublicKey),
    /// It may be in other hands. The reason, for people, is one line; [`EndedHow::revoked`] makes it.
    Revoked(String),
}

/// The beginning of the line that states a rotation; the key follows.
const ROTATED_TO: &str = "rotated to ";

impl EndedHow {
    /// A revocation for this reason. One that reads as a rotation is put in quotes.
    pub fn revoked(why: String) -> Self {
        match Self::of_line(why) {
            Self::Rotated(next) => Self::Revoked(format!("\"{ROTATED_TO}{}\"", next.to_hex())),
            revoked @ Self::Revoked(_) => revoked,
        }
    }

    /// The end that this line of a file states.
    fn of_line(line: String) -> Self {
        let key = line.strip_prefix(ROTATED_TO);
        match key.and_then(|key| PublicKey::from_hex(key).ok()) {
            Some(next) => Self::Rotated(next),
            None => Self::Revoked(line),
        }
    }

    /// The line for people and for files.
    pub fn line(&self) -> String {
        match self {
            Self::Rotated(next) => format!("{ROTATED_TO}{}", next.to_hex()),
            Self::Revoked(why) => why.clone(),
        }
    }

    /// The key that took the place, where the owner rotated the key.
    pub fn next(&self) -> Option<PublicKey> {
        match self {
            Self::Rotated(next) => Some(*next),
            Self::Revoked(_) => None,
        }
    }
}

/// A native key takes the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The key before.
    pub from: PublicKey,
    /// The key after.
    pub to: PublicKey,
    /// Who signed it.
    pub by: LinkBy,
    /// The signature.
    pub signature: Signature,
}

/// The signer of a [`Link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkBy {
    /// The key before, as for `key/rotate` in a log.
    Key,
    /// The recovery key, since the key before is lost or stolen.
    Recovery,
}

impl LinkBy {
    /// `key` or `recovery`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Recovery => "recovery",
        }
    }
}

impl Link {
    /// Signs with the recovery key that `to` takes the place of `from`.
    ///
    /// # Errors
    /// Kind `Refused` when the signer is no recovery key; those of the signer.
    pub fn recover(
        id: &IdentityId,
        from: PublicKey,
        to: PublicKey,
        recovery: &dyn Signer,
    ) -> Result<Self, Error> {
        let signature = recovery.sign(&recovery_message(id, &from, &to))?;
        Ok(Self {
            from,
            to,
            by: LinkBy::Recovery,
            signature,
        })
    }

    fn holds(&self, id: &IdentityId, recovery: Option<&PublicKey>) -> bool {
        let (signer, message) = match self.by {
            LinkBy::Key => (
                Some(&self.from),
                KeyChange::Rotate(self.to).message(&self.from),
            ),
            LinkBy::Recovery => (recovery, recovery_message(id, &self.from, &self.to)),
        };
        signer.is_some_and(|key| key.verify(&message, &self.signature).is_ok())
    }
}

fn recovery_message(id: &IdentityId, from: &PublicKey, to: &PublicKey) -> Message {
    let parts: [&[u8]; 3] = [id.0.as_bytes(), from.as_bytes(), to.as_bytes()];
    Message::tagged(RECOVERY_TAG, &parts)
}

/// The content of an identity's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its name for people; the owner chooses it, and nothing proves it.
    pub name: TrustName,
    /// Greater in each later file.
    pub seq: u64,
    /// When it was made, to the second; nothing proves it.
    pub issued: Timestamp,
    /// The key that can replace a lost or stolen native key.
    pub recovery: Option<PublicKey>,
    /// From the first native key to the present one.
    pub links: Vec<Link>,
    /// All keys, in the order of their bytes.
    pub keys: Vec<IdentityKey>,
    /// The present native key, which signs the file.
    pub signer: PublicKey,
}

/// A verified file of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    content: Content,
    id: IdentityId,
    signature: Signature,
}

impl Identity {
    /// Signs a file with the present native key. Keys are sorted, and fractions of seconds dropped.
    ///
    /// # Errors
    /// When a reader would refuse the file; those of the signer.
    pub fn sign(mut content: Content, signer: &dyn Signer) -> Result<Self, Error> {
        content.signer = *signer.public_key();
        content.drop_fractions();
        content.keys.sort_by_key(|listed| listed.key);
        let id = content.id();
        let unsigned = file::text(&content, &id, None)?;
        let signature = signer.sign(&Message::tagged(TAG, &[&unsigned]))?;
        let signed = Self {
            content,
            id,
            signature,
        };
        Self::read(&signed.to_bytes()?)
    }

    /// Reads a file and verifies all that it states.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`] with the first fault.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let identity = file::read(bytes).map_err(bad)?;
        identity.check().map_err(bad)?;
        let same = identity.to_bytes()? == bytes;
        match same {
            true => Ok(identity),
            false => Err(bad("it is not in its one spelling (RFC 8785)")),
        }
    }

    /// Does the file begin as an identity does? For a reader that takes several kinds of files.
    pub fn is_likely(bytes: &[u8]) -> bool {
        bytes.starts_with(b"{\"format\":\"threadseal-identity/")
    }

    /// Its only bytes.
    ///
    /// # Errors
    /// Kind `Limit` when they are too many.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = file::text(&self.content, &self.id, Some(&self.signature))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// What it states.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Its id.
    pub fn id(&self) -> &IdentityId {
        &self.id
    }

    /// Entries for a trust store under `name`. The present native key has the name itself; the
    /// names of others add the usage, and eight digits of the id where that is not enough.
    ///
    /// # Errors
    /// When a name would be too long.
    pub fn entries(&self, name: &TrustName) -> Result<Vec<TrustedKey>, Error> {
        let keys = self.content.keys.iter();
        keys.map(|listed| {
            let mut entry =
                TrustedKey::new(self.name_of(listed, name)?, listed.key, [listed.usage]);
            entry.not_before = listed.from;
            entry.not_after = listed.until;
            entry.revoked = listed.ended.as_ref().map(Ended::revocation);
            entry.note = Some(self.note());
            Ok(entry)
        })
        .collect()
    }

    /// The note of each entry that was made from this identity: `identity ID`.
    pub fn note(&self) -> String {
        format!("identity {}", self.id)
    }

    fn name_of(&self, listed: &IdentityKey, name: &TrustName) -> Result<TrustName, Error> {
        if listed.key == self.content.signer {
            return Ok(name.clone());
        }
        let is_like = |other: &&IdentityKey| other.usage == listed.usage && other.ended.is_none();
        let alike = self.content.keys.iter().filter(is_like).count();
        let is_plain = listed.ended.is_none() && alike == 1;
        let id = listed.key.key_id().to_hex();
        TrustName::parse(&match is_plain {
            true => format!("{name}/{}", listed.usage),
            false => format!("{name}/{}/{}", listed.usage, &id[..8]),
        })
    }

    /// Everything but the spelling.
    fn check(&self) -> Result<(), &'static str> {
        let content = &self.content;
        content.check_form()?;
        if content.id() != self.id {
            return Err("its id is not that of its first key and its recovery key");
        }
        let recovery = content.recovery.as_ref();
        if !content
            .links
            .iter()
            .all(|link| link.holds(&self.id, recovery))
        {
            return Err("a link between two of its native keys has no valid signature");
        }
        if !content.keys.iter().all(|listed| self.is_proven(listed)) {
            return Err("a key does not prove that it belongs to this identity");
        }
        let unsigned = file::text(content, &self.id, None)
            .map_err(|_| "it is longer than an identity may be")?;
        let message = Message::tagged(TAG, &[&unsigned]);
        let signed = content.signer.verify(&message, &self.signature);
        signed.map_err(|_| "its signature does not verify")
    }

    fn is_proven(&self, listed: &IdentityKey) -> bool {
        match (
            self.id.proof_message(&listed.key, listed.usage),
            &listed.proof,
        ) {
            (Some(message), Some(proof)) => listed.key.verify(&message, proof).is_ok(),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Content {
    /// The native key with which the identity began.
    pub fn first(&self) -> &PublicKey {
        self.links.first().map_or(&self.signer, |link| &link.from)
    }

    fn id(&self) -> IdentityId {
        IdentityId::of(self.first(), self.recovery.as_ref())
    }

    /// The entry of a key.
    pub fn key(&self, key: &PublicKey) -> Option<&IdentityKey> {
        self.keys.iter().find(|listed| listed.key == *key)
    }

    fn is_native(&self, key: &PublicKey, ended: bool) -> bool {
        self.key(key).is_some_and(|listed| {
            listed.usage == KeyUsage::Native && listed.ended.is_some() == ended
        })
    }

    fn drop_fractions(&mut self) {
        self.issued = self.issued.floor_to_second();
        for listed in &mut self.keys {
            let end = listed.ended.as_mut().map(|ended| &mut ended.at);
            for time in [listed.from.as_mut(), listed.until.as_mut(), end]
                .into_iter()
                .flatten()
            {
                *time = time.floor_to_second();
            }
        }
    }

    fn check_form(&self) -> Result<(), &'static str> {
        if self.name.as_str().len() > MAX_IDENTITY_NAME_BYTES {
            return Err("its name is too long");
        }
        if self.seq == 0 || self.seq > MAX_SAFE_INTEGER {
            return Err("its number is not from 1 to 2^53 - 1");
        }
        if self.keys.len() > MAX_IDENTITY_KEYS || self.links.len() > MAX_IDENTITY_LINKS {
            return Err("it has too many keys or links");
        }
        if !self.keys.is_sorted_by(|one, next| one.key < next.key) {
            return Err("its keys are not in order, or one is there twice");
        }
        if self.recovery.is_some_and(|key| self.key(&key).is_some()) {
            return Err("its recovery key is also one of its other keys");
        }
        for listed in &self.keys {
            listed.check()?;
            self.check_rotation(listed)?;
        }
        self.check_chain()
    }

    /// A native key is rotated to the key that its own link names.
    fn check_rotation(&self, listed: &IdentityKey) -> Result<(), &'static str> {
        let next = listed.ended.as_ref().and_then(|ended| ended.how.next());
        let (Some(next), KeyUsage::Native) = (next, listed.usage) else {
            return Ok(());
        };
        let is_its = |link: &Link| (link.from, link.to, link.by) == (listed.key, next, LinkBy::Key);
        match self.links.iter().any(is_its) {
            true => Ok(()),
            false => Err("a native key is listed as rotated, and no link of its own states that"),
        }
    }

    /// The links lead from the first key to the signer, through each key once; all before it ended.
    fn check_chain(&self) -> Result<(), &'static str> {
        let mut passed = BTreeSet::from([*self.first()]);
        let mut at = *self.first();
        for link in &self.links {
            if link.from != at || !passed.insert(link.to) {
                return Err("its links are no chain of native keys");
            }
            if !self.is_native(&at, true) {
                return Err("a native key that was replaced is not listed as ended");
            }
            at = link.to;
        }
        if at != self.signer {
            return Err("it is not signed by the last key of its chain");
        }
        match self.is_native(&at, false) {
            true => Ok(()),
            false => Err("the key that signs it is not listed as a native key, or has ended"),
        }
    }
}

impl IdentityKey {
    fn check(&self) -> Result<(), &'static str> {
        if self.usage == KeyUsage::Recovery {
            return Err("it lists a recovery key among the keys that seal");
        }
        if let (Some(from), Some(until)) = (self.from, self.until)
            && from > until
        {
            return Err("a key ends before it begins");
        }
        match self.ended.as_ref().map(|ended| &ended.how) {
            Some(EndedHow::Rotated(next)) if *next == self.key => {
                Err("a key is listed as rotated to itself")
            }
            Some(EndedHow::Revoked(why))
                if why.len() > MAX_TRUST_TEXT_BYTES || why.chars().any(char::is_control) =>
            {
                Err("the reason of an end is not one short line")
            }
            _ => Ok(()),
        }
    }
}

impl Ended {
    /// The same end as in an entry of a trust store.
    pub fn of(revocation: Revocation) -> Self {
        let revoked = || EndedHow::revoked(revocation.reason);
        Self {
            at: revocation.at,
            how: revocation.next.map_or_else(revoked, EndedHow::Rotated),
        }
    }

    /// The same as the end of an entry of a trust store.
    pub fn revocation(&self) -> Revocation {
        Revocation {
            at: self.at,
            reason: self.how.line(),
            entry: None,
            next: self.how.next(),
        }
    }
}

fn bad(why: &'static str) -> Error {
    Error::invalid(format!("not an identity: {why}"))
}
