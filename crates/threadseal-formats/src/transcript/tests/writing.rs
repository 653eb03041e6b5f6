//! The lines that a writer may add, and where it continues.

use super::*;

// T-TRA-18
#[test]
fn callers_may_not_write_the_recorders_events_nor_after_the_end() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let payload = Payload::parse(b"{}").unwrap();
    for reserved in event::RESERVED {
        let event_type = EventType::parse(reserved).unwrap();
        assert!(
            sealer
                .event(bench.stamp(), &event_type, &payload, &mut bytes)
                .is_err(),
            "{reserved}"
        );
    }
    bench.finish(&mut sealer, 1, &mut bytes);
    let event_type = EventType::parse("cognition_in").unwrap();
    assert!(
        sealer
            .event(bench.stamp(), &event_type, &payload, &mut bytes)
            .is_err()
    );
    sealer
        .link(bench.stamp(), Link::Handoff, &payload, &mut bytes)
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::UnsignedTail);
    sealer
        .seal(
            bench.stamp(),
            1,
            true,
            Ext::default(),
            bench.signers(),
            &mut bytes,
        )
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Verified);
}

// T-TRA-21
#[test]
fn a_writer_goes_on_from_a_verified_end_and_marks_what_it_adopts() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    bench.seal(&mut sealer, 1, &mut bytes);
    let sealed = bytes.len();
    let mut again = bench.verify(&bytes).sealer.unwrap();
    bench.event(&mut again, "cognition_out", "{}", &mut bytes);
    assert!(bench.verify(&bytes).sealer.is_none());

    let tail = [&bytes.split_off(sealed)[..], b"{\"torn"].concat();
    let mut again = bench.verify(&bytes).sealer.unwrap();
    let mut dropping = bytes.clone();
    let mut dropper = again.clone();
    let digest = threadseal_core::digest::Digest::of(&tail);
    dropper
        .tail_dropped(bench.stamp(), tail.len() as u64, &digest, &mut dropping)
        .unwrap();
    bench.finish(&mut dropper, 1, &mut dropping);
    let outcome = bench.verify(&dropping);
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert!(codes(&outcome).contains(&"tail_dropped"));

    bytes.extend_from_slice(&tail);
    again
        .tail_adopted(bench.stamp(), &tail, &mut bytes)
        .unwrap();
    bench.finish(&mut again, 1, &mut bytes);
    let outcome = bench.verify(&bytes);
    assert_eq!(
        outcome.report.verdict,
        Verdict::Partial,
        "{:?}",
        outcome.report.findings
    );
    let adopted = [sealed as u64, (sealed + tail.len() + 1) as u64];
    assert!(
        outcome
            .report
            .findings
            .iter()
            .any(|f| f.bytes == Some(adopted))
    );
}

// T-FLT-04
#[test]
fn a_fencing_token_stands_in_each_seal_and_a_lower_one_is_refused_and_found() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let thread = ThreadId::parse("demo/t-1").unwrap();
    let stamps = [bench.stamp(), bench.stamp()];
    let manifest = bench.manifest(5);
    let mut sealer = Sealer::begin_under(
        Some(3),
        thread,
        manifest,
        stamps,
        bench.signers(),
        &mut bytes,
    )
    .unwrap();
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    bench.seal(&mut sealer, 1, &mut bytes);
    assert_eq!(
        bytes
            .split(|b| *b == b'\n')
            .filter(|line| {
                let text = String::from_utf8_lossy(line);
                text.contains(r#""ext":{"fence":3}"#)
            })
            .count(),
        2
    );
    let mut again = bench.verify(&bytes).sealer.unwrap();
    assert_eq!(again.fence(), Some(3));
    assert!(again.raise_fence(2).is_err());
    again.raise_fence(4).unwrap();
    bench.event(&mut again, "cognition_out", "{}", &mut bytes);
    bench.seal(&mut again, 1, &mut bytes);
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
    // A writer that had lost the record but seals nevertheless, or leaves its token out.
    for fallen in [Some(3), None] {
        let (mut zombie, mut late) = (again.clone(), bytes.clone());
        zombie.fence = fallen;
        bench.event(&mut zombie, "cognition_out", "{}", &mut late);
        bench.seal(&mut zombie, 1, &mut late);
        let report = bench.verify(&late).report;
        assert_eq!(report.verdict, Verdict::Tampered);
        assert!(
            report
                .findings
                .iter()
                .any(|found| found.code == "fence_backwards")
        );
    }
}
