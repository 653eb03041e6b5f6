//! The worked examples of `spec/canon.md`, computed again.

use threadseal_core::canon::{jcs, json, python};
use threadseal_testkit::in_repository;

/// The fenced blocks marked `canon`, as pairs of line head and rest.
fn examples(document: &str) -> Vec<Vec<(&str, &str)>> {
    let block = |after: &'static str| move |part: &str| part.starts_with(after);
    let is_example = block("canon\n");
    document
        .split("```")
        .filter(|part| is_example(part))
        .map(|part| {
            let lines = part.lines().skip(1);
            lines.map(|line| line.split_once(": ").unwrap()).collect()
        })
        .collect()
}

/// Text with every character outside printable ASCII as its bytes in hex.
fn visible(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap();
    let show = |c: char| match c {
        ' '..='~' => c.to_string(),
        _ => {
            let bytes: Vec<_> = c.to_string().bytes().map(|b| format!("{b:02X}")).collect();
            format!("<{}>", bytes.join(" "))
        }
    };
    text.chars().map(show).collect()
}

/// `NonFiniteNumber` as specifications write it: `non_finite_number`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

fn strict(text: &[u8]) -> String {
    match json::validate(text) {
        Ok(()) => "accepted".to_owned(),
        Err(error) => {
            let kind = snake_case(&format!("{:?}", error.kind));
            format!("refused {kind} at {}", error.offset)
        }
    }
}

fn pythonic(text: &[u8]) -> String {
    let Ok(document) = json::parse_python(text) else {
        return "refused".to_owned();
    };
    let notes: Vec<_> = document
        .irregularities
        .iter()
        .map(|note| {
            format!(
                "{} at {}",
                snake_case(&format!("{:?}", note.kind)),
                note.offset
            )
        })
        .collect();
    format!("accepted {}", notes.join(", "))
        .trim_end()
        .to_owned()
}

fn compute(what: &str, text: &[u8]) -> String {
    let value = || json::parse_python(text).unwrap().value;
    match what {
        "strict" => strict(text),
        "python" => pythonic(text),
        "jcs" => jcs::canonicalize(text).map_or("refused".to_owned(), |out| visible(&out)),
        "rye" => visible(&python::rye(&value())),
        "rye-line" => visible(&python::rye_line(&value())),
        "ledger" => python::ledger(&value()).map_or("refused".to_owned(), |out| visible(&out)),
        "ledger-line" => {
            let line = python::ledger_line(&value());
            line.map_or("refused".to_owned(), |out| visible(&out))
        }
        other => panic!("the specification's examples have no {other}"),
    }
}

#[test]
fn every_example_of_the_specification_comes_out_as_it_says() {
    let document = std::fs::read_to_string(in_repository("spec/canon.md")).unwrap();
    let examples = examples(&document);
    assert!(examples.len() >= 10, "the document lost its examples");
    for example in examples {
        let [("text", text), claims @ ..] = &example[..] else {
            panic!("an example starts with its text: {example:?}");
        };
        for (what, claim) in claims {
            assert_eq!(&compute(what, text.as_bytes()), claim, "{what} of {text}");
        }
    }
}

#[test]
fn the_table_of_refusals_names_every_kind() {
    use json::JsonErrorKind::*;
    let document = std::fs::read_to_string(in_repository("spec/canon.md")).unwrap();
    for kind in [
        InvalidUtf8,
        ByteOrderMark,
        UnexpectedEnd,
        UnexpectedByte,
        InvalidEscape,
        LoneSurrogate,
        ControlCharacter,
        InvalidNumber,
        NonFiniteNumber,
        DuplicateKey,
        TrailingData,
        TooDeep,
        NumberTooLong,
        TooManyValues,
    ] {
        let name = snake_case(&format!("{kind:?}"));
        let rows = document.lines().filter(|line| line.starts_with("| `"));
        let named = |line: &str| {
            line.split(" | ")
                .next()
                .is_some_and(|cell| cell.contains(&*name))
        };
        assert!(rows.into_iter().any(named), "{name} has no row");
    }
}
