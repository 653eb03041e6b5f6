//! Headers, leaves and ends of seal files: `spec/transcript.md` §9, "Verifying: the seal file".

use super::{Adder, Verdict};
use crate::forge::hex;
use crate::observed_forge::{Log, OBSERVER, leaves_line, observer};
use threadseal_core::digest::Digest;

pub(super) fn add(add: &mut Adder, format: u8) {
    headers(add, format);
    front(add, format);
    leaves(add, format);
    behind(add, format);
    torn(add, format);
}

/// A change of the header, made before anything was sealed under it.
fn headers(add: &mut Adder, format: u8) {
    let number = format!("observed/{format}");
    let key = hex(&observer(OBSERVER));
    let small = format!("01{}", "00".repeat(31));
    type Change<'a> = Box<dyn Fn(String) -> String + 'a>;
    let replaced = |from: &str, to: &str| -> Change<'_> {
        let (from, to) = (from.to_owned(), to.to_owned());
        Box::new(move |header| header.replacen(&from, &to, 1))
    };
    let cases: Vec<(&str, Change<'_>, &str)> = vec![
        (
            "header-blank",
            replaced("\"kind\":", "\"kind\": "),
            "no blank",
        ),
        (
            "header-format-3",
            replaced(&number, "observed/3"),
            "a format that is not known",
        ),
        (
            "header-kind",
            replaced("\"kind\":\"observed\"", "\"kind\":\"native\""),
            "another kind",
        ),
        (
            "header-record-upper-case",
            replaced("0808", "080A"),
            "hex is lower case",
        ),
        (
            "header-record-short",
            replaced("0808", "08"),
            "a record id of 62 digits",
        ),
        (
            "header-key-upper-case",
            replaced(&key, &key.to_uppercase()),
            "hex is lower case",
        ),
        (
            "header-key-small-order",
            replaced(&key, &small),
            "no public key (keys-and-trust.md §1)",
        ),
        (
            "header-more",
            replaced("}", ",\"more\":1}"),
            "one more member",
        ),
        ("header-cr", replaced("}", "}\r"), "CR before LF"),
        ("header-bom", replaced("{", "\u{feff}{"), "ASCII only"),
        ("header-empty", Box::new(|_| String::new()), "an empty line"),
        match format {
            1 => ("header-salted", salted(), "format 1 has no `salted`"),
            _ => ("header-unsalted", unsalted(), "format 2 has `salted`"),
        },
    ];
    for (name, change, rule) in cases {
        let mut log = Log::with_header(format, change);
        log.some(2).end();
        let verdict = Verdict::bad("malformed", &["seal_header_bad"]);
        add.log(name, &log, verdict, &format!("seal file, step 1: {rule}"));
    }
}

fn salted() -> Box<dyn Fn(String) -> String> {
    Box::new(|header| header.replacen('}', &format!(",\"salted\":\"{}\"}}", "ab".repeat(32)), 1))
}

fn unsalted() -> Box<dyn Fn(String) -> String> {
    Box::new(|header| {
        let at = header.find(",\"salted\"").unwrap_or(header.len());
        format!("{}}}", &header[..at])
    })
}

fn front(add: &mut Adder, format: u8) {
    let mut log = Log::new(format);
    log.some(2).end();
    let verdict = || Verdict::bad("malformed", &["seal_header_bad"]);
    let name = |name| (name, format);
    add.parts(
        name("seals-empty"),
        &log.out,
        b"",
        verdict(),
        "seal file, step 1: an empty file",
    );
    let rule = "seal file, step 1: a header without LF";
    add.parts(
        name("header-torn"),
        &log.out,
        log.header.as_bytes(),
        verdict(),
        rule,
    );
    let mut none = Log::new(format);
    let rule = "log, step 3: a seal file without a seal";
    let unsigned = || Verdict::bad("unsigned", &["no_seal"]);
    add.log("no-seal", &none, unsigned(), rule);
    none.some(2);
    let rule = "log, step 3: lines, and a seal file without a seal";
    add.log("no-seal-lines", &none, unsigned(), rule);
    none.leaves();
    let rule = "seal file, step 10: leaves without their seal, and no other";
    let verdict = unsigned().and("seal_file_torn");
    add.log("no-seal-leaves", &none, verdict, rule);
}

/// Lines of leaves before the only seal.
fn leaves(add: &mut Adder, format: u8) {
    let bad = |code| Verdict::bad("tampered", &[code, "no_seal"]);
    let alone = |line: &str| {
        let mut log = Log::new(format);
        log.some(2);
        log.body = format!("{line}\n").into_bytes();
        log.leaves_are_stated().seal();
        log
    };
    let mut log = Log::new(format);
    log.some(2);
    let good = leaves_line(&log.leaves);
    let cases = [
        (
            "leaves-none",
            "{\"leaves\":\"\"}".to_owned(),
            "1 leaf hash or more",
        ),
        (
            "leaves-uneven",
            good.replacen("==", "A=", 1),
            "hashes of 32 bytes",
        ),
        (
            "leaves-padding",
            good.replacen("==", "=", 1),
            "base64 with padding",
        ),
        ("leaves-blank", good.replacen(':', ": ", 1), "one spelling"),
        (
            "leaves-more",
            good.replacen('}', ",\"more\":1}", 1),
            "no more members",
        ),
        ("leaves-cr", format!("{good}\r"), "CR before LF"),
        (
            "line-of-another-kind",
            format!("{{}}\n{good}"),
            "a line that is neither leaves nor a seal",
        ),
        ("line-empty", format!("\n{good}"), "an empty line"),
        (
            "line-second-header",
            format!("{}\n{good}", log.header),
            "the header once more",
        ),
    ];
    for (name, line, rule) in cases {
        let rule = format!("seal file, step 5: {rule}");
        add.log(name, &alone(&line), bad("seal_malformed"), &rule);
    }
    let swapped: Vec<Digest> = log.leaves.iter().rev().copied().collect();
    let rule = "seal file, step 7: the leaves are not those of the root";
    add.log(
        "leaves-swapped",
        &alone(&leaves_line(&swapped)),
        bad("leaves_changed"),
        rule,
    );
    let one = leaves_line(&log.leaves[..1]);
    let rule = "seal file, step 7: fewer leaves than `lines`";
    add.log("leaves-missing", &alone(&one), bad("leaves_changed"), rule);
    let mut halves = Log::new(format);
    halves.some(1).leaves().some(1).end();
    let rule = "two lines of leaves before a seal";
    add.log(
        "leaves-in-two-lines",
        &halves,
        Verdict::whole(&halves),
        rule,
    );
    if format == 1 {
        bounds(add);
    }
}

/// 1,024 leaves on a line, and one more.
fn bounds(add: &mut Adder) {
    for (name, count) in [("leaves-1024", 1024), ("leaves-1025", 1025)] {
        let mut log = Log::new(1);
        for _ in 0..count {
            log.line(b"[]");
        }
        log.end();
        let verdict = match count {
            1024 => Verdict::whole(&log),
            _ => Verdict::bad("tampered", &["seal_malformed", "no_seal"]),
        };
        add.log(
            name,
            &log,
            verdict,
            "seal file, step 5: at most 1,024 leaf hashes on a line",
        );
    }
}

/// Whole lines behind the last seal.
fn behind(add: &mut Adder, format: u8) {
    let mut log = Log::begun(format);
    log.end();
    let seal = log
        .body
        .split(|byte| *byte == b'\n')
        .nth(1)
        .map(<[u8]>::to_vec);
    let seal = seal.unwrap_or_default();
    let header = log.header.clone().into_bytes();
    let cases: [(&str, &[u8], &str); 4] = [
        (
            "behind-object",
            b"{}",
            "a line of another kind behind the last seal",
        ),
        (
            "behind-empty-line",
            b"",
            "an empty line behind the last seal",
        ),
        (
            "behind-not-ascii",
            "caf\u{e9}".as_bytes(),
            "a line that is not ASCII behind it",
        ),
        ("behind-header", &header, "a header behind it"),
    ];
    for (name, line, rule) in cases {
        let mut log = log.clone();
        log.body.extend_from_slice(&[line, b"\n"].concat());
        let rule = format!("seal file, step 5: {rule}");
        add.log(
            name,
            &log,
            Verdict::bad("tampered", &["seal_malformed"]),
            &rule,
        );
    }
    log.body
        .extend_from_slice(&[&seal, b"\n".as_slice()].concat());
    let rule = "seal file, step 6: an earlier seal once more, behind a final one";
    add.log(
        "behind-seal",
        &log,
        Verdict::bad("tampered", &["seal_order"]),
        rule,
    );
}

/// What a crash leaves.
fn torn(add: &mut Adder, format: u8) {
    let open = |log: &Log| Verdict::open(log).and("seal_file_torn");
    let log = Log::begun(format);
    let mut longer = log.clone();
    longer.some(1).leaves();
    let verdict = Verdict::tail(&longer).and("seal_file_torn");
    let rule = "seal file, step 10: leaves without their seal";
    add.log("torn-after-leaves", &longer, verdict, rule);
    longer.seal();
    longer.body.pop();
    let rule = "seal file, step 10: a seal without LF is none";
    let verdict = Verdict::tail(&log).and("seal_file_torn");
    add.log("torn-before-lf", &longer, verdict, rule);
    let mut cut = log.clone();
    cut.body.extend_from_slice(b"{\"leav");
    add.log(
        "torn-line",
        &cut,
        open(&cut),
        "seal file, step 10: a line without LF",
    );
    let mut cut = log.clone();
    cut.body.extend_from_slice(&[0, 0, 0, 0]);
    let rule = "seal file, step 10: zero bytes that a crash left, without LF";
    add.log("torn-zeros", &cut, open(&cut), rule);
    let mut ended = log.clone();
    ended.end();
    ended.body.extend_from_slice(b"{\"leav");
    let verdict = Verdict::whole(&ended).and("seal_file_torn");
    let rule = "seal file, step 10: a torn line changes no verdict";
    add.log("torn-line-after-final", &ended, verdict, rule);
    let mut bad = Log::begun(format);
    bad.some(1).seal_with(|seal| seal.seq = 7);
    bad.body.extend_from_slice(b"{\"leav");
    let verdict = Verdict::bad("tampered", &["seal_order", "unsigned_tail"]);
    let rule = "seal file, step 10: only without another fault";
    add.log("torn-behind-fault", &bad, verdict, rule);
}
