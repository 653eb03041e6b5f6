//! A call for each item of a list, one after the other or several at once.
//!
//! Every item is called, also after one that failed. A node with a failed item has failed, and the
//! state still gets its collected results. (Rye never reports such failures, and takes other values
//! than lists for an empty list.) Each result is sealed before the next call, so that a successor
//! repeats none.

use super::call::{Site, call, made};
use super::outcome::{Did, collected};
use super::run::GraphRun;
use crate::bounds::{MAX_FOREACH_ITEMS, MAX_STATE_BYTES};
use crate::graph::Foreach;
use crate::toolbox::{Cancel, Outcome};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use threadseal_core::error::Error;

/// The results of items, by their places; None for those that were not called.
type Results = Vec<Option<Outcome>>;

/// Calls for each item.
///
/// # Errors
/// When a call cannot be recorded.
pub(super) fn foreach(
    run: &GraphRun,
    foreach: &Foreach,
    cache: bool,
    cancel: &Cancel,
) -> Result<Did, Error> {
    let context = run.context(None)?;
    let items = match foreach.over.render(&context) {
        Ok(Value::Array(items)) if items.len() <= MAX_FOREACH_ITEMS => items,
        Ok(Value::Array(items)) => {
            let text = format!(
                "a foreach over {} items; at most {MAX_FOREACH_ITEMS}",
                items.len()
            );
            return Ok(Did::failed(text));
        }
        Ok(_) => return Ok(Did::failed("`over` is no list")),
        Err(why) => return Ok(Did::failed(why.to_string())),
    };
    let at_once = match foreach.parallel {
        true => foreach
            .max_concurrency
            .unwrap_or(run.plan.subject.max_concurrency),
        false => 1,
    };
    let at_once = usize::try_from(at_once).unwrap_or(1).min(items.len());
    let one =
        |place: usize, context: &Value| call_item(run, foreach, cache, place, context, cancel);
    let results = call_each(foreach, &items, &context, at_once, cancel, &one)?;
    Ok(gathered(foreach, results, cancel))
}

/// Runs the calls on `at_once` threads; the record is written by one at a time.
fn call_each(
    foreach: &Foreach,
    items: &[Value],
    context: &Value,
    at_once: usize,
    cancel: &Cancel,
    one: &(dyn Fn(usize, &Value) -> Result<Outcome, Error> + Sync),
) -> Result<Results, Error> {
    let (next, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(vec![None; items.len()]);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let work = || {
        let mut context = context.clone();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let stop = cancel.is_set() || bytes.load(Ordering::Relaxed) > MAX_STATE_BYTES;
            let Some(item) = items.get(place).filter(|_| !stop) else {
                return;
            };
            context[&foreach.item] = item.clone();
            match one(place, &context) {
                Ok(outcome) => {
                    bytes.fetch_add(outcome.text().len(), Ordering::Relaxed);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results[place] = Some(outcome);
                }
                Err(error) => {
                    // No more calls begin once a call cannot be recorded.
                    next.store(items.len(), Ordering::Relaxed);
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        }
    };
    if at_once <= 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(work);
            }
        });
    }
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn call_item(
    run: &GraphRun,
    foreach: &Foreach,
    cache: bool,
    place: usize,
    context: &Value,
    cancel: &Cancel,
) -> Result<Outcome, Error> {
    let id = format!("{}.{place}", run.step_number());
    if let Some(made) = made(run, &id) {
        return Ok(made);
    }
    let site = Site {
        id: &id,
        action: &foreach.action,
        cache,
    };
    let outcome = call(run, &site, context, cancel)?;
    run.record().seal()?;
    Ok(outcome)
}

/// The collected results of the node, and whether it failed.
fn gathered(foreach: &Foreach, results: Results, cancel: &Cancel) -> Did {
    let (items, called) = (results.len(), results.iter().flatten().count());
    let failed = results
        .iter()
        .flatten()
        .filter(|outcome| outcome.error.is_some())
        .count();
    let mut set = Map::new();
    if let Some(name) = &foreach.collect {
        let values = results
            .iter()
            .map(|outcome| outcome.as_ref().map_or(Value::Null, collected));
        set.insert(name.clone(), values.collect());
    }
    let first = results
        .into_iter()
        .flatten()
        .find_map(|outcome| outcome.error);
    let error = match first {
        Some(first) => Some(format!(
            "{failed} of {items} items failed; the first: {first}"
        )),
        None if called < items && cancel.is_set() => cancel.why().map(|why| why.to_string()),
        None if called < items => Some(format!(
            "the results of {called} of {items} items have more than {MAX_STATE_BYTES} bytes"
        )),
        None => None,
    };
    Did::Each {
        set,
        error,
        told: json!({"items": items, "failed": failed + (items - called)}),
    }
}
