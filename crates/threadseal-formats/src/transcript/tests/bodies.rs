//! Records with detached bodies: which parts may be missing, and which may not.

use super::super::bodies::{
    self, BodiesReader, BodySalt, Detached, Redaction, commitments, detach, header,
};
use super::lines::VerifiedLines;
use super::manifest::{Bodies, Manifest};
use super::*;
use std::sync::Arc;
use threadseal_core::digest::Digest;

/// A record of one turn with two bodies, and its file of bodies.
pub(super) struct Written {
    pub(super) record: Vec<u8>,
    pub(super) bodies: Vec<u8>,
    sealer: Sealer,
    digests: Vec<Digest>,
}

pub(super) fn written(bench: &Bench) -> Written {
    let manifest = Manifest {
        bodies: Bodies::Detached,
        ..bench.manifest(7)
    };
    let (mut record, mut entries) = (Vec::new(), header(&manifest.record));
    let thread = ThreadId::parse("demo/t-1").unwrap();
    let stamps = [bench.stamp(), bench.stamp()];
    let mut sealer = Sealer::begin(thread, manifest, stamps, bench.signers(), &mut record).unwrap();
    let mut digests = Vec::new();
    for (number, payload) in [
        (1, r#"{"text":"my number is 12","role":"user"}"#),
        (2, r#"{"text":"noted"}"#),
    ] {
        let out = detached(&sealer, number, payload);
        let found = commitments(out.payload.as_bytes()).unwrap();
        digests.extend(found.iter().map(|found| found.digest));
        entries.extend(out.entries);
        let event_type = ["cognition_in", "cognition_out"][usize::from(number) - 1];
        let event_type = EventType::parse(event_type).unwrap();
        sealer
            .event(bench.stamp(), &event_type, &out.payload, &mut record)
            .unwrap();
    }
    bench.finish(&mut sealer, 1, &mut record);
    Written {
        record,
        bodies: entries,
        sealer,
        digests,
    }
}

fn detached(sealer: &Sealer, salt: u8, payload: &str) -> Detached {
    let payload = Payload::parse(payload.as_bytes()).unwrap();
    let mut salt = || Ok(BodySalt::from_bytes([salt; 32]));
    detach(&sealer.manifest().record, &payload, &mut salt).unwrap()
}

impl Written {
    pub(super) fn read(&self) -> Arc<bodies::Bodies> {
        read(&self.bodies)
    }

    pub(super) fn redact(&mut self, bench: &Bench, which: &[usize]) {
        let redaction = Redaction {
            commitments: which.iter().map(|at| self.digests[*at]).collect(),
            key: bench.native.public_key().key_id(),
            by: "Ada".to_owned(),
            why: "a number".to_owned(),
        };
        self.sealer
            .redacted(bench.stamp(), &redaction, &mut self.record)
            .unwrap();
        self.sealer
            .seal(
                bench.stamp(),
                1,
                true,
                Ext::default(),
                bench.signers(),
                &mut self.record,
            )
            .unwrap();
    }

    /// The file of bodies without the bodies at these places.
    fn without(&self, which: &[usize]) -> Vec<u8> {
        let lines = lines_of(&self.bodies).into_iter().enumerate();
        let kept = lines.filter(|(at, _)| *at == 0 || !which.contains(&(at - 1)));
        kept.flat_map(|(_, line)| line.to_vec()).collect()
    }
}

fn read(file: &[u8]) -> Arc<bodies::Bodies> {
    let mut reader = BodiesReader::new();
    reader.push(file);
    Arc::new(reader.finish())
}

fn judged(bench: &Bench, record: &[u8], file: Option<&[u8]>) -> Outcome {
    let bodies = file.map(read);
    let scan = ScanOptions {
        bodies,
        ..ScanOptions::default()
    };
    verify(record, &scan, &bench.options())
}

// T-RED-01
#[test]
fn a_record_with_all_bodies_is_verified_and_without_them_it_is_not() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let look = |file: Option<&[u8]>| {
        let outcome = judged(&bench, &written.record, file);
        (outcome.report.verdict, codes(&outcome))
    };
    assert_eq!(look(Some(&written.bodies)), (Verdict::Verified, vec![]));
    assert_eq!(look(None), (Verdict::Partial, vec!["bodies_unread"]));
    let both = vec!["body_missing", "body_missing"];
    assert_eq!(look(Some(b"")), (Verdict::Tampered, both));
    let missing = (Verdict::Tampered, vec!["body_missing"]);
    assert_eq!(look(Some(&written.without(&[0]))), missing);
    // A redaction explains its own hole and no other.
    written.redact(&bench, &[0]);
    let look = |file: Option<&[u8]>| {
        let outcome = judged(&bench, &written.record, file);
        (outcome.report.verdict, codes(&outcome))
    };
    let told = (Verdict::Verified, vec!["redacted"]);
    assert_eq!(look(Some(&written.without(&[0]))), told);
    let (verdict, codes) = look(Some(&written.without(&[0, 1])));
    assert_eq!(verdict, Verdict::Tampered);
    assert!(codes.contains(&"body_missing"), "{codes:?}");
    let (verdict, codes) = look(Some(&written.bodies));
    assert_eq!(verdict, Verdict::Verified);
    assert!(codes.contains(&"redaction_unfinished"), "{codes:?}");
}

// T-RED-08
#[test]
fn every_seal_made_before_a_redaction_still_holds() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let older = *written.sealer.head().unwrap();
    let before = written.record.clone();
    written.redact(&bench, &[0, 1]);
    assert!(written.record.starts_with(&before));
    let scan = ScanOptions {
        bodies: Some(Arc::new(bodies::Bodies::absent())),
        expect: vec![Expectation::remembered(ExpectedHead::Head(older))],
        every_signature: true,
    };
    let outcome = verify(&written.record, &scan, &bench.options());
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(outcome.report.completeness, Completeness::Final);
}

// T-RED-02
#[test]
fn a_redaction_that_no_seal_covers_excuses_nothing() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let sealed = written.record.len();
    written.redact(&bench, &[0]);
    let lines = lines_of(&written.record);
    let unsealed: Vec<u8> = lines[..lines.len() - 1].concat();
    assert!(unsealed.len() > sealed);
    let outcome = judged(&bench, &unsealed, Some(&written.without(&[0])));
    assert_eq!(outcome.report.verdict, Verdict::Tampered);
    assert!(codes(&outcome).contains(&"body_missing"));
}

// T-RED-10
#[test]
fn a_redaction_in_a_tail_that_was_taken_over_hides_nothing() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let sealed = written.record.len();
    let mut recovered = judged(&bench, &written.record, Some(&written.bodies))
        .sealer
        .unwrap();
    written.redact(&bench, &[0]);
    let lines = lines_of(&written.record);
    let tail = lines[lines.len() - 2];
    let mut record = [&written.record[..sealed], tail].concat();
    recovered
        .tail_adopted(bench.stamp(), tail, &mut record)
        .unwrap();
    let signers = bench.signers();
    recovered
        .seal(bench.stamp(), 1, true, Ext::default(), signers, &mut record)
        .unwrap();
    let outcome = judged(&bench, &record, Some(&written.bodies));
    assert_eq!(outcome.report.verdict, Verdict::Partial);
    let file = written.bodies.clone();
    let mut reader = bodies::Restorer::new(&written.sealer.manifest().record, &file);
    let note = |reader: &mut bodies::Restorer<'_>, record: &[u8]| {
        let lines = record.split(|byte| *byte == b'\n');
        lines.for_each(|line| reader.note(line));
    };
    note(&mut reader, &record);
    assert!(reader.text_of(&written.digests[0]).is_some());
    // Repeated under a seal, it counts.
    written.record = record;
    written.sealer = recovered;
    written.redact(&bench, &[0]);
    note(&mut reader, &written.record);
    assert!(reader.text_of(&written.digests[0]).is_none());
}

// T-RED-21
#[test]
fn a_copy_without_the_line_of_a_redacted_body_is_no_worse_than_any_copy() {
    let bench = Bench::new();
    let mut written = written(&bench);
    written.redact(&bench, &[0]);
    let verified = judged(&bench, &written.record, Some(&written.without(&[0])));
    let verified = verified.verified.unwrap();
    let copied =
        super::super::copy::make(&verified, &written.record, &|line, _| line == 3).unwrap();
    let report = super::super::copy::check(&copied, &bench.options()).report;
    assert_eq!(report.verdict, Verdict::Partial, "{:?}", report.findings);
    // A whole record still may not redact a body that it never recorded: see the test above.
    let shown = super::super::copy::make(&verified, &written.record, &|line, _| line == 4).unwrap();
    let report = super::super::copy::check(&shown, &bench.options()).report;
    assert_eq!(report.verdict, Verdict::Partial, "{:?}", report.findings);
}

// T-RED-02
#[test]
fn a_redaction_names_what_was_recorded_and_who_seals_it() {
    let bench = Bench::new();
    let redaction = |digest, key| Redaction {
        commitments: vec![digest],
        key,
        by: "Ada".to_owned(),
        why: "a number".to_owned(),
    };
    let own = bench.native.public_key().key_id();
    let other = signer(9, KeyUsage::Native).public_key().key_id();
    for (digest, key, code) in [
        (Digest::of(b"never"), own, "event_malformed"),
        (written(&bench).digests[0], other, "redactor_differs"),
    ] {
        let mut written = written(&bench);
        let redaction = redaction(digest, key);
        let out = &mut written.record;
        written
            .sealer
            .redacted(bench.stamp(), &redaction, out)
            .unwrap();
        written
            .sealer
            .seal(bench.stamp(), 1, true, Ext::default(), bench.signers(), out)
            .unwrap();
        let outcome = judged(&bench, &written.record, Some(&written.bodies));
        assert_eq!(outcome.report.verdict, Verdict::Tampered, "{code}");
        assert!(codes(&outcome).contains(&code), "{:?}", codes(&outcome));
    }
}

#[test]
fn an_inline_record_cannot_be_redacted() {
    let bench = Bench::new();
    let mut out = Vec::new();
    let mut sealer = bench.begin(7, &mut out);
    let redaction = Redaction {
        commitments: vec![Digest::of(b"x")],
        key: bench.native.public_key().key_id(),
        by: "Ada".to_owned(),
        why: "a number".to_owned(),
    };
    let refused = sealer.redacted(bench.stamp(), &redaction, &mut out);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("its bodies are inline"), "{refused}");
}

// T-RED-03
#[test]
fn every_byte_of_the_file_of_bodies_counts() {
    let bench = Bench::new();
    let written = written(&bench);
    for at in 0..written.bodies.len() {
        for flip in [1, 0x80] {
            let mut bad = written.bodies.clone();
            bad[at] ^= flip;
            let outcome = judged(&bench, &written.record, Some(&bad));
            assert_eq!(outcome.report.verdict, Verdict::Tampered, "{at} {flip}");
        }
        let cut = judged(&bench, &written.record, Some(&written.bodies[..at]));
        assert_eq!(cut.report.verdict, Verdict::Tampered, "{at}");
    }
    // Without the last LF, the last body is missing.
    let moved = [&header(&RecordId::from_bytes([8; 32]))[..], &written.bodies].concat();
    let outcome = judged(&bench, &written.record, Some(&moved));
    assert!(codes(&outcome).contains(&"bodies_foreign"));
}

// T-RED-04
#[test]
fn bodies_that_nobody_committed_to_are_told_and_never_shown() {
    let bench = Bench::new();
    let written = written(&bench);
    let extra = detached(&written.sealer, 77, r#"{"text":"slipped in"}"#);
    let more = [&written.bodies[..], &extra.entries].concat();
    let outcome = judged(&bench, &written.record, Some(&more));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(codes(&outcome), ["body_unknown"]);
    let verified = outcome.verified.unwrap();
    let lines = VerifiedLines::whole(&verified, &written.record, &more).unwrap();
    let shown: Vec<u8> = lines.iter().flat_map(|l| l.bytes.into_owned()).collect();
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("my number is 12") && !shown.contains("slipped in"));
}

// T-RED-12
#[test]
fn readers_get_bodies_in_place_and_the_hole_where_one_was_dropped() {
    let bench = Bench::new();
    let mut written = written(&bench);
    written.redact(&bench, &[0]);
    let kept = written.without(&[0]);
    let verified = judged(&bench, &written.record, Some(&kept))
        .verified
        .unwrap();
    let lines = VerifiedLines::whole(&verified, &written.record, &kept).unwrap();
    let said = format!("{:?}", messages::reconstruct(&lines).unwrap());
    assert!(said.contains("[redacted by Ada at 2025-"), "{said}");
    assert!(
        said.contains(": a number]") && said.contains("noted"),
        "{said}"
    );
    assert!(!said.contains("12"), "{said}");
    // A body removed between verifying and reading is refused.
    let gone = written.without(&[0, 1]);
    assert!(VerifiedLines::whole(&verified, &written.record, &gone).is_err());
    // The unchanged bytes, for checks of the seals.
    let raw = VerifiedLines::open(&verified, &written.record).unwrap();
    assert!(
        raw.iter()
            .any(|line| !commitments(&line.bytes).unwrap().is_empty())
    );
}

// T-RED-05
#[test]
fn a_commitment_stands_once() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let again = detached(&written.sealer, 1, r#"{"text":"my number is 12"}"#);
    let mut record = Vec::new();
    let manifest = written.sealer.manifest().clone();
    let thread = ThreadId::parse("demo/t-1").unwrap();
    let stamps = [bench.stamp(), bench.stamp()];
    written.sealer = Sealer::begin(thread, manifest, stamps, bench.signers(), &mut record).unwrap();
    for _ in 0..2 {
        let event_type = EventType::parse("cognition_in").unwrap();
        let sealer = &mut written.sealer;
        sealer
            .event(bench.stamp(), &event_type, &again.payload, &mut record)
            .unwrap();
    }
    bench.seal(&mut written.sealer, 1, &mut record);
    let outcome = judged(&bench, &record, Some(&written.bodies));
    assert_eq!(outcome.report.verdict, Verdict::Tampered);
    assert_eq!(codes(&outcome)[0], "event_malformed");
}
