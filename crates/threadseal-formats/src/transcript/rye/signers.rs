//! The signers of a Rye transcript's seals, and the order of checking signatures.
//!
//! ```text
//! fp ─► keys that the trust knows by this hint ─► each is tried ─► one signer
//! none: the signer is unknown, its signatures cannot be checked
//! ```
//! A good seal's hash covers every line before it, the earlier checkpoints included. So only the
//! last signature of each signer is checked, at the end. Every signature is checked at once if
//! requested, after a failure, and where several keys share a hint.

use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, Message, PublicKey, RyeFingerprint, Signature};
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Judgement, Purpose, ScopeFormat, Trust};

/// A checkpoint whose numbers and hash are right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seal {
    /// Offset of its line: the bytes before are covered.
    pub(super) start: u64,
    /// Offset after its line's LF.
    pub(super) end: u64,
    /// Its line, from 1.
    pub(super) line: u64,
    pub(super) turn: u64,
    /// Number among the seals, from 0.
    pub(super) seq: u64,
    /// SHA-256 of its line without the LF.
    pub(super) digest: Digest,
    pub(super) hash: Digest,
    pub(super) signature: Signature,
}

impl Seal {
    fn head(&self, record: RecordId) -> Head {
        Head {
            record,
            seq: self.seq,
            size: self.end,
            line: self.digest,
        }
    }

    fn is_by(&self, key: &PublicKey) -> bool {
        key.verify(&Message::rye_hash(&self.hash), &self.signature)
            .is_ok()
    }
}

pub(super) struct Signer<'t> {
    pub(super) fingerprint: RyeFingerprint,
    /// The key and the trust's judgement of it; `None` when the trust knows no key by this hint.
    pub(super) known: Option<(PublicKey, Judgement<'t>)>,
    /// Does the trust vouch for the key, pinned or not?
    vouched: bool,
    /// The thread of its first seal.
    thread: String,
    pub(super) first_line: u64,
    /// The last seal whose signature was checked, or is to be checked at the end.
    last: Option<(Seal, bool)>,
}

impl Signer<'_> {
    /// Whether its signatures count.
    pub(super) fn counts(&self) -> bool {
        self.known
            .as_ref()
            .is_some_and(|(_, judgement)| judgement.standing.counts())
    }
}

/// The result of a seal with the signers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    /// By a signer of an earlier seal.
    Again,
    /// By the record's first signer, for the first time.
    First,
    /// By another signer than the first, for the first time. `vouched`: the trust vouches for it,
    /// even if the caller asked for other signers.
    Another { vouched: bool },
    /// No key with this hint made the signature.
    Invalid,
    /// More signers than a record may have.
    TooMany,
}

/// All signers, in order of their first seal.
pub(super) struct Signers<'t> {
    trust: &'t Trust,
    now: Timestamp,
    held_since: Option<Timestamp>,
    pub(super) all: Vec<Signer<'t>>,
    /// No later seal counts towards [`Signers::trusted`]: there was a failure before it.
    pub(super) broken: bool,
    pub(super) every_signature: bool,
}

impl<'t> Signers<'t> {
    pub(super) fn new(
        trust: &'t Trust,
        now: Timestamp,
        held_since: Option<Timestamp>,
        every_signature: bool,
    ) -> Self {
        Self {
            trust,
            now,
            held_since,
            all: Vec::new(),
            broken: false,
            every_signature,
        }
    }

    /// Whether the caller accepts pinned keys only.
    pub(super) fn is_pinned(&self) -> bool {
        !self.trust.pinned.is_empty()
    }

    pub(super) fn take(
        &mut self,
        seal: &Seal,
        fingerprint: RyeFingerprint,
        thread: &str,
    ) -> Signed {
        let candidates = self.trust.by_fingerprint(fingerprint);
        let check_now = self.every_signature || self.broken || candidates.len() > 1;
        let key = match &candidates[..] {
            [] => None,
            [only] if !check_now => Some(*only),
            several => match several.iter().find(|key| seal.is_by(key)) {
                Some(key) => Some(*key),
                None => return Signed::Invalid,
            },
        };
        let same = |signer: &Signer<'_>| {
            signer.fingerprint == fingerprint && signer.known.as_ref().map(|(key, _)| *key) == key
        };
        let broken = self.broken;
        let keep = |signer: &mut Signer<'_>| {
            if !broken {
                signer.last = Some((*seal, check_now));
            }
        };
        if let Some(signer) = self.all.iter_mut().find(|signer| same(signer)) {
            keep(signer);
            return Signed::Again;
        }
        if self.all.len() >= MAX_RECORD_KEYS {
            return Signed::TooMany;
        }
        let known = key.map(|key| (key, self.judge(&key, thread, &[])));
        // The heads that decide about a key that ended in the log are known at the end only.
        let vouched =
            key.is_some_and(|key| self.vouches(&key, thread) || self.trust.is_ended_in_log(&key));
        let mut signer = Signer {
            fingerprint,
            vouched: vouched || known.as_ref().is_some_and(|(_, own)| own.standing.counts()),
            known,
            thread: thread.to_owned(),
            first_line: seal.line,
            last: None,
        };
        keep(&mut signer);
        let signed = match self.all.first() {
            None => Signed::First,
            Some(_) => Signed::Another {
                vouched: signer.vouched,
            },
        };
        self.all.push(signer);
        signed
    }

    fn judge(&self, key: &PublicKey, thread: &str, heads: &[Head]) -> Judgement<'t> {
        let purpose = self.purpose(thread, heads);
        self.trust.judge(key, &purpose, self.now)
    }

    /// Judges each signer by the heads over its last seal, once all seals are known. A record whose
    /// bytes do not fit has none.
    pub(super) fn judge_by_heads(&mut self, record: Option<RecordId>) {
        let Some(record) = record.filter(|_| !self.broken && self.trust.places.is_some()) else {
            return;
        };
        let last = |signer: &Signer<'t>| signer.last.map(|(seal, _)| seal.head(record));
        let all: Vec<Head> = self.all.iter().filter_map(last).collect();
        let judged: Vec<_> = self
            .all
            .iter()
            .map(|signer| {
                let (key, _) = signer.known.as_ref()?;
                let own = last(signer)?;
                let covering = all.iter().filter(|head| head.seq >= own.seq);
                let heads: Vec<Head> = covering.copied().collect();
                Some((*key, self.judge(key, &signer.thread, &heads)))
            })
            .collect();
        for (signer, judged) in self.all.iter_mut().zip(judged) {
            if judged.is_some() {
                signer.known = judged;
            }
        }
    }

    fn vouches(&self, key: &PublicKey, thread: &str) -> bool {
        let judgement = self
            .trust
            .judge_unpinned(key, &self.purpose(thread, &[]), self.now);
        judgement.standing.counts()
    }

    fn purpose<'p>(&self, thread: &'p str, heads: &'p [Head]) -> Purpose<'p> {
        Purpose {
            usage: KeyUsage::Rye,
            format: ScopeFormat::Transcript,
            thread: Some(thread),
            evidence: self.held_since,
            heads,
        }
    }

    /// Checks the signatures that were left to the end; returns the seals whose signature is bad.
    pub(super) fn check_last(&mut self) -> Vec<Seal> {
        let mut bad = Vec::new();
        for signer in &mut self.all {
            if let (Some((seal, checked @ false)), Some((key, _))) =
                (&mut signer.last, &signer.known)
            {
                *checked = seal.is_by(key);
                if !*checked {
                    bad.push(*seal);
                }
            }
        }
        bad
    }

    /// The newest seal before any failure, by a signer that counts and with a checked signature.
    pub(super) fn trusted(&self) -> Option<Seal> {
        let counting = self.all.iter().filter(|signer| signer.counts());
        let checked = counting.filter_map(|signer| signer.last.filter(|(_, checked)| *checked));
        checked.map(|(seal, _)| seal).max_by_key(|seal| seal.seq)
    }
}
