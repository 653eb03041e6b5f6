//! Inspect logs: one JSON object, or the members of an `.eval` archive.
//!
//! ```text
//! {"version":2,"status":S,"eval":{…},"plan":{…},"results":{…},"stats":{…},"samples":[SAMPLE,…]}
//! .eval: ZIP of header.json, samples/ID_epoch_N.json, summaries.json, reductions.json, _journal/…
//! SAMPLE: {"id","epoch","input","target","messages":[…],"output":{…},"scores":{…},"store":{…},
//!          "events":[{"event":"model|tool|sandbox|…"}],"attachments":{HASH:TEXT}}
//! ```
//!
//! The caller opens the ZIP and hands over the members ([`map_members`]). A "line" is the number of
//! the sample, in the order of the file. Line 0 is the part that contains the samples
//! (`header.json`; in the archive another member is `/NAME`). `attachment://HASH` (before 2025:
//! `tc://HASH`, in `transcript`) is replaced by the attachment in all carried values.
//!
//! The turns of a sample are in the order of their moments. A message without a moment follows the
//! message before it.
//!
//! `spec/scroll-mappings.md` C5 has the table of members; `chat` reads the messages.

use super::account::{Account, Reason};
use super::draft::{Model, Params};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::Reading;
use super::thread::{Thread, document, take_rest, vendor_of};
use threadseal_core::canon::json::{Number, Value};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_SOURCE_BYTES;

mod events;
mod refs;
mod sample;
#[cfg(test)]
mod tests;

const NAME: &str = "inspect";
const HEADER: &str = "header.json";
/// The first file of a run, and its only header if the run crashed.
const START: &str = "_journal/start.json";
const SAMPLES: &str = "samples/";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Inspect log (*.eval, *.json)",
    detect,
    map,
};

/// One member of an `.eval` archive, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name in the archive.
    pub name: String,
    /// The unpacked content.
    pub bytes: Vec<u8>,
}

/// The turns of an `.eval` archive, and the account.
///
/// # Errors
/// [`ErrorKind::Limit`] if the members together exceed [`MAX_SOURCE_BYTES`];
/// [`ErrorKind::InvalidInput`] if none is a header. A sample that is not JSON is in the account.
pub fn map_members(members: &[Member]) -> Result<Mapped, Error> {
    let bytes = members
        .iter()
        .try_fold(0usize, |sum, member| sum.checked_add(member.bytes.len()));
    if bytes.is_none_or(|bytes| bytes > MAX_SOURCE_BYTES) {
        let message = format!("archive has more than {MAX_SOURCE_BYTES} bytes; hint: split it");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let named = |name: &str| members.iter().find(|member| member.name == name);
    let header = named(HEADER).or_else(|| named(START)).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidInput,
            "archive without header.json: not an Inspect log",
        )
    })?;
    let mut account = Account::default();
    let mut log = Log::read(&document(&header.bytes)?, &mut account);
    let mut number = 0;
    for member in members
        .iter()
        .filter(|member| !std::ptr::eq(*member, header))
    {
        if !member.name.starts_with(SAMPLES) {
            let known = member.name.starts_with("_journal/")
                || matches!(member.name.as_str(), "summaries.json" | "reductions.json");
            let reason = if known {
                Reason::Duplicate
            } else {
                Reason::Unknown
            };
            account.drop_part(0, &format!("/{}", member.name), reason);
            continue;
        }
        number += 1;
        account.records += 1;
        match document(&member.bytes) {
            Ok(sample) => log.sample(&sample, number, &mut account),
            Err(error) => account.unmapped(number, &error.to_string()),
        }
    }
    Ok(log.thread.finish(account))
}

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "an object with `eval.task` and `eval.model`";
    Mark::when(is_ours(head), Confidence::Certain, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    head.document.as_ref().is_some_and(|document| {
        let eval = document.get("eval");
        eval.is_some_and(|eval| eval.get("task").is_some() && eval.get("model").is_some())
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let mut account = Account::default();
    let mut log = Log::read(&document, &mut account);
    let samples = document.get("samples").and_then(Value::as_array);
    for (number, sample) in (1..).zip(samples.unwrap_or_default()) {
        account.records += 1;
        log.sample(sample, number, &mut account);
    }
    Ok(log.thread.finish(account))
}

/// One log while it is read.
struct Log {
    thread: Thread,
    model: Model,
    params: Params,
}

impl Log {
    /// Reads the part that contains the samples.
    fn read(header: &Value, account: &mut Account) -> Self {
        let mut thread = Thread::new(NAME);
        let reading = Reading::new(0, header);
        let root = reading.root();
        if let Some(samples) = root
            .get("samples")
            .filter(|node| node.peek().as_array().is_some())
        {
            let _ = samples.read();
        }
        root.discard_all(&["reductions"], Reason::Duplicate);
        let mut facts = Value::Object(Vec::new());
        take_rest(root, &mut facts, &["samples", "reductions"]);
        thread.head().set("log", facts);
        reading.finish(account);
        let eval = header.get("eval");
        let model = eval
            .and_then(|eval| eval.get("model")?.as_str())
            .unwrap_or_default();
        let config = eval.and_then(|eval| eval.get("model_generate_config"));
        Self {
            thread,
            model: Model {
                vendor: vendor_of(model).to_owned(),
                id: Some(model.to_owned()).filter(|model| !model.is_empty()),
                fingerprint: None,
            },
            params: config.map(params).unwrap_or_default(),
        }
    }
}

fn params(config: &Value) -> Params {
    let number = |name: &str| -> Option<Number> { config.get(name)?.as_number().cloned() };
    let integer = |name: &str| config.get(name).and_then(Value::as_i64);
    Params {
        temperature: number("temperature"),
        top_p: number("top_p"),
        seed: integer("seed"),
        max_tokens: integer("max_tokens"),
    }
}
