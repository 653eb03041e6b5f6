//! `ledger settle`: admits that two writers began a ledger at the same time.
//!
//! ```text
//! verify ─► is a later beginning the only fault? ─► a record that names it, and the reason, at the end
//! ```
//! Nothing of the ledger changes. The record stays in it, so that every later report names the
//! second beginning. An actor of a signed ledger signs it.

use super::head::whole;
use super::place;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::Keyring;
use crate::options;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, Signer as _};
use threadseal_core::report::{Finding, FindingCode, Report, Severity};
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{
    Declaration, LaterBeginning, LaterBeginnings, RunId, step_id_from_random,
};
use threadseal_store::ledger::{
    ActorSigners, ChainedLedger as _, HashChainedLedgerStore, LedgerStore,
};
use threadseal_store::random;

/// What `ledger settle` takes.
#[derive(Debug, Args)]
pub(crate) struct SettleArgs {
    /// The store: a folder, file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "STORE")]
    store: String,
    /// The run [default: the only one]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// Reason, which every reader of the ledger can see
    #[arg(long, alias = "reason", value_name = "TEXT", value_parser = options::reason)]
    why: String,
    /// Name of the signing key, which the ledger must name [default: self]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct SettleOutput<'a> {
    schema: &'static str,
    run: &'a str,
    beginnings: Vec<u64>,
    records: u64,
    head: Option<String>,
}

/// Verifies, and appends the record.
pub(super) fn run(args: &SettleArgs, context: &Context, out: &mut Out) -> Outcome {
    let there = place::readable(&args.store, context)?;
    let run = there.one(args.run.as_ref())?;
    let trust = match context.home()? {
        Some(home) => trust_file::trust_of_home(&home, context)?,
        None => Trust::default(),
    };
    let verifier = verifying::verifier_by(trust, context)?;
    let report = whole(&there, &run, &args.store, &verifier, context)?.report;
    let numbers = later_beginnings(&report)?;
    let store = place::writable(&args.store, context)?;
    let mut beginnings = Vec::new();
    for number in &numbers {
        let hash = hash_of(&*store, &run, *number)?;
        let record = *number;
        beginnings.push(LaterBeginning { record, hash });
    }
    let admission = LaterBeginnings::new(beginnings, args.why.clone())?;
    let first = record_at(&*store, &run, 0)?;
    let host = context.host()?;
    let mut ledger = HashChainedLedgerStore::new(store).with_host(host.clone());
    let mut by = None;
    if let Ok(Some(Declaration::Genesis(genesis))) = Declaration::of(&first)
        && !genesis.actors.is_empty()
    {
        let keyring = Keyring::of(&context.existing_home()?);
        let name = args.key.as_deref();
        let key = keyring.signer(name, KeyUsage::Native, &args.passphrase, context)?;
        let public = *key.public_key();
        let actor = genesis.actors.of_key(&public).next();
        let actor = actor.ok_or_else(|| {
            Failure::new(format!(
                "the first record of run {run} does not name the key; hint: choose a key that it names, with --key"
            ))
        })?;
        let id = actor.actor_id().to_owned();
        let signers = ActorSigners::new().with(id.clone(), Arc::new(key));
        ledger = ledger.with_signer(Arc::new(signers));
        by = Some(id);
    }
    let step = step_id_from_random(random::array(&context.random)?);
    let record = admission.to_record(run.clone(), step, by, context.now()?);
    let appended = ledger.append(&record)?;
    let own = ledger.records().place_of(&run);
    place::remember(&args.store, &run, own.as_deref(), &host)?;
    if let Some(error) = appended.unpublished {
        return Err(Failure::new(format!(
            "the record is stored, but its head could not be published: {error}"
        )));
    }
    let tip = appended.tip;
    let head = tip
        .hash
        .and_then(|hash| threadseal_formats::ledger::head_of(&run, tip.count, hash));
    let head = head.map(|head| head.to_string());
    if context.json {
        out.json(&SettleOutput {
            schema: "threadseal.ledger.settle/1",
            run: run.as_str(),
            beginnings: numbers,
            records: tip.count,
            head,
        });
    } else if !context.quiet {
        out.line(head.unwrap_or_default());
    }
    Ok(Exit::Done)
}

/// The numbers of the records that begin the ledger a second time, if that is its only fault.
fn later_beginnings(report: &Report) -> Result<Vec<u64>, Failure> {
    let refuse = |why: String| Err(Failure::new(why).about(Path::new(&report.path)));
    let is_later = |found: &&Finding| found.code == FindingCode::GenesisMisplaced;
    let errors = || {
        report
            .findings
            .iter()
            .filter(|found| found.severity == Severity::Error)
    };
    if let Some(other) = errors().find(|found| !is_later(found)) {
        return refuse(format!(
            "the ledger has another fault: {}; hint: continue in a new run, with ledger append --parent",
            other.message
        ));
    }
    let numbers: Option<Vec<u64>> = errors().map(|found| found.turn).collect();
    match numbers {
        Some(numbers) if !numbers.is_empty() => Ok(numbers),
        _ => refuse("the ledger has no second beginning to settle".to_owned()),
    }
}

fn record_at(store: &dyn LedgerStore, run: &RunId, number: u64) -> Result<Value, Failure> {
    let found = store.list_after(run, number, 1)?;
    let found = found.first().map(|record| json::parse_python(&record.line));
    match found {
        Some(Ok(document)) => Ok(document.value),
        _ => Err(Failure::new(format!(
            "record {number} of run {run} cannot be read; hint: threadseal ledger verify"
        ))),
    }
}

fn hash_of(store: &dyn LedgerStore, run: &RunId, number: u64) -> Result<Digest, Failure> {
    let record = record_at(store, run, number)?;
    let hash = record.get("record_hash").and_then(Value::as_str);
    hash.and_then(Digest::parse_hex).ok_or_else(|| {
        Failure::new(format!(
            "record {number} of run {run} has no hash; hint: threadseal ledger verify"
        ))
    })
}
