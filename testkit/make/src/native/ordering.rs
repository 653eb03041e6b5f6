//! Checkpoints with two faults: the earlier step of §7 B is reported.

use super::script::{append, next_key, record};
use super::seals::stranger;
use super::{Set, want};
use crate::forge::{Forge, Seal, authority, key};

const RULE: &str = "§7 B: the first failure";

/// A name, what is before the seal, a change of it, verdict and codes.
type Row = (
    &'static str,
    &'static str,
    fn(&mut Seal),
    &'static str,
    &'static [&'static str],
);

pub(super) fn add(set: &mut Set) {
    for (name, before, alter, verdict, codes) in early().into_iter().chain(numbers()).chain(late())
    {
        let mut forge = super::seals::begun();
        for word in before.split_whitespace() {
            append(&mut forge, word);
        }
        forge.seal_with(&authority(), alter);
        set.add(
            &format!("order-{name}"),
            RULE,
            &forge,
            want(verdict, codes, 1),
        );
    }
    redactor(set);
    prefix(set);
}

fn unknown(seal: &mut Seal) {
    seal.ext = "{\"zebra\":1}".to_owned();
}

fn altered(seal: &mut Seal) {
    seal.noted = Some((seal.lines + 1, seal.root));
}

fn early() -> Vec<Row> {
    vec![
        (
            "1-2-spelling-and-ext",
            "",
            |s| {
                unknown(s);
                s.ts = s.ts.replace('Z', "z");
            },
            "tampered",
            &["checkpoint_malformed"],
        ),
        (
            "2-3-ext-and-note",
            "",
            |s| {
                unknown(s);
                altered(s);
            },
            "malformed",
            &["ext_unknown"],
        ),
        (
            "2-6-ext-and-fault",
            "j",
            unknown,
            "malformed",
            &["ext_unknown"],
        ),
        (
            "3-3-end-and-note",
            "",
            |s| {
                altered(s);
                s.alter = |l| l.replace("\"}}}", "\" }}}");
            },
            "tampered",
            &["checkpoint_malformed"],
        ),
        (
            "3-4-note-and-key",
            "",
            |s| {
                altered(s);
                stranger(s);
            },
            "tampered",
            &["checkpoint_altered"],
        ),
        (
            "4-5-key-and-seq",
            "",
            |s| {
                stranger(s);
                s.seq += 1;
            },
            "forged",
            &["key_not_allowed"],
        ),
        (
            "4-6-key-and-fault",
            "j",
            stranger,
            "forged",
            &["key_not_allowed"],
        ),
    ]
}

fn numbers() -> Vec<Row> {
    vec![
        (
            "5-seq-and-prev",
            "",
            |s| {
                s.seq += 1;
                s.prev = "null".to_owned();
            },
            "tampered",
            &["seal_missing"],
        ),
        (
            "5-prev-and-lines",
            "",
            |s| {
                s.prev = "null".to_owned();
                s.lines += 1;
            },
            "tampered",
            &["link_broken"],
        ),
        (
            "5-seq-and-signature",
            "",
            |s| {
                s.seq += 1;
                s.by = key(9);
            },
            "forged",
            &["signature_bad"],
        ),
        (
            "5-6-seq-and-fault",
            "j",
            |s| s.seq += 1,
            "tampered",
            &["line_malformed", "seal_missing"],
        ),
        (
            "5-6-seq-fault-and-signature",
            "j",
            |s| {
                s.seq += 1;
                s.by = key(9);
            },
            "forged",
            &["signature_bad"],
        ),
    ]
}

fn late() -> Vec<Row> {
    vec![
        (
            "6-7-fault-and-next-key",
            "j",
            |s| s.ext = next_key(1),
            "tampered",
            &["line_malformed"],
        ),
        (
            "6-8-fault-and-end",
            "j",
            |s| s.is_final = true,
            "tampered",
            &["line_malformed"],
        ),
        (
            "6-11-fault-and-signature",
            "j",
            |s| s.by = key(9),
            "tampered",
            &["line_malformed"],
        ),
        (
            "7-8-next-key-and-end",
            "",
            |s| {
                s.ext = next_key(1);
                s.is_final = true;
            },
            "forged",
            &["next_key_bad"],
        ),
        (
            "8-9-end-and-fp",
            "",
            |s| {
                s.is_final = true;
                s.fp = "0".repeat(16);
            },
            "malformed",
            &["end_misplaced"],
        ),
        (
            "9-11-fp-and-signature",
            "",
            |s| {
                s.fp = "0".repeat(16);
                s.by = key(9);
            },
            "tampered",
            &["rye_key_changed"],
        ),
        (
            "11-note-and-sig",
            "",
            |s| {
                s.by = key(9);
                s.sig = format!("{}==", "A".repeat(86));
            },
            "forged",
            &["signature_bad"],
        ),
    ]
}

/// Steps 8, 9, 10 and 11 with a redaction that names another key.
fn redactor(set: &mut Set) {
    let rows: [(&str, fn(&mut Seal), &str, &str); 3] = [
        (
            "8-10-end-and-redactor",
            |s| s.is_final = true,
            "malformed",
            "end_misplaced",
        ),
        (
            "9-10-fp-and-redactor",
            |s| s.fp = "0".repeat(16),
            "tampered",
            "rye_key_changed",
        ),
        (
            "10-11-redactor-and-signature",
            |s| s.by = key(9),
            "tampered",
            "redactor_differs",
        ),
    ];
    for (name, alter, verdict, code) in rows {
        let mut forge = super::bodies::detached();
        forge.seal(&authority());
        super::bodies::redact(&mut forge, &key(9));
        forge.seal_with(&authority(), alter);
        set.add(
            &format!("order-{name}"),
            RULE,
            &forge,
            want(verdict, &[code], 2),
        );
    }
}

/// A wrong `hash` is found after all others, and beside them.
fn prefix(set: &mut Set) {
    let wrong = |forge: &mut Forge| {
        forge.seal_with(&authority(), |seal| seal.hash = "0".repeat(64));
    };
    let rule = "§7 D 2: also after a failure";
    let mut forge = record("b1 t");
    wrong(&mut forge);
    forge.turn().line(b"{}").seal(&authority());
    let both = want("tampered", &["line_malformed", "prefix_hash_wrong"], 0);
    set.add("order-hash-and-a-later-fault", rule, &forge, both);
    let mut forge = record("b1 t");
    wrong(&mut forge);
    forge
        .turn()
        .seal_with(&authority(), |seal| seal.by = key(9));
    let both = want("forged", &["prefix_hash_wrong", "signature_bad"], 0);
    set.add("order-hash-and-a-later-signature", rule, &forge, both);
    let mut forge = record("b1 t");
    forge.seal_with(&authority(), |seal| {
        seal.hash = "0".repeat(64);
        seal.seq += 1;
    });
    let first = want("tampered", &["seal_missing"], 1);
    set.add(
        "order-hash-of-a-bad-seal",
        "§7 D 2: of each good seal",
        &forge,
        first,
    );
}
