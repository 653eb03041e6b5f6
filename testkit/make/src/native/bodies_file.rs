//! The file of bodies (§10): its bodies, its lines, and its end.

use super::bodies::{Body, ONE, TWO, detached, file, header};
use super::{ALL, Set, Want, want};
use crate::forge::{Forge, authority};

pub(super) fn add(set: &mut Set) {
    changed(set);
    lines(set);
    headers(set);
    ends(set);
}

/// A record with `ONE`, ended.
fn record() -> Forge {
    let mut forge = detached();
    forge.finish(&authority());
    forge
}

fn tampered(codes: &[&'static str]) -> Want {
    want("tampered", codes, ALL)
}

fn changed(set: &mut Set) {
    let (good, rule) = (file(&[ONE]), "§10: fits its commitment, has the length");
    for (name, bodies) in [
        ("text", good.replace("caf", "bar")),
        ("text-of-another-length", good.replace("caf", "cafe")),
        ("salt", good.replace(&"09".repeat(32), &"0a".repeat(32))),
        ("spelling", good.replace("\\u00e9", "\\u00E9")),
    ] {
        let changed = tampered(&["body_changed"]);
        set.add_with(
            &format!("body-changed-{name}"),
            rule,
            &record(),
            Some(&bodies),
            changed,
        );
    }
    let wrong = ONE.reference().replace("\"bytes\":11", "\"bytes\":12");
    let mut forge = super::bodies::begun();
    forge
        .event("note", &format!("{{\"x\":{wrong}}}"))
        .finish(&authority());
    let changed = tampered(&["body_changed"]);
    set.add_with(
        "body-of-another-length-than-stated",
        rule,
        &forge,
        Some(&good),
        changed,
    );
    let missing = tampered(&["body_missing"]);
    let rule = "§10: is not there";
    set.add(
        "body-missing-with-its-file",
        rule,
        &record(),
        missing.clone(),
    );
    set.add_with(
        "body-missing-in-its-file",
        rule,
        &record(),
        Some(&header(7)),
        missing,
    );
    let unknown = want("verified", &["body_unknown"], ALL);
    let rule = "§10: no line commits to it";
    set.add_with(
        "body-unknown",
        rule,
        &record(),
        Some(&file(&[ONE, TWO])),
        unknown.clone(),
    );
    set.add_with(
        "body-unknown-first",
        rule,
        &record(),
        Some(&file(&[TWO, ONE])),
        unknown,
    );
    let both = tampered(&["body_missing", "body_unknown"]);
    set.add_with(
        "body-unknown-and-another-missing",
        rule,
        &record(),
        Some(&file(&[TWO])),
        both,
    );
}

/// One wrong line behind a good file.
fn lines(set: &mut Set) {
    let line = TWO.line();
    let text = |text: &str| line.replace("{\"a\":[1,2]}", text);
    for (name, wrong) in [
        (
            "blank-before-body",
            line.replace("\"body\":", "\"body\":  "),
        ),
        ("cr", line.replace('\n', "\r\n")),
        ("cr-before-body", line.replace("\"body\":", "\"body\":\r")),
        ("cr-behind-body", text("{}\r")),
        ("body-no-json", text("{")),
        ("body-utf8", text("\"ö\"")),
        (
            "body-of-depth-129",
            text(&format!("{}{}", "[".repeat(129), "]".repeat(129))),
        ),
        ("header-again", header(7)),
    ] {
        let bodies = file(&[ONE]) + &wrong;
        let malformed = tampered(&["bodies_malformed"]);
        let name = format!("bodies-line-{name}");
        set.add_with(
            &name,
            "§10: a line with another spelling",
            &record(),
            Some(&bodies),
            malformed,
        );
    }
    let again = file(&[ONE, ONE]);
    let malformed = tampered(&["bodies_malformed"]);
    let rule = "§10: a second line of one commitment";
    set.add_with(
        "bodies-line-again",
        rule,
        &record(),
        Some(&again),
        malformed,
    );
    // Of the second line the body is another one, so that it does not fit.
    let changed = file(&[ONE]) + &ONE.line().replace("caf", "cat");
    let malformed = tampered(&["bodies_malformed"]);
    set.add_with(
        "bodies-line-again-that-does-not-fit",
        rule,
        &record(),
        Some(&changed),
        malformed,
    );
    let deep: &'static str =
        Box::leak(format!("{}{}", "[".repeat(128), "]".repeat(128)).into_boxed_str());
    let unknown = want("verified", &["body_unknown"], ALL);
    for (name, body) in [
        ("of-depth-128", deep),
        ("number", "1"),
        ("null", "null"),
        ("with-blanks-inside", "{\t\"a\" :\r[ 1]}"),
        ("with-0x7f", "\"\u{7f}\""),
    ] {
        let bodies = file(&[ONE, Body(11, body)]);
        let name = format!("body-unknown-{name}");
        set.add_with(
            &name,
            "§10: one JSON value",
            &record(),
            Some(&bodies),
            unknown.clone(),
        );
    }
}

fn headers(set: &mut Set) {
    let mut none = super::bodies::begun();
    none.turn().finish(&authority());
    let rule = "§10: a first line that is none";
    for (name, first) in [
        (
            "with-a-blank",
            header(7).replace(",\"record\"", ", \"record\""),
        ),
        ("upper-case", header(0xab).replace("abab", "ABAB")),
        ("empty", "\n".to_owned()),
    ] {
        let malformed = tampered(&["bodies_malformed"]);
        let name = format!("bodies-first-line-{name}");
        set.add_with(&name, rule, &none, Some(&first), malformed);
    }
    let foreign = tampered(&["bodies_foreign"]);
    let rule = "§10: a first line that names another record";
    set.add_with(
        "bodies-foreign-and-no-body",
        rule,
        &none,
        Some(&header(8)),
        foreign,
    );
    let missing = tampered(&["bodies_foreign", "body_missing"]);
    set.add_with(
        "bodies-foreign-and-empty",
        rule,
        &record(),
        Some(&header(8)),
        missing,
    );
    let bodies = header(8) + &ONE.line();
    let changed = tampered(&["bodies_foreign", "body_changed"]);
    set.add_with("bodies-foreign", rule, &record(), Some(&bodies), changed);
}

fn ends(set: &mut Set) {
    let torn = want("verified", &["bodies_torn"], ALL);
    let rule = "§10: bytes behind the last LF";
    let bodies = file(&[ONE]) + "{\"commitment\":\"";
    set.add_with("bodies-torn", rule, &record(), Some(&bodies), torn.clone());
    let bodies = file(&[ONE]) + "garbage";
    set.add_with("bodies-torn-garbage", rule, &record(), Some(&bodies), torn);
    let bodies = file(&[ONE]);
    let missing = tampered(&["bodies_torn", "body_missing"]);
    set.add_with(
        "bodies-torn-at-a-body",
        rule,
        &record(),
        Some(bodies.trim_end()),
        missing,
    );
    let mut none = super::bodies::begun();
    none.turn().finish(&authority());
    let torn = want("verified", &["bodies_torn"], ALL);
    set.add_with(
        "bodies-first-line-torn",
        rule,
        &none,
        Some(header(7).trim_end()),
        torn,
    );
}
