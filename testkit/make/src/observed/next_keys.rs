//! Keys that take the place of the key of the header: `spec/transcript.md` §9, "Next keys".

use super::{Adder, Verdict};
use crate::forge::hex;
use crate::list::Options;
use crate::observed_forge::{Log, OBSERVER, observer};

/// How a line that names a next key begins.
const START: &str = "{\"format\":\"threadseal-observed/3\",\"next\":{\"key\":\"";

/// Keys that no list trusts.
const NEXT: u8 = 5;
const LATER: u8 = 6;

/// Most keys that a file names.
const MAX: u8 = 64;

pub(super) fn add(add: &mut Adder, format: u8) {
    continued(add, format);
    trust(add, format);
    spelling(add, format);
    order(add, format);
    signatures(add, format);
    bounds(add, format);
    if format == 2 {
        redactions(add);
    }
}

/// A log of three lines under a seal, and the line that names the next key.
fn named(format: u8) -> Log {
    let mut log = Log::begun(format);
    log.next_key(OBSERVER, NEXT);
    log
}

/// The same with a line more under a seal of the next key.
fn next(format: u8) -> Log {
    let mut log = named(format);
    log.some(1).seal_by(NEXT);
    log
}

/// The line that names the key fails: what follows it is not covered.
fn bad(verdict: &'static str, code: &'static str) -> Verdict {
    Verdict::bad(verdict, &[code, "unsigned_tail"])
}

fn continued(add: &mut Adder, format: u8) {
    let log = next(format);
    let rule = "a key that is named so counts as the key before it";
    add.log("next-key", &log, Verdict::open(&log), rule);
    let mut log = next(format);
    log.some(1)
        .seal_with(|seal| (seal.by, seal.is_final) = (NEXT, true));
    add.log("next-key-final", &log, Verdict::whole(&log), rule);
    let mut log = next(format);
    log.next_key(NEXT, LATER).some(1).seal_by(LATER);
    let rule = "each key names the next one";
    add.log("next-key-twice", &log, Verdict::open(&log), rule);
    let mut log = named(format);
    log.next_key(NEXT, LATER).some(1).seal_by(LATER);
    let rule = "a key may name another one without a seal of its own";
    add.log("next-keys-under-one-seal", &log, Verdict::open(&log), rule);
    let mut log = named(format);
    log.seal_by(NEXT);
    let rule = "a seal without new lines";
    add.log("next-key-without-lines", &log, Verdict::open(&log), rule);
    let log = named(format);
    let rule = "seal file, step 10: no seal is behind the line";
    let verdict = Verdict::open(&log).and("seal_file_torn");
    add.log("next-key-unsealed", &log, verdict, rule);
}

fn trust(add: &mut Adder, format: u8) {
    let log = next(format);
    let key = |number: u8| hex(&observer(number));
    let of = |trust: &[u8], pins: &[u8]| Options {
        trust: Some(trust.iter().copied().map(key).collect()),
        pins: pins.iter().copied().map(key).collect(),
        ..Options::default()
    };
    let open = || Verdict::open(&log);
    let rule = "both keys count";
    let asked = open().asked(of(&[OBSERVER, NEXT], &[]));
    add.log("next-key-both-trusted", &log, asked, rule);
    let rule = "a pin of the first key";
    add.log(
        "next-key-first-pinned",
        &log,
        open().asked(of(&[OBSERVER, NEXT], &[OBSERVER])),
        rule,
    );
    let unknown =
        |code: &'static str| Verdict::new("unknown_signer", &[code, "end_unproved"], None);
    let rule = "the first key made a seal, and a key does not vouch for the one before it";
    let asked = unknown("key_unknown").asked(of(&[NEXT], &[]));
    add.log("next-key-alone-trusted", &log, asked, rule);
    let asked = unknown("other_signer").asked(of(&[OBSERVER, NEXT], &[NEXT]));
    add.log("next-key-alone-pinned", &log, asked, rule);
    let rule = "nothing is trusted";
    let asked = unknown("key_unknown").asked(of(&[], &[]));
    add.log("next-key-none-trusted", &log, asked, rule);
}

fn spelling(add: &mut Adder, format: u8) {
    type Respell = fn(String) -> String;
    let cases: [(&str, Respell, &str); 6] = [
        (
            "blank",
            |line| line.replacen("\"signature\":", "\"signature\": ", 1),
            "no blank",
        ),
        (
            "more",
            |line| line.replacen("\"}}", "\",\"more\":1}}", 1),
            "no more members",
        ),
        (
            "upper-case",
            |line| {
                let (before, rest) = line.split_at(START.len());
                let (key, rest) = rest.split_at(64);
                format!("{before}{}{rest}", key.to_uppercase())
            },
            "hex is lower case",
        ),
        (
            "no-key",
            |line| {
                let (before, rest) = line.split_at(START.len());
                format!("{before}{}{}", "00".repeat(32), &rest[64..])
            },
            "a public key",
        ),
        (
            "short-signature",
            |line| line.replacen("==\"}}", "\"}}", 1),
            "base64 with padding",
        ),
        (
            "begins-otherwise",
            |line| line.replacen("observed/3", "observed/2", 1),
            "the number of the format",
        ),
    ];
    for (name, respell, rule) in cases {
        let mut log = Log::begun(format);
        log.next_key_with(OBSERVER, NEXT, respell)
            .some(1)
            .seal_by(NEXT);
        let rule = format!("seal file, step 5: {rule}");
        let verdict = bad("tampered", "seal_malformed");
        add.log(&format!("next-key-{name}"), &log, verdict, &rule);
    }
}

fn order(add: &mut Adder, format: u8) {
    let wrong = || bad("tampered", "seal_order");
    let mut log = Log::new(format);
    log.next_key(OBSERVER, NEXT).some(2).seal_by(NEXT);
    let rule = "seal file, step 5: a seal is before it";
    let verdict = Verdict::bad("tampered", &["seal_order", "no_seal"]);
    add.log("next-key-before-a-seal", &log, verdict, rule);
    let mut log = Log::begun(format);
    log.some(1).leaves().next_key(OBSERVER, NEXT).seal_by(NEXT);
    let rule = "seal file, step 5: no leaves are between the seal and it";
    add.log("next-key-behind-leaves", &log, wrong(), rule);
    let mut log = Log::begun(format);
    log.next_key(OBSERVER, OBSERVER).some(1).seal();
    let rule = "seal file, step 5: another key";
    add.log("next-key-is-the-same", &log, wrong(), rule);
    let mut log = next(format);
    log.next_key(NEXT, OBSERVER).some(1).seal();
    let rule = "seal file, step 5: no key that the file had before";
    add.log("next-key-is-an-earlier-one", &log, wrong(), rule);
    let mut log = Log::begun(format);
    log.end().next_key(OBSERVER, NEXT).some(1).seal_by(NEXT);
    let rule = "seal file, step 5: not behind a final seal";
    let verdict = Verdict::bad("tampered", &["seal_order", "lines_after_final"]);
    add.log("next-key-behind-final", &log, verdict, rule);
    let mut log = next(format);
    let body = String::from_utf8(log.body.clone()).unwrap_or_default();
    let without = body.lines().filter(|line| !line.starts_with(START));
    log.body = without
        .flat_map(|line| format!("{line}\n").into_bytes())
        .collect();
    let rule = "seal file, step 6: the line was removed, and `sidecar` does not fit";
    add.log("next-key-removed", &log, wrong(), rule);
}

fn signatures(add: &mut Adder, format: u8) {
    let forged = || bad("forged", "signature_bad");
    let mut log = Log::begun(format);
    log.next_key_with(LATER, NEXT, |line| line)
        .some(1)
        .seal_by(NEXT);
    let rule = "seal file, step 5: the key before signs it";
    add.log("next-key-signed-by-another", &log, forged(), rule);
    let mut log = Log::begun(format);
    let other = hex(&observer(LATER));
    log.next_key_with(OBSERVER, NEXT, move |line| {
        line.replacen(&hex(&observer(NEXT)), &other, 1)
    })
    .some(1)
    .seal_by(LATER);
    let rule = "seal file, step 5: the signature is over the key that is named";
    add.log("next-key-exchanged", &log, forged(), rule);
    let mut log = named(format);
    log.some(1).seal();
    let rule = "seal file, step 8: the key before seals no more";
    add.log("next-key-old-seals", &log, forged(), rule);
    let mut log = Log::begun(format);
    log.some(1).seal_by(NEXT);
    let rule = "seal file, step 8: no line names the key";
    add.log("next-key-not-named", &log, forged(), rule);
    let mut log = named(format);
    log.some(1).seal_by(LATER);
    let rule = "seal file, step 8: another key than the one named last";
    add.log("next-key-another-seals", &log, forged(), rule);
}

fn bounds(add: &mut Adder, format: u8) {
    let first = 100;
    let mut log = Log::begun(format);
    log.next_key(OBSERVER, first);
    for key in first + 1..first + MAX {
        log.next_key(key - 1, key);
    }
    let last = first + MAX - 1;
    let mut most = log.clone();
    most.some(1).seal_by(last);
    let rule = "at most 64 next keys";
    add.log("next-keys-64", &most, Verdict::open(&most), rule);
    log.next_key(last, last + 1).some(1).seal_by(last + 1);
    let rule = "seal file, step 5: at most 64 next keys";
    add.log("next-keys-65", &log, bad("tampered", "seal_order"), rule);
}

fn redactions(add: &mut Adder) {
    let by_next = |key: Option<u8>, by: u8| {
        let mut log = next(2);
        log.redact_with(&[2], |statement| (statement.key, statement.by) = (key, by));
        log
    };
    let log = by_next(Some(NEXT), NEXT);
    let rule = "seal file, step 9: a statement by a key that the file names";
    let verdict = Verdict::open(&log).and("redacted");
    add.log("statement-by-next-key", &log, verdict, rule);
    let log = by_next(None, OBSERVER);
    let rule = "seal file, step 9: a statement by the key of the header";
    let verdict = Verdict::open(&log).and("redacted");
    add.log("statement-by-first-key", &log, verdict, rule);
    let cases = [
        (
            "statement-by-unnamed-key",
            Some(LATER),
            LATER,
            "a key that the file does not name",
        ),
        (
            "statement-by-next-key-unnamed",
            None,
            NEXT,
            "without `key` the key of the header signs",
        ),
        (
            "statement-key-exchanged",
            Some(NEXT),
            OBSERVER,
            "the signature is of the key that is named",
        ),
    ];
    for (name, key, by, rule) in cases {
        let mut log = next(2);
        log.state(&[2], |statement| (statement.key, statement.by) = (key, by));
        let verdict = Verdict::bad("tampered", &["redaction_bad"]);
        add.log(name, &log, verdict, &format!("seal file, step 9: {rule}"));
    }
    let log = by_next(Some(OBSERVER), OBSERVER);
    let rule = "seal file, step 3: the key of the header is not named";
    let verdict = Verdict::bad("tampered", &["redaction_bad", "no_seal"]);
    add.log("statement-names-first-key", &log, verdict, rule);
}
