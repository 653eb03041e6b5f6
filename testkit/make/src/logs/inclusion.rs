//! Proofs as files: `spec/tlog.md`, "Proofs as files".

use super::{Adder, answer};
use crate::proof_forge::LogPart;

pub(super) fn add(add: &mut Adder) {
    let part = LogPart::of("four");
    let text = part.text();
    let (_, proof) = text.split_once('\n').expect("the line of the entry");
    let hash = proof.lines().nth(2).expect("a hash").to_owned();
    let mut case = |name: &str, short: &'static str, proof: &str, entry: &str| {
        let name = format!("inclusion-{name}");
        let files: [super::File<'_>; 2] = [
            ("proof", ".tlog-proof", proof.as_bytes()),
            ("entry", ".entry", entry.as_bytes()),
        ];
        let rule = "tlog.md, \"Proofs as files\"";
        add.add(("inclusion", &name), rule, &[], answer(short), &files);
    };
    case("proved", "proved", proof, "four");
    case("of-another-entry", "not_proved", proof, "five");
    case(
        "of-another-number",
        "not_proved",
        &proof.replace("index 3", "index 2"),
        "four",
    );
    case(
        "of-a-number-beyond",
        "not_proved",
        &proof.replace("index 3", "index 5"),
        "four",
    );
    case(
        "with-a-hash-less",
        "not_proved",
        &proof.replacen(&format!("{hash}\n"), "", 1),
        "four",
    );
    case(
        "with-a-hash-more",
        "not_proved",
        &proof.replacen("\n\n", &format!("\n{hash}\n\n"), 1),
        "four",
    );
    case(
        "with-extra",
        "proved",
        &proof.replacen("index", "extra eA==\nindex", 1),
        "four",
    );
    case(
        "with-an-empty-extra",
        "proved",
        &proof.replacen("index", "extra \nindex", 1),
        "four",
    );
    for (name, from, to) in [
        ("of-version-2", "@v1", "@v2".to_owned()),
        ("with-index-03", "index 3", "index 03".to_owned()),
        ("without-index", "index 3\n", String::new()),
        (
            "with-extra-twice",
            "index",
            "extra eA==\nextra eA==\nindex".to_owned(),
        ),
        (
            "with-trailing-bits-in-extra",
            "index",
            "extra eB==\nindex".to_owned(),
        ),
        (
            "with-a-hash-of-31-bytes",
            "\n\n",
            format!("\n{}\n\n", "AAAA".repeat(10) + "AA=="),
        ),
        (
            "with-64-hashes",
            "\n\n",
            format!("\n{}\n", format!("{hash}\n").repeat(61)),
        ),
        (
            "without-a-checkpoint",
            "example.com/log\n5",
            "example.com/log\nfive".to_owned(),
        ),
        ("with-a-blank-line-more", "\n\n", "\n\n\n".to_owned()),
    ] {
        let changed = proof.replacen(from, &to, 1);
        assert_ne!(changed, proof, "{name}");
        case(name, "malformed", &changed, "four");
    }
}
