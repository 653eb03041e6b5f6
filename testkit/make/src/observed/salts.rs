//! The line of salts of format 2: `spec/transcript.md` §9, "Salts", and step 2 of the seal file.

use super::{Adder, Verdict, split};
use crate::observed_forge::{Log, Secret, salts};

pub(super) fn add(add: &mut Adder) {
    spelling(add);
    trees(add);
    missing(add);
}

/// A log of three lines, with this line of salts.
fn with(line: &str) -> Log {
    let mut log = Log::begun(2);
    line.clone_into(&mut log.salts);
    log
}

fn bad() -> Verdict {
    Verdict::bad("malformed", &["salts_bad", "no_seal"])
}

fn spelling(add: &mut Adder) {
    let good = salts(&[Secret::root()]);
    let number = |number: &str| good.replacen("[32,0,", &format!("[{number},"), 1);
    let cases = [
        ("salts-empty-line", String::new(), "an empty line"),
        ("salts-blank", good.replacen(':', ": ", 1), "no blank"),
        (
            "salts-more",
            good.replacen("]}", "],\"more\":1}", 1),
            "no more members",
        ),
        (
            "salts-upper-case",
            number("31,0").replacen("0404", "0A04", 1),
            "hex is lower case",
        ),
        (
            "salts-short",
            number("31,0").replacen("0404", "04", 1),
            "32 digits",
        ),
        ("salts-level-33", number("33,0"), "levels 0 to 32"),
        (
            "salts-number-of-root",
            number("32,1"),
            "level 32 has the number 0",
        ),
        (
            "salts-number-too-high",
            number("0,4294967296"),
            "level 0 has numbers below 2^32",
        ),
        ("salts-level-01", number("01,0"), "no leading zeros"),
        ("salts-cr", format!("{good}\r"), "CR before LF"),
    ];
    for (name, line, rule) in cases {
        let rule = format!("seal file, step 2: {rule}");
        add.log(name, &with(&line), bad(), &rule);
    }
    let log = Log::begun(2);
    let header = [log.header.as_bytes(), b"\n"].concat();
    let name = |name| (name, 2);
    let rule = "seal file, step 2: leaves in the place of the salts";
    let file = [header.as_slice(), &log.body].concat();
    add.parts(name("salts-line-gone"), &log.out, &file, bad(), rule);
    let file = [header.as_slice(), good.as_bytes()].concat();
    let rule = "seal file, step 2: the line of salts has no LF";
    add.parts(name("salts-torn"), &log.out, &file, bad(), rule);
    add.parts(
        name("salts-none"),
        &log.out,
        &header,
        bad(),
        "seal file, step 2: no line of salts",
    );
}

fn trees(add: &mut Adder) {
    let [left, right] = Secret::root().halves();
    let [first, second] = left.halves();
    let changed = |secret: Secret| Secret {
        bytes: [5; 16],
        ..secret
    };
    let cases: [(&str, &[Secret], &str); 5] = [
        (
            "salts-root-changed",
            &[changed(Secret::root())],
            "a root that `salted` does not fit",
        ),
        ("salts-descending", &[right, left], "secrets ascend by line"),
        ("salts-twice", &[left, left], "a secret twice"),
        (
            "salts-above",
            &[left, second, right],
            "a secret below another one",
        ),
        ("salts-below", &[first, left], "a secret above another one"),
    ];
    for (name, secrets, rule) in cases {
        let rule = format!("seal file, step 2: {rule}");
        add.log(name, &with(&salts(secrets)), bad(), &rule);
    }
    let good: [(&str, &[Secret], &str); 3] = [
        (
            "salts-halves",
            &[left, right],
            "the two halves are as good as the root",
        ),
        (
            "salts-levels",
            &[first, second, right],
            "secrets of several levels",
        ),
        (
            "salts-unused-wrong",
            &[left, changed(right)],
            "a secret of no line that is there is not checked",
        ),
    ];
    for (name, secrets, rule) in good {
        let log = with(&salts(secrets));
        add.log(
            name,
            &log,
            Verdict::open(&log),
            &format!("seal file, step 2: {rule}"),
        );
    }
    let wrong = with(&salts(&[changed(left), right]));
    let rule = "a wrong secret gives another leaf than the sealed one";
    add.log(
        "salts-wrong",
        &wrong,
        Verdict::differs("line_changed", &[]),
        rule,
    );
}

fn missing(add: &mut Adder) {
    let rule = "log, step 4: a salt is gone, and no statement names the line";
    let mut log = Log::begun(2);
    log.unsalt(&[2]);
    let before = &split(&log.out)[..1];
    add.log(
        "salt-missing",
        &log,
        Verdict::differs("salt_missing", before),
        rule,
    );
    let mut log = Log::begun(2);
    log.unsalt(&[1, 3]);
    let rule = "log, step 4: the first line without a salt";
    add.log(
        "salts-missing",
        &log,
        Verdict::differs("salt_missing", &[]),
        rule,
    );
    let mut log = Log::begun(2);
    log.unsalt(&[4]);
    let rule = "the salt of a line that is not sealed yet may be gone";
    add.log("salt-missing-behind", &log, Verdict::open(&log), rule);
}
