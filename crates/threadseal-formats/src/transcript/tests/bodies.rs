//! Records with detached bodies: which parts may be missing, which may not, and the proofs of turns
//! that show bodies.

use super::super::bodies::{
    self, BodiesReader, BodySalt, Detached, Redaction, commitments, detach, header,
};
use super::super::copy;
use super::lines::VerifiedLines;
use super::manifest::Bodies;
use super::*;

/// A record of one turn with two bodies, and its file of bodies.
struct Written<'b> {
    bench: &'b Bench,
    draft: Draft<'b>,
    file: Vec<u8>,
    digests: Vec<Digest>,
}

fn begin(bench: &Bench) -> Draft<'_> {
    let manifest = Manifest {
        bodies: Bodies::Detached,
        ..bench.manifest(7)
    };
    bench.begin_as(manifest, &bench.native)
}

fn written(bench: &Bench) -> Written<'_> {
    let mut draft = begin(bench);
    let (mut file, mut digests) = (header(&draft.sealer.manifest().record), Vec::new());
    for (number, event_type, payload) in [
        (
            1,
            "cognition_in",
            r#"{"text":"my number is 12","role":"user"}"#,
        ),
        (2, "cognition_out", r#"{"text":"noted"}"#),
    ] {
        let out = detached(&draft, number, payload);
        let found = commitments(out.payload.as_bytes()).unwrap();
        digests.extend(found.iter().map(|found| found.digest));
        file.extend(out.entries);
        let event_type = EventType::parse(event_type).unwrap();
        draft
            .add(|sealer, stamp, to| sealer.event(stamp, &event_type, &out.payload, to))
            .unwrap();
    }
    draft.finish(1);
    Written {
        bench,
        draft,
        file,
        digests,
    }
}

fn detached(draft: &Draft<'_>, salt: u8, text: &str) -> Detached {
    let mut salt = || Ok(BodySalt::from_bytes([salt; 32]));
    detach(&draft.sealer.manifest().record, &payload(text), &mut salt).unwrap()
}

fn redaction(commitments: Vec<Digest>, key: &LocalSigner) -> Redaction {
    Redaction {
        commitments,
        key: key.public_key().key_id(),
        by: "Ada".to_owned(),
        why: "a number".to_owned(),
    }
}

impl<'b> Written<'b> {
    fn redact(&mut self, which: &[usize]) {
        let which = which.iter().map(|at| self.digests[*at]).collect();
        self.redact_by(&redaction(which, &self.bench.native));
    }

    fn redact_by(&mut self, redaction: &Redaction) {
        self.draft
            .add(|sealer, stamp, out| sealer.redacted(stamp, redaction, out))
            .unwrap();
        self.draft.seal(1);
    }

    /// The file of bodies without the bodies at these places.
    fn without(&self, which: &[usize]) -> Vec<u8> {
        let lines = lines_of(&self.file).into_iter().enumerate();
        let kept = lines.filter(|(at, _)| *at == 0 || !which.contains(&(at - 1)));
        kept.flat_map(|(_, line)| line.to_vec()).collect()
    }

    /// The record with this file of bodies; None where it was not read.
    fn judged(&self, file: Option<&[u8]>) -> Outcome {
        judged(self.bench, &self.draft.bytes, file)
    }

    fn shown(&self, file: &[u8]) -> String {
        shown(&self.judged(Some(file)).report)
    }

    fn prove(&self) -> WithBodies {
        let verified = self.judged(Some(&self.file)).verified.unwrap();
        let proof = TurnProof::make(&verified, &self.draft.bytes, 1).unwrap();
        proof.with_bodies(&self.draft.bytes, &self.file).unwrap()
    }
}

fn judged(bench: &Bench, record: &[u8], file: Option<&[u8]>) -> Outcome {
    let read = |file| {
        let mut reader = BodiesReader::new();
        reader.push(file);
        Arc::new(reader.finish())
    };
    let scan = ScanOptions {
        bodies: file.map(read),
        ..ScanOptions::default()
    };
    verify(record, &scan, &bench.options())
}

// T-RED-01
#[test]
fn a_record_with_all_bodies_is_verified_and_without_them_it_is_not() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let unread = written.judged(None).report;
    assert_eq!(shown(&unread), "partial: bodies_unread");
    for (file, expected) in [
        (written.file.clone(), "verified"),
        (b"".to_vec(), "tampered: body_missing, body_missing"),
        (written.without(&[0]), "tampered: body_missing"),
    ] {
        assert_eq!(written.shown(&file), expected);
    }
    // A redaction explains its own hole and no other.
    written.redact(&[0]);
    for (file, expected) in [
        (written.without(&[0]), "verified: redacted"),
        (written.without(&[0, 1]), "tampered: redacted, body_missing"),
        (
            written.file.clone(),
            "verified: redacted, redaction_unfinished",
        ),
    ] {
        assert_eq!(written.shown(&file), expected);
    }
}

// T-RED-08
#[test]
fn every_seal_made_before_a_redaction_still_holds() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let older = *written.draft.sealer.head().unwrap();
    let before = written.draft.bytes.clone();
    written.redact(&[0, 1]);
    assert!(written.draft.bytes.starts_with(&before));
    let scan = ScanOptions {
        bodies: Some(Arc::new(bodies::Bodies::absent())),
        expect: vec![Expectation::remembered(ExpectedHead::Head(older))],
        every_signature: true,
    };
    let report = verify(&written.draft.bytes, &scan, &bench.options()).report;
    assert_eq!(report.verdict, Verdict::Verified);
    assert_eq!(report.completeness, Completeness::Final);
}

// T-RED-02
#[test]
fn a_redaction_that_no_seal_covers_excuses_nothing() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let sealed = written.draft.bytes.len();
    written.redact(&[0]);
    let lines = lines_of(&written.draft.bytes);
    let unsealed = lines[..lines.len() - 1].concat();
    assert!(unsealed.len() > sealed);
    let outcome = judged(&bench, &unsealed, Some(&written.without(&[0])));
    is(&outcome.report, Verdict::Tampered, "body_missing");
}

// T-RED-10
#[test]
fn a_redaction_in_a_tail_that_was_taken_over_hides_nothing() {
    let bench = Bench::new();
    let mut written = written(&bench);
    let redaction = redaction(vec![written.digests[0]], &bench.native);
    written.draft.adopt(|tail| {
        tail.add(|sealer, stamp, out| sealer.redacted(stamp, &redaction, out))
            .unwrap();
    });
    written.draft.seal(1);
    let report = written.judged(Some(&written.file)).report;
    assert_eq!(report.verdict, Verdict::Partial);
    let (record, file) = (written.draft.sealer.manifest().record, written.file.clone());
    let mut reader = bodies::Restorer::new(&record, &file);
    let note = |reader: &mut bodies::Restorer<'_>, record: &[u8]| {
        let lines = record.split(|byte| *byte == b'\n');
        lines.for_each(|line| reader.note(line));
    };
    note(&mut reader, &written.draft.bytes);
    assert!(reader.text_of(&written.digests[0]).is_some());
    // Repeated under a seal, it counts.
    written.redact(&[0]);
    note(&mut reader, &written.draft.bytes);
    assert!(reader.text_of(&written.digests[0]).is_none());
}

// T-RED-21
#[test]
fn a_copy_without_the_line_of_a_redacted_body_is_no_worse_than_any_copy() {
    let bench = Bench::new();
    let mut written = written(&bench);
    written.redact(&[0]);
    let verified = written.judged(Some(&written.without(&[0]))).verified;
    // Line 3 has the body. A whole record still may not redact a body that it never recorded: see
    // the next test.
    for out in [3, 4] {
        let copied = copy::make(
            verified.as_ref().unwrap(),
            &written.draft.bytes,
            &|line, _| line == out,
        );
        let report = copy::check(&copied.unwrap(), &bench.options()).report;
        is(&report, Verdict::Partial, "");
    }
}

// T-RED-02
#[test]
fn a_redaction_names_what_was_recorded_and_who_seals_it() {
    let bench = Bench::new();
    let recorded = written(&bench).digests[0];
    for (digest, key, code) in [
        (Digest::of(b"never"), &bench.native, "event_malformed"),
        (recorded, &native(9), "redactor_differs"),
    ] {
        let mut written = written(&bench);
        written.redact_by(&redaction(vec![digest], key));
        let report = written.judged(Some(&written.file)).report;
        is(&report, Verdict::Tampered, code);
    }
}

#[test]
fn an_inline_record_cannot_be_redacted() {
    let bench = Bench::new();
    let redaction = redaction(vec![Digest::of(b"x")], &bench.native);
    let refused = bench
        .begin(7)
        .add(|sealer, stamp, out| sealer.redacted(stamp, &redaction, out));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("its bodies are inline"), "{refused}");
}

// T-RED-03
#[test]
fn every_byte_of_the_file_of_bodies_counts() {
    let bench = Bench::new();
    let written = written(&bench);
    let verdict = |file: &[u8]| written.judged(Some(file)).report.verdict;
    for at in 0..written.file.len() {
        for flip in [1, 0x80] {
            let mut bad = written.file.clone();
            bad[at] ^= flip;
            assert_eq!(verdict(&bad), Verdict::Tampered, "{at} {flip}");
        }
        // Without the last LF, the last body is missing.
        assert_eq!(verdict(&written.file[..at]), Verdict::Tampered, "{at}");
    }
    let moved = [&header(&RecordId::from_bytes([8; 32]))[..], &written.file].concat();
    let report = written.judged(Some(&moved)).report;
    assert!(codes(&report).contains(&"bodies_foreign"));
}

// T-RED-04
#[test]
fn bodies_that_nobody_committed_to_are_told_and_never_shown() {
    let bench = Bench::new();
    let written = written(&bench);
    let extra = detached(&written.draft, 77, r#"{"text":"slipped in"}"#);
    let more = [&written.file[..], &extra.entries].concat();
    let outcome = written.judged(Some(&more));
    assert_eq!(shown(&outcome.report), "verified: body_unknown");
    let verified = outcome.verified.unwrap();
    let lines = VerifiedLines::whole(&verified, &written.draft.bytes, &more).unwrap();
    let text: Vec<u8> = lines.iter().flat_map(|l| l.bytes.into_owned()).collect();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("my number is 12") && !text.contains("slipped in"));
}

// T-RED-12
#[test]
fn readers_get_bodies_in_place_and_the_hole_where_one_was_dropped() {
    let bench = Bench::new();
    let mut written = written(&bench);
    written.redact(&[0]);
    let (record, kept) = (&written.draft.bytes, written.without(&[0]));
    let verified = written.judged(Some(&kept)).verified.unwrap();
    let lines = VerifiedLines::whole(&verified, record, &kept).unwrap();
    let text = format!("{:?}", messages::reconstruct(&lines).unwrap());
    for part in ["[redacted by Ada at 2025-", ": a number]", "noted"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("12"), "{text}");
    // A body removed between verifying and reading is refused.
    let gone = written.without(&[0, 1]);
    assert!(VerifiedLines::whole(&verified, record, &gone).is_err());
    // The unchanged bytes, for checks of the seals.
    let raw = VerifiedLines::open(&verified, record).unwrap();
    let committing = |bytes: &[u8]| !commitments(bytes).unwrap().is_empty();
    assert!(raw.iter().any(|line| committing(&line.bytes)));
}

// T-RED-05
#[test]
fn a_commitment_stands_once() {
    let bench = Bench::new();
    let file = written(&bench).file;
    let mut draft = begin(&bench);
    let again = detached(&draft, 1, r#"{"text":"my number is 12"}"#);
    let event_type = EventType::parse("cognition_in").unwrap();
    for _ in 0..2 {
        draft
            .add(|sealer, stamp, out| sealer.event(stamp, &event_type, &again.payload, out))
            .unwrap();
    }
    draft.seal(1);
    let report = judged(&bench, &draft.bytes, Some(&file)).report;
    assert_eq!(first(&report), "tampered: event_malformed");
}

fn look(bench: &Bench, text: &str) -> Checked {
    check_file(text.as_bytes(), &bench.options())
}

/// The text of the lines that a proof shows.
fn text_of(checked: &Checked) -> String {
    checked.lines.iter().map(ShownLine::said).collect()
}

/// The proof's text with its lines of bodies replaced by these.
fn with(text: &str, bodies: &[&str]) -> String {
    let lines = text.split_inclusive('\n');
    let others: String = lines.filter(|line| !line.starts_with("body ")).collect();
    others + &bodies.concat()
}

fn bodies_of(text: &str) -> Vec<&str> {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| line.starts_with("body ")).collect()
}

// T-PRF-15
#[test]
fn a_proof_carries_the_bodies_of_its_turn_and_says_where_it_does_not() {
    let bench = Bench::new();
    let whole = written(&bench).prove();
    assert!(whole.redacted.is_empty());
    let text = whole.proof.to_string();
    let checked = look(&bench, &text);
    assert_eq!(shown(&checked.report), "verified");
    assert!(text_of(&checked).contains("my number is 12"));
    // One is left out: the other is shown.
    let checked = look(&bench, &with(&text, &bodies_of(&text)[1..]));
    assert_eq!(shown(&checked.report), "partial: bodies_unread");
    let text = text_of(&checked);
    assert!(text.contains("noted") && text.contains("[the body is not in the proof]"));
    assert!(!text.contains("my number"), "{text}");
}

// T-PRF-14
#[test]
fn a_body_that_no_line_of_the_turn_commits_to_is_evidence() {
    let bench = Bench::new();
    let text = written(&bench).prove().proof.to_string();
    let [one, two] = bodies_of(&text)[..] else {
        panic!("{text}")
    };
    // A record with inline texts commits to no body.
    let inline = rotated(&bench, 7);
    let inline = TurnProof::make(&bench.verified(&inline), &inline, 2).unwrap();
    for (change, text) in [
        (
            "another text",
            with(&text, &[&one.replace("12", "13"), two]),
        ),
        (
            "another salt",
            with(
                &text,
                &[&one.replace("\"salt\":\"01", "\"salt\":\"02"), two],
            ),
        ),
        (
            "the body of another commitment",
            with(&text, &[&one.replace("my number is 12", "noted"), two]),
        ),
        ("another order", with(&text, &[two, one])),
        ("the first twice", with(&text, &[one, one, two])),
        ("the second twice", with(&text, &[one, two, two])),
        ("inline", with(&inline.to_string(), &[one])),
    ] {
        let checked = look(&bench, &text);
        let found = shown(&checked.report);
        assert_eq!(found, "tampered: body_changed", "{change}");
        assert!(checked.lines.is_empty(), "{change}");
    }
    let misspelled = with(&text, &[&one.replace("\"salt\"", "\"sold\"")]);
    let report = look(&bench, &misspelled).report;
    assert_eq!(shown(&report), "malformed: proof_malformed");
}

// T-PRF-16
#[test]
fn a_redacted_body_is_in_no_proof_and_the_turn_that_redacts_it_says_so() {
    let bench = Bench::new();
    let mut written = written(&bench);
    written.redact(&[0]);
    // The file still has it, as after a crash.
    let proof = written.prove();
    assert_eq!(proof.redacted.len(), 1);
    assert!(proof.redacted.first().unwrap().contains("redacted by Ada"));
    let text = proof.proof.to_string();
    assert!(!text.contains("my number is 12"), "{text}");
    let checked = look(&bench, &text);
    assert_eq!(shown(&checked.report), "verified: redacted");
    let text = text_of(&checked);
    assert!(text.contains("[redacted by Ada at ") && text.contains("noted"));
}
