//! The scene of these tests: keys, trust, and records while they are written.

use super::*;
use std::cell::Cell;
use std::collections::BTreeSet;

/// The keys and the trust with which a test writes and verifies records.
pub(super) struct Bench {
    pub(super) native: LocalSigner,
    pub(super) rye: LocalSigner,
    pub(super) trust: Trust,
    micros: Cell<u64>,
}

impl Bench {
    /// The trust in the native key alone.
    pub(super) fn new() -> Self {
        let native = native(1);
        Self {
            trust: trust_in([(*native.public_key(), KeyUsage::Native)]),
            native,
            rye: signer(2, KeyUsage::Rye),
            micros: Cell::new(1_739_820_405_000_000),
        }
    }

    /// A millisecond after the stamp before it.
    pub(super) fn stamp(&self) -> Stamp {
        let at = self.micros.get() + 1_000;
        self.micros.set(at);
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&at.to_be_bytes());
        Stamp {
            timestamp: micros(at),
            salt: Salt::from_bytes(salt),
        }
    }

    pub(super) fn by<'a>(&'a self, key: &'a LocalSigner) -> Signers<'a> {
        Signers {
            native: key,
            rye: &self.rye,
        }
    }

    pub(super) fn manifest(&self, record: u8) -> Manifest {
        let id = RecordId::from_bytes([record; 32]);
        Manifest::new(id, *self.native.public_key(), *self.rye.public_key())
    }

    pub(super) fn begin(&self, record: u8) -> Draft<'_> {
        self.begin_as(self.manifest(record), &self.native)
    }

    /// A record with this line 1, whose first seal is by `key`.
    pub(super) fn begin_as(&self, manifest: Manifest, key: &LocalSigner) -> Draft<'_> {
        self.begin_in("demo/t-1", manifest, key)
    }

    pub(super) fn begin_in(&self, thread: &str, line_1: Manifest, key: &LocalSigner) -> Draft<'_> {
        let (mut bytes, stamps) = (Vec::new(), [self.stamp(), self.stamp()]);
        let sealer = Sealer::begin(thread_id(thread), line_1, stamps, self.by(key), &mut bytes);
        Draft {
            bench: self,
            sealer: sealer.unwrap(),
            bytes,
        }
    }

    /// Two turns, ended.
    pub(super) fn record(&self) -> Vec<u8> {
        let mut draft = self.begin(7);
        for turn in 1..=2 {
            draft.say("go");
            draft.event("cognition_out", r#"{"text":"h\u00e9"}"#);
            if turn == 1 {
                draft.seal(turn);
            }
        }
        draft.finish(2);
        draft.bytes
    }

    pub(super) fn options(&self) -> VerifyOptions<'_> {
        self.trusting(&self.trust)
    }

    pub(super) fn trusting<'a>(&self, trust: &'a Trust) -> VerifyOptions<'a> {
        VerifyOptions {
            trust,
            now: now(),
            held_since: None,
            thread: None,
        }
    }

    pub(super) fn verify(&self, bytes: &[u8]) -> Outcome {
        verify(bytes, &ScanOptions::default(), &self.options())
    }

    pub(super) fn verdict(&self, bytes: &[u8]) -> Verdict {
        self.verify(bytes).report.verdict
    }

    pub(super) fn verified(&self, bytes: &[u8]) -> Verified<Coverage> {
        self.verify(bytes).verified.unwrap()
    }

    /// The report of a reader with this trust.
    pub(super) fn judged(&self, bytes: &[u8], trust: &Trust) -> Report {
        verify(bytes, &ScanOptions::default(), &self.trusting(trust)).report
    }

    pub(super) fn expecting(&self, bytes: &[u8], expect: Expectation) -> Outcome {
        let scan = ScanOptions {
            expect: vec![expect],
            ..ScanOptions::default()
        };
        verify(bytes, &scan, &self.options())
    }
}

/// A record while it is written.
#[derive(Clone)]
pub(super) struct Draft<'b> {
    bench: &'b Bench,
    pub(super) sealer: Sealer,
    pub(super) bytes: Vec<u8>,
}

impl<'b> Draft<'b> {
    /// A copy that is opened again.
    pub(super) fn reopened(bench: &'b Bench, bytes: &[u8]) -> Self {
        Self {
            bench,
            sealer: bench.verify(bytes).sealer.unwrap(),
            bytes: bytes.to_vec(),
        }
    }

    /// Appends a line by the sealer.
    pub(super) fn add<T>(
        &mut self,
        append: impl FnOnce(&mut Sealer, Stamp, &mut Vec<u8>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        append(&mut self.sealer, self.bench.stamp(), &mut self.bytes)
    }

    pub(super) fn event(&mut self, event_type: &str, payload: &str) {
        let event_type = EventType::parse(event_type).unwrap();
        let payload = self::payload(payload);
        self.add(|sealer, stamp, out| sealer.event(stamp, &event_type, &payload, out))
            .unwrap();
    }

    pub(super) fn say(&mut self, text: &str) {
        self.event(
            "cognition_in",
            &format!(r#"{{"text":"{text}","role":"user"}}"#),
        );
    }

    /// A seal by the authority.
    pub(super) fn seal(&mut self, turn: u64) -> Head {
        let bench = self.bench;
        self.seal_by(&bench.native, turn).unwrap()
    }

    pub(super) fn seal_by(&mut self, key: &LocalSigner, turn: u64) -> Result<Head, Error> {
        self.seal_with(key, turn, Ext::default())
    }

    /// A seal that names the next key.
    pub(super) fn seal_naming(
        &mut self,
        key: &LocalSigner,
        turn: u64,
        next: &LocalSigner,
    ) -> Result<Head, Error> {
        let ext = Ext {
            next_key: Some(*next.public_key()),
            ..Ext::default()
        };
        self.seal_with(key, turn, ext)
    }

    /// The seal is final where it may be.
    pub(super) fn seal_with(
        &mut self,
        key: &LocalSigner,
        turn: u64,
        ext: Ext,
    ) -> Result<Head, Error> {
        let signers = self.bench.by(key);
        let last = self.sealer.order.allows_seal(true);
        self.add(|sealer, stamp, out| sealer.seal(stamp, turn, last, ext, signers, out))
    }

    pub(super) fn end(&mut self) {
        let cost = payload(r#"{"cost":{}}"#);
        self.add(|sealer, stamp, out| sealer.end(stamp, Ending::Completed, &cost, out))
            .unwrap();
    }

    /// The end, with a final seal by the authority.
    pub(super) fn finish(&mut self, turn: u64) -> Head {
        self.end();
        self.seal(turn)
    }

    /// A link to the thread that continues this one, with a final seal.
    pub(super) fn link_by(&mut self, key: &LocalSigner) -> Result<Head, Error> {
        let nothing = payload("{}");
        self.add(|sealer, stamp, out| sealer.link(stamp, Link::Resumed, &nothing, out))?;
        self.seal_by(key, self.sealer.turn())
    }

    pub(super) fn announce(&mut self, next: &LocalSigner) {
        let next = next.public_key();
        self.add(|sealer, stamp, out| sealer.announce_key(stamp, next, out))
            .unwrap();
    }

    pub(super) fn delegate(&mut self, to: &LocalSigner, by: &LocalSigner) -> Result<(), Error> {
        self.add(|sealer, stamp, out| sealer.delegate(stamp, to.public_key(), by, out))
    }

    pub(super) fn succeed(&mut self, event: &KeyEvent) -> Result<(), Error> {
        self.add(|sealer, stamp, out| sealer.succeed(stamp, event, out))
    }

    /// The lines that `write` adds become a tail, which a writer who opens the record adopts.
    pub(super) fn adopt(&mut self, write: impl FnOnce(&mut Self)) {
        let mut other = self.clone();
        write(&mut other);
        let tail = other.bytes.split_off(self.bytes.len());
        self.bytes.extend_from_slice(&tail);
        self.add(|sealer, stamp, out| sealer.tail_adopted(stamp, &tail, out))
            .unwrap();
    }

    /// The writer of a thief: only this key may seal.
    pub(super) fn stolen_by(&self, thief: &LocalSigner) -> Self {
        let mut stolen = self.clone();
        let mut manifest = stolen.sealer.manifest().clone();
        manifest.key = *thief.public_key();
        stolen.sealer.keys = SealingKeys::of(&manifest);
        stolen
    }

    pub(super) fn report(&self) -> Report {
        self.bench.verify(&self.bytes).report
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.report().verdict
    }

    pub(super) fn first(&self) -> String {
        first(&self.report())
    }
}

/// The verdict and the first finding: `forged: key_not_allowed`.
pub(super) fn first(report: &Report) -> String {
    format!("{}: {}", report.verdict, codes(report)[0])
}

pub(super) fn native(seed: u8) -> LocalSigner {
    signer(seed, KeyUsage::Native)
}

/// The trust in this key alone, whatever it signs.
pub(super) fn pin(key: &LocalSigner) -> Trust {
    Trust::key(*key.public_key())
}

pub(super) fn thread_id(text: &str) -> ThreadId {
    ThreadId::parse(text).unwrap()
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes()).unwrap()
}

pub(super) fn lines_of(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

/// The lines as text, without their ends.
pub(super) fn texts_of(bytes: &[u8]) -> Vec<&str> {
    std::str::from_utf8(bytes).unwrap().lines().collect()
}

pub(super) fn is_seal(line: &[u8]) -> bool {
    String::from_utf8_lossy(line).contains(r#""event_type":"checkpoint""#)
}

/// A record of seven turns. The second has a seal in its middle. The key changes by an event before
/// the third, and by a seal that names it before the fifth. A delegate seals the sixth, and the key
/// of the fifth seals the seventh.
pub(super) fn rotated(bench: &Bench, record: u8) -> Vec<u8> {
    let (second, third, delegate) = rotated_keys();
    let mut draft = bench.begin(record);
    for turn in 1..=7 {
        let text = format!("secret-{turn}");
        draft.say(&text);
        match turn {
            1 => drop(draft.seal(1)),
            2 => {
                draft.seal(2);
                draft.say("secret-2-more");
                draft.announce(&second);
                draft.seal(2);
            }
            3 => drop(draft.seal_by(&second, 3).unwrap()),
            4 => drop(draft.seal_naming(&second, 4, &third).unwrap()),
            5 => {
                draft.seal_by(&third, 5).unwrap();
                draft.delegate(&delegate, &bench.native).unwrap();
            }
            6 => drop(draft.seal_by(&delegate, 6).unwrap()),
            _ => {
                draft.end();
                draft.seal_by(&third, 7).unwrap();
            }
        }
    }
    draft.bytes
}

/// The keys of [`rotated`] after the first: the second, the third, and the delegate.
pub(super) fn rotated_keys() -> (LocalSigner, LocalSigner, LocalSigner) {
    (native(31), native(32), native(33))
}

/// The key of an epoch.
pub(super) fn epoch(number: u8) -> LocalSigner {
    native(40 + number)
}

/// A record whose first key is that of epoch 0; `bench.native` is its authority.
pub(super) fn begin_epochs(bench: &Bench) -> Draft<'_> {
    let mut manifest = bench.manifest(7);
    manifest.key = *epoch(0).public_key();
    let message = manifest.first_key_message(&thread_id("demo/t-1")).unwrap();
    manifest.delegation = Some(bench.native.sign(&message).unwrap());
    bench.begin_as(manifest, &epoch(0))
}

/// The key that follows `bench.native` as the authority.
pub(super) fn heir() -> LocalSigner {
    native(61)
}

/// The statement of one key that another one follows it.
pub(super) fn word(from: &LocalSigner, to: &LocalSigner) -> KeyEvent {
    KeyEvent::sign(KeyChange::Rotate(*to.public_key()), from).unwrap()
}

/// A log that contained these heads when `bench.native` stated, at entry 100, that `heir` replaces
/// it.
#[derive(Debug)]
struct Log {
    heads: BTreeSet<Digest>,
    keys: KeyHistory,
}

impl SealPlaces for Log {
    fn place(&self, head: &Head) -> Option<u64> {
        self.heads.contains(&head.line).then_some(99)
    }

    fn stamped(&self, _: &Head) -> Option<Timestamp> {
        None
    }

    fn keys(&self) -> Option<&KeyHistory> {
        Some(&self.keys)
    }
}

/// The trust of a home that rotated its key after these heads were in its log.
pub(super) fn trust_after(bench: &Bench, heads: &[Head]) -> Trust {
    let keys = [&bench.native, &heir()].map(|key| (*key.public_key(), KeyUsage::Native));
    let mut trust = trust_in(keys);
    let revocation = Revocation {
        at: micros(1_700_000_000_000_000),
        reason: "its place was taken".into(),
        entry: Some(100),
        next: None,
    };
    let name = TrustName::parse("key-1").unwrap();
    trust.store.revoke(&name, revocation).unwrap();
    trust.places = Some(Arc::new(Log {
        heads: heads.iter().map(|head| head.line).collect(),
        keys: KeyHistory::of(&[(100, word(&bench.native, &heir()))]),
    }));
    trust
}

/// A record that ended, and its last head.
pub(super) fn ended(bench: &Bench) -> (Draft<'_>, Head) {
    let mut draft = bench.begin(7);
    draft.say("go");
    let head = draft.finish(1);
    (draft, head)
}

/// The payload of a `delegation` event.
pub(super) fn delegation_payload(key: &LocalSigner, signature: &Signature) -> String {
    let signature = base64(signature.as_bytes());
    let key = key.public_key().to_hex();
    format!(r#"{{"key":"{key}","signature":"{signature}"}}"#)
}

/// The proof that a leaf is in the tree of the first `size` leaves.
pub(super) fn inclusion(leaves: &[Digest], index: u64, size: u64) -> InclusionProof {
    let proof = InclusionProof::make::<ProofError>(index, size, &mut |node| {
        let from = usize::try_from(node.index << node.level).unwrap();
        Ok(root(&leaves[from..from + (1 << node.level)]))
    });
    proof.unwrap()
}
