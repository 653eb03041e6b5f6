//! `ledger append`: reads records or parts of them, and writes chained and signed records.
//!
//! ```text
//! a line   a step record, or a part of one: {"node":…,"effect":{"type",…},"status":…,…}
//! ```
//! Missing members get default values. All waiting lines are stored together; each is durable
//! before the next ones are read. This host remembers the head of the stored records. With `--each`
//! a program that keeps the command running gets an answer to each batch.

use super::head::whole;
use super::place;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::{trust_file, verifying};
use clap::Args;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::canon::json::{self, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer as _};
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::record::RecordId;
use threadseal_formats::ledger::{
    ACTORS_EFFECT, ActorFingerprint, Actors, Declaration, Genesis, Parent, RunId, StepRecord,
    head_of, step_id_from_random,
};
use threadseal_store::ledger::{
    ActorSigners, ChainedLedger, HashChainedLedgerStore, LedgerStore, LedgerStoreExt as _, Tip,
};
use threadseal_store::random;
use threadseal_store::read::open_regular;

/// The most records that are stored at once.
const BATCH_RECORDS: usize = 1024;
/// The most bytes of lines that are stored at once.
const BATCH_BYTES: usize = 4 << 20;

/// What `ledger append` takes.
#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// The store: a folder, file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "STORE")]
    store: String,
    /// The run of records without one
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// Sign each record; a new ledger then begins with a record that names its actor
    #[arg(long)]
    sign: bool,
    /// Name of the signing key [default: self]
    #[arg(long, value_name = "NAME", requires = "sign")]
    key: Option<String>,
    /// The actor of records without one [default, with --sign: the key's own]
    #[arg(long, value_name = "ID", conflicts_with = "sign")]
    actor: Option<String>,
    /// Kind of the signing actor
    #[arg(long, value_name = "KIND", default_value = "agent", requires = "sign")]
    actor_kind: String,
    /// Name of the signing actor
    #[arg(long, value_name = "NAME", requires = "sign")]
    actor_name: Option<String>,
    /// Another actor that may sign: kind, name, and key as 64 hex digits, did:key, PEM file or name
    /// of the trust store; repeatable
    #[arg(long, value_name = "KIND[:NAME]=KEY", requires = "sign")]
    other_actor: Vec<String>,
    /// The session of records without one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the new heads whenever waiting lines are durable; with --json as one line
    #[arg(long)]
    each: bool,
    #[command(flatten)]
    beginning: BeginningArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// The description in a new ledger's first record.
#[derive(Debug, Args)]
struct BeginningArgs {
    /// Begin a new ledger with a record that describes it; --sign implies this
    #[arg(long)]
    genesis: bool,
    /// The workflow, in the first record
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// File with the definition of the workflow; the first record contains its digest
    #[arg(long, value_name = "FILE")]
    workflow_file: Option<PathBuf>,
    /// File with the inputs of the run; the first record contains its digest
    #[arg(long, value_name = "FILE")]
    inputs_file: Option<PathBuf>,
    /// The run that started this one, and the hash of its last record: RUN or RUN:HASH
    #[arg(long, value_name = "RUN[:HASH]", value_parser = parent)]
    parent: Option<Parent>,
}

impl BeginningArgs {
    fn is_wanted(&self) -> bool {
        let files = self.workflow_file.is_some() || self.inputs_file.is_some();
        self.genesis || files || self.workflow.is_some() || self.parent.is_some()
    }
}

fn parent(text: &str) -> Result<Parent, String> {
    let (run, head) = match text.rsplit_once(':') {
        Some((run, hash)) if hash.len() == 64 => (run, Digest::parse_hex(hash)),
        _ => (text, None),
    };
    let run_id = RunId::parse(run).map_err(|error| error.to_string())?;
    Ok(Parent { run_id, head })
}

#[derive(Serialize)]
struct AppendOutput {
    schema: &'static str,
    /// With `--each`, the last line of the input that is durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<u64>,
    runs: Vec<RunOutput>,
}

#[derive(Serialize)]
struct RunOutput {
    run: String,
    appended: u64,
    records: u64,
    head: Option<String>,
}

type Ledger = HashChainedLedgerStore<Box<dyn LedgerStore>>;

/// One run of the command.
struct Appending<'a> {
    args: &'a AppendArgs,
    context: &'a Context,
    ledger: Ledger,
    /// The actor that signs.
    signer: Option<ActorFingerprint>,
    /// Runs whose first record is written, or was checked.
    begun: BTreeSet<RunId>,
    /// Those of them without a record so far: the next one is the first, or another writer's is.
    absent: BTreeSet<RunId>,
    /// The number of new records and the present end of each run.
    runs: BTreeMap<RunId, (u64, Tip)>,
}

/// Appends until standard input ends.
pub(super) fn run(args: &AppendArgs, context: &Context, out: &mut Out) -> Outcome {
    let key = args.sign.then(|| key(args, context)).transpose()?;
    let store = place::writable(&args.store, context)?;
    let mut ledger = HashChainedLedgerStore::new(store).with_host(context.host()?);
    let mut signer = None;
    if let Some(key) = key {
        let actor = ActorFingerprint::for_key(
            args.actor_kind.as_str(),
            args.actor_name.clone(),
            Vec::new(),
            key.public_key(),
        );
        let actor = actor.map_err(|why| Failure::new(format!("no actor: {why}")))?;
        let signers = ActorSigners::new().with(actor.actor_id(), Arc::new(key));
        ledger = ledger.with_signer(Arc::new(signers));
        signer = Some(actor);
    }
    let mut appending = Appending {
        args,
        context,
        ledger,
        signer,
        begun: BTreeSet::new(),
        absent: BTreeSet::new(),
        runs: BTreeMap::new(),
    };
    let joins = !args.other_actor.is_empty();
    if let (Some(run), true) = (&args.run, joins || args.beginning.is_wanted()) {
        appending.begun.insert(run.clone());
        appending.begin(run)?;
    }
    let mut input = BufReader::with_capacity(1 << 20, stdin().lock());
    let appended = appending.append_all(&mut input, out);
    // Records that were stored before a failure are remembered, too.
    appending.remember()?;
    appended?;
    if !args.each {
        print(&appending.runs, None, context, out);
    }
    Ok(Exit::Done)
}

fn key(args: &AppendArgs, context: &Context) -> Result<LocalSigner, Failure> {
    let keyring = Keyring::of(&context.existing_home()?);
    let name = args.key.as_deref();
    keyring.signer(name, KeyUsage::Native, &args.passphrase, context)
}

fn print(runs: &BTreeMap<RunId, (u64, Tip)>, input: Option<u64>, context: &Context, out: &mut Out) {
    let head = |run: &RunId, tip: &Tip| head_of(run, tip.count, tip.hash?);
    if context.json {
        let runs = runs.iter().map(|(run, (appended, tip))| RunOutput {
            run: run.to_string(),
            appended: *appended,
            records: tip.count,
            head: head(run, tip).map(|head| head.to_string()),
        });
        let output = AppendOutput {
            schema: "threadseal.ledger.append/1",
            input,
            runs: runs.collect(),
        };
        match input {
            Some(_) => out.json_round(&output, Exit::Done),
            None => out.json(&output),
        }
    } else if !context.quiet {
        for (run, (_, tip)) in runs {
            if let Some(head) = head(run, tip) {
                out.line(head);
            }
        }
    }
}

/// The waiting lines, each with its number: at least one unless the input has ended.
fn batch(input: &mut impl BufferedLines, number: &mut u64) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        let limit = MAX_LINE_BYTES as u64 + 2;
        input
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::io("read", Path::new("standard input"), &error))?;
        if line.is_empty() {
            return Ok(lines);
        }
        *number += 1;
        if line.len() > MAX_LINE_BYTES + 1 {
            return Err(Failure::new(format!(
                "line {number} of the input has more than {MAX_LINE_BYTES} bytes"
            )));
        }
        if !line.trim_ascii().is_empty() {
            bytes += line.len();
            lines.push((*number, line));
        }
        let full = lines.len() >= BATCH_RECORDS || bytes >= BATCH_BYTES;
        if !lines.is_empty() && (full || !input.has_line()) {
            return Ok(lines);
        }
    }
}

/// Lines whose reader knows whether the next one has arrived.
trait BufferedLines: BufRead {
    fn has_line(&self) -> bool;
}

impl<R: std::io::Read> BufferedLines for BufReader<R> {
    fn has_line(&self) -> bool {
        self.buffer().contains(&b'\n')
    }
}

impl Appending<'_> {
    fn append_all(&mut self, input: &mut impl BufferedLines, out: &mut Out) -> Result<(), Failure> {
        let mut number = 0;
        loop {
            let batch = batch(input, &mut number)?;
            if batch.is_empty() {
                return Ok(());
            }
            self.append(&batch)?;
            if self.args.each {
                self.remember()?;
                print(
                    &std::mem::take(&mut self.runs),
                    Some(number),
                    self.context,
                    out,
                );
                out.flush();
            }
        }
    }

    /// This host remembers where the records are.
    fn remember(&self) -> Result<(), Failure> {
        for run in self.runs.keys() {
            let own = self.ledger.records().place_of(run);
            place::remember(&self.args.store, run, own.as_deref(), &self.context.host()?)?;
        }
        Ok(())
    }

    /// Stores lines; consecutive lines of one run are stored together.
    fn append(&mut self, lines: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut records: Vec<StepRecord> = Vec::new();
        for (number, line) in lines {
            let mut record = self.record(line).map_err(|failure| {
                Failure::new(format!("line {number} of the input: {failure}"))
            })?;
            if self.begun.insert(record.run_id.clone()) {
                self.begin(&record.run_id)?;
                // No record is older than the beginning of its ledger.
                record = self.record(line)?;
            }
            if records
                .last()
                .is_some_and(|last| last.run_id != record.run_id)
            {
                self.store(&std::mem::take(&mut records))?;
            }
            records.push(record);
        }
        self.store(&records)
    }

    fn store(&mut self, records: &[StepRecord]) -> Result<(), Failure> {
        let Some(first) = records.first() else {
            return Ok(());
        };
        let run = first.run_id.clone();
        let begun = match self.absent.remove(&run) {
            true => {
                let begun = self.ledger.begin_batch(&run, records)?;
                if begun.is_none() {
                    self.continues_another(&run)?;
                }
                begun
            }
            false => None,
        };
        let appended = match begun {
            Some(begun) => begun,
            None => self.ledger.append_batch(&run, records)?,
        };
        self.count(&run, records.len() as u64, appended.tip);
        match appended.unpublished {
            Some(error) => Err(Failure::new(format!(
                "the records are stored, but their head could not be published: {error}"
            ))),
            None => Ok(()),
        }
    }

    fn count(&mut self, run: &RunId, appended: u64, tip: Tip) {
        let known = self.runs.entry(run.clone()).or_insert((0, tip));
        *known = (known.0 + appended, tip);
    }

    /// Writes the first record of a new ledger, or checks that this actor may continue an existing
    /// one. Of several writers that begin one run, one does, and the others continue its ledger.
    fn begin(&mut self, run: &RunId) -> Result<(), Failure> {
        if self.continues(run)? {
            return Ok(());
        }
        if !self.args.sign && !self.args.beginning.is_wanted() {
            self.absent.insert(run.clone());
            return Ok(());
        }
        let by = self
            .signer
            .as_ref()
            .map(|actor| actor.actor_id().to_owned());
        let by = by.or_else(|| self.args.actor.clone());
        let mut record = self.genesis()?.to_record(run.clone(), self.step_id()?, by);
        record.session_id.clone_from(&self.args.session);
        match self.ledger.begin(&record)? {
            Some(begun) => self.count(run, 1, begun.tip),
            None => self.continues_another(run)?,
        }
        Ok(())
    }

    /// Checks that this actor may continue the ledger of `run`; false if there is none.
    fn continues(&mut self, run: &RunId) -> Result<bool, Failure> {
        let first = self.ledger.records().list_after(run, 0, 1)?;
        let Some(first) = first.first() else {
            return Ok(false);
        };
        self.go_on(run, &first.line)?;
        if self.args.sign {
            self.refuse_evidence(run)?;
        }
        Ok(true)
    }

    /// A signed record vouches for all records before it, so there must be no evidence against them.
    fn refuse_evidence(&self, run: &RunId) -> Result<(), Failure> {
        let (store, context) = (&self.args.store, self.context);
        let place = place::readable(store, context)?;
        let trust = trust_file::trust_of_home(&context.existing_home()?, context)?;
        let verifier = verifying::verifier_by(trust, context)?;
        let report = whole(&place, run, store, &verifier, context)?.report;
        match report.verdict.is_evidence() {
            true => {
                let hint = format!("; hint: threadseal ledger verify {store} --run {run}");
                Err(Failure::refused(
                    format!("the ledger of run {run}"),
                    &report,
                    &hint,
                ))
            }
            false => Ok(()),
        }
    }

    /// The same of a ledger that another writer began meanwhile.
    fn continues_another(&mut self, run: &RunId) -> Result<(), Failure> {
        match self.continues(run)? {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "another writer began the ledger of run {run}, but it has no record now; hint: append again"
            ))),
        }
    }

    fn genesis(&self) -> Result<Genesis, Failure> {
        let beginning = &self.args.beginning;
        let id = RecordId::from_bytes(random::array(&self.context.random)?);
        let mut genesis = Genesis::new(id, self.context.now()?);
        genesis.workflow_id.clone_from(&beginning.workflow);
        genesis.workflow_sha256 = self.digest_of(beginning.workflow_file.as_deref())?;
        genesis.inputs_sha256 = self.digest_of(beginning.inputs_file.as_deref())?;
        genesis.parent.clone_from(&beginning.parent);
        if let Some(actor) = &self.signer {
            genesis.actors.add(actor.clone())?;
        }
        genesis.actors.join(self.others()?)?;
        Ok(genesis)
    }

    /// The other actors that may sign.
    fn others(&self) -> Result<Actors, Failure> {
        let mut others = Actors::default();
        for text in &self.args.other_actor {
            let (who, key) = text.split_once('=').ok_or_else(|| {
                Failure::new(format!(
                    "{text:?} is not an actor: write KIND=KEY or KIND:NAME=KEY"
                ))
            })?;
            let (kind, name) = match who.split_once(':') {
                Some((kind, name)) => (kind, Some(name.to_owned())),
                None => (who, None),
            };
            let key = verifying::public_key(key, self.context)?;
            let actor = ActorFingerprint::for_key(kind, name, Vec::new(), &key)
                .map_err(|why| Failure::new(format!("no actor: {why}")))?;
            others.add(actor)?;
        }
        Ok(others)
    }

    fn digest_of(&self, path: Option<&Path>) -> Result<Option<Digest>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let file = open_regular(&*self.context.fs, path)?;
        let digest = threadseal_store::ledger::known::digest_of_beginning(&file, file.size())?;
        Ok(Some(digest.sha256))
    }

    /// Continues an existing ledger. If it declares its actors, the signer must be one of them.
    /// Further actors join it.
    fn go_on(&mut self, run: &RunId, first: &[u8]) -> Result<(), Failure> {
        let first = json::parse_python(first).map_err(|error| Failure::new(error.to_string()))?;
        let declared = Declaration::of(&first.value);
        self.agrees(run, declared.as_ref().ok().and_then(Option::as_ref))?;
        let genesis = match declared {
            Ok(Some(Declaration::Genesis(genesis))) if !genesis.actors.is_empty() => genesis,
            _ if self.args.other_actor.is_empty() => return Ok(()),
            _ => {
                return Err(Failure::new(format!(
                    "the ledger of run {run} names no actors, so no actor can join"
                )));
            }
        };
        let Some(signer) = &self.signer else {
            return Err(Failure::new(format!(
                "the ledger of run {run} is signed; hint: append with --sign"
            )));
        };
        let by = signer.actor_id().to_owned();
        if genesis.actors.key_of(&by).is_none() && !self.has_joined(run, &by)? {
            return Err(Failure::new(format!(
                "the ledger of run {run} does not name actor {by}; hint: sign with a key that it names, and the same --actor-kind and --actor-name; \
                 if that key has ended, continue as another run with --parent {run}"
            )));
        }
        let others = self.others()?;
        if others.is_empty() {
            return Ok(());
        }
        let record = others.to_record(run.clone(), self.step_id()?, by, self.context.now()?);
        let appended = self.ledger.append(&record)?;
        self.count(run, 1, appended.tip);
        Ok(())
    }

    /// Refuses if the ledger begins in another way than the arguments require.
    fn agrees(&self, run: &RunId, first: Option<&Declaration>) -> Result<(), Failure> {
        let beginning = &self.args.beginning;
        if !beginning.is_wanted() {
            return Ok(());
        }
        let Some(Declaration::Genesis(genesis)) = first else {
            return Err(Failure::new(format!(
                "the ledger of run {run} has begun without a first record that describes it; that record cannot be added later"
            )));
        };
        let workflow = self.digest_of(beginning.workflow_file.as_deref())?;
        let inputs = self.digest_of(beginning.inputs_file.as_deref())?;
        let is_of_parent = |parent: &Parent| {
            let there = genesis.parent.as_ref();
            there.is_some_and(|there| {
                let is_head = parent.head.is_none() || parent.head == there.head;
                parent.run_id == there.run_id && is_head
            })
        };
        let asked = [
            (
                "--workflow",
                beginning.workflow.is_none() || beginning.workflow == genesis.workflow_id,
            ),
            (
                "--workflow-file",
                workflow.is_none() || workflow == genesis.workflow_sha256,
            ),
            (
                "--inputs-file",
                inputs.is_none() || inputs == genesis.inputs_sha256,
            ),
            (
                "--parent",
                beginning.parent.as_ref().is_none_or(is_of_parent),
            ),
        ];
        match asked.iter().find(|(_, agrees)| !agrees) {
            Some((option, _)) => Err(Failure::new(format!(
                "the ledger of run {run} has begun, and its first record contradicts {option}"
            ))),
            None => Ok(()),
        }
    }

    /// Does a record after the first add this actor?
    fn has_joined(&self, run: &RunId, actor: &str) -> Result<bool, Failure> {
        for record in self.ledger.records().list(run, 1) {
            let line = record?.line;
            if !String::from_utf8_lossy(&line).contains(ACTORS_EFFECT) {
                continue;
            }
            let Ok(record) = json::parse_python(&line) else {
                continue;
            };
            if let Ok(Some(Declaration::Actors(actors))) = Declaration::of(&record.value)
                && actors.key_of(actor).is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step_id(&self) -> Result<String, Failure> {
        Ok(step_id_from_random(random::array(&self.context.random)?))
    }

    /// The record of a line, with default values for missing members.
    fn record(&self, line: &[u8]) -> Result<StepRecord, Failure> {
        let value = json::parse(line.trim_ascii())
            .map_err(|error| Failure::new(format!("not strict JSON: {error}")))?;
        let Value::Object(mut members) = value else {
            return Err(Failure::new("not an object"));
        };
        let now: Value = self.context.now()?.to_python_text().into();
        if let Some((name, _)) = members.iter_mut().find(|(name, _)| name == "node") {
            *name = Text::from("node_id");
        }
        let run = self.args.run.as_ref().map(|run| Value::from(run.as_str()));
        let own = self.signer.as_ref().map(ActorFingerprint::actor_id);
        let actor = own.or(self.args.actor.as_deref()).map(Value::from);
        let session = self.args.session.as_deref().map(Value::from);
        fill(&mut members, "run_id", run);
        fill(&mut members, "step_id", Some(self.step_id()?.into()));
        fill(&mut members, "status", Some("completed".into()));
        fill(&mut members, "started_at", Some(now.clone()));
        let status = members.iter().find(|(name, _)| name == "status");
        if status.is_some_and(|(_, status)| status.as_str() != Some("started")) {
            fill(&mut members, "ended_at", Some(now));
        }
        fill(&mut members, "actor_id", actor);
        fill(&mut members, "session_id", session);
        for name in ["prev_hash", "record_hash", "signature"] {
            members.retain(|(member, _)| member != name);
        }
        Ok(StepRecord::from_value(Value::Object(members))?)
    }
}

/// Adds a member that is missing or `null`.
fn fill(members: &mut Vec<(Text, Value)>, name: &str, value: Option<Value>) {
    let Some(value) = value else { return };
    match members.iter_mut().find(|(member, _)| member == name) {
        Some((_, old)) if old.is_null() => *old = value,
        Some(_) => {}
        None => members.push((name.into(), value)),
    }
}
