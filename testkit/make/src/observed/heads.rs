//! Trust and expected heads of observed logs: `spec/transcript.md` §9, "Verifying: the log", 1 and 7.

use super::{Adder, Verdict};
use crate::forge::hex;
use crate::list::Options;
use crate::observed_forge::{Log, OBSERVER, observer};

pub(super) fn add(add: &mut Adder, format: u8) {
    heads(add, format);
    broken(add, format);
    trust(add, format);
}

/// A head that is asked for.
fn head(text: impl Into<String>) -> Options {
    Options {
        head: Some(text.into()),
        ..Options::default()
    }
}

fn exact(text: impl Into<String>) -> Options {
    Options {
        exact: true,
        ..head(text)
    }
}

/// A log with two seals, and their heads.
fn two(format: u8) -> (Log, String, String) {
    let mut log = Log::begun(format);
    log.some(2).seal();
    let heads: Vec<String> = log.seals.iter().map(|seal| seal.head.clone()).collect();
    let [first, last] = &heads[..] else {
        unreachable!("two seals were written")
    };
    (log, first.clone(), last.clone())
}

fn heads(add: &mut Adder, format: u8) {
    let (mut log, first, last) = two(format);
    let verified = |log: &Log| Verdict::whole(log);
    let rule = "step 7, the head is the last seal";
    add.log("head-last", &log, verified(&log).asked(head(&last)), rule);
    add.log(
        "head-last-exact",
        &log,
        verified(&log).asked(exact(&last)),
        rule,
    );
    let rule = "step 7, the head is an earlier seal";
    add.log(
        "head-earlier",
        &log,
        verified(&log).asked(head(&first)),
        rule,
    );
    let rule = "step 7, it must be the last and is not";
    let verdict = Verdict::new("open", &["head_not_last"], log.last());
    add.log(
        "head-earlier-exact",
        &log,
        verdict.asked(exact(&first)),
        rule,
    );
    let forked = || Verdict::bad("forked", &["head_differs"]);
    let other = format!("{}{}", &last[..last.len() - 64], "ab".repeat(32));
    let rule = "step 7, another seal has that number";
    add.log("head-differs", &log, forked().asked(head(&other)), rule);
    let foreign = last.replacen(&log.record, &"ab".repeat(32), 1);
    let verdict = Verdict::bad("foreign", &["record_differs"]);
    add.log(
        "head-of-another-record",
        &log,
        verdict.asked(head(foreign)),
        "step 7, another record id",
    );
    let ahead = || Verdict::bad("truncated", &["head_ahead"]);
    let (mut longer, ..) = two(format);
    longer.some(1).seal();
    let next = longer.seals.last().map(|seal| seal.head.clone());
    let next = next.unwrap_or_default();
    add.log(
        "head-ahead",
        &log,
        ahead().asked(head(&next)),
        "step 7, the last seal has a lower number",
    );
    let rule = "step 7, bytes behind the last seal are no seal";
    let verdict = Verdict::bad("truncated", &["head_ahead", "unsigned_tail"]);
    add.edited(
        "head-ahead-tail",
        &longer.out,
        &log,
        verdict.asked(head(next)),
        rule,
    );
    log.end();
    let rule = "step 7, a final seal is the last one";
    add.log(
        "head-before-final",
        &log,
        verified(&log).asked(head(&last)),
        rule,
    );
}

/// Heads where something else is wrong.
fn broken(add: &mut Adder, format: u8) {
    let (log, _, last) = two(format);
    let mut lines = super::split(&log.out);
    let before: Vec<&[u8]> = lines[..1].to_vec();
    lines[1] = b"{}\n";
    let rule = "step 7, the head is there although a line differs";
    let verdict = Verdict::differs("line_changed", &before).asked(head(&last));
    add.edited(
        "head-and-line-changed",
        &lines.concat(),
        &log,
        verdict,
        rule,
    );
    let verdict = Verdict::differs("line_changed", &before);
    let verdict = verdict.and("head_differs").asked(head(format!(
        "{}{}",
        &last[..last.len() - 64],
        "ab".repeat(32)
    )));
    let rule = "step 7 after step 4: both are reported";
    add.edited(
        "head-differs-and-line-changed",
        &lines.concat(),
        &log,
        verdict,
        rule,
    );
    let mut bad = Log::begun(format);
    bad.some(2).seal_with(|seal| seal.seq = 2);
    let rule = "step 7, no answer for a head behind a fault of the seal file";
    let verdict = Verdict::bad("tampered", &["seal_order", "unsigned_tail"]);
    add.log("head-behind-fault", &bad, verdict.asked(head(&last)), rule);
    let tail = [&log.out, b"{}\n".as_slice()].concat();
    let rule = "step 7, the head is held, and bytes are behind it";
    let verdict = Verdict::new("unsigned_tail", &["unsigned_tail"], log.last());
    add.edited(
        "head-and-tail",
        &tail,
        &log,
        verdict.asked(head(&last)),
        rule,
    );
}

fn trust(add: &mut Adder, format: u8) {
    let mut log = Log::begun(format);
    let key = |number: u8| hex(&observer(number));
    let (mine, other) = (key(OBSERVER), key(5));
    let trusted = |keys: &[&String], pins: &[&String], usage| Options {
        trust: Some(keys.iter().map(|key| (*key).clone()).collect()),
        pins: pins.iter().map(|key| (*key).clone()).collect(),
        usage,
        ..Options::default()
    };
    log.end();
    let unknown = |code| Verdict::bad("unknown_signer", &[code]);
    let cases = [
        (
            "trust-none",
            trusted(&[], &[], None),
            unknown("key_unknown"),
            "no key is trusted",
        ),
        (
            "trust-other",
            trusted(&[&other], &[], None),
            unknown("key_unknown"),
            "another key is trusted",
        ),
        (
            "trust-native",
            trusted(&[&mine], &[], Some("native")),
            unknown("key_out_of_scope"),
            "the key is trusted for another usage",
        ),
        (
            "pin-other",
            trusted(&[&mine], &[&other], None),
            unknown("other_signer"),
            "another key is pinned",
        ),
        (
            "pin-mine",
            trusted(&[], &[&mine], None),
            Verdict::whole(&log),
            "the key is pinned, and needs no trust",
        ),
        (
            "pin-both",
            trusted(&[], &[&mine, &other], None),
            Verdict::whole(&log),
            "one of two pinned keys",
        ),
        (
            "pin-out-of-scope",
            trusted(&[&mine], &[&mine], Some("native")),
            Verdict::whole(&log),
            "the usage of a pinned key does not count",
        ),
    ];
    for (name, options, verdict, rule) in cases {
        let rule = format!("step 1 (keys-and-trust.md §8.2), {rule}");
        add.log(name, &log, verdict.asked(options), &rule);
    }
    let mut lines = super::split(&log.out);
    lines[2] = b"{}\n";
    let rule = "steps 1 and 4: a line differs, and nothing vouches for the lines before it";
    let verdict = Verdict::bad("tampered", &["key_unknown", "line_changed"]);
    let options = trusted(&[&other], &[], None);
    add.edited(
        "trust-other-line-changed",
        &lines.concat(),
        &log,
        verdict.asked(options),
        rule,
    );
    let rule = "step 3, a key that made no good seal is no signer";
    let verdict = Verdict::new("unsigned", &["no_seal"], None);
    let mut none = Log::new(format);
    let options = trusted(&[&other], &[], None);
    add.log(
        "trust-other-no-seal",
        none.some(2),
        verdict.asked(options),
        rule,
    );
    let log = Log::begun(format);
    let rule = "steps 1 and 7: the end is not proved, and no one vouches for the key";
    let verdict = Verdict::bad("unknown_signer", &["key_unknown", "end_unproved"]);
    let options = trusted(&[&other], &[], None);
    add.log("trust-other-not-ended", &log, verdict.asked(options), rule);
}
