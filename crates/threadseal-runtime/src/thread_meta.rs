//! [`ThreadMeta`]: the contents of `thread.json`, and `capabilities.md`.
//!
//! ```text
//! thread.json       {"thread_id", "directive", "status", "created_at", "updated_at", "model"?,
//!                    "limits"?, "capabilities"?, "cost"?, "outputs"?, "_signature"}
//!                   indented by 2, ASCII
//! capabilities.md   <!-- rye:signed:… --> # Capabilities
//!                   ## Tool Definitions ```json […]```  ## Capabilities Tree ```…```
//! ```
//! `thread.json` is signed anew at each write, and trusted only as [`TrustedMeta`]. Then it is
//! verified, names the thread of its folder, and agrees with line 1 of the native transcript beside
//! it. `capabilities.md` is written once, before the loop; the manifest contains its digest.
//!
//! Seed 001, "thread.json", "Capabilities File"; how Rye writes both: `thread_directive.py`.

use crate::capability::Capabilities;
use crate::limit::{Cost, Limits};
use crate::model::ToolSchema;
use crate::project::ThreadFolder;
use crate::signed_file::read_verified;
use crate::status::Status;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{DocumentKind, Options};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::render::{self, Cover};
use threadseal_store::host::Host;

/// The contents of `thread.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadMeta {
    /// The thread.
    pub thread_id: ThreadId,
    /// The directive that it runs.
    pub directive: String,
    /// Its status.
    pub status: Status,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this was written.
    pub updated_at: Timestamp,
    /// The model.
    pub model: Option<String>,
    /// Its limits.
    pub limits: Limits,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its cost so far.
    pub cost: Option<Cost>,
    /// Its outputs.
    pub outputs: Option<Map<String, Value>>,
}

/// A thread's metadata that may be relied on: verified, in its own folder, agreeing with its
/// transcript.
#[derive(Debug)]
pub struct TrustedMeta {
    meta: ThreadMeta,
    head: Option<Head>,
    report: Report,
}

impl TrustedMeta {
    /// The metadata.
    pub fn get(&self) -> &ThreadMeta {
        &self.meta
    }

    /// Its native seal; Rye's files have none.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The report of the verification.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl ThreadMeta {
    /// Calls `render` with a cover made of these facts, for a rendering of the thread.
    pub fn covered<T>(&self, render: impl FnOnce(&Cover<'_>) -> T) -> T {
        let cost = self.cost.unwrap_or_default();
        render(&Cover {
            thread: &self.thread_id,
            directive: &self.directive,
            status: self.status.as_str(),
            model: self.model.as_deref().unwrap_or_default(),
            cost: render::Cost {
                turns: cost.turns,
                input_tokens: cost.input_tokens,
                output_tokens: cost.output_tokens,
                spend: cost.spend.to_real(),
                elapsed_seconds: cost.elapsed.as_secs_f64(),
            },
            permissions: &self.capabilities.to_texts(),
        })
    }

    /// The file without signatures.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        put("thread_id", self.thread_id.as_str().into());
        put("directive", self.directive.as_str().into());
        put("status", self.status.as_str().into());
        put("created_at", iso(self.created_at).into());
        put("updated_at", iso(self.updated_at).into());
        if let Some(model) = &self.model {
            put("model", model.as_str().into());
        }
        put("limits", self.limits.to_json());
        put("capabilities", self.capabilities.to_texts().into());
        if let Some(cost) = &self.cost {
            put("cost", cost.to_json());
        }
        if let Some(outputs) = &self.outputs {
            put("outputs", Value::Object(outputs.clone()));
        }
        let text = format!("{:#}\n", Value::Object(members));
        ascii(&text).into_bytes()
    }

    /// Reads the output of [`ThreadMeta::to_bytes`], and Rye's.
    ///
    /// # Errors
    /// Kind `InvalidInput` naming the member that is missing or none of its kind.
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::invalid(format!("thread.json: {what}"));
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
        let text = |name: &str| {
            value[name]
                .as_str()
                .ok_or_else(|| wrong(&format!("`{name}` is missing or not a text")))
        };
        let time = |name: &str| {
            let time = Timestamp::parse_rfc3339(text(name)?);
            time.ok_or_else(|| wrong(&format!("`{name}` is not a time")))
        };
        let capabilities = match &value["capabilities"] {
            Value::Null => Capabilities::NONE,
            Value::Array(list) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                Capabilities::parse(texts.ok_or_else(|| wrong("`capabilities` must be texts"))?)?
            }
            _ => return Err(wrong("`capabilities` must be a list")),
        };
        let limits = match &value["limits"] {
            Value::Null => Limits::default(),
            limits => Limits::from_json(limits)?,
        };
        let cost = Some(&value["cost"]).filter(|cost| !cost.is_null());
        Ok(Self {
            thread_id: ThreadId::parse(text("thread_id")?)?,
            directive: text("directive")?.to_owned(),
            status: Status::parse(text("status")?)
                .ok_or_else(|| wrong("`status` is not a known status"))?,
            created_at: time("created_at")?,
            updated_at: time("updated_at")?,
            model: value["model"].as_str().map(str::to_owned),
            limits,
            capabilities,
            cost: cost.map(Cost::from_json).transpose()?,
            outputs: value["outputs"].as_object().cloned(),
        })
    }

    /// Reads and verifies the metadata of the thread of `folder`. `manifest` is line 1 of its
    /// verified native transcript, where it has one.
    ///
    /// # Errors
    /// Kind `Refused` unless it is verified, belongs to `thread`, and agrees with line 1.
    pub fn read(
        host: &Host,
        folder: &ThreadFolder,
        thread: &ThreadId,
        manifest: Option<&Manifest>,
        trust: &Trust,
    ) -> Result<TrustedMeta, Error> {
        let path = folder.metadata();
        let options = Options {
            expect_thread: Some(thread),
            ..Options::new(DocumentKind::Json, trust, host.clock.now()?)
        };
        let checked = read_verified(host, &path, &options)?;
        let meta = Self::parse(&checked.bytes)?;
        if meta.thread_id != *thread {
            return Err(Error::refused(format!(
                "{} belongs to thread {}",
                path.display(),
                meta.thread_id
            )));
        }
        if let Some(manifest) = manifest {
            meta.agree(manifest)?;
        }
        Ok(TrustedMeta {
            meta,
            head: checked.head,
            report: checked.report,
        })
    }

    /// Do limits and capabilities match those sealed in line 1?
    fn agree(&self, manifest: &Manifest) -> Result<(), Error> {
        let limits = crate::model::dynamic(&manifest.limits)?;
        let same = Limits::from_json(&limits)? == self.limits
            && manifest.capabilities == self.capabilities.to_texts()
            && manifest.directive.as_deref() == Some(self.directive.as_str());
        if same {
            return Ok(());
        }
        let text =
            "thread.json has other limits, capabilities or directive than line 1 of the transcript";
        Err(Error::refused(text))
    }
}

/// The contents of `capabilities.md`, without signatures.
pub fn capabilities_file(tools: &[ToolSchema], capabilities: &Capabilities) -> String {
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "schema": tool.parameters}))
        .collect();
    let definitions = format!("{:#}", Value::Array(tools));
    let fence = fence_around(&definitions);
    let mut out =
        format!("# Capabilities\n\n## Tool Definitions\n\n{fence}json\n{definitions}\n{fence}\n\n");
    let tree = tree(capabilities);
    let fence = fence_around(&tree);
    let _ = write!(out, "## Capabilities Tree\n\n{fence}\n{tree}\n{fence}\n");
    out
}

/// Capabilities grouped by their parts: `execute`, `tool`, then ids.
fn tree(capabilities: &Capabilities) -> String {
    let mut roots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for capability in capabilities.iter() {
        let text = capability.as_str();
        let mut parts = text.splitn(3, '.').skip(1);
        let primary = parts.next().unwrap_or("*").to_owned();
        roots
            .entry(primary)
            .or_default()
            .push(parts.next().unwrap_or("*").to_owned());
    }
    let mut out = String::new();
    for (primary, leaves) in roots {
        let _ = writeln!(out, "{primary}");
        for (place, leaf) in leaves.iter().enumerate() {
            let branch = if place + 1 == leaves.len() {
                "└──"
            } else {
                "├──"
            };
            let _ = writeln!(out, "{branch} {leaf}");
        }
    }
    out
}

/// A fence that nothing inside can end: longer than each run of backticks there.
pub(crate) fn fence_around(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// ISO 8601 as Rye spells it: seconds and an offset.
fn iso(time: Timestamp) -> String {
    time.to_iso_seconds().replace('Z', "+00:00")
}

/// JSON text with everything outside ASCII as escapes: only strings can hold it.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
