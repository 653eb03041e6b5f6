//! Signed ledgers and signed heads: each attack that the unsigned chain lets pass, and its verdict.

use crate::scene::*;
use threadseal_core::canon::json::Value;
use threadseal_core::report::Completeness;
use threadseal_core::report::Verdict::{
    Consistent, Foreign, Forged, Malformed, Open, Partial, Tampered, Truncated, UnknownSigner,
    UnsignedTail, Verified,
};
use threadseal_formats::ledger::{
    ActorFingerprint, Actors, ChainOptions, FileDigest, Genesis, HeadAtHand, HeadStatement,
    Judging, LaterBeginning, LaterBeginnings, Outcome, RecordSignature, RunId, SignedHead,
    StepRecord, compute_record_hash, head_of, judge, signer_name,
};

fn native(seed: u8) -> LocalSigner {
    signer(seed, KeyUsage::Native)
}

fn at(second: u64) -> Timestamp {
    micros(1_800_000_000_000_000 + second * 1_000_000)
}

fn run() -> RunId {
    RunId::parse("run-1").unwrap()
}

fn actor(seed: u8, kind: &str) -> ActorFingerprint {
    ActorFingerprint::for_key(kind, None, Vec::new(), &key(seed)).unwrap()
}

/// The id of the agent, whose key is 1.
fn agent() -> String {
    actor(1, "agent").actor_id().to_owned()
}

/// The id of the human, whose key is 2.
fn human() -> String {
    actor(2, "human").actor_id().to_owned()
}

fn trust(seeds: &[u8]) -> Trust {
    trust_in(seeds.iter().map(|seed| (key(*seed), KeyUsage::Native)))
}

/// Signs a record again, by `seed`.
fn resign(record: &mut StepRecord, seed: u8) {
    let signature = RecordSignature::sign(&record.record_hash.unwrap(), &native(seed));
    record.signature = Some(signature.unwrap().to_string());
}

/// The record by which the agent begins a ledger.
fn genesis() -> Genesis {
    let mut genesis = Genesis::new(RecordId::from_bytes([9; 32]), at(0));
    genesis.actors.add(actor(1, "agent")).unwrap();
    genesis
}

/// The record by which `by` names the human.
fn joining(by: String) -> StepRecord {
    let mut others = Actors::default();
    others.add(actor(2, "human")).unwrap();
    others.to_record(run(), "join", by, at(3))
}

/// A ledger in progress: its chained and signed records.
#[derive(Clone, Default)]
struct Ledger {
    records: Vec<StepRecord>,
}

impl Ledger {
    /// Begun by an agent (key 1), which names itself.
    fn begun(genesis: &Genesis) -> Self {
        let mut ledger = Self::default();
        ledger.push(genesis.to_record(run(), "s0", Some(agent())), Some(1));
        ledger
    }

    /// With these signers of steps that name no actor; None is unsigned.
    fn of(signers: &[Option<u8>]) -> Self {
        let mut ledger = Self::default();
        signers.iter().for_each(|by| ledger.step(None, *by));
        ledger
    }

    fn push(&mut self, mut record: StepRecord, by: Option<u8>) {
        record.prev_hash = self.records.last().and_then(|last| last.record_hash);
        let hash = compute_record_hash(&record.to_value(), record.prev_hash.as_ref()).unwrap();
        record.record_hash = Some(hash);
        record.signature = None;
        by.into_iter().for_each(|by| resign(&mut record, by));
        self.records.push(record);
    }

    fn step(&mut self, actor_id: Option<String>, by: Option<u8>) {
        self.step_with(actor_id, None, by);
    }

    fn step_with(&mut self, actor_id: Option<String>, result: Option<Value>, by: Option<u8>) {
        let second = self.records.len() as u64;
        let mut record = StepRecord::start(run(), format!("s{second}"), "n", None, at(second));
        record.actor_id = actor_id;
        record.finish_success(result, at(second));
        self.push(record, by);
    }

    fn agent_step(&mut self) {
        self.step(Some(agent()), Some(1));
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn unsigned(self) -> Self {
        self.with(|ledger| ledger.records.iter_mut().for_each(|r| r.signature = None))
    }

    /// The same records, changed and chained again from the first, as an attacker without a key can
    /// do.
    fn rechained(mut self, change: impl FnOnce(&mut Vec<StepRecord>)) -> Self {
        change(&mut self.records);
        let mut ledger = Self::default();
        for record in self.records {
            let signature = record.signature.clone();
            ledger.push(record, None);
            ledger.records.last_mut().unwrap().signature = signature;
        }
        ledger
    }

    fn bytes(&self) -> Vec<u8> {
        let lines = self.records.iter().map(|record| record.to_line().unwrap());
        lines
            .flat_map(|line| [line, b"\n".to_vec()].concat())
            .collect()
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    fn head(&self) -> Expectation {
        let last = self.records.last().unwrap().record_hash.unwrap();
        let head = head_of(&run(), self.records.len() as u64, last).unwrap();
        Expectation::remembered(ExpectedHead::Head(head))
    }

    fn judged(&self, trust: &Trust, expect: Option<Expectation>) -> Outcome {
        let options = ChainOptions {
            expect: expect.into_iter().collect(),
            all_signed: !trust.pinned.is_empty(),
            ..ChainOptions::default()
        };
        judge(&self.bytes(), options, &Judging::new(trust, at(100)))
    }
}

/// The report on this text, where keys 1 and 2 are trusted.
fn plain(text: &str) -> Report {
    let (options, trust) = (ChainOptions::default(), trust(&[1, 2]));
    judge(text.as_bytes(), options, &Judging::new(&trust, at(100))).report
}

/// Checks the verdict where these keys are trusted, and a finding.
#[track_caller]
fn holds(ledger: &Ledger, trust: &Trust, verdict: Verdict, code: &str) {
    is(&ledger.judged(trust, None).report, verdict, code);
}

fn three() -> Ledger {
    Ledger::begun(&genesis()).with(|ledger| {
        ledger.agent_step();
        ledger.agent_step();
    })
}

#[test]
fn a_signed_ledger_is_verified_only_with_a_head_that_is_known() {
    let ledger = three();
    holds(&ledger, &trust(&[1]), Open, "head_unknown");
    holds(&ledger, &trust(&[]), UnknownSigner, "key_unknown");
    let outcome = ledger.judged(&trust(&[1]), Some(ledger.head()));
    assert_eq!(outcome.report.verdict, Verified);
    assert_eq!(outcome.report.completeness, Completeness::Head);
    assert_eq!(outcome.report.profile, "threadseal");
    assert_eq!(outcome.report.trusted_until.unwrap().line, 3);
    assert_eq!(outcome.verified.unwrap().get().signers, [key(1)]);
    // The signatures cover the records signed since the head.
    let longer = ledger.clone().with(Ledger::agent_step);
    let outcome = longer.judged(&trust(&[1]), Some(ledger.head()));
    assert_eq!(outcome.report.verdict, Verified);
}

#[test]
fn the_pinned_key_signs_every_record() {
    let pinned = |seed| Trust::key(key(seed));
    let gap = three().with(|ledger| ledger.records[1].signature = None);
    holds(&three(), &pinned(1), Open, "head_unknown");
    holds(&three(), &pinned(2), UnknownSigner, "other_signer");
    holds(&gap, &pinned(1), Tampered, "signature_missing");
}

/// A change to the records of a ledger.
type Edit = fn(&mut Vec<StepRecord>);

// T-LED-22
#[test]
fn a_stripped_signature_is_tampering_and_a_foreign_one_forgery() {
    let edits: [(Verdict, &str, Edit); 4] = [
        (Tampered, "signature_missing", |r| r[2].signature = None),
        (Forged, "signature_unreadable", |r| {
            r[1].signature = Some("ed25519:x".into());
        }),
        (Forged, "signature_bad", |r| {
            r[1].signature = r[2].signature.clone();
        }),
        (Forged, "actor_differs", |r| resign(&mut r[1], 2)),
    ];
    for (verdict, code, edit) in edits {
        let changed = three().with(|ledger| edit(&mut ledger.records));
        holds(&changed, &trust(&[1, 2]), verdict, code);
    }
    let unnamed = three().with(|ledger| ledger.step(Some("ar_somebody".into()), Some(2)));
    holds(&unnamed, &trust(&[1, 2]), Forged, "actor_unnamed");
}

// T-LED-23
#[test]
fn a_record_that_is_chained_again_keeps_no_good_signature() {
    let edits: [Edit; 2] = [
        |r| r[1].error = Some("never happened".into()),
        |r| drop(r.remove(1)),
    ];
    for edit in edits {
        let changed = three().rechained(edit);
        holds(&changed, &trust(&[1]), Forged, "signature_bad");
    }
}

// T-LED-24
#[test]
fn a_beginning_that_is_spelled_in_another_way_still_counts() {
    let text = three().unsigned().text();
    let hidden = text.replace("threadseal.genesis", "thread\\u0073eal.genesis");
    assert_ne!(hidden, text);
    assert_eq!(plain(&hidden).verdict, Tampered);
    // JSON has no such blank, and the loader of `AbstractRuntime` drops it.
    assert_eq!(plain(&format!("\u{a0}{text}")).verdict, Tampered);
}

// T-LED-26
#[test]
fn a_human_answers_in_his_own_name_once_the_ledger_names_him() {
    let trust = trust(&[1, 2]);
    let ledger = three().with(|ledger| {
        ledger.push(joining(agent()), Some(1));
        ledger.step(Some(human()), Some(2));
    });
    let report = ledger.judged(&trust, Some(ledger.head())).report;
    assert_eq!(report.verdict, Verified);
    // The agent cannot sign for the human, and no actor names itself.
    let spoken_for = ledger.with(|ledger| ledger.step(Some(human()), Some(1)));
    holds(&spoken_for, &trust, Forged, "actor_differs");
    let intruder = three().with(|ledger| ledger.push(joining(human()), Some(2)));
    holds(&intruder, &trust, Forged, "actor_unnamed");
}

#[test]
fn signatures_that_nobody_demands_cover_what_they_cover() {
    let trust = trust(&[1]);
    let ledger = Ledger::of(&[None, Some(1)]);
    holds(&ledger, &trust, Partial, "record_unsigned");
    let tail = Ledger::of(&[Some(1), None]);
    holds(&tail, &trust, UnsignedTail, "unsigned_tail");
    let report = tail.judged(&trust, Some(tail.head())).report;
    assert_eq!(report.verdict, Verified);
}

#[test]
fn a_beginning_stands_at_the_beginning() {
    let again = three().with(|ledger| ledger.push(ledger.records[0].clone(), Some(1)));
    holds(&again, &trust(&[1]), Tampered, "genesis_misplaced");
    let spoiled = three().rechained(|records| {
        records[0].effect.as_mut().unwrap().payload = Value::Null;
    });
    let report = spoiled.judged(&trust(&[1]), None).report;
    assert!(codes(&report).contains(&"genesis_bad"), "{report:?}");
}

/// The same ledger, verified as a verifier does that was given what its records admit.
fn settled(ledger: &Ledger, trust: &Trust) -> Report {
    let options = ChainOptions {
        later_beginnings: ledger.judged(trust, None).later_beginnings,
        ..ChainOptions::default()
    };
    judge(&ledger.bytes(), options, &Judging::new(trust, at(100))).report
}

// T-LED-37
#[test]
fn a_later_beginning_counts_as_admitted_only_by_an_actor_of_the_ledger() {
    let trust = trust(&[1, 2]);
    let again = three().with(|ledger| ledger.push(ledger.records[0].clone(), Some(1)));
    let later = LaterBeginning {
        record: 3,
        hash: again.records[3].record_hash.unwrap(),
    };
    let admitted = |later: LaterBeginning, by: String, seed: Option<u8>| {
        let admission = LaterBeginnings::new(vec![later], "two at once".into()).unwrap();
        let record = admission.to_record(run(), "admit", Some(by), at(5));
        again.clone().with(|ledger| ledger.push(record, seed))
    };
    let good = admitted(later, agent(), Some(1));
    is(&settled(&good, &trust), Open, "genesis_repeated");
    // Without the second look no admission counts.
    holds(&good, &trust, Tampered, "genesis_misplaced");
    let other_hash = LaterBeginning {
        hash: Digest::of(b"other"),
        ..later
    };
    let not_before = LaterBeginning { record: 4, ..later };
    for (bad, verdict) in [
        (admitted(later, human(), Some(2)), Forged),
        (admitted(later, agent(), Some(2)), Forged),
        (admitted(later, agent(), None), Tampered),
        (admitted(other_hash, agent(), Some(1)), Tampered),
        (admitted(not_before, agent(), Some(1)), Tampered),
    ] {
        is(&settled(&bad, &trust), verdict, "genesis_misplaced");
    }
    // The actors of an admitted beginning are none of the ledger.
    let mut second = Genesis::new(RecordId::from_bytes([8; 32]), at(3));
    second.actors.add(actor(2, "human")).unwrap();
    let second = second.to_record(run(), "again", Some(agent()));
    let joined = three().with(|ledger| {
        ledger.push(second, Some(1));
        let later = LaterBeginning {
            record: 3,
            hash: ledger.records[3].record_hash.unwrap(),
        };
        let admission = LaterBeginnings::new(vec![later], "w".into()).unwrap();
        ledger.push(
            admission.to_record(run(), "admit", Some(agent()), at(5)),
            Some(1),
        );
        ledger.step(Some(human()), Some(2));
    });
    is(&settled(&joined, &trust), Forged, "actor_unnamed");
    // A ledger without actors is a claim as a whole.
    let claim = Ledger::of(&[None]).with(|ledger| {
        let genesis = Genesis::new(RecordId::from_bytes([8; 32]), at(3));
        ledger.push(genesis.to_record(run(), "late", None), None);
        let later = LaterBeginning {
            record: 1,
            hash: ledger.records[1].record_hash.unwrap(),
        };
        let admission = LaterBeginnings::new(vec![later], "w".into()).unwrap();
        ledger.push(admission.to_record(run(), "admit", None, at(5)), None);
    });
    is(&settled(&claim, &trust), Consistent, "genesis_repeated");
}

#[test]
fn a_signer_who_is_gone_is_missed_on_the_host_that_knew_him() {
    let stripped = three().unsigned().rechained(|r| drop(r.remove(0)));
    let trust = trust(&[1]);
    let judging = Judging {
        signers: &[signer_name(&key(1))],
        ..Judging::new(&trust, at(100))
    };
    let report = judge(&stripped.bytes(), ChainOptions::default(), &judging).report;
    is(&report, Tampered, "signatures_gone");
}

/// An unsigned ledger of three records, and a head of it.
fn sealed() -> (Ledger, HeadStatement) {
    let ledger = Ledger::of(&[None; 3]);
    let statement = HeadStatement {
        run: run(),
        count: 3,
        hash: ledger.records[2].record_hash.unwrap(),
        at: at(50),
        first: None,
        last: None,
        signatures: None,
        file: Some(digest_of(&ledger.bytes())),
    };
    (ledger, statement)
}

fn digest_of(file: &[u8]) -> FileDigest {
    FileDigest {
        sha256: Digest::of(file),
        bytes: file.len() as u64,
    }
}

/// The head's note by key 1.
fn note(statement: &HeadStatement) -> String {
    statement.sign(&native(1)).unwrap().to_string()
}

fn under(bytes: &[u8], head: &SignedHead, trust: &Trust) -> Report {
    let options = ChainOptions {
        signed_head: head.statement.head(),
        ..ChainOptions::default()
    };
    let length = head.statement.file.map_or(0, |file| file.bytes);
    let beginning = &bytes[..bytes.len().min(usize::try_from(length).unwrap())];
    let judging = Judging {
        signed_head: Some(HeadAtHand {
            head,
            file: Some(digest_of(beginning)),
        }),
        ..Judging::new(trust, at(100))
    };
    judge(bytes, options, &judging).report
}

// T-LED-01 T-LED-21
#[test]
fn a_signed_head_seals_a_chain_that_nobody_signed() {
    let (ledger, statement) = sealed();
    let own = note(&statement);
    let foreign = note(&HeadStatement {
        run: RunId::parse("run-2").unwrap(),
        ..statement
    });
    let forged = own.replace("time 2027", "time 2028");
    let whole = ledger.bytes();
    let longer = ledger
        .clone()
        .with(|ledger| ledger.step(None, None))
        .bytes();
    let cut = ledger
        .clone()
        .with(|ledger| ledger.records.truncate(2))
        .bytes();
    let edited = ledger.rechained(|r| r[0].error = Some("another story".into()));
    let blank = [b"\n".to_vec(), whole.clone()].concat();
    for (bytes, note, seed, verdict, code) in [
        (&whole, &own, 1, Verified, ""),
        (&whole, &own, 2, UnknownSigner, ""),
        (&longer, &own, 1, UnsignedTail, "unsigned_tail"),
        (&cut, &own, 1, Truncated, "head_ahead"),
        (&edited.bytes(), &own, 1, Tampered, "head_broken"),
        (&blank, &own, 1, Tampered, "file_differs"),
        (&whole, &foreign, 1, Foreign, "head_foreign"),
        (&whole, &forged, 1, Forged, "head_forged"),
    ] {
        let head = SignedHead::parse(note).unwrap();
        is(&under(bytes, &head, &trust(&[seed])), verdict, code);
    }
}

/// The values of a ledger, independent of blanks and line ends. The loader of `AbstractRuntime`
/// also reads several records in one line.
fn values(bytes: &[u8]) -> Option<Vec<serde_json::Value>> {
    let blank = |byte: &u8| match byte {
        0x0b | 0x0c | 0x1c..=0x1f => b' ',
        other => *other,
    };
    let bytes: Vec<u8> = bytes.iter().map(blank).collect();
    let values = serde_json::Deserializer::from_slice(&bytes).into_iter();
    values.collect::<Result<_, _>>().ok()
}

#[test]
fn every_byte_of_a_signed_ledger_under_a_known_head_is_noticed_or_means_nothing() {
    let ledger = three();
    let (bytes, mine, head) = (ledger.bytes(), trust(&[1]), ledger.head());
    let verified = |bytes: &[u8]| {
        let options = ChainOptions {
            expect: vec![head.clone()],
            ..ChainOptions::default()
        };
        let outcome = judge(bytes, options, &Judging::new(&mine, at(100)));
        let verified = outcome.report.verdict == Verified;
        assert_eq!(verified, outcome.verified.is_some());
        verified
    };
    assert!(verified(&bytes));
    for at in 0..bytes.len() {
        let flips = [0x01, 0x04, 0x20, 0x80].map(|bit| {
            let mut flipped = bytes.clone();
            flipped[at] ^= bit;
            flipped
        });
        // Cuts and doubled bytes, too: the rest must have the same values.
        let cut = [&bytes[..at], &bytes[at + 1..]].concat();
        let doubled = [&bytes[..=at], &bytes[at..]].concat();
        for changed in flips
            .into_iter()
            .chain([cut, doubled, bytes[..at].to_vec()])
        {
            if verified(&changed) {
                assert_eq!(values(&changed), values(&bytes), "byte {at}");
            }
        }
    }
}

#[test]
fn every_byte_of_a_signed_head_is_noticed() {
    let (ledger, statement) = sealed();
    let note = note(&statement);
    let (bytes, mine) = (ledger.bytes(), trust(&[1]));
    for at in 0..note.len() {
        for bit in [0x01, 0x04, 0x20] {
            let mut flipped = note.clone().into_bytes();
            flipped[at] ^= bit;
            let text = String::from_utf8(flipped).unwrap_or_default();
            if let Ok(head) = SignedHead::parse(&text) {
                let report = under(&bytes, &head, &mine);
                assert_ne!(report.verdict, Verified, "byte {at}, bit {bit}");
            }
        }
    }
}

// T-LED-25
#[test]
fn a_beginning_that_is_too_large_to_read_is_told_and_never_passed_over() {
    const LARGE: usize = 5 << 20;
    let mut large = genesis();
    large.workflow_id = Some("w".repeat(LARGE));
    // Without its genesis, this record would only be unsigned.
    let ledger = Ledger::begun(&large).with(|ledger| ledger.step(Some(agent()), None));
    holds(&ledger, &trust(&[1]), Malformed, "genesis_bad");

    // Blanks and escapes lengthen a line, but not its hashed form.
    let padded = three()
        .text()
        .replacen('{', &format!("{{{}", " ".repeat(LARGE)), 1);
    let escaped = padded.replace("threadseal.genesis", "threadseal.\\u0067enesis");
    for padded in [padded, escaped] {
        is(&plain(&padded), Malformed, "genesis_bad");
    }

    let joined = three().with(|ledger| {
        let mut record = joining(agent());
        record.result = Some("x".repeat(LARGE).as_str().into());
        ledger.push(record, Some(1));
    });
    holds(&joined, &trust(&[1, 2]), Malformed, "genesis_bad");
    // A record that only mentions a genesis is none.
    let speaking = three().with(|ledger| {
        let text = ["\"type\":\"threadseal.genesis\"", &"x".repeat(LARGE)].concat();
        ledger.step_with(Some(agent()), Some(text.as_str().into()), Some(1));
    });
    holds(&speaking, &trust(&[1]), Open, "head_unknown");
}

// T-LED-05
#[test]
fn a_record_whose_run_id_is_no_name_of_a_run_is_of_another_run() {
    let text = three().with(Ledger::agent_step).text();
    let (before, last) = text.split_at(text.rfind("\"run_id\":\"run-1\"").unwrap());
    for odd in ["run-1\\n", "", &"r".repeat(600)] {
        let changed = [before, &*last.replacen("run-1", odd, 1)].concat();
        let report = plain(&changed);
        assert!(codes(&report).contains(&"record_foreign"), "{report:?}");
    }
}

// T-LED-32
#[test]
fn a_head_covers_the_signatures_of_records() {
    let honest = Ledger::of(&[None, Some(1), Some(1), Some(2)]);
    let trust = trust(&[1, 2]);
    let head = honest.head();
    let options = |signatures| ChainOptions {
        expect: vec![head.clone()],
        signatures,
        ..ChainOptions::default()
    };
    let judging = Judging::new(&trust, at(100));
    let look = |ledger: &Ledger, signatures| judge(&ledger.bytes(), options(signatures), &judging);
    let whole = look(&honest, Vec::new());
    let tip = whole.tip.clone().unwrap().head();
    let known = vec![(tip, whole.signatures)];
    is(&look(&honest, known.clone()).report, Verified, "");
    let statement = HeadStatement {
        count: 4,
        hash: tip.line,
        signatures: Some(whole.signatures),
        ..sealed().1
    };
    let statement = HeadStatement {
        file: None,
        ..statement
    };
    let stated = SignedHead::parse(&note(&statement)).unwrap();
    let spoil: [(&str, fn(&mut Ledger)); 4] = [
        ("removed", |ledger| ledger.records[1].signature = None),
        ("by another key", |ledger| resign(&mut ledger.records[1], 2)),
        ("added", |ledger| resign(&mut ledger.records[0], 2)),
        ("the last one, by another key", |ledger| {
            resign(&mut ledger.records[3], 1);
        }),
    ];
    for (row, spoil) in spoil {
        let changed = honest.clone().with(spoil);
        // The hashes of records do not show it.
        assert_eq!(look(&changed, Vec::new()).report.verdict, Verified, "{row}");
        let report = look(&changed, known.clone()).report;
        is(&report, Tampered, "signatures_changed");
        assert_ne!(look(&changed, Vec::new()).signatures, whole.signatures);
        let by_head = ChainOptions {
            signatures: vec![(statement.head().unwrap(), whole.signatures)],
            signed_head: statement.head(),
            ..ChainOptions::default()
        };
        let judging = Judging {
            signed_head: Some(HeadAtHand {
                head: &stated,
                file: None,
            }),
            ..judging
        };
        let report = judge(&changed.bytes(), by_head, &judging).report;
        is(&report, Tampered, "signatures_changed");
    }
}
