//! `run`: runs a directive, in a thread of its own, to its end.
//!
//! ```text
//! threadseal run demo/greet --input name=Ada
//!   standard error    progress: turns, tokens, money, tools (one line on a terminal)
//!   standard output   the thread's text and result; with --json its whole result
//! ```
//! With --database a worker on any machine runs it (`threadseal worker`).
//!
//! Exits 0 if the thread completed, 3 if it is suspended, else 2. Ctrl-C cancels it: the thread
//! ends, sealed.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, told, typed};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::{DatabaseArgs, Fleet};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use threadseal_runtime::item::ItemId;
use threadseal_runtime::runner::Order;
use threadseal_runtime::toolbox::Cancel;

/// What `run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The directive's id: demo/greet is .ai/directives/demo/greet.md
    #[arg(value_name = "DIRECTIVE")]
    directive: String,
    /// An input of the directive: text, or JSON if another type is declared
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    #[command(flatten)]
    database: DatabaseArgs,
    /// With --database: only queue the order, and print its number
    #[arg(long, requires = "database")]
    detach: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &RunArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let order = Order {
        directive: ItemId::parse(&args.directive)?,
        inputs: typed(&args.inputs, "--input")?,
        limits: args.engine.limits()?,
        cancel,
    };
    if let Some(fleet) = args.database.open(context)? {
        return give(&fleet, &order, args.detach, context, out);
    }
    let ran = engine(&args.engine, context)?.run(&order)?;
    Ok(told(&ran, context, out))
}

/// Queues the order for workers, and waits for its result.
fn give(fleet: &Fleet, order: &Order, detach: bool, context: &Context, out: &mut Out) -> Outcome {
    let number = fleet.put(order)?;
    if detach {
        return Ok(told_number(number, context, out));
    }
    result_of(fleet, number, &order.cancel, context, out)
}

/// Prints the number of an order, for another process to wait for.
pub(super) fn told_number(number: i64, context: &Context, out: &mut Out) -> Exit {
    match context.json {
        true => out.json(&json!({"schema": "threadseal.order/1", "order": number})),
        false => out.line(number),
    }
    Exit::Done
}

/// Waits until workers have completed an order, and prints its result.
pub(super) fn result_of(
    fleet: &Fleet,
    number: i64,
    cancel: &Cancel,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let standing = fleet.wait(number, None, cancel, &context.host()?)?;
    let Some(result) = standing.result else {
        let text = format!("order {number} is not done; workers continue it");
        return Err(Failure::new(text));
    };
    let mut result: Value =
        serde_json::from_str(&result).map_err(|error| Failure::new(error.to_string()))?;
    let exit = match result["status"].as_str() {
        Some("completed") => Exit::Done,
        Some("suspended") => Exit::Unconfirmed,
        _ => Exit::NoVerdict,
    };
    if context.json {
        result["schema"] = "threadseal.run/1".into();
        out.json(&result);
        return Ok(exit);
    }
    if let Some(text) = result["result"].as_str().filter(|text| !text.is_empty()) {
        out.line(Clean(text));
    }
    for (name, value) in result["outputs"].as_object().into_iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        out.line(format!("{}: {}", Clean(name), Clean(&text)));
    }
    if let Some(error) = result["error"].as_str() {
        complain(&format!("error: {}", Clean(error)));
    }
    Ok(exit)
}
