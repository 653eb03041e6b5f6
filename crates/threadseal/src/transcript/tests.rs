//! Attacks on native records: what must be noticed, and what must not be.

use super::event::{EventType, Payload, Salt};
use super::ext::Ext;
use super::manifest::Manifest;
use super::*;
use crate::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use crate::record::{ExpectedHead, Head, RecordId, ThreadId};
use crate::report::{Completeness, Verdict};
use crate::time::Timestamp;
use crate::trust::{Trust, TrustName, TrustStore, TrustedKey};

/// Everything a test needs to write and verify records.
pub(super) struct Bench {
    native: LocalSigner,
    rye: LocalSigner,
    trust: Trust,
    micros: std::cell::Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        let native = signer(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        store
            .add(TrustedKey::new(
                name,
                *native.public_key(),
                [KeyUsage::Native],
            ))
            .unwrap();
        Self {
            native,
            rye: signer(2, KeyUsage::Rye),
            trust: Trust::new(store),
            micros: std::cell::Cell::new(1_739_820_405_000_000),
        }
    }

    fn stamp(&self) -> Stamp {
        let micros = self.micros.get() + 1_000;
        self.micros.set(micros);
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&micros.to_be_bytes());
        Stamp {
            timestamp: Timestamp::from_micros(micros).unwrap(),
            salt: Salt::from_bytes(salt),
        }
    }

    fn signers(&self) -> Signers<'_> {
        Signers {
            native: &self.native,
            rye: &self.rye,
        }
    }

    fn manifest(&self, record: u8) -> Manifest {
        let id = RecordId::from_bytes([record; 32]);
        Manifest::new(id, *self.native.public_key(), *self.rye.public_key())
    }

    fn begin(&self, record: u8, out: &mut Vec<u8>) -> Sealer {
        let thread = ThreadId::parse("demo/t-1").unwrap();
        let stamps = [self.stamp(), self.stamp()];
        Sealer::begin(thread, self.manifest(record), stamps, self.signers(), out).unwrap()
    }

    fn event(&self, sealer: &mut Sealer, event_type: &str, payload: &str, out: &mut Vec<u8>) {
        let event_type = EventType::parse(event_type).unwrap();
        let payload = Payload::parse(payload.as_bytes()).unwrap();
        sealer
            .event(self.stamp(), &event_type, &payload, out)
            .unwrap();
    }

    fn seal(&self, sealer: &mut Sealer, turn: u64, out: &mut Vec<u8>) -> Head {
        sealer
            .seal(
                self.stamp(),
                turn,
                false,
                Ext::default(),
                self.signers(),
                out,
            )
            .unwrap()
    }

    fn finish(&self, sealer: &mut Sealer, turn: u64, out: &mut Vec<u8>) -> Head {
        let payload = Payload::parse(b"{\"cost\":{}}").unwrap();
        sealer
            .end(self.stamp(), Ending::Completed, &payload, out)
            .unwrap();
        sealer
            .seal(
                self.stamp(),
                turn,
                true,
                Ext::default(),
                self.signers(),
                out,
            )
            .unwrap()
    }

    /// Two turns with a tool call, ended.
    fn record(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sealer = self.begin(7, &mut out);
        for turn in 1..=2 {
            self.event(
                &mut sealer,
                "cognition_in",
                r#"{"text":"go","role":"user"}"#,
                &mut out,
            );
            self.event(
                &mut sealer,
                "cognition_out",
                r#"{"text":"h\u00e9"}"#,
                &mut out,
            );
            if turn == 1 {
                self.seal(&mut sealer, turn, &mut out);
            }
        }
        self.finish(&mut sealer, 2, &mut out);
        out
    }

    fn options(&self) -> VerifyOptions<'_> {
        VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_800_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        }
    }

    fn verify(&self, bytes: &[u8]) -> Outcome {
        verify(bytes, &ScanOptions::default(), &self.options())
    }

    fn verify_expecting(&self, bytes: &[u8], head: ExpectedHead, remembered: bool) -> Outcome {
        let expect = vec![Expectation {
            head,
            exact: false,
            remembered,
        }];
        verify(
            bytes,
            &ScanOptions {
                expect,
                ..ScanOptions::default()
            },
            &self.options(),
        )
    }
}

fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

fn lines_of(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

fn codes(outcome: &Outcome) -> Vec<&'static str> {
    outcome
        .report
        .findings
        .iter()
        .map(|finding| finding.code)
        .collect()
}

#[test]
fn an_ended_record_verifies_and_mints_a_value() {
    let bench = Bench::new();
    let bytes = bench.record();
    let outcome = bench.verify(&bytes);
    assert_eq!(
        outcome.report.verdict,
        Verdict::Verified,
        "{:?}",
        outcome.report
    );
    assert_eq!(outcome.report.completeness, Completeness::Final);
    let verified = outcome.verified.unwrap();
    assert_eq!(verified.get().head.size, bytes.len() as u64);
    assert!(bytes.is_ascii());
}

#[test]
fn a_record_verifies_alike_however_its_bytes_are_cut_into_chunks() {
    let bench = Bench::new();
    let bytes = bench.record();
    for size in [1, 2, 7, 64, 1000, bytes.len()] {
        let mut verifier = Verifier::new(ScanOptions {
            every_signature: true,
            ..ScanOptions::default()
        });
        bytes.chunks(size).for_each(|chunk| verifier.push(chunk));
        let outcome = verifier.finish(&bench.options());
        assert_eq!(
            outcome.report.verdict,
            Verdict::Verified,
            "chunks of {size}"
        );
    }
}

/// The sweep over all 255 other values runs in release mode (`cargo xtask sweep`); here each byte
/// is flipped in its lowest and highest bit and made a line break.
#[test]
fn every_changed_byte_is_noticed() {
    let bench = Bench::new();
    let bytes = bench.record();
    let last_line = bytes.len() - lines_of(&bytes).last().unwrap().len();
    let mut changed = bytes.clone();
    for at in 0..bytes.len() {
        for value in [bytes[at] ^ 1, bytes[at] ^ 0x80, b'\n', b' '] {
            if value == bytes[at] {
                continue;
            }
            changed[at] = value;
            let outcome = bench.verify(&changed);
            let verdict = outcome.report.verdict;
            assert_ne!(verdict, Verdict::Verified, "byte {at} set to {value}");
            assert!(outcome.verified.is_none());
            // The last line, or the line break before it, may become an unsigned tail.
            let at_end = at + 1 >= last_line;
            assert!(
                at_end || verdict.exit_code() == 1,
                "byte {at} set to {value}: {verdict}"
            );
        }
        changed[at] = bytes[at];
    }
}

#[test]
fn a_record_cut_at_any_byte_is_not_verified_and_loses_no_sealed_turn() {
    let bench = Bench::new();
    let bytes = bench.record();
    for length in 0..bytes.len() {
        let outcome = bench.verify(&bytes[..length]);
        assert_ne!(
            outcome.report.verdict,
            Verdict::Verified,
            "cut to {length} bytes"
        );
        if let Some(trusted) = outcome.report.trusted_until {
            assert!(trusted.byte <= length as u64);
        }
    }
}

#[test]
fn lines_deleted_doubled_swapped_or_smuggled_are_tampered() {
    let bench = Bench::new();
    let bytes = bench.record();
    let all = lines_of(&bytes);
    let foreign = br#"{"timestamp":1739820405.000000,"thread_id":"demo/t-1","event_type":"x","salt":"00000000000000000000000000000000","payload":{}}"#;
    for index in 0..all.len() - 1 {
        let mut deleted = all.clone();
        deleted.remove(index);
        let mut doubled = all.clone();
        doubled.insert(index, all[index]);
        let mut swapped = all.clone();
        swapped.swap(index, index + 1);
        let smuggled = [foreign.as_slice(), b"\n"].concat();
        let mut inserted = all.clone();
        inserted.insert(index, &smuggled);
        for attack in [deleted, doubled, swapped, inserted] {
            let verdict = bench.verify(&attack.concat()).report.verdict;
            assert_eq!(verdict.exit_code(), 1, "line {index}: {verdict}");
        }
    }
}

#[test]
fn a_changed_event_names_its_segment_and_how_far_the_record_holds() {
    let bench = Bench::new();
    let text = String::from_utf8(bench.record()).unwrap();
    let changed = text
        .replacen("\"text\":\"go\"", "\"text\":\"no\"", 2)
        .replacen("\"text\":\"no\"", "\"text\":\"go\"", 1);
    let outcome = bench.verify(changed.as_bytes());
    assert_eq!(outcome.report.verdict, Verdict::Tampered);
    let finding = &outcome.report.findings[0];
    let seals: Vec<usize> = lines_of(text.as_bytes())
        .iter()
        .scan(0, |end, line| {
            *end += line.len();
            Some((*end, line.windows(12).any(|w| w == b"\"checkpoint\"")))
        })
        .filter_map(|(end, is_seal)| is_seal.then_some(end))
        .collect();
    assert_eq!(finding.code, "content_changed");
    let from = seals[1] as u64;
    assert_eq!(finding.bytes.unwrap()[0], from);
    assert_eq!(outcome.report.trusted_until.unwrap().byte, from);
    assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(1));
}

#[test]
fn stripped_seals_and_a_missing_beginning_are_tampered() {
    let bench = Bench::new();
    let bytes = bench.record();
    let is_seal = |line: &&[u8]| line.windows(12).any(|w| w == b"\"checkpoint\"");
    let stripped: Vec<&[u8]> = lines_of(&bytes)
        .into_iter()
        .filter(|line| !is_seal(line))
        .collect();
    assert_eq!(
        bench.verify(&stripped.concat()).report.verdict,
        Verdict::Tampered
    );
    assert_eq!(
        bench.verify(&lines_of(&bytes)[1..].concat()).report.verdict,
        Verdict::Tampered
    );
    assert_eq!(
        bench.verify(lines_of(&bytes)[0]).report.verdict,
        Verdict::Tampered
    );
    assert_eq!(bench.verify(b"").report.verdict, Verdict::Tampered);
}

#[test]
fn a_seal_of_another_record_does_not_fit() {
    let bench = Bench::new();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    bench.begin(1, &mut one);
    bench.begin(2, &mut two);
    let (first, second) = (lines_of(&one), lines_of(&two));
    let outcome = bench.verify(&[first[0], second[1]].concat());
    assert_eq!(outcome.report.verdict, Verdict::Tampered);
    assert_eq!(codes(&outcome), ["checkpoint_altered"]);
}

#[test]
fn an_open_record_is_open_until_a_head_vouches_for_it() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(3, &mut bytes);
    bench.event(&mut sealer, "cognition_in", "{\"text\":\"x\"}", &mut bytes);
    let older = bytes.clone();
    let head = bench.seal(&mut sealer, 1, &mut bytes);
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
    assert!(bench.verify(&bytes).verified.is_none());
    let expected = ExpectedHead::Head(head);
    let outcome = bench.verify_expecting(&bytes, expected, true);
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert_eq!(outcome.report.completeness, Completeness::Head);
    let line = ExpectedHead::Line(head.line);
    assert_eq!(
        bench.verify_expecting(&bytes, line, false).report.verdict,
        Verdict::Verified
    );

    let cut = &older[..usize::try_from(sealer_head_size(&older)).unwrap()];
    for (bytes, remembered, verdict) in [
        (cut, true, Verdict::RolledBack),
        (cut, false, Verdict::Truncated),
        (&older[..], true, Verdict::Truncated),
    ] {
        assert_eq!(
            bench
                .verify_expecting(bytes, expected, remembered)
                .report
                .verdict,
            verdict
        );
    }
    let other = Head {
        line: crate::digest::Digest::of(b"other"),
        ..head
    };
    let forked = bench.verify_expecting(&bytes, ExpectedHead::Head(other), true);
    assert_eq!(forked.report.verdict, Verdict::Forked);
    let foreign = Head {
        record: RecordId::from_bytes([9; 32]),
        ..head
    };
    let foreign = bench.verify_expecting(&bytes, ExpectedHead::Head(foreign), false);
    assert_eq!(foreign.report.verdict, Verdict::Foreign);
}

fn sealer_head_size(bytes: &[u8]) -> u64 {
    lines_of(bytes)[..2]
        .iter()
        .map(|line| line.len() as u64)
        .sum()
}

#[test]
fn a_tail_is_told_apart_by_how_it_ends() {
    let bench = Bench::new();
    let bytes = bench.record();
    for (tail, code) in [
        (&b"{\"timestamp\":17"[..], "torn_tail"),
        (b"not json\n", "line_malformed"),
        (b"[1]\n", "line_malformed"),
        (b"\n", "line_malformed"),
        (b"\xff\n", "line_malformed"),
    ] {
        let outcome = bench.verify(&[&bytes[..], tail].concat());
        assert_eq!(outcome.report.verdict, Verdict::UnsignedTail, "{tail:?}");
        assert!(
            codes(&outcome).contains(&code),
            "{tail:?}: {:?}",
            codes(&outcome)
        );
        assert_eq!(
            outcome.report.trusted_until.unwrap().byte,
            bytes.len() as u64
        );
        assert!(outcome.verified.is_none());
        let lenient = bench
            .verify(&[&bytes[..], tail].concat())
            .lenient()
            .unwrap();
        assert_eq!(lenient.unverified.from, bytes.len() as u64);
    }
}

#[test]
fn rye_8_1_events_smuggled_by_carriage_return_are_never_verified() {
    let bench = Bench::new();
    let bytes = bench.record();
    let all = lines_of(&bytes);
    let evil =
        br#"{"timestamp":1.0,"thread_id":"demo/t-1","event_type":"cognition_in","payload":{}}"#;
    for separator in ["\r", "\u{2028}", "\u{c}", "\u{85}"] {
        let last = all[all.len() - 1];
        let before = [
            &all[..all.len() - 1].concat()[..],
            evil,
            separator.as_bytes(),
            last,
        ]
        .concat();
        let after = [&bytes[..bytes.len() - 1], separator.as_bytes(), evil, b"\n"].concat();
        for attack in [before, after] {
            let outcome = bench.verify(&attack);
            assert_ne!(outcome.report.verdict, Verdict::Verified);
            assert!(outcome.report.trusted_until.unwrap().byte < bytes.len() as u64);
        }
    }
}

#[test]
fn only_keys_that_the_record_lets_in_may_seal() {
    let bench = Bench::new();
    let other = signer(5, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    let stranger = Signers {
        native: &other,
        rye: &bench.rye,
    };
    let refused = sealer.seal(
        bench.stamp(),
        1,
        false,
        Ext::default(),
        stranger,
        &mut bytes,
    );
    assert!(refused.is_err());

    sealer
        .announce_key(bench.stamp(), other.public_key(), &mut bytes)
        .unwrap();
    let too_early = sealer.seal(
        bench.stamp(),
        1,
        false,
        Ext::default(),
        stranger,
        &mut bytes,
    );
    assert!(too_early.is_err());
    bench.seal(&mut sealer, 1, &mut bytes);
    sealer
        .seal(
            bench.stamp(),
            1,
            false,
            Ext::default(),
            stranger,
            &mut bytes,
        )
        .unwrap();
    let retired = sealer.seal(
        bench.stamp(),
        1,
        false,
        Ext::default(),
        bench.signers(),
        &mut bytes,
    );
    assert!(retired.is_err());
    let outcome = bench.verify(&bytes);
    assert_eq!(
        outcome.report.verdict,
        Verdict::Open,
        "{:?}",
        outcome.report.findings
    );
    assert_eq!(outcome.report.signers.len(), 2);
}

#[test]
fn a_delegate_may_seal_by_the_word_of_the_authority_and_nobody_else() {
    let bench = Bench::new();
    let delegate = signer(6, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let by_delegate = Signers {
        native: &delegate,
        rye: &bench.rye,
    };
    let wrong = sealer.delegate(bench.stamp(), delegate.public_key(), &delegate, &mut bytes);
    assert!(wrong.is_err());
    sealer
        .delegate(
            bench.stamp(),
            delegate.public_key(),
            &bench.native,
            &mut bytes,
        )
        .unwrap();
    sealer
        .seal(
            bench.stamp(),
            0,
            false,
            Ext::default(),
            by_delegate,
            &mut bytes,
        )
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Open);
}

#[test]
fn a_stranger_who_rewrites_the_whole_record_is_an_unknown_signer_and_forged_when_pinned() {
    let bench = Bench::new();
    let mut stranger = Bench::new();
    stranger.native = signer(66, KeyUsage::Native);
    let bytes = stranger.record();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::UnknownSigner);
    assert_eq!(bench.verify(&bytes).report.trusted_until, None);
    let pinned = Trust::pinned(*bench.native.public_key());
    let options = VerifyOptions {
        trust: &pinned,
        ..bench.options()
    };
    let outcome = verify(&bytes, &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Forged);
    let outcome = verify(&bench.record(), &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Verified);
}

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
    let digest = crate::digest::Digest::of(&tail);
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

#[test]
fn an_adopted_tail_cannot_hand_the_record_to_another_key() {
    let bench = Bench::new();
    let attacker = signer(99, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let before = sealer.clone();
    let mut tail = Vec::new();
    sealer
        .announce_key(bench.stamp(), attacker.public_key(), &mut tail)
        .unwrap();
    bytes.extend_from_slice(&tail);
    let mut recovering = before;
    recovering
        .tail_adopted(bench.stamp(), &tail, &mut bytes)
        .unwrap();
    bench.seal(&mut recovering, 0, &mut bytes);
    let by_attacker = Signers {
        native: &attacker,
        rye: &bench.rye,
    };
    let refused = recovering.seal(
        bench.stamp(),
        0,
        false,
        Ext::default(),
        by_attacker,
        &mut bytes,
    );
    assert!(refused.is_err());
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Partial);
}

#[test]
fn an_unknown_critical_member_is_malformed_and_an_optional_one_is_not() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let optional = |name: &str| Ext {
        optional: vec![(name.to_owned(), "x".to_owned())],
        ..Ext::default()
    };
    let mut fine = bytes.clone();
    let mut writer = sealer.clone();
    writer
        .seal(
            bench.stamp(),
            0,
            false,
            optional("opt_x"),
            bench.signers(),
            &mut fine,
        )
        .unwrap();
    assert_eq!(bench.verify(&fine).report.verdict, Verdict::Open);
    sealer
        .seal(
            bench.stamp(),
            0,
            false,
            optional("quorum"),
            bench.signers(),
            &mut bytes,
        )
        .unwrap();
    assert_eq!(bench.verify(&bytes).report.verdict, Verdict::Malformed);
}

#[test]
fn another_thread_than_asked_for_is_foreign() {
    let bench = Bench::new();
    let bytes = bench.record();
    let thread = ThreadId::parse("demo/t-2").unwrap();
    let options = VerifyOptions {
        thread: Some(&thread),
        ..bench.options()
    };
    let outcome = verify(&bytes, &ScanOptions::default(), &options);
    assert_eq!(outcome.report.verdict, Verdict::Foreign);
}

#[test]
fn lines_are_read_only_from_the_bytes_that_were_verified() {
    let bench = Bench::new();
    let bytes = bench.record();
    let tailed = [&bytes[..], b"{\"smuggled\":1}\n"].concat();
    let verified = bench.verify(&bytes).verified.unwrap();
    let read = lines::VerifiedLines::open(&verified, &tailed).unwrap();
    let read: Vec<&[u8]> = read.iter().map(|line| line.bytes).collect();
    let all: Vec<&[u8]> = bytes.trim_ascii_end().split(|b| *b == b'\n').collect();
    assert_eq!(read, all);
    let mut changed = bytes.clone();
    changed[300] ^= 1;
    assert!(lines::VerifiedLines::open(&verified, &changed).is_err());
    assert!(lines::VerifiedLines::open(&verified, &bytes[..300]).is_err());
}
