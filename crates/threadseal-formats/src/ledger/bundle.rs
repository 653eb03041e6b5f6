//! Run history bundles: several ledgers in one JSON document (`spec/ledger.md` §8).
//!
//! ```text
//! {"version":1,"generated_at":…,"detail":"full"|"replay","root_run_id":…,"run":{…},
//!  "workflow_snapshot":…,"input_data":{…},
//!  "ledgers":{<run id>:{"run_id","total","cursor_start","cursor_end",
//!                       "items":[{"cursor":1,"record":{…}},…],"artifacts":[…]},…},
//!  "timeline":[…],"resolved_actions":[…],"session":null|{…},"warnings":[…]}
//! ```
//! Version 1 of `AbstractRuntime`. Nothing covers a bundle as a whole; each of its ledgers gets its
//! own verdict. A ledger that lacks records is a window. A ledger for replay lacks hashed content.
//! Neither counts as tampering, and neither proves as much as a whole ledger.

use super::chain::View;
use super::members::{object, text_or_null};
use super::record::RunId;
use super::run::{RunState, WaitState};
use threadseal_core::canon::json::{self, IrregularityKind, Number, Value};
use threadseal_core::canon::python;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_BUNDLE_RUNS;
use threadseal_core::time::Timestamp;

const VERSION: u64 = 1;
/// The largest cursor: every reader of JSON holds it.
const MAX_INDEX: u64 = (1 << 53) - 1;
/// A bundle names its version, its time and its run within this many bytes.
const TELLING_BYTES: usize = 512;

/// The ledger of one run, as a bundle holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledLedger {
    /// The run of the ledger.
    pub run: RunId,
    /// How many records the run had.
    pub total: u64,
    /// The number of the first record here, from 0.
    pub first: u64,
    /// The records, as lines without LF. Numbers are spelled as in the bundle.
    pub lines: Vec<Vec<u8>>,
    /// How much of the ledger this is.
    pub view: View,
}

/// A bundle that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The run that was asked for.
    pub root: RunId,
    /// The ledgers of it and the runs below it.
    pub ledgers: Vec<BundledLedger>,
    /// Where a member occurs a second time: readers differ on which one counts.
    pub repeated: Option<usize>,
}

impl Bundle {
    /// Does this look like the beginning of a bundle, and not like that of a record?
    pub fn looks_like(head: &[u8]) -> bool {
        let head = head.trim_ascii_start();
        let head = head.get(..TELLING_BYTES).unwrap_or(head);
        let place = |name: &str| memchr::memmem::find(head, name.as_bytes());
        let says = |name: &str| place(name).is_some();
        let (root, step) = (place("\"root_run_id\""), place("\"step_id\""));
        let is_first = root.is_some_and(|root| step.is_none_or(|step| root < step));
        head.starts_with(b"{") && says("\"version\"") && says("\"generated_at\"") && is_first
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// Kind `InvalidInput`, which names the missing member; `Limit` for more than is read at once.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let document = json::parse_python(text).map_err(|error| {
            let kind = if error.kind.is_limit() {
                ErrorKind::Limit
            } else {
                ErrorKind::InvalidInput
            };
            Error::new(kind, format!("not a bundle: {error}"))
        })?;
        let wrong =
            |name: &str| Error::invalid(format!("not a bundle: `{name}` is missing or not valid"));
        let bundle = &document.value;
        if bundle.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(wrong("version"));
        }
        let root = bundle.get("root_run_id").and_then(Value::as_str);
        let root = RunId::parse(root.ok_or_else(|| wrong("root_run_id"))?)?;
        let is_replay = bundle.get("detail").and_then(Value::as_str) == Some("replay");
        let ledgers = bundle.get("ledgers").and_then(Value::as_object);
        // Without a ledger nothing would be judged.
        let ledgers = ledgers.filter(|ledgers| !ledgers.is_empty());
        let ledgers = ledgers.ok_or_else(|| wrong("ledgers"))?;
        if ledgers.len() > MAX_BUNDLE_RUNS {
            let text = format!("a bundle has at most {MAX_BUNDLE_RUNS} runs");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let ledgers = ledgers.iter().map(|(run, ledger)| {
            let run = RunId::parse(run.as_str().ok_or_else(|| wrong("ledgers"))?)?;
            ledger_of(run, ledger, is_replay)
        });
        let mut irregularities = document.irregularities.iter();
        Ok(Self {
            root,
            ledgers: ledgers.collect::<Result<_, _>>()?,
            repeated: irregularities
                .find(|found| found.kind == IrregularityKind::DuplicateKey)
                .map(|found| found.offset),
        })
    }
}

fn ledger_of(run: RunId, ledger: &Value, is_replay: bool) -> Result<BundledLedger, Error> {
    let wrong = |name: &str| {
        Error::invalid(format!(
            "not a bundle: `{name}` of a ledger is missing or not valid"
        ))
    };
    let number = |of: &Value, name: &str| {
        let number = of.get(name).and_then(Value::as_u64);
        let number = number.filter(|number| *number <= MAX_INDEX);
        number.ok_or_else(|| wrong(name))
    };
    let items = ledger
        .get("items")
        .and_then(Value::as_array)
        .ok_or_else(|| wrong("items"))?;
    let named = ledger.get("run_id");
    if named.is_some_and(|named| named.as_str() != Some(run.as_str())) {
        return Err(wrong("run_id"));
    }
    let total = number(ledger, "total")?;
    let first = number(ledger, "cursor_start")?.saturating_sub(1);
    let mut lines = Vec::with_capacity(items.len());
    for (expected, item) in (first + 1..).zip(items) {
        if number(item, "cursor")? != expected {
            return Err(wrong("cursor"));
        }
        let record = item
            .get("record")
            .filter(|record| record.as_object().is_some());
        let record = record.ok_or_else(|| wrong("record"))?;
        let mut line = Vec::new();
        write_as_spelled(&mut line, record);
        lines.push(line);
    }
    if !lines.is_empty() && first + lines.len() as u64 > total {
        return Err(wrong("total"));
    }
    let is_whole = first == 0 && total == lines.len() as u64;
    Ok(BundledLedger {
        run,
        total,
        first,
        lines,
        view: match (is_replay, is_whole) {
            (true, _) => View::Replay,
            (false, true) => View::Whole,
            (false, false) => View::Window,
        },
    })
}

/// As `ledger-line`, but a number as it is spelled: its digits may be more than a hash covers. A lone
/// surrogate can only be escaped.
fn write_as_spelled(out: &mut Vec<u8>, value: &Value) {
    let plain = |value: &Value| python::ledger_line(value).unwrap_or_else(|_| python::rye(value));
    match value {
        Value::Number(number) => out.extend_from_slice(number.literal().as_bytes()),
        Value::Array(elements) => {
            out.push(b'[');
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_as_spelled(out, element);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&plain(&Value::String(name.clone())));
                out.push(b':');
                write_as_spelled(out, value);
            }
            out.push(b'}');
        }
        other => out.extend_from_slice(&plain(other)),
    }
}

/// The source of the records for a bundle that is written.
pub trait Records {
    /// Passes the lines of `run`, without LF, in order.
    ///
    /// # Errors
    /// Errors of reading, and of `take`.
    fn each(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error>;
}

/// Writes a bundle in pieces, never holding more than a record. `runs` begins with the root;
/// `state` is its known state. The records are asked for three times; records appended in the
/// meantime are left out.
///
/// # Errors
/// Kind `InvalidInput` without a run, or for a record that is no JSON; errors of `records` and
/// `out`.
pub fn write_bundle(
    runs: &[RunId],
    state: Option<&RunState>,
    at: Timestamp,
    records: &dyn Records,
    out: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let root = runs
        .first()
        .ok_or_else(|| Error::invalid("a bundle needs a run"))?;
    let head = python::rye_line(&begin(root, state, at));
    out(head.strip_suffix(b"}").unwrap_or(&head))?;
    out(b",\"ledgers\":{")?;
    let mut counts = Vec::with_capacity(runs.len());
    for (place, run) in runs.iter().enumerate() {
        let name = python::rye(&run.as_str().into());
        let comma: &[u8] = if place > 0 { b"," } else { b"" };
        out(&[comma, &name, b":{\"run_id\":", &name, b",\"items\":["].concat())?;
        let mut count = 0_u64;
        records.each(run, &mut |line| {
            count += 1;
            let comma = if count > 1 { "," } else { "" };
            out(format!("{comma}{{\"cursor\":{count},\"record\":").as_bytes())?;
            out(line)?;
            out(b"}")
        })?;
        let end = format!(
            "],\"total\":{count},\"cursor_start\":1,\"cursor_end\":{count},\"artifacts\":[]}}"
        );
        out(end.as_bytes())?;
        counts.push((run, count));
    }
    out(b"},\"timeline\":")?;
    list(&counts, records, out, &|run, cursor, record| {
        Some(timeline_entry(run, cursor, record))
    })?;
    out(b",\"resolved_actions\":")?;
    list(&counts, records, out, &|run, _, record| {
        resolved_action(run, record)
    })?;
    out(b",\"session\":null,\"warnings\":")?;
    out(&python::rye(&warnings(root, state)))?;
    out(b"}\n")
}

/// Writes an array of the results of `make` for each record.
fn list(
    counts: &[(&RunId, u64)],
    records: &dyn Records,
    out: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    make: &dyn Fn(&RunId, u64, &Value) -> Option<Value>,
) -> Result<(), Error> {
    out(b"[")?;
    let mut is_first = true;
    for (run, count) in counts {
        let mut cursor = 0;
        records.each(run, &mut |line| {
            cursor += 1;
            if cursor > *count {
                return Ok(());
            }
            let record = json::parse_python(line)
                .map_err(|error| Error::invalid(format!("record {cursor} of {run}: {error}")))?;
            let Some(made) = make(run, cursor, &record.value) else {
                return Ok(());
            };
            if !std::mem::take(&mut is_first) {
                out(b",")?;
            }
            out(&python::rye(&made))
        })?;
    }
    out(b"]")
}

fn begin(root: &RunId, state: Option<&RunState>, at: Timestamp) -> Value {
    let text = |text: Option<&str>| text_or_null(text);
    let run = object([
        ("run_id", root.as_str().into()),
        (
            "workflow_id",
            state.map_or("", |run| &run.workflow_id).into(),
        ),
        ("status", state.map_or("", |run| run.status.as_str()).into()),
        (
            "current_node",
            state.map_or("", |run| &run.current_node).into(),
        ),
        ("created_at", text(state.map(|run| &*run.created_at))),
        ("updated_at", text(state.map(|run| &*run.updated_at))),
        (
            "actor_id",
            text(state.and_then(|run| run.actor_id.as_deref())),
        ),
        (
            "session_id",
            text(state.and_then(|run| run.session_id.as_deref())),
        ),
        (
            "parent_run_id",
            text(state.and_then(|run| run.parent_run_id.as_deref())),
        ),
        ("error", text(state.and_then(|run| run.error.as_deref()))),
        (
            "waiting",
            state
                .and_then(|run| run.waiting.as_ref())
                .map_or(Value::Null, WaitState::to_value),
        ),
    ]);
    let vars = state
        .and_then(|run| run.vars.as_object())
        .unwrap_or_default();
    // `AbstractRuntime` shows the inputs of a workflow, but not the variables that the runtime
    // keeps for itself.
    let shown = vars
        .iter()
        .filter(|(name, _)| !name.as_bytes().starts_with(b"_"));
    object([
        ("version", VERSION.into()),
        ("generated_at", at.to_python_text().into()),
        ("detail", "full".into()),
        ("root_run_id", root.as_str().into()),
        ("run", run),
        ("workflow_snapshot", Value::Null),
        ("input_data", Value::Object(shown.cloned().collect())),
    ])
}

fn warnings(root: &RunId, state: Option<&RunState>) -> Value {
    if state.is_some() {
        return Value::Array(Vec::new());
    }
    Value::Array(vec![object([
        ("code", "run_state_missing".into()),
        ("run_id", root.as_str().into()),
        (
            "detail",
            "a ledger holds no run state: `run` names the run and nothing else of it".into(),
        ),
    ])])
}

fn timeline_entry(run: &RunId, cursor: u64, record: &Value) -> Value {
    let named = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).map(str::trim);
        text_or_null(text.filter(|text| !text.is_empty()))
    };
    let any = |name: &str| record.get(name).filter(|value| !value.is_null());
    let time = |value: Option<&Value>| Timestamp::parse_rfc3339(value?.as_str()?);
    let (started, ended) = (any("started_at"), any("ended_at").or(any("started_at")));
    let duration = time(started)
        .zip(time(ended))
        .map_or(Value::Null, |(from, to)| {
            milliseconds(to.as_micros().saturating_sub(from.as_micros()))
        });
    object([
        ("run_id", run.as_str().into()),
        ("cursor", cursor.into()),
        ("node_id", named(record.get("node_id"))),
        ("status", named(record.get("status"))),
        (
            "effect_type",
            named(record.get("effect").and_then(|effect| effect.get("type"))),
        ),
        ("started_at", started.cloned().unwrap_or(Value::Null)),
        ("ended_at", ended.cloned().unwrap_or(Value::Null)),
        ("duration_ms", duration),
    ])
}

/// As a Python `float` with two decimals.
fn milliseconds(micros: u64) -> Value {
    let hundredths = micros / 10 + u64::from(micros % 10 >= 5);
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    Number::parse(&text).map_or(Value::Null, Value::Number)
}

fn resolved_action(run: &RunId, record: &Value) -> Option<Value> {
    let metadata = record.get("result")?.get("metadata")?;
    let action = metadata.get("_runtime_resolved_action")?.as_object()?;
    let mut action = action.to_vec();
    if !action.iter().any(|(name, _)| name == "run_id") {
        action.push(("run_id".into(), run.as_str().into()));
    }
    Some(Value::Object(action))
}
