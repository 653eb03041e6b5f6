//! `key history`

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::key_log;
use crate::keyring::Keyring;
use crate::output::Out;
use clap::Args;
use serde_json::json;
use threadseal::tlog::entry::key_event::KeyChange;

/// What `key history` takes.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Of this key alone
    name: Option<String>,
}

/// Prints what keys said of themselves in the log, in its order.
pub(crate) fn run(args: &HistoryArgs, context: &Context, out: &mut Out) -> Outcome {
    let keyring = Keyring::of(&context.existing_home()?);
    let wanted = match &args.name {
        Some(name) => Some(keyring.find(name)?.public),
        None => None,
    };
    let Some(log) = key_log::log(context)? else {
        return Err(Failure::new(
            "this home has no log, in which keys would speak; make one: threadseal log init",
        ));
    };
    let names = keyring.list()?;
    let mut events = Vec::new();
    for (at, event) in log.key_events()? {
        let public = event.public();
        let next = match event.change() {
            KeyChange::Rotate(next) => Some(next.key_id()),
            KeyChange::Create | KeyChange::Revoke => None,
        };
        if wanted.is_some_and(|wanted| wanted != *public) {
            continue;
        }
        let name = names.iter().find(|own| own.public == *public);
        let name = name.map(|own| own.name.as_str());
        let (id, change) = (public.key_id(), event.change().as_str());
        events.push(
            json!({"entry": at, "change": change, "key": id.to_hex(), "name": name,
                           "next": next.map(|next| next.to_hex())}),
        );
        if !context.json {
            let next = next.map_or(String::new(), |next| format!("  next {next}"));
            out.line(format_args!(
                "{at:>8}  {change:<6}  {id}  {}{next}",
                name.unwrap_or("-")
            ));
        }
    }
    if context.json {
        out.json(&json!({"schema": "threadseal.key_history/1", "events": events}));
    }
    Ok(Exit::Done)
}
