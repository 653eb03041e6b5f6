//! Calls that began: after the last seal of a transcript, and in the signed step ledger.
//!
//! Before a call runs it is written in both, and durable in the ledger. So power loss may take the
//! tail of the transcript and leaves the call in the ledger. Removing the tail of one leaves the call
//! in the other, and truncating the ledger is detected: this host knows where it ended.

use crate::history::Steps;
use crate::project::ThreadFolder;
use serde_json::Value;
use std::collections::BTreeMap;
use threadseal_core::error::Error;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::host::Host;
use threadseal_verify::home_log::HomeLog;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Began {
    pub(super) item: String,
    pub(super) key: String,
}

/// The calls that lines after a seal name. A torn last line is no event.
pub(super) fn in_tail(tail: &[u8]) -> BTreeMap<String, Began> {
    let lines = tail.split(|byte| *byte == b'\n');
    let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let starts = events.filter(|event| {
        let kind = &event["event_type"];
        kind == "tool_call_start" || kind == "hook_call_start"
    });
    let named = starts.filter_map(|event| {
        let text = |name: &str| event["payload"][name].as_str().map(str::to_owned);
        Some((
            text("call_id")?,
            Began {
                item: text("item_id")?,
                key: text("idempotency_key")?,
            },
        ))
    });
    named.collect()
}

/// The calls that the run's step ledger names, with or without results: a result that the
/// transcript lacks is lost. `named` is the end of the ledger according to the sealed record: the
/// ledger must contain it.
///
/// # Errors
/// Kind `Refused` when the ledger is missing, or its chain or a signature does not hold.
pub(super) fn in_ledger(
    grounds: (&Host, &HomeLog, &Trust),
    folder: &ThreadFolder,
    manifest: &Manifest,
    named: Option<&Value>,
) -> Result<BTreeMap<String, Began>, Error> {
    let bytes = Steps::read(grounds, folder, &manifest.record, named)?.bytes;
    let lines = bytes.split(|byte| *byte == b'\n');
    let records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let calls = records.filter(|record| {
        let kind = &record["effect"]["type"];
        kind == "tool_call" || kind == "hook_call"
    });
    let named = calls.filter_map(|record| {
        let payload = &record["effect"]["payload"];
        // A hook's call is named by its step.
        let call = payload["call_id"]
            .as_str()
            .or_else(|| record["node_id"].as_str())?
            .to_owned();
        let item = payload["tool"]
            .as_str()
            .or_else(|| payload["item_id"].as_str())?
            .to_owned();
        let key = record["idempotency_key"].as_str()?.to_owned();
        Some((call, Began { item, key }))
    });
    Ok(named.collect())
}
