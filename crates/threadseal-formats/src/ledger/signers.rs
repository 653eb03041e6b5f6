//! The signers of a ledger, while its records are taken, and whether they count (`spec/ledger.md`
//! §6).
//!
//! ```text
//! signature of each record ─┬─ genesis names actors: all signed, each by the key of its actor
//!                           └─ else: each signer signs for itself
//! ```
//! Signatures by known keys are checked where records are read, on any core. Signatures by keys
//! that the ledger names later are checked here.

use super::beginnings::{BEGINNINGS_EFFECT, LaterBeginning, LaterBeginnings, MAX_LATER_BEGINNINGS};
use super::chain::Mark;
use super::conclude::Judging;
use super::facts::Facts;
use super::genesis::{ACTORS_EFFECT, Actors, Declaration, GENESIS_EFFECT};
use super::record::RunId;
use super::sign::{KnownKeys, SignatureRead};
use memchr::memmem;
use threadseal_core::canon::json;
use threadseal_core::canon::python::LedgerObject;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyId, PublicKey, RepeatedKeys};
use threadseal_core::limits::{MAX_LENIENT_RECORD_BYTES, MAX_RECORD_KEYS};
use threadseal_core::record::Head;
use threadseal_core::report::{
    CheckName, CheckResult, Finding, FindingCode, Report, SignerReport, SignerStatus, Verdict,
};
use threadseal_core::trust::{LastOf, Trust, covering};

/// Evidence against a signature.
pub(super) type Fault = (Verdict, FindingCode, &'static str);

#[derive(Debug, Default)]
pub(super) struct Signers {
    /// Must every record be signed?
    all_signed: bool,
    pub(super) genesis: bool,
    actors: Actors,
    named: KnownKeys,
    at_hand: RepeatedKeys,
    records: u64,
    pub(super) signed: u64,
    first_unsigned: Option<Mark>,
    tail: Option<Mark>,
    inside: u64,
    good: Vec<Good>,
    unknown: Vec<KeyId>,
    bad: bool,
    /// Later beginnings that count as admitted, and those of them that were seen.
    accepted: Vec<LaterBeginning>,
    repeated: Vec<Mark>,
    /// Later beginnings that the records so far admit.
    admitted: Vec<LaterBeginning>,
}

/// A declaration that counts once its record is found to be signed.
enum Signed {
    Actors(Actors),
    LaterBeginnings(LaterBeginnings),
}

/// A key whose signatures hold.
#[derive(Debug)]
struct Good {
    key: PublicKey,
    /// Number and hash of the last record that it signed, if that is chained.
    last: Option<(u64, Digest)>,
}

impl Good {
    fn head(&self, run: &RunId) -> Option<LastOf> {
        let (seq, line) = self.last?;
        let head = Head {
            record: run.record_id(),
            seq,
            size: seq + 1,
            line,
        };
        Some(LastOf {
            key: self.key,
            head,
        })
    }
}

impl Signers {
    pub(super) fn new(all_signed: bool, accepted: Vec<LaterBeginning>) -> Self {
        Self {
            all_signed,
            accepted,
            ..Self::default()
        }
    }

    /// Must every record be signed?
    pub(super) fn all_must(&self) -> bool {
        !self.actors.is_empty()
    }

    /// Takes the next record; reports the evidence against it.
    pub(super) fn take(
        &mut self,
        facts: &Facts,
        text: &[u8],
        mark: &Mark,
        fault: &mut dyn FnMut(Fault),
    ) {
        let declared = self.declaration(facts, text, mark, fault);
        let read = match &facts.signature {
            SignatureRead::UnknownKey(signature) => {
                let key = self.named.get(&signature.key());
                match (key, facts.stored.digest()) {
                    (Some(key), Some(hash)) => signature.read(&hash, key, &mut self.at_hand),
                    (Some(key), None) => SignatureRead::Bad(*key),
                    (None, _) => SignatureRead::UnknownKey(*signature),
                }
            }
            read => *read,
        };
        self.records += 1;
        let by_actor = self.signature(&read, facts.actor_id.as_deref(), mark, fault);
        if let SignatureRead::Good(key) = &read
            && let Some(good) = self.good.iter_mut().find(|good| good.key == *key)
        {
            good.last = facts.stored.digest().map(|hash| (mark.index, hash));
        }
        match declared {
            Some(Signed::Actors(actors)) if by_actor => self.name(actors, fault),
            // Where no actor is named, no record is more than a claim, and neither is this one.
            Some(Signed::LaterBeginnings(later)) if by_actor || !self.all_must() => {
                self.admit(&later, mark);
            }
            _ => {}
        }
    }

    /// The declaration in the record. A genesis counts at once, for its own signature as well.
    /// Joining actors count once their record is found to be signed.
    fn declaration(
        &mut self,
        facts: &Facts,
        text: &[u8],
        mark: &Mark,
        fault: &mut dyn FnMut(Fault),
    ) -> Option<Signed> {
        let says = |kind: &&str| memmem::find(text, kind.as_bytes()).is_some();
        // Spelled with escapes, a genesis would hide that all records must be signed; another
        // declaration hides nothing.
        let kinds = [GENESIS_EFFECT, ACTORS_EFFECT, BEGINNINGS_EFFECT];
        let may = mark.index == 0 || kinds.iter().any(says);
        if !may {
            return None;
        }
        let small = text.len() <= MAX_LENIENT_RECORD_BYTES;
        let read = Some(text).filter(|_| small).map(json::parse_python);
        let Some(Ok(document)) = read else {
            // If it were ignored, other keys or no keys could sign.
            if declares(text) {
                fault(GENESIS_BAD);
            }
            return None;
        };
        match Declaration::of(&document.value) {
            Ok(Some(Declaration::Genesis(genesis))) if mark.index == 0 => {
                self.genesis = true;
                self.name(genesis.actors, fault);
                None
            }
            Ok(Some(Declaration::Genesis(_))) if self.is_accepted(facts, mark) => {
                self.repeated.push(*mark);
                None
            }
            Ok(Some(Declaration::Genesis(_))) => {
                let text = "the record begins a ledger, but is not its first record";
                fault((Verdict::Tampered, FindingCode::GenesisMisplaced, text));
                None
            }
            Ok(Some(Declaration::Actors(actors))) => Some(Signed::Actors(actors)),
            Ok(Some(Declaration::LaterBeginnings(later))) => Some(Signed::LaterBeginnings(later)),
            Ok(None) => None,
            Err(_) => {
                fault(GENESIS_BAD);
                None
            }
        }
    }

    /// Does an accepted admission name this record, which is a genesis?
    fn is_accepted(&self, facts: &Facts, mark: &Mark) -> bool {
        let hash = facts.stored.digest();
        let mut accepted = self.accepted.iter();
        accepted.any(|later| later.record == mark.index && Some(later.hash) == hash)
    }

    /// Notes what the record at `mark` admits of the records before it.
    fn admit(&mut self, later: &LaterBeginnings, mark: &Mark) {
        for later in later.beginnings() {
            let is_before = later.record > 0 && later.record < mark.index;
            let fits = self.admitted.len() < MAX_LATER_BEGINNINGS;
            if is_before && fits && !self.admitted.contains(later) {
                self.admitted.push(*later);
            }
        }
    }

    pub(super) fn admitted(&self) -> &[LaterBeginning] {
        &self.admitted
    }

    fn name(&mut self, actors: Actors, fault: &mut dyn FnMut(Fault)) {
        let before = self.actors.keys().count();
        if self.actors.join(actors).is_err() {
            fault(TOO_MANY);
        }
        if self.actors.keys().count() > before {
            self.named = KnownKeys::of(self.actors.keys().copied());
        }
    }

    pub(super) fn named(&self) -> &KnownKeys {
        &self.named
    }

    /// Judges one signature; true if it is valid and by an actor that the ledger names.
    fn signature(
        &mut self,
        read: &SignatureRead,
        actor: Option<&str>,
        mark: &Mark,
        fault: &mut dyn FnMut(Fault),
    ) -> bool {
        if *read == SignatureRead::Absent {
            self.first_unsigned.get_or_insert(*mark);
            self.tail.get_or_insert(*mark);
            if self.all_must() || self.all_signed {
                let text = "the record is not signed, and every record of this ledger must be";
                fault((Verdict::Tampered, FindingCode::SignatureMissing, text));
            }
            return false;
        }
        self.signed += 1;
        self.inside = self.records - self.signed;
        self.tail = None;
        let of_actor = actor.and_then(|actor| self.actors.key_of(actor));
        let wrong = match (read, of_actor) {
            (SignatureRead::Unreadable, _) => Some((
                FindingCode::SignatureUnreadable,
                "`signature` does not have the form of a signature",
            )),
            (SignatureRead::Bad(_), _) => Some((
                FindingCode::SignatureBad,
                "the signature does not verify under the key that it names",
            )),
            (_, None) if self.all_must() => Some((
                FindingCode::ActorUnnamed,
                "the record is by an actor that this ledger does not name",
            )),
            (SignatureRead::Good(key), Some(own)) if key != own => Some((
                FindingCode::ActorDiffers,
                "the record is signed by another key than its actor's",
            )),
            (SignatureRead::UnknownKey(_), Some(_)) => Some((
                FindingCode::ActorDiffers,
                "the record is signed by another key than its actor's",
            )),
            _ => None,
        };
        if let Some((code, text)) = wrong {
            self.bad = true;
            fault((Verdict::Forged, code, text));
            return false;
        }
        match read {
            SignatureRead::Good(key) if !self.good.iter().any(|good| good.key == *key) => {
                if self.good.len() + self.unknown.len() < MAX_RECORD_KEYS {
                    self.good.push(Good {
                        key: *key,
                        last: None,
                    });
                } else {
                    fault(TOO_MANY);
                }
            }
            SignatureRead::UnknownKey(signature) if !self.unknown.contains(&signature.key()) => {
                if self.good.len() + self.unknown.len() < MAX_RECORD_KEYS {
                    self.unknown.push(signature.key());
                } else {
                    fault(TOO_MANY);
                }
            }
            _ => {}
        }
        matches!(read, SignatureRead::Good(_)) && of_actor.is_some()
    }

    pub(super) fn into_keys(self) -> Vec<PublicKey> {
        self.good.into_iter().map(|good| good.key).collect()
    }

    /// Is the last record signed?
    pub(super) fn reaches_end(&self) -> bool {
        self.signed > 0 && self.tail.is_none()
    }

    /// Judges the keys whose signatures hold; true when the trust vouches for each of them. `tip`
    /// is the end of a chain that holds.
    pub(super) fn judge(
        &self,
        report: &mut Report,
        run: Option<&RunId>,
        tip: Option<Head>,
        judging: &Judging<'_>,
    ) -> bool {
        if self.signed == 0 {
            let why = "no record is signed".to_owned();
            report.check(CheckName::Signatures, CheckResult::Skipped, Some(why));
        } else {
            let how = format!("{} of {} records are signed", self.signed, self.records);
            report.check(CheckName::Signatures, CheckResult::of(!self.bad), Some(how));
        }
        for mark in &self.repeated {
            let text = "the record begins the ledger a second time; a later record admits that, and this beginning names no actor";
            report.find(mark.put(Finding::warning(FindingCode::GenesisRepeated, text)));
        }
        let last: Vec<LastOf> = match (run, tip) {
            (Some(run), Some(_)) => self.good.iter().filter_map(|good| good.head(run)).collect(),
            _ => Vec::new(),
        };
        let mut all = !self.good.is_empty() && self.unknown.is_empty();
        for good in &self.good {
            let own = last.iter().find(|last| last.key == good.key);
            let mut heads = own.map_or_else(Vec::new, |own| covering(&last, own.head.seq));
            // The end covers the records of every key.
            heads.extend(tip);
            let purpose = judging.purpose(run, &heads);
            let judgement = judging.trust.judge(&good.key, &purpose, judging.now);
            all &= report.signer(&good.key, &judgement);
        }
        for id in &self.unknown {
            unknown_signer(report, id, !judging.trust.pinned.is_empty());
        }
        if self.all_signed || self.signed > 0 {
            report.check(CheckName::Trust, CheckResult::of(all), None);
        }
        for known in judging.signers {
            if !self
                .good
                .iter()
                .any(|good| signer_name(&good.key) == *known)
            {
                let text = "a key that signed this ledger when it was last known here signs none of its records now";
                report.downgrade(
                    Verdict::Tampered,
                    Finding::error(FindingCode::SignaturesGone, text),
                );
            }
        }
        all
    }

    /// Reports how much of a ledger is signed, where unsigned records are allowed and no head
    /// covers the rest.
    pub(super) fn coverage(&self, report: &mut Report, trust: &Trust) {
        if self.signed == 0 || self.all_must() || !trust.pinned.is_empty() {
            return;
        }
        if let (Some(mark), true) = (&self.first_unsigned, self.inside > 0) {
            let text = format!(
                "{} records have no signature of their own; the signature of a later record covers their content, not their authors",
                self.inside
            );
            let finding = mark.put(Finding::warning(FindingCode::RecordUnsigned, text));
            report.downgrade(Verdict::Partial, finding);
        }
        if let Some(mark) = &self.tail {
            let text = "this record and those after it are not signed";
            let finding = mark.put(Finding::warning(FindingCode::UnsignedTail, text));
            report.downgrade(Verdict::UnsignedTail, finding);
        }
    }
}

const GENESIS_BAD: Fault = (
    Verdict::Malformed,
    FindingCode::GenesisBad,
    "the record declares the beginning of the ledger or its signers, but is malformed",
);

const TOO_MANY: Fault = (
    Verdict::Malformed,
    FindingCode::TooManyKeys,
    "more keys sign this ledger than a verifier supports",
);

/// Does the record declare the beginning of a ledger or its signers? It is decided without a tree
/// of the record.
fn declares(text: &[u8]) -> bool {
    let is = |kind: &[u8]| {
        [GENESIS_EFFECT, ACTORS_EFFECT]
            .iter()
            .any(|known| kind == format!("\"{known}\"").as_bytes())
    };
    LedgerObject::read(text).is_some_and(|record| {
        let mut members = record.members();
        let effect = members.find(|member| member.name == b"effect");
        let effect = effect.and_then(|effect| LedgerObject::read(effect.value));
        effect.is_some_and(|effect| {
            let mut members = effect.members();
            members.any(|member| member.name == b"type" && is(member.value))
        })
    })
}

/// A key that is known by its id only: its signature cannot be checked.
fn unknown_signer(report: &mut Report, id: &KeyId, pinned: bool) {
    report.signers.push(SignerReport {
        key: id.to_hex(),
        did: None,
        name: None,
        status: if pinned {
            SignerStatus::Other
        } else {
            SignerStatus::Unknown
        },
        sealed_by: Vec::new(),
    });
    if pinned {
        let text = format!("signed by key {id}, which is not a key that was asked for");
        report.downgrade(
            Verdict::UnknownSigner,
            Finding::warning(FindingCode::OtherSigner, text),
        );
    } else {
        let text = format!("key {id} is not trusted, and only its id is known here");
        let finding = Finding::warning(FindingCode::KeyUnknown, text);
        report.downgrade(Verdict::UnknownSigner, finding);
    }
}

/// The name under which a head store remembers that a key signed a ledger.
pub fn signer_name(key: &PublicKey) -> Digest {
    Digest::tagged("threadseal/1 ledger signer", &[key.as_bytes()])
}
