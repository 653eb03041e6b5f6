//! Writes native records from their values, as `spec/transcript.md` §1 to §5 have them.
//!
//! ```text
//! Forge ─ line ─► any bytes, counted as a line
//!       └ seal ─► Seal: every value as it should be ─ altered by the caller ─► signed, counted
//! ```
//! A writer of the product refuses to make an odd record. This one refuses nothing, so that a record
//! can break one rule and keep all others: its numbers, roots, links and signatures hold.
//!
//! It shares no code with the product's writer, but for hashes, trees and signatures.

use crate::list::Trusted;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PrivateKey, PublicKey, Signer};
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::note::{KeyName, NoteText, note_key_id};

/// The first moment of the records: 2026-02-17T19:26:45Z.
const BEGIN: u64 = 1_771_356_405;
const ISO_BEGIN: &str = "2026-02-17T19:26:45Z";

/// The thread of every record that does not need another one.
pub(crate) const THREAD: &str = "testkit/odd";

/// A native key of this number.
pub(crate) fn key(number: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([number; 32]), KeyUsage::Native)
}

/// The key that every list of native vectors trusts.
pub(crate) fn authority() -> LocalSigner {
    key(1)
}

/// The Rye key of every record.
pub(crate) fn rye() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([2; 32]), KeyUsage::Rye)
}

/// The raw public key in hex.
pub(crate) fn hex(key: &LocalSigner) -> String {
    key.public_key().to_hex()
}

/// Base64 of the signature over a tagged message.
pub(crate) fn tagged(key: &LocalSigner, tag: &str, parts: &[&[u8]]) -> String {
    let signature = key.sign(&Message::tagged(tag, parts));
    let signature = signature.expect("a native key signs this");
    encoding::base64(signature.as_bytes())
}

/// The payload of line 1, member by member.
#[derive(Clone)]
pub(crate) struct Manifest(pub(crate) Vec<(String, String)>);

impl Manifest {
    /// One sealed by `authority` itself.
    pub(crate) fn of(authority: &PublicKey, record: u8) -> Self {
        let record = encoding::hex(&[record; 32]);
        let texts = [
            ("format", "\"threadseal/1\"".to_owned()),
            ("record", format!("\"{record}\"")),
            ("authority", format!("\"{}\"", authority.to_hex())),
            ("key", format!("\"{}\"", authority.to_hex())),
            ("delegation", "null".to_owned()),
            ("rye_key", format!("\"{}\"", hex(&rye()))),
            ("directive", "null".to_owned()),
            ("model", "null".to_owned()),
            ("capabilities", "[]".to_owned()),
            ("limits", "{}".to_owned()),
            ("bodies", "\"inline\"".to_owned()),
            ("anchors", "[]".to_owned()),
            ("predecessor", "null".to_owned()),
            ("parent", "null".to_owned()),
            ("workspace", "null".to_owned()),
            ("meta", "{}".to_owned()),
        ];
        Self(
            texts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    /// With another JSON text for a member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        let member = self.0.iter_mut().find(|(known, _)| known == name);
        member.expect("a member of line 1").1 = value.into();
        self
    }

    /// With `first` for the first seals, let in by `authority` for `thread`.
    pub(crate) fn delegated(
        self,
        authority: &LocalSigner,
        first: &PublicKey,
        thread: &str,
    ) -> Self {
        let open = self.with("key", format!("\"{}\"", first.to_hex()));
        let payload = open.text();
        let parts = [thread.as_bytes(), payload.as_bytes()];
        let word = tagged(authority, "threadseal/1 first key", &parts);
        open.with("delegation", format!("\"{word}\""))
    }

    pub(crate) fn text(&self) -> String {
        let members = self.0.iter();
        let members: Vec<String> = members
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    }
}

/// The values of a checkpoint, each as the record needs it until the caller alters it.
pub(crate) struct Seal {
    pub(crate) timestamp: String,
    pub(crate) thread: String,
    pub(crate) turn: u64,
    pub(crate) byte_offset: u64,
    pub(crate) hash: String,
    /// Base64url; by the Rye key over `hash` where it is left empty.
    pub(crate) sig: String,
    pub(crate) fp: String,
    pub(crate) ts: String,
    pub(crate) seq: u64,
    pub(crate) lines: u64,
    pub(crate) root: Digest,
    /// JSON text.
    pub(crate) prev: String,
    pub(crate) is_final: bool,
    /// Hex of the key id.
    pub(crate) key: String,
    /// JSON text.
    pub(crate) ext: String,
    /// The key that signs.
    pub(crate) by: LocalSigner,
    /// The origin in the note and of its signature.
    pub(crate) origin: String,
    /// What the note states, where that differs from `lines` and `root`.
    pub(crate) noted: Option<(u64, Digest)>,
    /// A change of the line up to the note, before it is signed.
    pub(crate) respell: fn(String) -> String,
    /// A change of the whole line, after it was signed.
    pub(crate) alter: fn(String) -> String,
}

/// A seal that was written: where a verifier may trust the record up to.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) trusted: Trusted,
    /// The text of the head.
    pub(crate) head: String,
}

/// A record while it is written.
#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) out: Vec<u8>,
    /// The seals, as they were written.
    pub(crate) seals: Vec<Written>,
    record: String,
    /// The thread id as lines spell it, quotes included.
    thread: String,
    origin: String,
    tree: Frontier,
    prefix: Hasher,
    prev: String,
    turn: u64,
    lines: u64,
}

impl Forge {
    /// A record with this line 1, and without seals.
    pub(crate) fn bare(manifest: &str, record: u8, thread: &str) -> Self {
        let mut forge = Self::empty(record, thread);
        let line = forge.frame("thread_started", manifest);
        forge.begin(&line);
        forge
    }

    /// A record without a line; `thread` is spelled as lines spell it.
    pub(crate) fn empty(record: u8, thread: &str) -> Self {
        Self {
            out: Vec::new(),
            seals: Vec::new(),
            record: encoding::hex(&[record; 32]),
            thread: format!("\"{thread}\""),
            origin: String::new(),
            tree: Frontier::new(),
            prefix: Hasher::new(),
            prev: "null".to_owned(),
            turn: 0,
            lines: 0,
        }
    }

    /// Appends line 1, whatever it is.
    pub(crate) fn begin(&mut self, line: &str) -> &mut Self {
        self.origin = format!("threadseal/1/transcript/{}", Digest::of(line.as_bytes()));
        self.line(line.as_bytes())
    }

    /// A record of key 1 with seal 0.
    pub(crate) fn begun() -> Self {
        let manifest = Manifest::of(authority().public_key(), 7);
        let mut forge = Self::bare(&manifest.text(), 7, THREAD);
        forge.seal(&authority());
        forge
    }

    /// A record whose first seals key `first` makes, let in by key 1, with seal 0.
    pub(crate) fn begun_by(first: &LocalSigner) -> Self {
        let manifest = Manifest::of(authority().public_key(), 7);
        let manifest = manifest.delegated(&authority(), first.public_key(), THREAD);
        let mut forge = Self::bare(&manifest.text(), 7, THREAD);
        forge.seal(first);
        forge
    }

    /// The frame of the next line around this payload.
    pub(crate) fn frame(&self, event_type: &str, payload: &str) -> String {
        let (thread, stamp, salt) = (&self.thread, self.stamp(), self.salt());
        format!(
            "{{\"timestamp\":{stamp},\"thread_id\":{thread},\"event_type\":\"{event_type}\",\"salt\":\"{salt}\",\"payload\":{payload}}}"
        )
    }

    fn stamp(&self) -> String {
        format!("{BEGIN}.{:06}", 1000 * (self.lines + 1))
    }

    fn salt(&self) -> String {
        Digest::of(&self.lines.to_be_bytes()).to_hex()[..32].to_owned()
    }

    /// The first line of the notes.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Offset of the next line.
    pub(crate) fn size(&self) -> u64 {
        self.out.len() as u64
    }

    /// Appends a line, whatever bytes it has, with LF.
    pub(crate) fn line(&mut self, line: &[u8]) -> &mut Self {
        self.tree.push_leaf(leaf_hash(line));
        self.prefix.update(line);
        self.prefix.update(b"\n");
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
        self.lines += 1;
        self
    }

    /// Appends an event.
    pub(crate) fn event(&mut self, event_type: &str, payload: &str) -> &mut Self {
        let line = self.frame(event_type, payload);
        self.line(line.as_bytes())
    }

    /// A turn of two events.
    pub(crate) fn turn(&mut self) -> &mut Self {
        self.turn += 1;
        self.event("cognition_in", "{\"text\":\"go\"}")
            .event("cognition_out", "{\"text\":\"done\"}")
    }

    /// The next seal, every value as it should be.
    pub(crate) fn next_seal(&self, by: &LocalSigner) -> Seal {
        Seal {
            timestamp: self.stamp(),
            thread: self.thread.clone(),
            turn: self.turn,
            byte_offset: self.size(),
            hash: self.prefix.digest_so_far().to_hex(),
            sig: String::new(),
            fp: rye().public_key().rye_fingerprint().to_hex(),
            ts: ISO_BEGIN.to_owned(),
            seq: self.seals.len() as u64,
            lines: self.lines,
            root: self.tree.root(),
            prev: self.prev.clone(),
            is_final: false,
            key: by.public_key().key_id().to_hex(),
            ext: "{}".to_owned(),
            by: key_of(by),
            origin: self.origin.clone(),
            noted: None,
            respell: |line| line,
            alter: |line| line,
        }
    }

    /// Seals what is there.
    pub(crate) fn seal(&mut self, by: &LocalSigner) -> &mut Self {
        self.seal_with(by, |_| {})
    }

    /// Seals what is there, and ends the record.
    pub(crate) fn end(&mut self, by: &LocalSigner) -> &mut Self {
        self.seal_with(by, |seal| seal.is_final = true)
    }

    /// A terminal event and a final seal.
    pub(crate) fn finish(&mut self, by: &LocalSigner) -> &mut Self {
        self.event("thread_completed", "{\"cost\":{}}").end(by)
    }

    /// Seals with altered values.
    pub(crate) fn seal_with(
        &mut self,
        by: &LocalSigner,
        alter: impl FnOnce(&mut Seal),
    ) -> &mut Self {
        let mut seal = self.next_seal(by);
        alter(&mut seal);
        let line = self.signed(&seal);
        self.prev = format!("\"{}\"", Digest::of(line.as_bytes()));
        self.turn = seal.turn;
        self.line(line.as_bytes());
        let digest = Digest::of(line.as_bytes());
        self.seals.push(Written {
            trusted: Trusted {
                line: self.lines,
                byte: self.size(),
                turn: Some(seal.turn),
            },
            head: format!("{}:{}:{}:{digest}", self.record, seal.seq, self.size()),
        });
        self
    }

    fn signed(&self, seal: &Seal) -> String {
        let salt = self.salt();
        let sig = match seal.sig.is_empty() {
            true => rye_signature(&seal.hash),
            false => seal.sig.clone(),
        };
        let Seal {
            timestamp,
            thread,
            turn,
            byte_offset,
            hash,
            fp,
            ts,
            seq,
            lines,
            root,
            prev,
            is_final,
            key,
            ext,
            ..
        } = seal;
        let start = format!(
            "{{\"timestamp\":{timestamp},\"thread_id\":{thread},\"event_type\":\"checkpoint\",\"salt\":\"{salt}\",\"payload\":{{\"turn\":{turn},\"byte_offset\":{byte_offset},\"hash\":\"{hash}\",\"sig\":\"{sig}\",\"fp\":\"{fp}\",\"ts\":\"{ts}\",\"seal\":{{\"seq\":{seq},\"lines\":{lines},\"root\":\"{root}\",\"prev\":{prev},\"final\":{is_final},\"key\":\"{key}\",\"ext\":{ext},\"note\":\""
        );
        let start = (seal.respell)(start);
        let digest = Digest::tagged("threadseal/1 checkpoint line", &[start.as_bytes()]);
        let (counted, rooted) = seal.noted.unwrap_or((*lines, *root));
        let (origin, root) = (&seal.origin, encoding::base64(rooted.as_bytes()));
        let text = format!("{origin}\n{counted}\n{root}\nline {digest}\n");
        let blob = encoding::base64(&signature(&seal.by, origin, &text));
        let note = text.replace('\n', "\\n");
        (seal.alter)(format!(
            "{start}{note}\\n\\u2014 {origin} {blob}\\n\"}}}}}}"
        ))
    }

    /// The payload of a `delegation` event for `to` by `authority`.
    pub(crate) fn delegation(&self, authority: &LocalSigner, to: &LocalSigner) -> String {
        let parts: [&[u8]; 2] = [self.origin.as_bytes(), to.public_key().as_bytes()];
        let word = tagged(authority, "threadseal/1 delegation", &parts);
        format!("{{\"key\":\"{}\",\"signature\":\"{word}\"}}", hex(to))
    }
}

/// Key hash and signature of a note's line.
pub(crate) fn signature(by: &LocalSigner, origin: &str, text: &str) -> Vec<u8> {
    let name = KeyName::parse(origin).expect("an origin");
    let message = Message::note(&NoteText::parse(text).expect("the text of a note"));
    let signature = by.sign(&message).expect("a native key signs notes");
    let mut blob = note_key_id(&name, by.public_key()).to_vec();
    blob.extend_from_slice(signature.as_bytes());
    blob
}

/// `sig` over the hex text of a digest.
pub(crate) fn rye_signature(hash: &str) -> String {
    let digest = Digest::parse_hex(hash).unwrap_or_else(|| Digest::of(hash.as_bytes()));
    let signature = rye().sign(&Message::rye_hash(&digest));
    let signature = signature.expect("a Rye key signs hashes");
    encoding::base64url(signature.as_bytes())
}

/// The payload of an `authority` event: `before` names `next`.
pub(crate) fn succession(before: &LocalSigner, next: &LocalSigner) -> String {
    let parts: [&[u8]; 3] = [
        b"rotate",
        before.public_key().as_bytes(),
        next.public_key().as_bytes(),
    ];
    let word = tagged(before, "threadseal/1 key event", &parts);
    format!("{{\"next\":\"{}\",\"signature\":\"{word}\"}}", hex(next))
}

/// The same key again: a signer is no value that can be copied.
fn key_of(key: &LocalSigner) -> LocalSigner {
    let seeds = 1..=u8::MAX;
    let mut keys = seeds.map(self::key);
    let found = keys.find(|known| known.public_key() == key.public_key());
    found.expect("a key of this module")
}
