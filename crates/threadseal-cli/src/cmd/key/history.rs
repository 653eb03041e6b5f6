//! `key history`: prints the key events in the log, in its order.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::key_log;
use crate::keyring::Keyring;
use crate::output::Out;
use clap::Args;
use serde_json::json;
use std::sync::Arc;
use threadseal_core::key::PublicKey;
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_verify::anchors::Anchors;
use threadseal_verify::home_log::HomeLog;

/// What `key history` takes.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only events about this key
    name: Option<String>,
}

pub(crate) fn run(args: &HistoryArgs, context: &Context, out: &mut Out) -> Outcome {
    let keyring = Keyring::of(&context.existing_home()?);
    let wanted = match &args.name {
        Some(name) => Some(keyring.find(name)?.public),
        None => None,
    };
    let Some(log) = key_log::log(context)? else {
        return Err(Failure::new(
            "this home has no log; hint: threadseal log init",
        ));
    };
    let names = keyring.list()?;
    let name_of = |key: &PublicKey| {
        let own = names.iter().find(|own| own.public == *key);
        own.map(|own| own.name.as_str())
    };
    let marked = log.marked()?;
    let cosigned = match Anchors::of(
        &HomeLog::There(Arc::clone(&log)),
        context.home()?.as_ref(),
        &*context.fs,
        context,
    )? {
        Anchors::Seen { tree, .. } => tree.size,
        Anchors::None(_) => 0,
    };
    let mut events = Vec::new();
    for (at, event) in log.key_events()? {
        let (public, change) = (event.public(), event.change());
        let (other, record) = match change {
            KeyChange::Create | KeyChange::Revoke => (None, None),
            KeyChange::Rotate(next) => (Some(next), None),
            KeyChange::Delegate { record, to } => (Some(to), Some(record)),
        };
        if wanted.is_some_and(|wanted| wanted != *public && other != Some(&wanted)) {
            continue;
        }
        let vouched_for: Vec<_> = [("mark", marked), ("witnesses", cosigned)]
            .into_iter()
            .filter(|(_, size)| at < *size)
            .map(|(by, _)| by)
            .collect();
        let (name, id) = (name_of(public), public.key_id());
        let next = other.filter(|_| record.is_none());
        let to = other.filter(|_| record.is_some());
        events.push(json!({
            "entry": at, "change": change.as_str(), "usage": event.usage().as_str(),
            "key": id.to_hex(), "name": name,
            "next": next.map(|next| next.key_id().to_hex()),
            "record": record.map(ToString::to_string),
            "to": to.map(|to| to.key_id().to_hex()),
            "to_name": to.and_then(name_of),
            "vouched_for": vouched_for,
        }));
        if !context.json {
            let next = next.map_or(String::new(), |next| format!("  next {}", next.key_id()));
            let to = to.map_or(String::new(), |to| format!("  to {}", to.key_id()));
            let record = record.map_or(String::new(), |record| format!("  record {record}"));
            let by = match vouched_for.as_slice() {
                [] => "nothing".to_owned(),
                by => by.join(", "),
            };
            out.line(format_args!(
                "{at:>8}  {:<8}  {:<8}  {id}  {}{next}{to}{record}  confirmed by {by}",
                change.as_str(),
                event.usage().as_str(),
                name.unwrap_or("-")
            ));
        }
    }
    if context.json {
        out.json(&json!({"schema": "threadseal.key.history/1", "events": events}));
    }
    Ok(Exit::Done)
}
