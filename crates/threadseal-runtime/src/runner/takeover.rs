//! Taking a thread over: another worker continues it, in the same record.
//!
//! ```text
//! lease with a higher token ─► record opened, verified; tail set aside
//!   ─► `tool_call_unresolved` for each call without a sealed result
//!   ─► sealed under the new token ─► conversation of the verified lines ─► loop
//! ```
//! Events that no seal covers are never passed to a model. Tail and step ledger prove only one
//! thing: that a call of this thread began, by its idempotency key. Such a call may have been
//! carried out; it is listed. The model learns how many there are, in words of this file alone, and
//! no call with the same name begins again.
//!
//! Normative: `spec/runtime.md`, "Many machines".

use super::account::ANCHORED_TURNS;
use super::accounts::{charge_unknown, note_end};
use super::cycle::{End, Given, at_limit};
use super::derived_files::{DerivedFiles, new_entry};
use super::handoff;
use super::held_record;
use super::lifecycle::{Lifecycle, Prepared};
use super::orchestrator::{Need, Records};
use super::order::{Order, Ran};
use super::recover;
use super::recover::CAUSE;
use super::sealed_cost::SealedCost;
use super::services::{Notice, Services};
use super::starter::Starter;
use super::thread::{TakenOver, Thread, ThreadRun, ThreadStart, warnings_of};
use crate::bounds::{MAX_CONVERSATION_BYTES, MAX_LEDGER_RECORDS, MAX_UNRESOLVED_CALLS};
use crate::config::missing::SignedSettings;
use crate::history::{UNRESOLVED, answer_open_calls};
use crate::item::ItemId;
use crate::journal::{Journal, run_of};
use crate::limit::{Cost, Limits, When};
use crate::model::{ChatMessage, conversation, dynamic};
use crate::no_links::NoLinks;
use crate::project::ThreadFolder;
use crate::project_id;
use crate::signed_file::{SignedFile, read_verified};
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_formats::document::{DocumentKind, ItemType, Options};
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload, is_terminal};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::messages::Conversation;
use threadseal_store::ledger::{JsonlLedgerStore, LedgerStore};
use threadseal_store::read::read_small;
use threadseal_store::recorder::{Recorder, TailPolicy};

/// A call that began, and whose result is in no sealed line.
#[derive(Debug, Clone, Default)]
struct Open {
    tool: Value,
    item: Value,
    call: Value,
    key: String,
    /// The number of calls that began before it.
    place: usize,
    by_hook: bool,
    /// Has it a sealed result that marks its end as unknown?
    told: bool,
}

/// The facts in the sealed lines of a record.
struct Sealed {
    messages: Vec<ChatMessage>,
    lines: Vec<Vec<u8>>,
    settings: SignedSettings,
    cost: Cost,
    end: Option<(Status, Value)>,
    outputs: Option<Value>,
    text: String,
}

/// Continues a thread that another worker left, under the lease of this engine's files. With
/// `ends`, or where the thread cannot continue without help, ends it in its record.
///
/// # Errors
/// Kind `Refused` when its record or its files contradict that: `Engine::recover` ends it
/// then, if that can be. Otherwise as `Engine::run`.
pub(in crate::runner) fn take_over(
    services: &Services,
    starter: Starter,
    id: &ThreadId,
    ends: bool,
    cancel: &Cancel,
) -> Result<Ran, Error> {
    let folder = services.project.thread(id);
    let mut recorder = open_sealed(services, id)?;
    let manifest = recorder.state().manifest().clone();
    if !recorder.state().is_ended() {
        let (unresolved, by_hooks) = list_unresolved(services, id, &folder, &mut recorder)?;
        charge_unknown(services, id, &mut recorder)?;
        let turn = recorder.state().turn();
        // The caller of a child, or of a successor, is gone with the worker; a hook would be
        // asked again.
        let ends = ends || by_hooks || manifest.parent.is_some() || manifest.predecessor.is_some();
        if !ends {
            recorder.seal(turn, Ext::default())?;
            let sealed = Sealed::of(&sealed_lines(services, id)?)?;
            services.announce(id, Notice::TakenOver(unresolved.len()));
            let begun = running(
                services, starter, id, &folder, &manifest, recorder, sealed, unresolved, cancel,
            )?;
            return go_on(begun);
        }
        let cause = json!({"error": CAUSE, "unresolved": unresolved.len()});
        let cause = Payload::parse(cause.to_string().as_bytes())?;
        recorder.end(Ending::Error, &cause, turn)?;
        let notice = Notice::Recovered(Status::Error, unresolved.len());
        services.announce(id, notice);
    }
    let sealed = Sealed::of(&sealed_lines(services, id)?)?;
    settle_ended(services, id, &folder, &manifest, recorder, &sealed)
}

/// The record, verified under the lease; events that no seal covers are set aside.
fn open_sealed(services: &Services, id: &ThreadId) -> Result<Recorder, Error> {
    project_id::check_thread(&services.host, &services.project, &services.trust, id)?;
    let opened = held_record::open(services, id, TailPolicy::SetAside)?;
    if let Some(moved) = &opened.moved {
        services.announce(id, Notice::SetAside(moved.length, &moved.path));
    }
    Ok(opened.recorder)
}

/// The verified lines of the record, which must all be sealed.
fn sealed_lines(services: &Services, id: &ThreadId) -> Result<Vec<Vec<u8>>, Error> {
    let past = Records::from(services).past(id, Need::Whole)?;
    let lines = past.lines()?;
    Ok(lines.iter().map(|line| line.bytes.to_vec()).collect())
}

/// Names the calls without a sealed result: those of sealed lines, of all parts set aside, and
/// of the step ledger.
fn list_unresolved(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    recorder: &mut Recorder,
) -> Result<(HashSet<String>, bool), Error> {
    let bytes = read_small(
        &*services.host.fs,
        &folder.transcript(),
        MAX_CONVERSATION_BYTES,
    )?;
    let size = recorder.state().head().map_or(0, |head| head.size);
    let covered = bytes.get(..usize::try_from(size).unwrap_or(usize::MAX));
    let mut seen = Calls::default();
    seen.read(covered.unwrap_or_default(), id, true);
    for name in services.host.fs.read_dir(folder.path()).map_err(|error| {
        Error::new(ErrorKind::External, format!("cannot list {id}: {error}")).with_source(error)
    })? {
        let text = name.to_string_lossy();
        if text.starts_with("transcript.jsonl.tail-") {
            let path = folder.path().join(&name);
            seen.read(
                &read_small(&*services.host.fs, &path, MAX_CONVERSATION_BYTES)?,
                id,
                false,
            );
        }
    }
    for (key, item) in began_in_ledger(services, folder, recorder.state().manifest())? {
        seen.began(id, &key, &json!({"item_id": item}));
    }
    // A later successor of this thread learns which of them the ledger vouches for.
    let signed = recover::steps_of(services, folder).unwrap_or_default();
    let signed: HashSet<String> = signed.into_iter().map(|(key, _)| key).collect();
    let by_hooks = seen.asks_again();
    let open: Vec<Open> = seen.open.into_values().take(MAX_UNRESOLVED_CALLS).collect();
    for call in open.iter().filter(|call| !seen.listed.contains(&call.key)) {
        let event = json!({"call_id": call.call, "tool": call.tool, "item_id": call.item,
                           "idempotency_key": call.key, "in_ledger": signed.contains(&call.key)});
        recorder.append_buffered(
            &EventType::parse("tool_call_unresolved")?,
            &Payload::parse(event.to_string().as_bytes())?,
        )?;
    }
    let names = open.iter().map(|call| name_of(&call.key).to_owned());
    Ok((names.collect(), by_hooks))
}

/// Keys and items of the calls, also of hooks, that began according to the step ledger.
fn began_in_ledger(
    services: &Services,
    folder: &ThreadFolder,
    manifest: &Manifest,
) -> Result<Vec<(String, Value)>, Error> {
    let store = JsonlLedgerStore::open(NoLinks::host(&services.host).fs, folder.path())?;
    let (run, mut keys, mut after) = (run_of(manifest)?, Vec::new(), 0);
    loop {
        let page = store.list_after(&run, after, MAX_LEDGER_RECORDS)?;
        if page.is_empty() || after >= MAX_LEDGER_RECORDS as u64 {
            return Ok(keys);
        }
        after += page.len() as u64;
        for record in page {
            let Ok(step) = serde_json::from_slice::<Value>(&record.line) else {
                continue;
            };
            let (kind, said) = (&step["effect"]["type"], &step["effect"]["payload"]);
            if (kind == "tool_call" || kind == "hook_call")
                && let Some(key) = step["idempotency_key"].as_str()
            {
                let item = match &said["tool"] {
                    Value::Null => &said["item_id"],
                    tool => tool,
                };
                keys.push((key.to_owned(), item.clone()));
            }
        }
    }
}

/// The thread as its last seal left it.
#[expect(clippy::too_many_arguments, reason = "each is a part of one thread")]
fn running(
    services: &Services,
    starter: Starter,
    id: &ThreadId,
    folder: &ThreadFolder,
    manifest: &Manifest,
    recorder: Recorder,
    mut sealed: Sealed,
    unresolved: HashSet<String>,
    cancel: &Cancel,
) -> Result<Thread, Error> {
    let directive = manifest.directive.as_deref();
    let directive = directive.ok_or_else(|| Error::refused("line 1 names no directive"))?;
    let order = Order {
        directive: ItemId::parse(directive)?,
        inputs: match &dynamic(&manifest.meta)?["inputs"] {
            Value::Object(inputs) => inputs.clone(),
            _ => {
                return Err(Error::refused(
                    "line 1 does not contain the inputs of the thread",
                ));
            }
        },
        limits: Limits::from_json(&dynamic(&manifest.limits)?)?,
        cancel: cancel.clone(),
    };
    let spent = services.budgets.get(id)?.map(|budget| budget.actual);
    let spawns = spawned(services, id, &sealed)?;
    sealed.cost.spend = spent.unwrap_or_default();
    sealed.cost.spawns = spawns;
    let mut prepared = Prepared::<ThreadRun>::new(services, starter, &order, None)?;
    prepared.plan.limits = order.limits;
    let Prepared { plan, helpers, .. } = prepared;
    if plan.tools.capabilities().to_texts() != manifest.capabilities {
        let text = "its directive now gives other capabilities than line 1 of its record";
        return Err(Error::refused(text));
    }
    let mut messages = sealed.messages;
    if messages.is_empty() {
        messages.push(ChatMessage::User(plan.subject.prompt.clone()));
    }
    answer_open_calls(&mut messages);
    let note = (!unresolved.is_empty()).then(|| {
        format!(
            "Another process went on with this thread: the one before was gone. {} of the calls that it had \
             begun are {UNRESOLVED}",
            unresolved.len()
        )
    });
    let lines = sealed.lines.iter().map(Vec::as_slice);
    let missing = sealed.settings.missing(&services.config.used);
    let mut journal = Journal::reopen(&services.host, folder, recorder, &services.keys, lines)?;
    if let Some((kind, settings)) = &missing {
        journal.event(kind, settings)?;
    }
    let run = ThreadRun {
        services: services.clone(),
        id: id.clone(),
        journal,
        files: files(services, id, folder, manifest, plan.limits, sealed.cost)?,
        plan,
        start: ThreadStart {
            messages,
            ..ThreadStart::default()
        },
        continues: None,
        cost: Cost::default(),
        warnings: warnings_of(missing.as_slice()),
        taken_over: TakenOver {
            cost: sealed.cost,
            unresolved,
            note,
        },
    };
    (0..spawns).for_each(|_| helpers.children.begun());
    Ok(Lifecycle::of(services.clone(), run, helpers, None))
}

/// The number of children that it began: a row may count failed starts, and may have been
/// edited.
fn spawned(services: &Services, id: &ThreadId, sealed: &Sealed) -> Result<u64, Error> {
    let noted = services.registry.get(id)?.map_or(0, |thread| thread.spawns);
    Ok(noted.max(sealed.cost.spawns))
}

/// `thread.json` and the entry, unchanged, or new where the worker died before them.
fn files(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    manifest: &Manifest,
    limits: Limits,
    cost: Cost,
) -> Result<DerivedFiles, Error> {
    let (path, kind) = (folder.metadata(), DocumentKind::Json);
    let now = services.host.clock.now()?;
    let (mut meta, file) = if services.host.fs.metadata(&path).is_ok() {
        let trusted =
            ThreadMeta::read(&services.host, folder, id, Some(manifest), &services.trust)?;
        let head = trusted.head();
        let head = head.ok_or_else(|| Error::refused("thread.json has no native seal"))?;
        (
            trusted.get().clone(),
            SignedFile::after(&services.host, &path, kind, None, head)?,
        )
    } else {
        let meta = ThreadMeta {
            thread_id: id.clone(),
            directive: manifest.directive.clone().unwrap_or_default(),
            status: Status::Running,
            created_at: now,
            updated_at: now,
            model: manifest.model.clone(),
            limits,
            capabilities: crate::capability::Capabilities::parse(&manifest.capabilities)?,
            cost: None,
            outputs: None,
        };
        (meta, SignedFile::new(&services.host, &path, kind, None)?)
    };
    meta.cost = Some(cost);
    let mut files = DerivedFiles {
        entry: entry_after(services, &meta)?,
        meta,
        file,
        unshown: None,
    };
    if services
        .registry
        .get(id)?
        .and_then(|thread| thread.status.ok())
        == Some(Status::Created)
    {
        files.write(services)?;
        services
            .registry
            .set_status(id, Some(Status::Created), Status::Running, now)?;
    }
    Ok(files)
}

/// The knowledge entry, after the one that is there.
fn entry_after(services: &Services, meta: &ThreadMeta) -> Result<SignedFile, Error> {
    let directive = ThreadId::parse(&meta.directive)?;
    let path = services
        .project
        .knowledge_entry(&directive, &meta.thread_id);
    if services.host.fs.metadata(&path).is_err() {
        return new_entry(services, meta);
    }
    let (kind, item_type) = (DocumentKind::Markdown, Some(ItemType::Knowledge));
    let options = Options {
        item_type,
        expect_thread: Some(&meta.thread_id),
        ..Options::new(kind, &services.trust, services.host.clock.now()?)
    };
    match read_verified(&services.host, &path, &options)?.head {
        Some(head) => {
            let mut entry = SignedFile::after(&services.host, &path, kind, item_type, &head)?;
            entry.pass_over(ANCHORED_TURNS);
            Ok(entry)
        }
        None => new_entry(services, meta),
    }
}

/// Updates everything after the record of a thread whose worker died after its last seal.
fn settle_ended(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    manifest: &Manifest,
    recorder: Recorder,
    sealed: &Sealed,
) -> Result<Ran, Error> {
    let (status, payload) = sealed.end.clone().ok_or_else(|| {
        Error::refused(format!(
            "the record of {id} does not contain the end of its thread"
        ))
    })?;
    let head = recorder.state().head().copied();
    let head = head.ok_or_else(|| Error::refused("the record has no seal"))?;
    let cost = match &payload["cost"] {
        Value::Null => Cost {
            spend: services
                .budgets
                .get(id)?
                .map(|budget| budget.actual)
                .unwrap_or_default(),
            spawns: spawned(services, id, sealed)?,
            ..sealed.cost
        },
        cost => Cost::from_json(cost)?,
    };
    let limits = Limits::from_json(&dynamic(&manifest.limits)?)?;
    let mut files = files(services, id, folder, manifest, limits, cost)?;
    let mut ran = Ran {
        thread: id.clone(),
        status,
        text: match (status, &sealed.outputs) {
            (Status::Completed | Status::LimitReached, None) => sealed.text.clone(),
            _ => String::new(),
        },
        outputs: sealed.outputs.as_ref().and_then(Value::as_object).cloned(),
        error: ["error", "reason", "suspend_reason"]
            .iter()
            .find_map(|name| payload[*name].as_str().map(str::to_owned)),
        cost,
        head,
        carried: Cost::default(),
        warnings: Vec::new(),
    };
    files.meta.status = ran.status;
    files.meta.outputs.clone_from(&ran.outputs);
    files.write(services)?;
    let lines = sealed.lines.iter().map(Vec::as_slice);
    let journal = Journal::reopen(&services.host, folder, recorder, &services.keys, lines)?;
    note_end(services, &ran)?;
    files.write_entry(services, &journal)?;
    ran.warnings.extend(files.unshown.take());
    Ok(ran)
}

/// Runs a thread further, or ends one that had given its last answer.
fn go_on(mut thread: Thread) -> Result<Ran, Error> {
    if let Some(ChatMessage::Assistant { calls, text }) = thread.run.start.messages.last()
        && calls.is_empty()
    {
        let (text, outputs) = (text.clone(), None);
        let cost = thread.run.taken_over.cost;
        let end = match thread.run.plan.limits.check(When::AfterTurn, &cost) {
            None => End::Completed { text, outputs },
            Some(hit) => at_limit(hit, Given { text, outputs }, None),
        };
        thread.run.cost = cost;
        return thread.finish(end);
    }
    handoff::run(thread)
}

impl Sealed {
    fn of(lines: &[Vec<u8>]) -> Result<Self, Error> {
        let mut sealed = Self {
            messages: Vec::new(),
            lines: lines.to_vec(),
            settings: SignedSettings::default(),
            cost: Cost::default(),
            end: None,
            outputs: None,
            text: String::new(),
        };
        // Every line is a part of the verified bytes.
        let mut said = Conversation::danger_new();
        let (mut cost, mut used) = (SealedCost::default(), Vec::new());
        for line in lines {
            said.push_line(line)?;
            let Ok(event) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            cost.line(&event);
            let payload = &event["payload"];
            match event["event_type"].as_str().unwrap_or_default() {
                "cognition_out" => payload["text"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut sealed.text),
                "item_used" => used.push(payload.clone()),
                "directive_return" => sealed.outputs = Some(payload["outputs"].clone()),
                kind if is_terminal(kind) => {
                    let status = Status::of_end(kind, payload["status"].as_str());
                    sealed.end = status.map(|status| (status, payload.clone()));
                }
                _ => {}
            }
        }
        sealed.cost = cost.total();
        sealed.settings = SignedSettings::of(used.into_iter());
        sealed.messages = conversation(&said.into_messages())?;
        Ok(sealed)
    }
}

/// Calls that began, and those that came to an end.
#[derive(Default)]
struct Calls {
    open: BTreeMap<String, Open>,
    answered: HashSet<String>,
    /// Keys of calls that the record lists as unresolved already.
    listed: HashSet<String>,
}

impl Calls {
    fn read(&mut self, bytes: &[u8], id: &ThreadId, sealed: bool) {
        for line in bytes.split(|byte| *byte == b'\n') {
            self.line(line, id, sealed);
        }
    }

    /// Reads a line; a torn last line is no event.
    fn line(&mut self, line: &[u8], id: &ThreadId, sealed: bool) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let payload = &event["payload"];
        match event["event_type"].as_str() {
            Some("tool_call_start" | "hook_call_start") => {
                let key = payload["idempotency_key"].as_str().unwrap_or_default();
                self.began(id, key, payload);
            }
            Some("tool_call_unresolved") if sealed => {
                let key = payload["idempotency_key"].as_str().unwrap_or_default();
                self.began(id, key, payload);
                self.listed.insert(key.to_owned());
            }
            Some(kind @ ("tool_call_result" | "hook_call_result")) if sealed => {
                let by_hook = kind == "hook_call_result";
                self.ended(&payload["call_id"], by_hook, payload["unknown"] == true);
            }
            _ => {}
        }
    }

    /// Would a hook be asked again, and repeat its call? Not if its call has a result, of any
    /// content.
    fn asks_again(&self) -> bool {
        self.open.values().any(|call| call.by_hook && !call.told)
    }

    /// A result of the newest open call of this id: ids may come again in another turn.
    fn ended(&mut self, call: &Value, by_hook: bool, unknown: bool) {
        let open = self.open.iter_mut();
        let newest = open
            .filter(|(_, open)| open.by_hook == by_hook && !open.told && open.call == *call)
            .max_by_key(|(_, open)| open.place);
        let Some((name, open)) = newest.map(|(name, open)| (name.clone(), open)) else {
            return;
        };
        if unknown {
            open.told = true;
            return;
        }
        self.open.remove(&name);
        self.answered.insert(name);
    }

    /// An attacker may have written it: only text in the form of a key of this thread counts.
    fn began(&mut self, id: &ThreadId, key: &str, payload: &Value) {
        let name = name_of(key);
        let rest = name
            .strip_prefix(id.as_str())
            .and_then(|rest| rest.strip_prefix('/'));
        let Some((turn, call)) = rest.and_then(|rest| rest.split_once('/')) else {
            return;
        };
        let plain = |text: &str| text.len() <= 200 && !text.chars().any(char::is_control);
        let by_hook = turn == "hook";
        let is_one = match by_hook {
            true => call.parse::<u64>().is_ok(),
            false => turn.parse::<u64>().is_ok() && plain(call),
        };
        if !is_one || self.answered.contains(name) || self.open.contains_key(name) {
            return;
        }
        let text = |member: &str| match &payload[member] {
            Value::String(text) if plain(text) => Value::String(text.clone()),
            _ => Value::Null,
        };
        let item = text("item_id");
        let open = Open {
            tool: match by_hook {
                true => item.clone(),
                false => text("tool"),
            },
            item,
            call: match by_hook {
                // The id in its events.
                true => Value::String(format!("hook_{call}")),
                false => Value::String(call.to_owned()),
            },
            key: key.to_owned(),
            place: self.open.len() + self.answered.len(),
            by_hook,
            told: false,
        };
        self.open.insert(name.to_owned(), open);
    }
}

/// The name of a call: its key without the token of a lease.
fn name_of(key: &str) -> &str {
    key.rsplit_once('#').map_or(key, |(name, _)| name)
}

#[cfg(test)]
mod tests;
