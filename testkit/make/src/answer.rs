//! The Rust implementation under the protocol of `testkit/PROTOCOL.md`: a question a line, an answer
//! a line.

use crate::Fallible;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::{ExpectedHead, ThreadId};
use threadseal_core::report::{Expectation, FindingCode, Format, Profile, Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::trust::{Pin, Pins, Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::document::{self, DocumentKind};
use threadseal_formats::transcript::bodies::{Bodies, BodiesReader};
use threadseal_formats::transcript::log::LogReader;
use threadseal_formats::transcript::{
    ScanOptions, VerifyOptions, observe, observed, observed_proof, rye, turn_proof,
};
use threadseal_formats::{ledger, scroll};

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
    Unsupported { unsupported: String },
}

#[derive(Serialize)]
struct Judged {
    verdict: String,
    codes: BTreeSet<String>,
    trusted_until: Option<Until>,
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
    let outcome = match question.judge() {
        Ok(report) => Outcome::Judged(judged(&report)?),
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
    fn judge(&self) -> Fallible<Report> {
        let trust = self.trust()?;
        let now = Timestamp::from_micros(self.now * 1_000_000)?;
        let thread = self.thread.as_deref().map(ThreadId::parse).transpose()?;
        let options = VerifyOptions {
            trust: &trust,
            now,
            held_since: None,
            thread: thread.as_ref(),
        };
        Ok(match self.kind.as_str() {
            "native" => self.native(&options)?,
            "observed" => self.observed(&options)?,
            "turn_proof" => {
                let policy = self.file("policy")?;
                let policy = policy.as_deref().map(Policy::parse).transpose()?;
                let proof = self.required("proof")?;
                turn_proof::check_file_by(&proof, &options, policy.as_ref()).report
            }
            "observed_proof" => {
                observed_proof::check_file(&self.required("proof")?, &options).report
            }
            "rye" => self.rye(&options)?,
            "scroll" => {
                let bytes = self.required("scroll")?;
                let container = container(&bytes);
                let chain = scroll::ChainOptions {
                    expect: self.expect()?,
                    pinned: self.pinned()?,
                    ..Default::default()
                };
                let judging = scroll::Judging::new(&trust, now);
                scroll::judge(&bytes, container, chain, &judging).report
            }
            "document" => {
                let bytes = self.required("document")?;
                let kind = DocumentKind::detect(&self.name, &bytes).ok_or("no document")?;
                let mut options = document::Options::new(kind, &trust, now);
                options.path = &self.name;
                options.expect_thread = thread.as_ref();
                options.expect_head = self.head()?;
                document::verify(&bytes, &options)?.report
            }
            "ledger" => {
                let chain = ledger::ChainOptions {
                    expect: self.expect()?,
                    all_signed: self.pins.len() == 1,
                    ..Default::default()
                };
                let judging = ledger::Judging::new(&trust, now);
                ledger::judge(&self.required("ledger")?, chain, &judging).report
            }
            other => return Err(format!("kind {other:?} is not known").into()),
        })
    }

    fn native(&self, options: &VerifyOptions<'_>) -> Fallible<Report> {
        let bodies = self.file("bodies")?.map_or_else(Bodies::absent, |bytes| {
            let mut reader = BodiesReader::new();
            reader.push(&bytes);
            reader.finish()
        });
        let scan = ScanOptions {
            every_signature: false,
            expect: self.expect()?,
            bodies: Some(Arc::new(bodies)),
        };
        let record = self.required("record")?;
        let outcome = threadseal_formats::transcript::verify(&record, &scan, options);
        Ok(outcome.report)
    }

    fn observed(&self, options: &VerifyOptions<'_>) -> Fallible<Report> {
        let seals = match observed::parse(&self.required("seals")?) {
            Ok(seals) => seals,
            Err(finding) => {
                let mut report = Report::begin(Format::Log, Profile::Observed);
                report.downgrade(Verdict::Malformed, finding);
                return Ok(report);
            }
        };
        let mut reader = LogReader::new(Some(&seals), false);
        reader.push(&self.required("log")?);
        let log = reader.finish();
        Ok(observe::report(&seals, &log, &self.expect()?, options))
    }

    fn rye(&self, options: &VerifyOptions<'_>) -> Fallible<Report> {
        let bytes = self.required("record")?;
        let mut rye = rye::Options {
            thread: options.thread,
            expect: self.expect()?,
            ..rye::Options::new(options.trust, options.now)
        };
        loop {
            let mut verifier = rye::Verifier::new(rye.clone());
            verifier.push(&bytes);
            let outcome = verifier.finish();
            if !outcome.look_closer || rye.every_signature {
                return Ok(outcome.report);
            }
            rye.every_signature = true;
        }
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

/// As `spec/report.md` recognises it by the first byte.
fn container(bytes: &[u8]) -> scroll::Container {
    match bytes.trim_ascii_start().first() {
        Some(b'{') => scroll::Container::Lines,
        Some(0xa0..=0xbf) => scroll::Container::Sequence,
        _ => scroll::Container::Array,
    }
}
