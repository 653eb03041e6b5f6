//! Rules for the text of the files.

use super::repository::Repository;
use super::rust;

/// Words in comments that postpone work. They are split, so that this list does not find itself.
const PUT_OFF: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Placeholders for code, and marks of tests that do not run.
const STAND_INS: [&str; 4] = ["todo!", "unimplemented!", "#[ignore]", "#[ignore ="];

/// Folders that exist on one machine only.
const MACHINE: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp", "/ts"),
    concat!("/home", "/runner"),
];

/// Registries by host: cargo and pip know where to ask.
const HOSTS: [&str; 4] = [
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("py", "pi.org"),
    concat!("files.python", "hosted.org"),
];

/// Words about the process of the work, which do not belong in its result.
const TALK: [&str; 7] = [
    concat!("design", " §"),
    concat!("this ", "session"),
    concat!("previous ", "session"),
    concat!("founding ", "engineer"),
    concat!("sub-", "agent"),
    concat!("the ", "brief"),
    concat!("other ", "helper"),
];

/// Words that hide who does what, each with words that do not.
const PRIVATE_LANGUAGE: [(&str, &str); 15] = [
    ("said", "stated, reported"),
    ("says", "states, reports, gives"),
    ("told", "reported, given"),
    ("tells", "reports, shows"),
    ("stands", "is, remains"),
    ("lies", "is located"),
    ("goes on", "continues"),
    ("going on", "continuing"),
    ("nobody", "no one, no key"),
    ("somebody", "a user, an attacker"),
    ("whoever", "the caller, anyone who"),
    ("comes along", "follows, is included"),
    ("by itself", "alone, without help"),
    ("by themselves", "alone"),
    ("the original", "the name of the program"),
];

/// Texts that records hold since before this rule: new records keep them, so that one search finds all.
const IN_RECORDS: [&str; 7] = [
    "nobody knows",
    "Nobody knows",
    "it said in the log that it ended",
    "the original ended as",
    "as given by whoever adopted it",
    "the server says:",
    "message says what to do next",
];

/// Modules that only tests compile, of which a file does not show it.
const TEST_MODULES: [&str; 12] = [
    "tests",
    "testing",
    "test",
    "attacks",
    "conformance",
    "fault",
    "moto",
    "openssl",
    "processes",
    "sim",
    "snapshot",
    "throwaway",
];

/// The pages of help, as a test freezes them.
const HELP: &str = "crates/threadseal-cli/tests/snapshots/help.txt";

/// Words of a private language where a person reads: comments, documents, help, and the literals of
/// what ships, which are its errors and findings.
pub(crate) fn private_language(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    let mut search = |path: &str, text: &str| {
        let text = text.to_ascii_lowercase();
        for (word, instead) in PRIVATE_LANGUAGE {
            let found = found(path, &text, word, true).into_iter();
            faults.extend(found.map(|fault| format!("{fault}; write: {instead}")));
        }
    };
    for (path, text) in repository.ending(".rs") {
        search(path, &rust::layers(text).comments);
    }
    for (path, text) in repository.ending(".md") {
        search(path, &prose(text));
    }
    if let Some(text) = repository.text(HELP) {
        search(HELP, text);
    }
    for (path, text) in repository.ending(".rs") {
        if path.starts_with("crates/") && is_shipped(path) {
            search(path, &sentences(text));
        }
    }
    faults
}

/// Is a file of a crate part of what ships? Its name shows what only tests compile.
fn is_shipped(path: &str) -> bool {
    let inner = path.split_once("/src/").map(|(_, inner)| inner);
    inner.is_some_and(|inner| {
        !inner
            .split(['/', '.'])
            .any(|part| TEST_MODULES.contains(&part))
    })
}

/// The literals of what ships, without names in braces and [`IN_RECORDS`].
fn sentences(source: &str) -> String {
    let layers = rust::layers(source);
    let mut out = layers.literals;
    let tests = rust::test_ranges(&layers.code);
    let attributes = layers.code.match_indices("reason =").map(|(at, _)| {
        let end = layers.code[at..].find(']').map_or(at, |length| at + length);
        at..end
    });
    for range in tests.into_iter().chain(attributes) {
        let blank: String = out[range.clone()]
            .bytes()
            .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
            .collect();
        out.replace_range(range, &blank);
    }
    for text in IN_RECORDS {
        out = out.replace(text, &" ".repeat(text.len()));
    }
    let mut braces = 0_u32;
    out.chars()
        .map(|c| {
            match c {
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                '\n' => braces = 0,
                _ if braces == 0 => return c,
                _ => {}
            }
            if c == '\n' { c } else { ' ' }
        })
        .collect()
}

/// Markdown without its code: blocks between fences and text between backquotes are blank.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let mut quoted = fenced || is_fence;
        for c in line.chars() {
            match c {
                '\n' => out.push(c),
                '`' => {
                    quoted = fenced || is_fence || !quoted;
                    out.push(' ');
                }
                _ if quoted => out.push(' '),
                _ => out.push(c),
            }
        }
    }
    out
}

/// Rust files whose first line does not state what they own.
pub(crate) fn first_line(repository: &Repository) -> Vec<String> {
    let silent = |(path, text): (&str, &str)| {
        let said = text
            .strip_prefix("//! ")
            .is_some_and(|rest| !rest.starts_with('\n'));
        (!said).then(|| format!("{path}:1: does not begin with `//! ` and what the file owns"))
    };
    repository.ending(".rs").filter_map(silent).collect()
}

/// Postponed work, placeholders, tests that do not run.
pub(crate) fn unfinished(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in repository.ending(".rs") {
        let layers = rust::layers(text);
        for word in PUT_OFF {
            faults.extend(found(path, &layers.comments, word, true));
        }
        for word in STAND_INS {
            faults.extend(found(path, &layers.code, word, false));
        }
    }
    for (path, text) in repository.ending(".md") {
        for word in PUT_OFF {
            faults.extend(found(path, text, word, true));
        }
    }
    faults
}

/// Machine paths, registry hosts, and words about the process.
pub(crate) fn places(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in repository.files() {
        for word in MACHINE.iter().chain(&HOSTS) {
            faults.extend(found(path, text, word, false));
        }
        if path.ends_with(".md") || path.ends_with(".rs") {
            let lower = text.to_ascii_lowercase();
            for word in TALK {
                faults.extend(found(path, &lower, word, true));
            }
        }
    }
    faults
}

/// Each place of `word` in `text`: anywhere, or only as a whole word.
fn found(path: &str, text: &str, word: &str, whole: bool) -> Vec<String> {
    let is_word = |byte: Option<&u8>| byte.copied().is_some_and(rust::is_word);
    let (bytes, needle) = (text.as_bytes(), word.as_bytes());
    let alone = |at: usize| {
        let end = at + needle.len();
        let goes_before = is_word(needle.first()) && is_word(bytes[..at].last());
        let goes_on = is_word(needle.last()) && is_word(bytes.get(end));
        !goes_before && !goes_on
    };
    text.match_indices(word)
        .filter(|(at, _)| !whole || alone(*at))
        .map(|(at, _)| format!("{path}:{}: says {word}", rust::line_of(text, at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> Repository {
        Repository::from([(path, text)])
    }

    #[test]
    fn a_file_must_say_what_it_owns() {
        assert!(first_line(&one("a.rs", "//! Owns a.\n")).is_empty());
        for silent in ["use a;\n", "//!\n//! Late.\n", "// Not a doc.\n", ""] {
            assert_eq!(first_line(&one("a.rs", silent)).len(), 1, "{silent}");
        }
    }

    #[test]
    fn words_of_a_private_language_are_found_where_people_read() {
        let faults = |path: &str, text: &str| private_language(&one(path, text)).len();
        for (word, _) in PRIVATE_LANGUAGE {
            assert_eq!(faults("a.rs", &format!("// It {word} so.\n")), 1, "{word}");
            assert_eq!(faults("a.md", &format!("It {word} so.\n")), 1, "{word}");
            assert_eq!(faults(HELP, &format!("It {word} so.\n")), 1, "{word}");
            assert_eq!(faults("a.rs", &format!("let a = \"{word}\";")), 0, "{word}");
            let shipped = "crates/a/src/b.rs";
            let literal = format!("//! B.\nfn b() {{ e(\"it {word} so\") }}\n");
            assert_eq!(faults(shipped, &literal), 1, "{word}");
            let tests = format!("#[cfg(test)]\nmod tests {{ const A: &str = \"it {word}\"; }}\n");
            assert_eq!(faults(shipped, &tests), 0, "{word}");
            assert_eq!(faults("crates/a/src/b/tests.rs", &literal), 0, "{word}");
            assert_eq!(faults("a.md", &format!("see `{word}`\n")), 0, "{word}");
            let fenced = format!("```text\n{word}\n```\n");
            assert_eq!(faults("a.md", &fenced), 0, "{word}");
        }
        assert_eq!(faults("a.md", "`a` said `b`\n"), 1);
        assert_eq!(faults("a.rs", "// unsaid, foretold\n"), 0);
    }

    #[test]
    fn work_that_was_put_off_is_found() {
        for word in PUT_OFF {
            assert_eq!(
                unfinished(&one("a.rs", &format!("// {word}: later\n"))).len(),
                1
            );
            assert_eq!(unfinished(&one("a.md", &format!("- {word}\n"))).len(), 1);
            assert!(unfinished(&one("a.rs", &format!("let a = \"{word}\";"))).is_empty());
            assert!(unfinished(&one("a.rs", &format!("// {word}S are banned"))).is_empty());
        }
        for word in STAND_INS {
            assert_eq!(
                unfinished(&one("a.rs", &format!("fn f() {{}} {word}"))).len(),
                1,
                "{word}"
            );
            assert!(
                unfinished(&one("a.rs", &format!("// {word}"))).is_empty(),
                "{word}"
            );
        }
    }

    #[test]
    fn places_and_talk_are_found() {
        for word in MACHINE.iter().chain(&HOSTS) {
            let text = format!("see https://{word}/x or {word}");
            assert_eq!(places(&one("a.toml", &text)).len(), 2, "{word}");
        }
        for word in TALK {
            let upper = word.to_ascii_uppercase();
            assert_eq!(
                places(&one("a.md", &format!("In {upper}.\n"))).len(),
                1,
                "{word}"
            );
        }
        let clean = "a log of a session, in a home folder, for agents\n";
        assert!(places(&one("a.md", clean)).is_empty());
    }
}
