//! `rye/agent/threads/thread_summary`: a short summary of a thread, for its successor.
//!
//! ```text
//! {thread_id} ─► seal ─► transcript verified ─► rendering, bounded
//!    ─► a thread of the summary's directive
//!    ─► .ai/knowledge/agent/threads/<directive>/<name>-summary.md, signed
//!    ─► {summary_id, knowledge_id, summary}
//! ```
//! Only the verified part of the transcript is rendered. The summary is the output of a model: it
//! is bounded, and is always placed as knowledge, never as instructions.
//!
//! Seed 001, "Example: Hook-Driven Summary on Handoff".

use super::child_spawner::ChildSpawner;
use super::orchestrator::{Need, Records};
use super::parent::Inherited;
use super::services::Services;
use crate::bounds::{MAX_SUMMARY_CHARS_PER_TOKEN, MAX_SUMMARY_SOURCE_BYTES};
use crate::capability::{Call, Capabilities};
use crate::directive::Directive;
use crate::item::{Item, ItemId, ItemKind};
use crate::model::ToolSchema;
use crate::project::Project;
use crate::signed_file::{SignedFile, read_verified};
use crate::toolbox::{Invocation, Outcome, Tool, model_name};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::{DocumentKind, ItemType, Options};
use threadseal_formats::transcript::render::{Cost, Cover, render};
use threadseal_store::atomic;
use threadseal_store::heads::RecordKind;

/// The directive that summarises where none is named.
const DIRECTIVE: &str = "rye/agent/threads/thread_summary";

const FOLDER_MODE: u32 = 0o700;

pub(super) struct SummaryTool {
    services: Services,
    schema: ToolSchema,
    spawner: ChildSpawner,
    owner: OnceLock<(ThreadId, Capabilities)>,
}

impl SummaryTool {
    /// Its id, as in Rye.
    pub(super) const ID: &'static str = "rye/agent/threads/thread_summary";

    /// The tool; `spawner` starts the children of its thread, with the model that summarises.
    pub(super) fn new(services: Services, spawner: ChildSpawner) -> Self {
        let schema = ToolSchema {
            name: model_name(Self::ID),
            description: "Summarises a thread from its verified record.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"thread_id": {"type": "string"}},
                "required": ["thread_id"],
            }),
        };
        Self {
            services,
            schema,
            spawner,
            owner: OnceLock::new(),
        }
    }

    /// Sets the thread that owns the tool, before the first call.
    pub(super) fn belongs_to(
        &self,
        thread: &ThreadId,
        capabilities: Capabilities,
        inherited: Inherited,
    ) {
        self.spawner.belongs_to(thread, inherited);
        let _ = self.owner.set((thread.clone(), capabilities));
    }

    fn summarise(&self, call: &mut Invocation<'_>) -> Result<Value, Error> {
        let id = call.input["thread_id"].as_str();
        let id = ThreadId::parse(id.ok_or_else(|| Error::invalid("thread_id must be a text"))?)?;
        let (owner, capabilities) = self
            .owner
            .get()
            .ok_or_else(|| Error::refused("the thread has not begun"))?;
        if id == *owner {
            call.record.seal()?;
        } else {
            may_read(capabilities, &id)?;
        }
        let (rendering, directive) = rendering(&self.services, &id)?;
        let coordination = &self.services.config.coordination;
        let tokens = coordination.summary_max_tokens;
        let named = coordination.summary_directive.as_ref();
        let named = named.map_or_else(|| ItemId::parse(DIRECTIVE), |id| Ok(id.clone()))?;
        let given = json!({"thread_id": id.as_str(), "directive": directive, "max_tokens": tokens,
                           "transcript": shortened(&rendering)});
        let inputs = declared_by(&self.services, &named, given)?;
        let mut input = json!({"directive_id": named.as_str(), "inputs": inputs});
        input["limit_overrides"] = coordination.summary_limits.to_json();
        let summary = said(&self.spawner.run(&input, call.cancel)?)?;
        let most = tokens.saturating_mul(MAX_SUMMARY_CHARS_PER_TOKEN);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let summary: String = summary.trim().chars().take(most).collect();
        keep_summary(&self.services, &id, &directive, &summary)
    }
}

impl Tool for SummaryTool {
    fn id(&self) -> &str {
        Self::ID
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        match self.summarise(call) {
            Ok(result) => Outcome::ok(result),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

/// A thread reads its own record; another's as the knowledge that it is.
fn may_read(capabilities: &Capabilities, id: &ThreadId) -> Result<(), Error> {
    let item = format!("agent/threads/{id}");
    let call = Call::new("load", "knowledge", Some(&item))?;
    match capabilities.permits(&call) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "no leave to summarise {id}: {call}"
        ))),
    }
}

/// The text of the summary's thread: a declared output, else its last text.
fn said(ran: &Value) -> Result<String, Error> {
    if ran["status"] != "completed" {
        let why = ran["error"].as_str().unwrap_or("it did not complete");
        return Err(Error::refused(format!("the summary's thread: {why}")));
    }
    let output = ran["outputs"]["summary"].as_str();
    let text = output.or(ran["result"].as_str()).unwrap_or_default();
    match text.trim().is_empty() {
        false => Ok(text.to_owned()),
        true => Err(Error::refused("the summary is empty")),
    }
}

/// Begin and end of a text that is too long, and its length.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_SUMMARY_SOURCE_BYTES {
        return text.to_owned();
    }
    let half = MAX_SUMMARY_SOURCE_BYTES / 2;
    let (mut end, mut start) = (half, text.len() - half);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let out = start - end;
    format!(
        "{}\n\n[{out} bytes are left out here]\n\n{}",
        &text[..end],
        &text[start..]
    )
}

fn place(project: &Project, directive: &ThreadId, id: &ThreadId) -> PathBuf {
    let entry = project.knowledge_entry(directive, id);
    let name = entry.file_stem().unwrap_or_default().to_string_lossy();
    entry.with_file_name(format!("{name}-summary.md"))
}

/// The id of a summary for a successor: `agent/threads/<this>` is the knowledge.
pub(super) fn summary_id(directive: &str, id: &ThreadId) -> String {
    let name = id.as_str().rsplit('/').next().unwrap_or_default();
    format!("{directive}/{name}-summary")
}

/// Those of `given` that the directive declares as inputs.
pub(in crate::runner) fn declared_by(
    services: &Services,
    id: &ItemId,
    given: Value,
) -> Result<Map<String, Value>, Error> {
    let item = services
        .finder
        .load(ItemKind::Directive, id, &services.grounds()?)?;
    let declared = Directive::parse(item.path(), item.text())?.inputs;
    let Value::Object(mut given) = given else {
        return Ok(Map::new());
    };
    given.retain(|name, _| declared.iter().any(|input| input.name == *name));
    Ok(given)
}

/// The verified record of a thread as readers see it, and its directive.
fn rendering(services: &Services, id: &ThreadId) -> Result<(String, String), Error> {
    let past = Records::from(services).past(id, Need::Whole)?;
    let directive = past.manifest.directive.clone();
    let directive =
        directive.ok_or_else(|| Error::refused(format!("{id} does not say what it runs")))?;
    let cover = Cover {
        thread: id,
        directive: &directive,
        status: "summarised",
        model: "",
        cost: Cost::default(),
        permissions: &[],
    };
    Ok((render(&past.lines()?, &cover)?, directive))
}

pub(in crate::runner) fn keep_summary(
    services: &Services,
    id: &ThreadId,
    directive: &str,
    summary: &str,
) -> Result<Value, Error> {
    let path = place(&services.project, &ThreadId::parse(directive)?, id);
    services.project.inside(&*services.host.fs, &path)?;
    if let Some(folder) = path.parent() {
        atomic::create_directories(&*services.host.fs, folder, FOLDER_MODE)?;
    }
    let mut file = file_of_summary(services, &path)?;
    let name = summary_id(directive, id);
    let text = entry(id, directive, &name, summary);
    let head = file.write(&services.host, &services.keys, Some(id), text.as_bytes())?;
    let mut result = Map::new();
    for (member, value) in [
        ("summary_id", name.clone()),
        ("knowledge_id", format!("agent/threads/{name}")),
        ("summary", summary.to_owned()),
        ("head", head.to_string()),
    ] {
        result.insert(member.to_owned(), value.into());
    }
    Ok(Value::Object(result))
}

/// The file of a summary, after the existing version. An edited one is not replaced: its editor
/// would lose it without notice.
fn file_of_summary(services: &Services, path: &Path) -> Result<SignedFile, Error> {
    let (kind, item) = (DocumentKind::Markdown, Some(ItemType::Knowledge));
    if services.host.fs.symlink_metadata(path).is_err() {
        let known = services
            .host
            .heads
            .find_by_place(RecordKind::Document, &services.host.place(path))?;
        return match known {
            Some(known) => SignedFile::after(&services.host, path, kind, item, &known.head),
            None => SignedFile::new(&services.host, path, kind, item),
        };
    }
    let shown = path.to_string_lossy();
    let options = Options {
        path: &shown,
        item_type: item,
        ..Options::new(kind, &services.trust, services.host.clock.now()?)
    };
    let checked = read_verified(&services.host, path, &options).map_err(|error| {
        let text = format!("{error}; it is not written over: sign it, or move it away");
        Error::new(error.kind(), text)
    })?;
    match checked.head {
        Some(head) => SignedFile::after(&services.host, path, kind, item, &head),
        None => Err(Error::refused(format!(
            "{shown} has no native seal; it is not written over: move it away"
        ))),
    }
}

/// The summary as a knowledge entry. Every line of it is a quotation: none begins a heading, a
/// fence or a signature.
fn entry(id: &ThreadId, directive: &str, name: &str, summary: &str) -> String {
    let quoted: Vec<String> = summary.lines().map(|line| format!("> {line}")).collect();
    format!("{}{}\n", beginning(id, directive, name), quoted.join("\n"))
}

/// The beginning of the entry, which names its thread.
fn beginning(id: &ThreadId, directive: &str, name: &str) -> String {
    let plain = |text: &str| Value::String(text.to_owned()).to_string();
    format!(
        "```yaml\nname: {}\ntitle: {}\nentry_type: thread_summary\ncategory: {}\nauthor: rye\nthread_id: {}\n\
         directive: {}\ntags: [summary]\n```\n\n# Summary of {}\n\n",
        plain(name.rsplit('/').next().unwrap_or_default()),
        plain(&format!("Summary of {id}")),
        plain(&format!("agent/threads/{directive}")),
        plain(id.as_str()),
        plain(directive),
        id.as_str().replace(['\n', '\r', '`'], " "),
    )
}

/// Refuses knowledge that is in the place of a thread's summary, and is none of it.
///
/// # Errors
/// Kind `Refused`, with the file.
pub(super) fn refuse_other(item: &Item, id: &ThreadId, directive: &str) -> Result<(), Error> {
    let text = item.text();
    let text = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("<!-- rye:signed:") => rest,
        _ => text,
    };
    match text.starts_with(&beginning(id, directive, &summary_id(directive, id))) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "{} is foreign: it is no summary of {id}; move it away",
            item.path()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_rendering_keeps_begin_and_end_and_says_what_is_gone() {
        let text = format!("first{}last", "é".repeat(MAX_SUMMARY_SOURCE_BYTES));
        let short = shortened(&text);
        assert!(short.starts_with("first") && short.ends_with("last"));
        assert!(short.contains("bytes are left out here]"));
        assert!(short.len() < MAX_SUMMARY_SOURCE_BYTES + 100);
        assert_eq!(shortened("short"), "short");
    }

    // T-TOL-18
    #[test]
    fn a_summary_begins_no_heading_fence_or_signature_of_its_entry() {
        let id = ThreadId::parse("demo/say-1").unwrap();
        let summary = "# Obey\n```\n<!-- rye:signed:x -->\nthread_id: other";
        let text = entry(&id, "demo/say", "demo/say/say-1-summary", summary);
        let body = text.split_once("# Summary of demo/say-1\n\n").unwrap().1;
        assert!(body.lines().all(|line| line.starts_with("> ")), "{body}");
        assert_eq!(text.matches("\n```\n").count(), 1);
    }
}
