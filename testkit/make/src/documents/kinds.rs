//! Which kind a document has: `spec/documents.md` §1. The kind shows in the verdict.

use super::forge::{Seal, fields};
use super::{Adder, Want};
use crate::list::Options;

/// A name that decides no kind.
const NAME: &str = "document";

pub(super) fn add(add: &mut Adder) {
    names(add);
    claims(add);
    members(add);
    headers(add);
}

fn named(name: &str, want: Want) -> Want {
    want.asked(Options {
        name: Some(name.to_owned()),
        ..Options::default()
    })
}

fn verified() -> Want {
    Want::new("verified", &[])
}

fn names(add: &mut Adder) {
    let (bytes, _) = Seal::of("python").text("a = 1\n");
    let rule = "§1: the last part of the path, case ignored";
    for (case, name, want) in [
        ("in-capitals", "a/B.PY", verified()),
        ("behind-a-backslash", "a.md\\b.py", verified()),
        ("in-a-folder", "a.md/b", verified()),
        ("of-the-ending-alone", "a/.md", verified()),
        ("with-another-ending", "a.py.txt", verified()),
        (
            "of-another-kind",
            "a.sh",
            Want::new("foreign", &["other_kind"]),
        ),
    ] {
        let case = format!("kind-by-a-name-{case}");
        add.add((&case, ""), rule, &bytes, named(name, want));
    }
}

/// Rule 2: a line that claims a seal.
fn claims(add: &mut Adder) {
    let rule = "§1 rule 2: the KIND of a seal in its place, else the comment";
    let (sealed, _) = Seal::of("python").text("a = 1\n");
    let sealed = String::from_utf8(sealed).expect("UTF-8");
    let line = sealed.lines().last().expect("a line");
    let unreadable = || Want::new("malformed", &["seal_unreadable"]);
    for (case, text, want) in [
        (
            "of-json",
            line.replacen("1-python", "1-json", 1) + "\n",
            unreadable(),
        ),
        (
            "of-no-word",
            line.replacen("1-python", "1-pythons", 1) + "\n",
            unreadable(),
        ),
        ("without-lf", line.to_owned(), unreadable()),
        (
            "in-another-comment",
            line.replacen("# ", "// ", 1) + "\n",
            unreadable(),
        ),
        (
            "before-a-text",
            format!("{line}\na = 1\n"),
            Want::new("tampered", &["seal_not_last"]),
        ),
    ] {
        let case = format!("kind-by-a-claim-{case}");
        add.add((&case, ""), rule, text.as_bytes(), named(NAME, want));
    }
}

/// Rule 4: a member that claims a seal in a text that does not begin with `{`. Where it is none, Rye's header
/// in line 1 makes the kind `shell`.
fn members(add: &mut Adder) {
    let rule = "§1 rule 4: blanks around the colon";
    let json = || Want::new("malformed", &["not_json"]);
    let shell = || Want::new("partial", &["shebang_uncovered"]);
    for (case, colon, want) in [
        ("nothing", ":".to_owned(), json()),
        ("a-blank", " : ".to_owned(), json()),
        ("a-tab", "\t:\t".to_owned(), json()),
        ("lf", "\n:\n".to_owned(), json()),
        ("many", " \t\n \t:\t\n\n ".to_owned(), json()),
        ("0x0b-before", "\u{b}:".to_owned(), shell()),
        ("0x0c-behind", ":\u{c}".to_owned(), shell()),
        ("0x1c-before", "\u{1c}:".to_owned(), shell()),
        ("0x85-before", "\u{85}:".to_owned(), shell()),
        ("a-no-break-space-before", "\u{a0}:".to_owned(), shell()),
        ("a-no-break-space-behind", ":\u{a0}".to_owned(), shell()),
        ("u-2028-behind", ":\u{2028}".to_owned(), shell()),
        ("a-byte-order-mark-behind", ":\u{feff}".to_owned(), shell()),
        ("two-colons", "::".to_owned(), shell()),
    ] {
        let body = format!("echo '\"_threadseal\"{colon}\"threadseal:signed:'\n");
        let text = format!("# {}\n{body}", fields(&body));
        let case = format!("kind-by-a-member-with-{case}");
        add.add((&case, ""), rule, text.as_bytes(), named(NAME, want));
    }
    let body = "echo '\"_threadseal\"\r:\r\"threadseal:signed:'\n";
    let text = format!("# {}\n{body}", fields(body));
    add.add(
        ("kind-by-a-member-with-cr", ""),
        rule,
        text.as_bytes(),
        named(NAME, json()),
    );
    let spelled = "echo '\"_thread\\u0073eal\":\"threadseal:signed:'\n";
    let text = format!("# {}\n{spelled}", fields(spelled));
    add.add(
        ("kind-by-a-member-with-escapes", ""),
        rule,
        text.as_bytes(),
        named(NAME, shell()),
    );
}

/// Rule 5: Rye's header.
fn headers(add: &mut Adder) {
    let rule = "§1 rule 5: Rye's header in line 1 or 2";
    let body = "echo ok\n";
    let uncovered = || Want::new("partial", &["uncovered"]);
    for (case, end) in [("lf", "\n"), ("cr-lf", "\r\n"), ("cr", "\r")] {
        let text = format!("#!/bin/sh{end}# {}\n{body}", fields(body));
        let case = format!("kind-by-a-header-behind-{case}");
        add.add((&case, ""), rule, text.as_bytes(), named(NAME, uncovered()));
    }
    let text = format!("// {}\n{body}", fields(body));
    let want = Want::new("partial", &["shebang_uncovered"]);
    add.add(
        ("kind-by-a-header-in-slashes", ""),
        rule,
        text.as_bytes(),
        named(NAME, want),
    );
}
