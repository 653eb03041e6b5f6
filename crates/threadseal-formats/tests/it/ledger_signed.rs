//! Signed ledgers and signed heads: each attack that the unsigned chain lets pass, and its verdict.

use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{ExpectedHead, RecordId};
use threadseal_core::report::Expectation;
use threadseal_core::report::{Completeness, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::ledger::{
    ActorFingerprint, Actors, ChainOptions, FileDigest, Genesis, HeadAtHand, HeadStatement,
    Judging, Outcome, RecordSignature, RunId, SignedHead, StepRecord, compute_record_hash, head_of,
    judge, signer_name,
};

fn signer(seed: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native)
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000 + second * 1_000_000).unwrap()
}

fn run() -> RunId {
    RunId::parse("run-1").unwrap()
}

fn actor(seed: u8, kind: &str) -> ActorFingerprint {
    ActorFingerprint::for_key(kind, None, Vec::new(), signer(seed).public_key()).unwrap()
}

fn trust(seeds: &[u8]) -> Trust {
    let mut store = TrustStore::new();
    for seed in seeds {
        let name = TrustName::parse(&format!("key {seed}")).unwrap();
        let key = TrustedKey::new(name, *signer(*seed).public_key(), [KeyUsage::Native]);
        store.add(key).unwrap();
    }
    Trust::new(store)
}

/// A ledger in progress: its chained and signed records.
#[derive(Clone, Default)]
struct Ledger {
    records: Vec<StepRecord>,
}

impl Ledger {
    /// Begun by an agent (key 1), which names itself.
    fn signed() -> Self {
        let mut genesis = Genesis::new(RecordId::from_bytes([9; 32]), at(0));
        genesis.actors.add(actor(1, "agent")).unwrap();
        let agent = actor(1, "agent").actor_id().to_owned();
        let mut ledger = Self::default();
        ledger.push(genesis.to_record(run(), "s0", Some(agent)), Some(1));
        ledger
    }

    fn push(&mut self, mut record: StepRecord, by: Option<u8>) {
        record.prev_hash = self.records.last().and_then(|last| last.record_hash);
        let hash = compute_record_hash(&record.to_value(), record.prev_hash.as_ref()).unwrap();
        record.record_hash = Some(hash);
        record.signature = by.map(|by| sign(&hash, by));
        self.records.push(record);
    }

    fn step(&mut self, actor_id: Option<&str>, by: Option<u8>) {
        let second = self.records.len() as u64;
        let mut record = StepRecord::start(run(), format!("s{second}"), "n", None, at(second));
        record.actor_id = actor_id.map(str::to_owned);
        record.finish_success(None, at(second));
        self.push(record, by);
    }

    fn agent_step(&mut self) {
        self.step(Some(actor(1, "agent").actor_id()), Some(1));
    }

    fn bytes(&self) -> Vec<u8> {
        let lines = self.records.iter().map(|record| record.to_line().unwrap());
        lines
            .flat_map(|line| [line, b"\n".to_vec()].concat())
            .collect()
    }

    /// The same records chained again from the first, as an attacker without a key can do.
    fn rechained(records: Vec<StepRecord>) -> Self {
        let mut ledger = Self::default();
        for record in records {
            let signature = record.signature.clone();
            ledger.push(record, None);
            ledger.records.last_mut().unwrap().signature = signature;
        }
        ledger
    }

    fn head(&self) -> Expectation {
        let last = self.records.last().unwrap().record_hash.unwrap();
        let head = head_of(&run(), self.records.len() as u64, last).unwrap();
        Expectation::remembered(ExpectedHead::Head(head))
    }

    fn judged(&self, trust: &Trust, expect: Option<Expectation>) -> Outcome {
        let options = ChainOptions {
            expect: expect.into_iter().collect(),
            all_signed: trust.pinned.is_some(),
            ..ChainOptions::default()
        };
        judge(&self.bytes(), options, &Judging::new(trust, at(100)))
    }

    fn says(&self, trust: &Trust) -> (Verdict, Vec<&'static str>) {
        let report = self.judged(trust, None).report;
        let codes = report.findings.iter().map(|finding| finding.code.as_str());
        (report.verdict, codes.collect())
    }
}

fn sign(hash: &Digest, by: u8) -> String {
    RecordSignature::sign(hash, &signer(by))
        .unwrap()
        .to_string()
}

fn holds(ledger: &Ledger, trust: &Trust, verdict: Verdict, code: &str) {
    let (said, codes) = ledger.says(trust);
    assert_eq!(said, verdict, "{code}: {codes:?}");
    assert!(codes.contains(&code), "{code}: {codes:?}");
}

fn three() -> Ledger {
    let mut ledger = Ledger::signed();
    ledger.agent_step();
    ledger.agent_step();
    ledger
}

#[test]
fn a_signed_ledger_is_verified_only_with_a_head_that_is_known() {
    let ledger = three();
    holds(&ledger, &trust(&[1]), Verdict::Open, "head_unknown");
    holds(&ledger, &trust(&[]), Verdict::UnknownSigner, "key_unknown");
    let outcome = ledger.judged(&trust(&[1]), Some(ledger.head()));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(outcome.report.completeness, Completeness::Head);
    assert_eq!(outcome.report.profile, "threadseal");
    assert_eq!(outcome.report.trusted_until.unwrap().line, 3);
    let coverage = outcome.verified.unwrap();
    assert_eq!(coverage.get().signers, [*signer(1).public_key()]);
    // The signatures cover the records signed since the head.
    let mut longer = ledger.clone();
    longer.agent_step();
    let outcome = longer.judged(&trust(&[1]), Some(ledger.head()));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
}

#[test]
fn the_pinned_key_signs_every_record() {
    let pinned = |seed| Trust::key(*signer(seed).public_key());
    let mut ledger = three();
    holds(&ledger, &pinned(1), Verdict::Open, "head_unknown");
    holds(&ledger, &pinned(2), Verdict::Forged, "key_not_pinned");
    ledger.records[1].signature = None;
    holds(&ledger, &pinned(1), Verdict::Tampered, "signature_missing");
}

// T-LED-22
#[test]
fn a_stripped_signature_is_tampering_and_a_foreign_one_forgery() {
    let trust = trust(&[1, 2]);
    let mut stripped = three();
    stripped.records[2].signature = None;
    holds(&stripped, &trust, Verdict::Tampered, "signature_missing");
    let mut spoiled = three();
    spoiled.records[1].signature = Some("ed25519:x".into());
    holds(&spoiled, &trust, Verdict::Forged, "signature_unreadable");
    let mut moved = three();
    moved.records[1].signature = moved.records[2].signature.clone();
    holds(&moved, &trust, Verdict::Forged, "signature_bad");
    let mut other = three();
    other.records[1].signature = Some(sign(&other.records[1].record_hash.unwrap(), 2));
    holds(&other, &trust, Verdict::Forged, "actor_differs");
    let mut unnamed = three();
    unnamed.step(Some("ar_somebody"), Some(2));
    holds(&unnamed, &trust, Verdict::Forged, "actor_unnamed");
}

// T-LED-23
#[test]
fn a_record_that_is_chained_again_keeps_no_good_signature() {
    let mut records = three().records;
    records[1].error = Some("never happened".into());
    let forged = Ledger::rechained(records);
    holds(&forged, &trust(&[1]), Verdict::Forged, "signature_bad");
    let mut records = three().records;
    records.remove(1);
    let cut = Ledger::rechained(records);
    holds(&cut, &trust(&[1]), Verdict::Forged, "signature_bad");
}

// T-LED-24
#[test]
fn a_beginning_that_is_spelled_with_escapes_still_counts() {
    let mut ledger = three();
    for record in &mut ledger.records {
        record.signature = None;
    }
    let text = String::from_utf8(ledger.bytes()).unwrap();
    let hidden = text.replace("threadseal.genesis", "thread\\u0073eal.genesis");
    assert_ne!(hidden, text);
    let judging = trust(&[1]);
    let judging = Judging::new(&judging, at(100));
    let report = judge(hidden.as_bytes(), ChainOptions::default(), &judging).report;
    assert_eq!(report.verdict, Verdict::Tampered);
}

// T-LED-26
#[test]
fn a_human_answers_in_his_own_name_once_the_ledger_names_him() {
    let human = actor(2, "human");
    let agent = actor(1, "agent").actor_id().to_owned();
    let mut ledger = three();
    let mut joining = Actors::default();
    joining.add(human.clone()).unwrap();
    ledger.push(
        joining.to_record(run(), "join", agent.clone(), at(3)),
        Some(1),
    );
    ledger.step(Some(human.actor_id()), Some(2));
    let outcome = ledger.judged(&trust(&[1, 2]), Some(ledger.head()));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    // The agent cannot sign for the human, and no actor names itself.
    ledger.step(Some(human.actor_id()), Some(1));
    holds(&ledger, &trust(&[1, 2]), Verdict::Forged, "actor_differs");
    let mut intruder = three();
    intruder.push(
        joining.to_record(run(), "join", human.actor_id(), at(3)),
        Some(2),
    );
    holds(&intruder, &trust(&[1, 2]), Verdict::Forged, "actor_unnamed");
}

#[test]
fn signatures_that_nobody_demands_cover_what_they_cover() {
    let trust = trust(&[1]);
    let mut ledger = Ledger::default();
    ledger.step(None, None);
    ledger.step(None, Some(1));
    holds(&ledger, &trust, Verdict::Partial, "record_unsigned");
    let mut tail = Ledger::default();
    tail.step(None, Some(1));
    tail.step(None, None);
    holds(&tail, &trust, Verdict::UnsignedTail, "unsigned_tail");
    let outcome = tail.judged(&trust, Some(tail.head()));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
}

#[test]
fn a_beginning_stands_at_the_beginning() {
    let mut ledger = three();
    let again = ledger.records[0].clone();
    ledger.push(again, Some(1));
    holds(
        &ledger,
        &trust(&[1]),
        Verdict::Tampered,
        "genesis_misplaced",
    );
    let mut spoiled = three().records;
    let effect = spoiled[0].effect.as_mut().unwrap();
    effect.payload = threadseal_core::canon::json::Value::Null;
    let spoiled = Ledger::rechained(spoiled);
    let (_, codes) = spoiled.says(&trust(&[1]));
    assert!(codes.contains(&"genesis_bad"), "{codes:?}");
}

#[test]
fn a_signer_who_is_gone_is_missed_on_the_host_that_knew_him() {
    let mut unsigned = three().records;
    for record in &mut unsigned {
        record.signature = None;
    }
    unsigned.remove(0);
    let bytes = Ledger::rechained(unsigned).bytes();
    let trust = trust(&[1]);
    let known = [signer_name(signer(1).public_key())];
    let judging = Judging {
        signers: &known,
        ..Judging::new(&trust, at(100))
    };
    let report = judge(&bytes, ChainOptions::default(), &judging).report;
    assert_eq!(report.verdict, Verdict::Tampered);
    assert!(
        report
            .findings
            .iter()
            .any(|found| found.code == "signatures_gone")
    );
}

/// An unsigned ledger of three records, and a head of it by key 1.
fn sealed() -> (Ledger, HeadStatement) {
    let mut ledger = Ledger::default();
    for _ in 0..3 {
        ledger.step(None, None);
    }
    let bytes = ledger.bytes();
    let statement = HeadStatement {
        run: run(),
        count: 3,
        hash: ledger.records[2].record_hash.unwrap(),
        at: at(50),
        first: None,
        last: None,
        file: Some(FileDigest {
            sha256: Digest::of(&bytes),
            bytes: bytes.len() as u64,
        }),
    };
    (ledger, statement)
}

fn under(bytes: &[u8], head: &SignedHead, trust: &Trust) -> (Verdict, Vec<&'static str>) {
    let options = ChainOptions {
        signed_head: head.statement.head(),
        ..ChainOptions::default()
    };
    let length = head.statement.file.map_or(0, |file| file.bytes);
    let beginning = &bytes[..bytes.len().min(usize::try_from(length).unwrap())];
    let judging = Judging {
        signed_head: Some(HeadAtHand {
            head,
            file: Some(FileDigest {
                sha256: Digest::of(beginning),
                bytes: beginning.len() as u64,
            }),
        }),
        ..Judging::new(trust, at(100))
    };
    let report = judge(bytes, options, &judging).report;
    let codes = report.findings.iter().map(|finding| finding.code.as_str());
    (report.verdict, codes.collect())
}

// T-LED-01 T-LED-21
#[test]
fn a_signed_head_seals_a_chain_that_nobody_signed() {
    let (ledger, statement) = sealed();
    let note = statement.sign(&signer(1)).unwrap().to_string();
    let head = SignedHead::parse(&note).unwrap();
    let mine = trust(&[1]);
    assert_eq!(under(&ledger.bytes(), &head, &mine).0, Verdict::Verified);
    let strangers = under(&ledger.bytes(), &head, &trust(&[2]));
    assert_eq!(strangers.0, Verdict::UnknownSigner, "{:?}", strangers.1);

    let says = |bytes: &[u8], head: &SignedHead, verdict, code| {
        let (said, codes) = under(bytes, head, &mine);
        assert_eq!(said, verdict, "{code}: {codes:?}");
        assert!(codes.contains(&code), "{code}: {codes:?}");
    };
    let mut longer = ledger.clone();
    longer.step(None, None);
    says(
        &longer.bytes(),
        &head,
        Verdict::UnsignedTail,
        "unsigned_tail",
    );
    let cut = Ledger {
        records: ledger.records[..2].to_vec(),
    };
    says(&cut.bytes(), &head, Verdict::Truncated, "head_ahead");
    let mut records = ledger.records.clone();
    records[0].error = Some("another story".into());
    let rewritten = Ledger::rechained(records);
    says(&rewritten.bytes(), &head, Verdict::Tampered, "head_broken");
    let blank = [b"\n".to_vec(), ledger.bytes()].concat();
    says(&blank, &head, Verdict::Tampered, "file_differs");
    let foreign = HeadStatement {
        run: RunId::parse("run-2").unwrap(),
        ..statement
    };
    let foreign = foreign.sign(&signer(1)).unwrap().to_string();
    let foreign = SignedHead::parse(&foreign).unwrap();
    says(&ledger.bytes(), &foreign, Verdict::Foreign, "head_foreign");
    let forged = SignedHead::parse(&note.replace("time 2027", "time 2028")).unwrap();
    says(&ledger.bytes(), &forged, Verdict::Forged, "head_forged");
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
    let (bytes, mine) = (ledger.bytes(), trust(&[1]));
    let judged = |bytes: &[u8]| {
        let options = ChainOptions {
            expect: vec![ledger.head()],
            ..ChainOptions::default()
        };
        let outcome = judge(bytes, options, &Judging::new(&mine, at(100)));
        assert_eq!(
            outcome.report.verdict == Verdict::Verified,
            outcome.verified.is_some()
        );
        outcome.report.verdict
    };
    assert_eq!(judged(&bytes), Verdict::Verified);
    for at in 0..bytes.len() {
        for bit in [0x01, 0x04, 0x20, 0x80] {
            let mut flipped = bytes.clone();
            flipped[at] ^= bit;
            if judged(&flipped) == Verdict::Verified {
                assert_eq!(values(&flipped), values(&bytes), "byte {at}, bit {bit}");
            }
        }
        // Cuts and doubled bytes, too: the rest must have the same values.
        let cut = [&bytes[..at], &bytes[at + 1..]].concat();
        let doubled = [&bytes[..=at], &bytes[at..]].concat();
        for changed in [cut, doubled, bytes[..at].to_vec()] {
            if judged(&changed) == Verdict::Verified {
                assert_eq!(values(&changed), values(&bytes), "byte {at}");
            }
        }
    }
}

#[test]
fn every_byte_of_a_signed_head_is_noticed() {
    let (ledger, statement) = sealed();
    let note = statement.sign(&signer(1)).unwrap().to_string();
    let (bytes, mine) = (ledger.bytes(), trust(&[1]));
    for at in 0..note.len() {
        for bit in [0x01, 0x04, 0x20] {
            let mut flipped = note.clone().into_bytes();
            flipped[at] ^= bit;
            let text = String::from_utf8(flipped).unwrap_or_default();
            if let Ok(head) = SignedHead::parse(&text) {
                let (verdict, codes) = under(&bytes, &head, &mine);
                assert_ne!(
                    verdict,
                    Verdict::Verified,
                    "byte {at}, bit {bit}: {codes:?}"
                );
            }
        }
    }
}

// T-LED-25
#[test]
fn a_beginning_that_is_too_large_to_read_is_told_and_never_passed_over() {
    let agent = actor(1, "agent").actor_id().to_owned();
    let mut genesis = Genesis::new(RecordId::from_bytes([9; 32]), at(0));
    genesis.actors.add(actor(1, "agent")).unwrap();
    genesis.workflow_id = Some("w".repeat(5 << 20));
    let mut ledger = Ledger::default();
    ledger.push(genesis.to_record(run(), "s0", Some(agent.clone())), Some(1));
    // Without its genesis, this record would only be unsigned.
    ledger.step(Some(&agent), None);
    holds(&ledger, &trust(&[1]), Verdict::Malformed, "genesis_bad");

    // Blanks and escapes lengthen a line, but not its hashed form.
    let small = three().bytes();
    let blanks = [b"{".as_slice(), &vec![b' '; 5 << 20], &small[1..]].concat();
    let text = String::from_utf8(blanks).unwrap();
    for padded in [
        text.clone(),
        text.replace("threadseal.genesis", "threadseal.\\u0067enesis"),
    ] {
        let judging = trust(&[1]);
        let judging = Judging::new(&judging, at(100));
        let report = judge(padded.as_bytes(), ChainOptions::default(), &judging).report;
        assert_eq!(report.verdict, Verdict::Malformed);
        assert!(
            report
                .findings
                .iter()
                .any(|found| found.code == "genesis_bad")
        );
    }

    let mut joining = three();
    let mut others = Actors::default();
    others.add(actor(2, "human")).unwrap();
    let mut record = others.to_record(run(), "s9", agent, at(9));
    record.result = Some("x".repeat(5 << 20).as_str().into());
    joining.push(record, Some(1));
    holds(&joining, &trust(&[1, 2]), Verdict::Malformed, "genesis_bad");
    // A record that only mentions a genesis is none.
    let mut speaking = three();
    let agent = actor(1, "agent");
    let mut record = StepRecord::start(run(), "s9", "n", None, at(9));
    record.actor_id = Some(agent.actor_id().to_owned());
    let text = ["\"type\":\"threadseal.genesis\"", &"x".repeat(5 << 20)].concat();
    record.finish_success(Some(text.as_str().into()), at(9));
    speaking.push(record, Some(1));
    holds(&speaking, &trust(&[1]), Verdict::Open, "head_unknown");
}

// T-LED-05
#[test]
fn a_record_whose_run_id_is_no_name_of_a_run_is_of_another_run() {
    let mut ledger = three();
    ledger.agent_step();
    let text = String::from_utf8(ledger.bytes()).unwrap();
    let at_last = text.rfind("\"run_id\":\"run-1\"").unwrap();
    let (before, last) = text.split_at(at_last);
    for odd in ["run-1\\n", "", &"r".repeat(600)] {
        let last = last.replacen("run-1", odd, 1);
        let judging = trust(&[1]);
        let judging = Judging::new(&judging, at(100));
        let text = [before, &*last].concat();
        let report = judge(text.as_bytes(), ChainOptions::default(), &judging).report;
        assert!(
            report
                .findings
                .iter()
                .any(|found| found.code == "record_foreign")
        );
    }
}
