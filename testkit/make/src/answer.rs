//! The Rust implementation under the protocol of `testkit/PROTOCOL.md`: a question a line, an answer
//! a line.

mod records;
mod tlog;

use crate::Fallible;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, Write as _};
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Expectation, FindingCode, Report};
use threadseal_core::trust::{Pin, Pins, Trust, TrustName, TrustStore, TrustedKey};

/// A question.
#[derive(Deserialize)]
struct Question {
    id: u64,
    kind: String,
    files: BTreeMap<String, Content>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    trust: Vec<TrustedHex>,
    #[serde(default)]
    pins: Vec<String>,
    #[serde(default)]
    thread: Option<String>,
    #[serde(default)]
    head: Option<String>,
    #[serde(default)]
    exact: bool,
    #[serde(default)]
    length: Option<u64>,
    /// Nanoseconds since 1970, in decimal.
    #[serde(default)]
    oldest: Option<String>,
    #[serde(default)]
    strict_digits: bool,
    #[serde(default)]
    profile: Option<String>,
    #[serde(default)]
    item: Option<String>,
    /// Verifier keys of C2SP signed-note.
    #[serde(default)]
    keys: Vec<String>,
    now: u64,
}

/// The bytes of a file.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Base64(String),
    Path(String),
}

#[derive(Deserialize)]
struct TrustedHex {
    key: String,
    usage: String,
}

/// An answer.
#[derive(Serialize)]
struct Answer {
    id: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Judged(Judged),
    Bundle { reports: Vec<OfRun> },
    Short(Short),
    Unsupported { unsupported: String },
}

/// What is answered about a part of a log, which has no report.
#[derive(Debug, Default, Serialize)]
struct Short {
    answer: String,
    /// The keys that signed a note.
    #[serde(skip_serializing_if = "Option::is_none")]
    signers: Option<Vec<String>>,
    /// The time at which a policy is met.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The size that a witness cosigned last.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
}

impl Short {
    fn new(answer: &str) -> Self {
        Self {
            answer: answer.to_owned(),
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
struct Judged {
    verdict: String,
    codes: BTreeSet<String>,
    trusted_until: Option<Until>,
}

/// The report of one ledger of a bundle.
#[derive(Serialize)]
struct OfRun {
    /// `None` where the bundle cannot be read.
    run: Option<String>,
    #[serde(flatten)]
    judged: Judged,
}

#[derive(Serialize)]
struct Until {
    line: u64,
    byte: u64,
    turn: Option<u64>,
}

/// Answers every line of the standard input.
///
/// # Errors
/// When a line is no question, or input and output fail.
pub fn answer_all() -> Fallible<()> {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        output.write_all(answer_line(&line?)?.as_bytes())?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

/// The answer to the question in this line.
///
/// # Errors
/// When the line is no question.
pub fn answer_line(line: &str) -> Fallible<String> {
    let question: Question = serde_json::from_str(line)?;
    let id = question.id;
    let outcome = match question.outcome() {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Unsupported {
            unsupported: error.to_string(),
        },
    };
    Ok(serde_json::to_string(&Answer { id, outcome })?)
}

fn judged(report: &Report) -> Fallible<Judged> {
    let codes = report.findings.iter().map(|finding| finding.code);
    Ok(Judged {
        verdict: report.verdict.as_str().to_owned(),
        codes: codes.map(FindingCode::as_str).map(str::to_owned).collect(),
        trusted_until: report.trusted_until.map(|until| Until {
            line: until.line,
            byte: until.byte,
            turn: until.turn,
        }),
    })
}

impl Question {
    fn outcome(&self) -> Fallible<Outcome> {
        Ok(match self.kind.as_str() {
            "note" => Outcome::Short(self.note()?),
            "checkpoint" => Outcome::Short(self.checkpoint()?),
            "inclusion" => Outcome::Short(self.inclusion()?),
            "consistency" => Outcome::Short(self.consistency()?),
            "bundle" => Outcome::Bundle {
                reports: self.bundle()?,
            },
            _ => Outcome::Judged(judged(&self.report()?)?),
        })
    }

    fn file(&self, role: &str) -> Fallible<Option<Vec<u8>>> {
        Ok(match self.files.get(role) {
            None => None,
            Some(Content::Path(path)) => Some(std::fs::read(path)?),
            Some(Content::Base64(text)) => {
                Some(encoding::parse_base64(text).ok_or("a file is no base64")?)
            }
        })
    }

    fn required(&self, role: &str) -> Fallible<Vec<u8>> {
        let file = self.file(role)?;
        file.ok_or_else(|| format!("the file {role:?} is missing").into())
    }

    fn trust(&self) -> Fallible<Trust> {
        let mut store = TrustStore::new();
        for (number, trusted) in self.trust.iter().enumerate() {
            let name = TrustName::parse(&format!("key-{number}"))?;
            let usage = KeyUsage::parse(&trusted.usage).ok_or("no usage of keys")?;
            let key = PublicKey::from_hex(&trusted.key)?;
            store.add(TrustedKey::new(name, key, [usage]))?;
        }
        let mut trust = Trust::new(store);
        trust.pinned = Pins::new(self.pinned()?.into_iter().map(Pin::from))?;
        Ok(trust)
    }

    fn pinned(&self) -> Fallible<Vec<PublicKey>> {
        let keys = self.pins.iter().map(|pin| Ok(PublicKey::from_hex(pin)?));
        keys.collect()
    }

    fn head(&self) -> Fallible<Option<ExpectedHead>> {
        let head = self.head.as_deref().map(ExpectedHead::parse);
        Ok(head.transpose()?)
    }

    fn expect(&self) -> Fallible<Vec<Expectation>> {
        let head = self.head()?;
        let expect = head.map(|head| Expectation::given(head, self.exact));
        Ok(expect.into_iter().collect())
    }
}
