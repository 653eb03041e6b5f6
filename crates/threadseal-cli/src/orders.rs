//! Orders for workers, from the options of `run` and `thread resume`; their results, from verified
//! records alone.

use crate::context::Context;
use crate::engine::{EngineArgs, refuse_evidence};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::{DatabaseArgs, Fleet, Given, OrderEnd};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_runtime::bounds::ORDER_LIFETIME;
use threadseal_runtime::runner::Engine;
use threadseal_runtime::runner::orchestrator::Records;
use threadseal_runtime::toolbox::Cancel;

/// Whether workers do it.
#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// With --database: only queue the order, and print its number
    #[arg(long, requires = "database")]
    detach: bool,
    /// With --database: time within which a worker must begin, in seconds [default: a day]
    #[arg(long, value_name = "SECONDS", requires = "database")]
    expires: Option<f64>,
}

impl OrderArgs {
    /// The database, if one is named.
    ///
    /// # Errors
    /// When it cannot be reached, or an option of `engine` has no effect on an order.
    pub(crate) fn open(
        &self,
        engine: &EngineArgs,
        context: &Context,
    ) -> Result<Option<Fleet>, Failure> {
        let fleet = self.database.open(context)?;
        if fleet.is_some() {
            engine.refuse_for_orders()?;
        }
        Ok(fleet)
    }

    /// The time within which a worker must begin.
    ///
    /// # Errors
    /// When it is no time.
    pub(crate) fn lasts(&self) -> Result<Duration, Failure> {
        let Some(expires) = self.expires else {
            return Ok(ORDER_LIFETIME);
        };
        Duration::try_from_secs_f64(expires)
            .map_err(|_| Failure::new("--expires must be a number of seconds"))
    }

    /// Prints the number of an order, or waits for its result and prints that.
    ///
    /// # Errors
    /// When no record shows a result, or the database cannot be reached.
    pub(crate) fn follow(
        &self,
        fleet: &Fleet,
        given: &Given,
        engine: &Engine,
        cancel: &Cancel,
        context: &Context,
        out: &mut Out,
    ) -> Outcome {
        if !given.lowered.is_empty() && !context.quiet {
            let lowered = given.lowered.join(", ");
            complain(&format!(
                "warning: workers lower these limits to those of the item or the settings: {lowered}"
            ));
        }
        if !context.quiet && !fleet.has_worker()? {
            complain(&format!(
                "note: no worker is there; order {} waits for one; hint: threadseal worker --database URL",
                given.order
            ));
        }
        if self.detach {
            let (order, record) = (given.order, given.record.to_hex());
            match context.json {
                true => out.json(
                    &json!({"schema": "threadseal.run.order/1", "order": order, "record": record}),
                ),
                false => out.line(order),
            }
            return Ok(Exit::Done);
        }
        let records = Records::from(&fleet.looking(engine)?.services);
        let host = &engine.services.host;
        match fleet.outcome(&records, given, cancel, host)? {
            OrderEnd::Ended(result) => Ok(tell(result, context, out)),
            OrderEnd::Refused(thread, why) => {
                refuse_evidence(&records, &thread)?;
                Err(Failure::new(format!("order {}: {why}", given.order)))
            }
            OrderEnd::Nothing { state, claim } => {
                Err(Failure::new(unverified(given, &state, claim)))
            }
        }
    }
}

/// The refusal where no record shows a result.
fn unverified(given: &Given, state: &str, claim: Option<String>) -> String {
    let order = given.order;
    match (state, claim) {
        ("done", Some(claim)) => format!(
            "no record shows a result of order {order}; its row states, unverified: {}",
            Clean(&claim)
        ),
        ("done", None) => format!("no record shows a result of order {order}"),
        _ => format!("order {order} is not done; workers continue it"),
    }
}

/// Prints a result, and gives the exit.
fn tell(mut result: Value, context: &Context, out: &mut Out) -> Exit {
    let exit = match result["status"].as_str() {
        Some("completed" | "completed_with_errors") => Exit::Done,
        Some("suspended" | "limit_reached") => Exit::Unconfirmed,
        _ => Exit::NoVerdict,
    };
    if context.json {
        result["schema"] = "threadseal.run/1".into();
        out.json(&result);
        return exit;
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
    exit
}
