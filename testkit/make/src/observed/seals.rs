//! Seals of which one value is odd, and all others hold: `spec/transcript.md` §9, steps 5 to 8 of
//! "Verifying: the seal file".

use super::{Adder, Verdict, split};
use crate::observed_forge::{Log, Seal};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

pub(super) fn add(add: &mut Adder, format: u8) {
    spelling(add, format);
    notes(add, format);
    order(add, format);
    signatures(add, format);
    bounds(add, format);
    removed(add, format);
}

/// A good seal over three lines, and this one over two more.
fn odd(format: u8, alter: impl FnOnce(&mut Seal)) -> Log {
    let mut log = Log::begun(format);
    log.some(2).seal_with(alter);
    log
}

/// The second seal fails: the lines under it alone are not covered.
fn bad(verdict: &'static str, code: &'static str) -> Verdict {
    Verdict::bad(verdict, &[code, "unsigned_tail"])
}

fn spelling(add: &mut Adder, format: u8) {
    type Respell = fn(String) -> String;
    let cases: [(&str, Respell, &str); 9] = [
        (
            "seal-blank",
            |line| line.replacen("\"seq\":", "\"seq\": ", 1),
            "no blank",
        ),
        (
            "seal-seq-spelled-01",
            |line| line.replacen("\"seq\":1", "\"seq\":01", 1),
            "no leading zeros",
        ),
        (
            "seal-final-number",
            |line| line.replacen("false", "0", 1),
            "`final` is true or false",
        ),
        (
            "seal-more",
            |line| line.replacen("\"final\":", "\"more\":1,\"final\":", 1),
            "one more member",
        ),
        (
            "seal-order-of-members",
            |line| line.replacen("\"seq\":1,\"size\"", "\"size\"", 1),
            "a member is missing",
        ),
        (
            "seal-escape",
            |line| line.replacen("\"note\"", "\"\\u006eote\"", 1),
            "no escape in a name",
        ),
        ("seal-root-upper-case", upper_case_root, "hex is lower case"),
        (
            "seal-size-2-64",
            |line| replace_number(&line, "size", "18446744073709551616"),
            "numbers are below 2^64",
        ),
        (
            "seal-lines-float",
            |line| line.replacen("\"lines\":5", "\"lines\":5.0", 1),
            "numbers are decimal",
        ),
    ];
    for (name, respell, rule) in cases {
        let log = odd(format, |seal| seal.respell = respell);
        let rule = format!("seal file, step 5: {rule}");
        add.log(name, &log, bad("tampered", "seal_malformed"), &rule);
    }
    let times = [
        (
            "time-five-digits",
            "1771356405.00200",
            "six digits of a fraction",
        ),
        ("time-without-fraction", "1771356405", "a fraction"),
        (
            "time-zero-in-front",
            "01771356405.002000",
            "no leading zeros",
        ),
        ("time-text", "\"1771356405.002000\"", "no text"),
        (
            "time-after-9999",
            "253402300800.000000",
            "at most the end of the year 9999",
        ),
    ];
    for (name, time, rule) in times {
        let log = odd(format, |seal| time.clone_into(&mut seal.time));
        let rule = format!("seal file, step 5: `time` has {rule}");
        add.log(name, &log, bad("tampered", "seal_malformed"), &rule);
    }
}

fn upper_case_root(line: String) -> String {
    let Some((before, root)) = line.split_once("\"root\":\"") else {
        return line;
    };
    let (root, rest) = root.split_at(64);
    let root = root.to_uppercase();
    format!("{before}\"root\":\"{root}{rest}")
}

fn replace_number(line: &str, name: &str, number: &str) -> String {
    let start = format!("\"{name}\":");
    let at = line.find(&start).map_or(line.len(), |at| at + start.len());
    let (before, rest) = line.split_at(at);
    format!(
        "{before}{number}{}",
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    )
}

fn notes(add: &mut Adder, format: u8) {
    let other = if format == 1 { 2 } else { 1 };
    let record = encoding::hex(&[8; 32]);
    let zeros = Digest::from_bytes([0; 32]);
    type Alter = Box<dyn FnOnce(&mut Seal)>;
    let cases: Vec<(&str, Alter, &str)> = vec![
        (
            "note-lines",
            Box::new(|seal| seal.noted = Some((4, seal.root))),
            "the note states other lines",
        ),
        (
            "note-root",
            Box::new(move |seal| seal.noted = Some((seal.lines, zeros))),
            "the note states another root",
        ),
        (
            "note-digest",
            Box::new(|seal| {
                seal.alter = |line| line.replacen(",\"final\":false", ",\"final\":true", 1);
            }),
            "the note has the digest of another line",
        ),
        (
            "note-of-another-record",
            Box::new(move |seal| seal.origin = seal.origin.replacen("0808", "0809", 1)),
            "the note names another record",
        ),
        (
            "note-of-another-format",
            Box::new(move |seal| seal.origin = format!("threadseal/observed/{other}/{record}")),
            "the note names another format",
        ),
        (
            "note-two-signatures",
            Box::new(|seal| seal.alter = twice),
            "one signature line",
        ),
        (
            "note-signature-short",
            Box::new(|seal| seal.alter = |line| blob(&line, |bytes| bytes.truncate(67))),
            "a signature has 64 bytes",
        ),
        (
            "note-dash-itself",
            Box::new(|seal| seal.alter = |line| line.replacen("\\u2014", "\u{2014}", 1)),
            "ASCII only",
        ),
        (
            "note-without-lf",
            Box::new(|seal| seal.alter = |line| line.replacen("\\n\"}}", "\"}}", 1)),
            "LF ends the signature line",
        ),
    ];
    for (name, alter, rule) in cases {
        let rule = format!("seal file, step 5: {rule}");
        add.log(
            name,
            &odd(format, alter),
            bad("tampered", "seal_malformed"),
            &rule,
        );
    }
}

/// The signature line of a note twice.
fn twice(line: String) -> String {
    let Some(at) = line.find("\\u2014") else {
        return line;
    };
    let signature = line[at..].trim_end_matches("\"}}");
    format!("{}{signature}{signature}\"}}}}", &line[..at])
}

/// The base64 behind the last blank, its bytes changed.
fn blob(line: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let at = line.rfind(' ').map_or(0, |at| at + 1);
    let (text, end) = line[at..].split_once("\\n").unwrap_or_default();
    let mut bytes = encoding::parse_base64(text).unwrap_or_default();
    change(&mut bytes);
    format!("{}{}\\n{end}", &line[..at], encoding::base64(&bytes))
}

fn order(add: &mut Adder, format: u8) {
    type Alter = fn(&mut Seal);
    let cases: [(&str, Alter, &'static str, &str); 8] = [
        (
            "seq-repeated",
            |seal| seal.seq = 0,
            "seal_order",
            "step 6: `seq` is that of the seal before",
        ),
        (
            "seq-skipped",
            |seal| seal.seq = 2,
            "seal_order",
            "step 6: `seq` has a gap",
        ),
        (
            "size-lower",
            |seal| seal.size = 3,
            "seal_order",
            "step 6: `size` is lower",
        ),
        (
            "sidecar",
            |seal| seal.sidecar = seal.root,
            "seal_order",
            "step 6: `sidecar` of another beginning",
        ),
        (
            "lines-more",
            |seal| seal.lines += 1,
            "leaves_changed",
            "step 7: more `lines` than leaves",
        ),
        (
            "lines-fewer",
            |seal| seal.lines -= 1,
            "leaves_changed",
            "step 7: fewer `lines` than leaves",
        ),
        (
            "root",
            |seal| seal.root = seal.sidecar,
            "leaves_changed",
            "step 7: the root of other leaves",
        ),
        (
            "sidecar-and-root",
            |seal| (seal.sidecar, seal.root) = (seal.root, seal.sidecar),
            "seal_order",
            "step 6 comes before step 7",
        ),
    ];
    for (name, alter, code, rule) in cases {
        let rule = format!("seal file, {rule}");
        add.log(
            &format!("seal-{name}"),
            &odd(format, alter),
            bad("tampered", code),
            &rule,
        );
    }
    let mut log = Log::begun(format);
    log.end().some(1).seal();
    let rule = "seal file, step 6: a seal behind a final one";
    let verdict = Verdict::bad("tampered", &["seal_order", "lines_after_final"]);
    add.log("seal-after-final", &log, verdict, rule);
    let mut log = Log::new(format);
    log.some(2).seal_with(|seal| seal.seq = 1);
    let rule = "seal file, step 6: the first `seq` is 0";
    let verdict = Verdict::bad("tampered", &["seal_order", "no_seal"]);
    add.log("seal-first-seq-1", &log, verdict, rule);
    let log = odd(format, |seal| seal.seq = 2);
    let lines = split(&log.out);
    let mut edited = lines.clone();
    edited[1] = b"{}\n";
    let rule = "seal file, and log, step 4: both are done, and lines are trusted up to the one that differs";
    let verdict = Verdict::differs("line_changed", &lines[..1]).and("seal_order");
    add.edited(
        "seal-bad-and-line-changed",
        &edited.concat(),
        &log,
        verdict,
        rule,
    );
}

fn signatures(add: &mut Adder, format: u8) {
    type Alter = fn(&mut Seal);
    let flip_hash = |line: String| blob(&line, |bytes| bytes[0] ^= 1);
    let flip_end = |line: String| blob(&line, |bytes| bytes[67] ^= 1);
    let forged = || bad("forged", "signature_bad");
    let rule = "seal file, step 8: another key than that of the header";
    add.log(
        "signed-by-another",
        &odd(format, |seal| seal.by = 5),
        forged(),
        rule,
    );
    let rule = "seal file, step 8: the key hash is another one";
    add.log(
        "signature-key-hash",
        &odd(format, |seal| seal.alter = flip_hash),
        forged(),
        rule,
    );
    let rule = "seal file, step 8: one bit of the signature";
    add.log(
        "signature-bit",
        &odd(format, |seal| seal.alter = flip_end),
        forged(),
        rule,
    );
    let both: Alter = |seal| (seal.by, seal.seq) = (5, 2);
    let rule = "seal file, step 6 comes before step 8";
    add.log(
        "signed-by-another-seq",
        &odd(format, both),
        bad("tampered", "seal_order"),
        rule,
    );
    let mut log = Log::new(format);
    log.some(2).seal_with(|seal| seal.by = 5).seal();
    let rule = "seal file, step 8: every signature is checked, not the last alone";
    let verdict = Verdict::bad("forged", &["signature_bad", "no_seal"]);
    add.log("signed-by-another-first", &log, verdict, rule);
}

/// What is allowed.
fn bounds(add: &mut Adder, format: u8) {
    let log = odd(format, |seal| {
        "253402300799.999999".clone_into(&mut seal.time);
    });
    let rule = "seal file, step 5: `time` is the end of the year 9999";
    add.log("time-last", &log, Verdict::open(&log), rule);
    let log = odd(format, |seal| "0.000000".clone_into(&mut seal.time));
    let rule = "`time` may be before that of the seal before: it is a claim";
    add.log("time-backwards", &log, Verdict::open(&log), rule);
    let mut log = Log::begun(format);
    log.seal().seal();
    let rule = "seal file, step 6: `size` may be that of the seal before";
    add.log("seals-without-new-lines", &log, Verdict::open(&log), rule);
}

/// Lines of the seal file that were removed or put elsewhere.
fn removed(add: &mut Adder, format: u8) {
    let log = odd(format, |_| {});
    let lines: Vec<&[u8]> = split(&log.body);
    let [leaves, first, more, second] = lines[..] else {
        unreachable!("two lines of leaves and two seals")
    };
    let with = |lines: &[&[u8]]| {
        let mut log = log.clone();
        log.body = lines.concat();
        log
    };
    let rule = "seal file, step 6: leaves were removed, and `sidecar` does not fit";
    let removed = with(&[leaves, first, second]);
    add.log(
        "leaves-removed",
        &removed,
        bad("tampered", "seal_order"),
        rule,
    );
    let rule = "seal file, step 6: a seal was removed";
    let verdict = Verdict::bad("tampered", &["seal_order", "no_seal"]);
    add.log(
        "first-seal-removed",
        &with(&[leaves, more, second]),
        verdict,
        rule,
    );
    let rule = "the last seal was removed, with its leaves: nothing shows it";
    let older = with(&[leaves, first]);
    let until = log.seals.first().map(|seal| seal.trusted);
    let verdict = Verdict::new("unsigned_tail", &["end_unproved", "unsigned_tail"], until);
    add.log("last-seal-removed", &older, verdict, rule);
    let rule = "seal file, step 5: leaves doubled, and `sidecar` does not fit";
    let doubled = with(&[leaves, first, more, more, second]);
    add.log(
        "leaves-doubled",
        &doubled,
        bad("tampered", "seal_order"),
        rule,
    );
}
