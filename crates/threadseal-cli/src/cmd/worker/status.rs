//! `worker --status`: what waits in a database, who holds what, and what its threads cost.
//!
//! Rows of a database are not signed: `verify` judges what threads did.

use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text::counted;
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_runtime::fleet::{Census, Fleet, HeldOrder, Totals};

pub(super) fn run(fleet: &Fleet, context: &Context, out: &mut Out) -> Outcome {
    let census = fleet.census()?;
    let (held, totals) = fleet.held_and_totals()?;
    if context.json {
        out.json(&object(&census, &held, &totals));
    } else {
        show(&census, &held, &totals, out);
    }
    Ok(Exit::Done)
}

fn object(census: &Census, held: &[HeldOrder], totals: &Totals) -> Value {
    let held: Vec<Value> = held
        .iter()
        .map(|one| {
            json!({"order": one.order, "worker": one.worker, "token": one.token,
                   "lease_seconds": one.left.as_secs_f64(), "thread_id": one.thread,
                   "turns": one.turns, "spend": one.spend.to_string()})
        })
        .collect();
    let statuses: Vec<Value> = totals
        .statuses
        .iter()
        .map(|(status, count)| json!({"status": status, "count": count}))
        .collect();
    let [input, output] = totals.tokens;
    let [open, most] = census.connections;
    json!({"schema": "threadseal.worker.status/1",
           "orders": {"ready": census.ready, "taken": census.taken, "expired": census.expired,
                      "set_aside": census.set_aside,
                      "oldest_ready_seconds": census.oldest_ready.as_secs_f64()},
           "held": held,
           "threads": {"statuses": statuses, "orphaned": census.orphaned},
           "turns": totals.turns, "input_tokens": input, "output_tokens": output,
           "spend": totals.spend.to_string(),
           "connections": {"open": open, "most": most}})
}

fn show(census: &Census, held: &[HeldOrder], totals: &Totals, out: &mut Out) {
    let waits = match census.ready {
        0 => String::new(),
        _ => format!("  (the first for {})", span(census.oldest_ready)),
    };
    out.line(format_args!("ready      {}{waits}", census.ready));
    out.line(format_args!("taken      {}", census.taken));
    out.line(format_args!("expired    {}", census.expired));
    out.line(format_args!("set aside  {}", census.set_aside));
    let orphaned = counted(census.orphaned, "thread", "threads");
    out.line(format_args!("orphaned   {orphaned}"));
    for one in held {
        let thread = one.thread.as_deref().unwrap_or("-");
        let lease = match one.left.is_zero() {
            true => "expired".to_owned(),
            false => format!("{} left", span(one.left)),
        };
        out.line(format_args!(
            "order {}  {}  worker {}  {lease}  {}  ${}",
            one.order,
            Clean(thread),
            Clean(&one.worker),
            counted(one.turns, "turn", "turns"),
            one.spend
        ));
    }
    for (status, count) in &totals.statuses {
        out.line(format_args!("threads    {count} {}", Clean(status)));
    }
    let [input, output] = totals.tokens;
    out.line(format_args!(
        "all        {}, {input} tokens read, {output} written, ${}",
        counted(totals.turns, "turn", "turns"),
        totals.spend
    ));
    let [open, most] = census.connections;
    out.line(format_args!("database   {open} of {most} connections"));
}

/// A time, to the second.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
