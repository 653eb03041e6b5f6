//! The lines that a writer may add, and where it continues.

use super::lines::{VerifiedLine, VerifiedLines};
use super::*;
use threadseal_core::limits::{MAX_FINDINGS, MAX_LINE_BYTES};

// T-TRA-18
#[test]
fn callers_may_not_write_the_recorders_events_nor_after_the_end() {
    let bench = Bench::new();
    let mut draft = bench.begin(4);
    let refused = |draft: &Draft<'_>, event_type: &str| {
        let event_type = EventType::parse(event_type).unwrap();
        let nothing = payload("{}");
        draft
            .clone()
            .add(|sealer, stamp, out| sealer.event(stamp, &event_type, &nothing, out))
            .is_err()
    };
    for reserved in event::RESERVED {
        assert!(refused(&draft, reserved), "{reserved}");
    }
    draft.finish(1);
    assert!(refused(&draft, "cognition_in"));
    let nothing = payload("{}");
    draft
        .add(|sealer, stamp, out| sealer.link(stamp, Link::Handoff, &nothing, out))
        .unwrap();
    assert_eq!(draft.verdict(), Verdict::UnsignedTail);
    draft.seal(1);
    assert_eq!(draft.verdict(), Verdict::Verified);
}

// T-TRA-21
#[test]
fn a_writer_goes_on_from_a_verified_end_and_marks_what_it_adopts() {
    let bench = Bench::new();
    let mut draft = bench.begin(4);
    draft.event("cognition_in", "{}");
    draft.seal(1);
    let sealed = draft.bytes.clone();
    let mut torn = Draft::reopened(&bench, &sealed);
    torn.event("cognition_out", "{}");
    assert!(bench.verify(&torn.bytes).sealer.is_none());
    let tail = [&torn.bytes[sealed.len()..], b"{\"torn"].concat();

    let mut dropping = Draft::reopened(&bench, &sealed);
    let (length, digest) = (tail.len() as u64, Digest::of(&tail));
    dropping
        .add(|sealer, stamp, out| sealer.tail_dropped(stamp, length, &digest, out))
        .unwrap();
    dropping.finish(1);
    is(&dropping.report(), Verdict::Verified, "tail_dropped");

    let mut adopting = Draft::reopened(&bench, &sealed);
    adopting.bytes.extend_from_slice(&tail);
    adopting
        .add(|sealer, stamp, out| sealer.tail_adopted(stamp, &tail, out))
        .unwrap();
    adopting.finish(1);
    let report = adopting.report();
    is(&report, Verdict::Partial, "");
    let adopted = [sealed.len(), sealed.len() + tail.len() + 1].map(|at| at as u64);
    assert!(report.findings.iter().any(|f| f.bytes == Some(adopted)));
}

// T-TRA-43
#[test]
fn no_line_of_many_adopted_tails_counts_as_sealed() {
    let bench = Bench::new();
    let mut draft = bench.begin(4);
    let tails = 2 * MAX_FINDINGS + 2;
    for turn in 1..=tails {
        draft.adopt(|tail| tail.event("cognition_in", r#"{"text":"forged"}"#));
        draft.event("cognition_in", r#"{"text":"recorded"}"#);
        draft.seal(turn as u64);
    }
    draft.finish(tails as u64);
    let outcome = bench.verify(&draft.bytes);
    is(&outcome.report, Verdict::Partial, "more_findings");
    let part = outcome.lenient().unwrap();
    let lines = VerifiedLines::open(&part.verified, &draft.bytes).unwrap();
    let has = |line: &VerifiedLine<'_>, text: &str| {
        line.bytes
            .windows(text.len())
            .any(|at| at == text.as_bytes())
    };
    assert!(!lines.iter().any(|line| has(&line, "forged")));
    assert_eq!(
        lines.iter().filter(|line| has(line, "recorded")).count(),
        tails
    );
}

// T-FLT-04
#[test]
fn a_fencing_token_stands_in_each_seal_and_a_lower_one_is_refused_and_found() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let (thread, manifest) = (thread_id("demo/t-1"), bench.manifest(5));
    let (stamps, signers) = ([bench.stamp(), bench.stamp()], bench.by(&bench.native));
    Sealer::begin_under(Some(3), thread, manifest, stamps, signers, &mut bytes).unwrap();
    let mut draft = Draft::reopened(&bench, &bytes);
    draft.event("cognition_in", "{}");
    draft.seal(1);
    let fenced = |line: &&str| line.contains(r#""ext":{"fence":3}"#);
    assert_eq!(texts_of(&draft.bytes).into_iter().filter(fenced).count(), 2);
    let mut again = Draft::reopened(&bench, &draft.bytes);
    assert_eq!(again.sealer.fence(), Some(3));
    assert!(again.sealer.raise_fence(2).is_err());
    again.sealer.raise_fence(4).unwrap();
    again.event("cognition_out", "{}");
    again.seal(1);
    assert_eq!(again.verdict(), Verdict::Open);
    // A writer that had lost the record but seals nevertheless, or leaves its token out.
    for fallen in [Some(3), None] {
        let _row = Row(fallen);
        let mut zombie = again.clone();
        zombie.sealer.fence = fallen;
        zombie.event("cognition_out", "{}");
        zombie.seal(1);
        is(&zombie.report(), Verdict::Tampered, "fence_backwards");
    }
}

// T-TRA-41
#[test]
fn after_the_end_of_a_thread_a_writer_adds_nothing_but_the_final_seal() {
    let bench = Bench::new();
    let mut draft = bench.begin(4);
    draft.end();
    let ended = draft.clone();
    let refused =
        |done: Result<(), Error>| assert_eq!(done.unwrap_err().kind(), ErrorKind::Refused);
    let cost = payload("{}");
    refused(draft.add(|sealer, stamp, out| sealer.end(stamp, Ending::Error, &cost, out)));
    refused(draft.add(|sealer, stamp, out| sealer.link(stamp, Link::Resumed, &cost, out)));
    let signers = bench.by(&bench.native);
    refused(draft.add(|sealer, stamp, out| {
        let sealed = sealer.seal(stamp, 1, false, Ext::default(), signers, out);
        sealed.map(|_| ())
    }));
    assert_eq!(draft.bytes, ended.bytes);
    draft.seal(1);
    assert_eq!(draft.verdict(), Verdict::Verified);
}

/// The recorder kept a torn line and ended it. The digest is of the bytes as they were.
// T-TRA-42
#[test]
fn an_adopted_tail_is_the_one_whose_digest_is_stated() {
    let bench = Bench::new();
    for tail in [&b"{\"torn"[..], b"{\"torn\n", b"one\ntwo"] {
        let mut draft = bench.begin(4);
        let mut lied = draft.clone();
        draft.bytes.extend_from_slice(tail);
        draft
            .add(|sealer, stamp, out| sealer.tail_adopted(stamp, tail, out))
            .unwrap();
        let stated = Digest::of(tail).to_hex();
        let from = lied.bytes.len();
        let other = String::from_utf8(draft.bytes[from..].to_vec()).unwrap();
        let other = other.replace(&stated, &Digest::of(b"another").to_hex());
        assert!(!other.contains(&stated));
        draft.finish(1);
        is(&draft.report(), Verdict::Partial, "");
        // A dishonest recorder, whose seals hold, states another digest.
        lied.sealer.count_lines(&other);
        lied.bytes.extend_from_slice(other.as_bytes());
        lied.finish(1);
        // So the event adopts nothing, and the lines before it belong to no one.
        assert_eq!(first(&lied.report()), "tampered: line_malformed");
    }
    let long = vec![b'x'; MAX_LINE_BYTES];
    let mut draft = bench.begin(4);
    let done = draft.add(|sealer, stamp, out| sealer.tail_adopted(stamp, &long, out));
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Limit);
}
