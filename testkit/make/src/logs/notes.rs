//! Who signed a note: `spec/keys-and-trust.md` §6.

use super::{Adder, answer};
use crate::forge::{key, signature};
use crate::list::Short;
use crate::proof_forge::{signature_line, vkey};

const TEXT: &str = "first line\nsecond line\n";
const NAME: &str = "example.com/notes";

fn line(number: u8, name: &str, text: &str) -> String {
    signature_line(name, &signature(&key(number), name, text))
}

fn known(number: u8, name: &str) -> String {
    vkey(name, 1, &key(number))
}

fn verified(keys: &[String]) -> Short {
    Short {
        signers: Some(keys.to_vec()),
        ..answer("verified")
    }
}

pub(super) fn add(add: &mut Adder) {
    let mut case = |name: &str, keys: &[String], short: Short, note: &str| {
        let rule = "keys-and-trust.md §6";
        let name = format!("note-{name}");
        add.add(
            ("note", &name),
            rule,
            keys,
            short,
            &[("note", ".note", note.as_bytes())],
        );
    };
    let one = [known(1, NAME)];
    let two = [known(1, NAME), known(2, NAME)];
    let good = format!("{TEXT}\n{}", line(1, NAME, TEXT));
    let both = format!("{good}{}", line(2, NAME, TEXT));
    let wrong = line(1, NAME, "another text\n");
    case("signed", &one, verified(&one), &good);
    case("signed-by-two", &two, verified(&two), &both);
    case("signed-by-one-of-two", &two, verified(&two[..1]), &good);
    case("signed-by-a-known-and-another", &one, verified(&one), &both);
    case(
        "twice-the-same-line",
        &one,
        verified(&one),
        &format!("{good}{}", line(1, NAME, TEXT)),
    );
    case("without-a-known-key", &[], answer("no_known_signer"), &good);
    case(
        "by-an-unknown-key",
        &two[1..],
        answer("no_known_signer"),
        &good,
    );
    case(
        "under-another-name",
        &[known(1, "example.com/other")],
        answer("no_known_signer"),
        &good,
    );
    case(
        "of-another-text",
        &one,
        answer("bad_signature"),
        &format!("{TEXT}\n{wrong}"),
    );
    case(
        "good-and-bad-line",
        &one,
        answer("bad_signature"),
        &format!("{good}{wrong}"),
    );
    case(
        "bad-line-of-an-unknown-key",
        &two[1..],
        answer("no_known_signer"),
        &format!("{TEXT}\n{wrong}"),
    );
    let malformed = |text: String| (answer("malformed"), text);
    for (name, (short, note)) in [
        ("without-its-last-lf", malformed(good.trim_end().to_owned())),
        (
            "without-a-blank-line",
            malformed(good.replace("\n\n", "\n")),
        ),
        ("without-signatures", malformed(format!("{TEXT}\n"))),
        ("with-a-hyphen", malformed(good.replace('\u{2014}', "-"))),
        (
            "with-cr",
            malformed(good.replace("first line\n", "first line\r\n")),
        ),
        (
            "with-tab",
            malformed(good.replace("first line", "first\tline")),
        ),
        (
            "with-two-blanks",
            malformed(good.replace("\u{2014} ", "\u{2014}  ")),
        ),
        (
            "with-a-blank-behind",
            malformed(good.replace("=\n", "= \n")),
        ),
        ("without-padding", malformed(good.replace("=\n", "\n"))),
        ("with-a-line-behind", malformed(format!("{good}more\n"))),
        (
            "with-65-lines",
            malformed(format!("{TEXT}\n{}", line(1, NAME, TEXT).repeat(65))),
        ),
        (
            "that-begins-as-a-cosignature",
            malformed(format!("cosignature/v1\n{good}")),
        ),
        ("empty", malformed(String::new())),
    ] {
        case(name, &one, short, &note);
    }
    let many = format!("{TEXT}\n{}", line(1, NAME, TEXT).repeat(64));
    case("with-64-lines", &one, verified(&one), &many);
    let delete = "first\u{7f}line\n";
    case(
        "with-delete",
        &one,
        verified(&one),
        &format!("{delete}\n{}", line(1, NAME, delete)),
    );
    let short = signature_line(NAME, &signature(&key(1), NAME, TEXT)[..4]);
    case(
        "with-an-id-alone",
        &one,
        answer("malformed"),
        &format!("{TEXT}\n{short}"),
    );
    let long = signature_line(NAME, &[&signature(&key(1), NAME, TEXT)[..], b"x"].concat());
    case(
        "with-a-signature-of-65-bytes",
        &one,
        answer("bad_signature"),
        &format!("{TEXT}\n{long}"),
    );
}
