//! A folder of vectors: files, and `index.json`, which has the answer of a verifier to each.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// How far a record can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Trusted {
    /// Number of the last line that is covered.
    pub(crate) line: u64,
    /// The first byte that is not.
    pub(crate) byte: u64,
    /// The turn of the last seal.
    pub(crate) turn: Option<u64>,
}

/// One question to a verifier, and the answer (`testkit/PROTOCOL.md`).
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Vector {
    /// Names it, and its files.
    pub(crate) name: String,
    /// What to read the files as.
    pub(crate) kind: &'static str,
    /// The role of each file, and its name in this folder.
    pub(crate) files: Vec<(&'static str, String)>,
    /// What differs from the trust and the options of the folder.
    #[serde(skip_serializing_if = "Options::is_default")]
    pub(crate) options: Options,
    #[serde(flatten)]
    pub(crate) expected: Expected,
    /// The rule that it shows.
    pub(crate) rule: String,
}

/// The members of an answer.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Expected {
    Report {
        verdict: &'static str,
        /// The codes of all findings, sorted, each once.
        codes: Vec<&'static str>,
        trusted_until: Option<Trusted>,
    },
    /// Of each ledger of a bundle, in the order of its members.
    Bundle {
        reports: Vec<OfRun>,
    },
    Short(Short),
}

/// The answer about one ledger of a bundle.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OfRun {
    pub(crate) run: Option<&'static str>,
    pub(crate) verdict: &'static str,
    pub(crate) codes: Vec<&'static str>,
    pub(crate) trusted_until: Option<Trusted>,
}

/// The answer about a part of a log.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Short {
    pub(crate) answer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<String>,
}

/// The options of a question; absent members are those of the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Options {
    /// Trusted keys in hex, in the place of the folder's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trust: Option<Vec<String>>,
    /// Pinned keys in hex.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pins: Vec<String>,
    /// The thread that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<String>,
    /// A head that the record must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<String>,
    /// It must be the last.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) exact: bool,
    /// The usage of `trust`, where it is another than the folder's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<&'static str>,
    /// The name of a document or a ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The number of turns or records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) length: Option<u64>,
    /// Nanoseconds since 1970, in decimal: the oldest moment of a signed turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) strict_digits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<&'static str>,
    /// Verifier keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) keys: Vec<String>,
}

impl Options {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The vectors of one folder.
pub(crate) struct Folder {
    kind: &'static str,
    /// Trusted keys in hex, for every vector that names no others.
    trust: Vec<String>,
    usage: &'static str,
    vectors: Vec<Vector>,
    contents: Vec<(String, Vec<u8>)>,
}

impl Folder {
    pub(crate) fn new(kind: &'static str, usage: &'static str, trust: Vec<String>) -> Self {
        Self {
            kind,
            trust,
            usage,
            vectors: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// Adds a vector; each file has a role, the ending of its name, and its bytes.
    pub(crate) fn add(&mut self, vector: Answer<'_>, files: &[(&'static str, &str, &[u8])]) {
        self.add_as(self.kind, vector, files);
    }

    /// Adds a vector of another kind than that of the folder.
    pub(crate) fn add_as(
        &mut self,
        kind: &'static str,
        vector: Answer<'_>,
        files: &[(&'static str, &str, &[u8])],
    ) {
        let Answer {
            name,
            options,
            verdict,
            codes,
            trusted_until,
            rule,
        } = vector;
        let mut sorted = codes.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let expected = Expected::Report {
            verdict,
            codes: sorted,
            trusted_until,
        };
        self.add_expected(kind, (name, rule), options, expected, files);
    }

    /// Adds a vector with any answer.
    pub(crate) fn add_expected(
        &mut self,
        kind: &'static str,
        (name, rule): (&str, &str),
        options: Options,
        expected: Expected,
        files: &[(&'static str, &str, &[u8])],
    ) {
        let mut named = Vec::new();
        for (role, ending, bytes) in files {
            let file = format!("{name}{ending}");
            self.contents.push((file.clone(), bytes.to_vec()));
            named.push((*role, file));
        }
        self.add_named(kind, (name, rule), options, expected, named);
    }

    /// Adds a vector whose files are there already, or were added.
    pub(crate) fn add_named(
        &mut self,
        kind: &'static str,
        (name, rule): (&str, &str),
        options: Options,
        expected: Expected,
        named: Vec<(&'static str, String)>,
    ) {
        let known = self.vectors.iter().any(|vector| vector.name == name);
        assert!(!known, "two vectors have the name {name}");
        self.vectors.push(Vector {
            name: name.to_owned(),
            kind,
            files: named,
            options,
            expected,
            rule: rule.to_owned(),
        });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Writes the folder anew.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        for (name, bytes) in &self.contents {
            std::fs::write(folder.join(name), bytes)?;
        }
        std::fs::write(folder.join("index.json"), self.to_string())
    }
}

/// One vector a line, so that a change shows as a line.
impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &dyn erased::Json| value.text();
        writeln!(f, "{{\"trust\":{},", text(&self.trust))?;
        writeln!(f, "\"usage\":\"{}\",", self.usage)?;
        writeln!(f, "\"vectors\":[")?;
        let mut rest = self.vectors.iter().peekable();
        while let Some(vector) = rest.next() {
            let comma = if rest.peek().is_some() { "," } else { "" };
            writeln!(f, "{}{comma}", text(vector))?;
        }
        writeln!(f, "]}}")
    }
}

mod erased {
    /// What can be written as JSON.
    pub(super) trait Json {
        fn text(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn text(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

/// What a verifier answers.
pub(crate) struct Answer<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: Options,
    pub(crate) verdict: &'static str,
    pub(crate) codes: &'a [&'static str],
    pub(crate) trusted_until: Option<Trusted>,
    pub(crate) rule: &'a str,
}
