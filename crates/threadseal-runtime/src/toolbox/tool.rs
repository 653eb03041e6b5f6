//! [`Tool`]: an action that a model may call, and its [`Outcome`].

use crate::cancel::Cancel;
use crate::capability::{Call, Capabilities};
use crate::model::ToolSchema;
use crate::secrets::Secrets;
use serde_json::Value;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The tool's output; with an error, the output before it.
    pub output: Value,
    /// The error.
    pub error: Option<String>,
    /// With an error: did it begin, and is it unknown whether it was carried out? Otherwise it
    /// certainly did not run, or ran to its end.
    pub unknown: bool,
}

impl Outcome {
    /// It worked.
    pub fn ok(output: impl Into<Value>) -> Self {
        Self {
            output: output.into(),
            error: None,
            unknown: false,
        }
    }

    /// It did not.
    pub fn failed(error: impl Into<String>) -> Self {
        Self {
            output: Value::Null,
            error: Some(error.into()),
            unknown: false,
        }
    }

    /// It began, and it is unknown whether it was carried out.
    pub fn unknown(error: impl Into<String>) -> Self {
        Self {
            unknown: true,
            ..Self::failed(error)
        }
    }

    /// The result of a child; where it contains `unknown`, the child's effects are unknown.
    pub(crate) fn of_child(said: Value) -> Self {
        let unknown = said["unknown"] == true;
        let why = said["error"].as_str().unwrap_or("it did not complete");
        let error = unknown.then(|| {
            format!("{why}; what it has done of its work is not known: do not repeat it unseen")
        });
        Self {
            output: said,
            error,
            unknown,
        }
    }

    /// Replaces known secrets, and returns how many there were.
    pub(crate) fn mask(&mut self, secrets: &Secrets) -> u64 {
        let count = secrets.mask_value(&mut self.output);
        count + self.error.as_mut().map_or(0, |why| secrets.mask_text(why))
    }

    /// The same with texts of at most `most` bytes each; a mark shows an omission.
    #[must_use]
    pub fn bounded(mut self, most: usize) -> Self {
        let text = self.text();
        if text.len() > most {
            let left = text.len();
            self.output =
                Value::String(format!("{}\n[cut: {left} bytes in all]", head(&text, most)));
        }
        if let Some(error) = self.error.as_mut().filter(|error| error.len() > most) {
            *error = format!("{}\n[cut: {} bytes in all]", head(error, most), error.len());
        }
        self
    }

    /// The text for the model: a text unchanged, anything else as JSON.
    pub fn text(&self) -> String {
        match &self.output {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// As much of a text as fits into `most` bytes.
fn head(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A call of a tool.
pub struct Invocation<'a> {
    /// The same for all attempts at this call: a tool may use it to act only once.
    pub idempotency_key: &'a str,
    /// Its arguments.
    pub input: &'a Value,
    /// Stop when it is set.
    pub cancel: &'a Cancel,
    /// The record of the thread that calls: for tools that start others.
    pub record: &'a mut dyn Parentage,
}

/// The record of a thread, as far as its children are concerned.
pub trait Parentage: Send {
    /// Seals that a child begins, and gives the head that its first line names.
    ///
    /// # Errors
    /// When it cannot be recorded: no child may begin then.
    fn child_begins(
        &mut self,
        child: &ThreadId,
        record: &RecordId,
        directive: &str,
    ) -> Result<Head, Error>;

    /// Records how a child ended; the next seal holds its head.
    ///
    /// # Errors
    /// When it cannot be recorded.
    fn child_ended(&mut self, child: &ThreadId, status: &str, head: &Head) -> Result<(), Error>;

    /// Seals everything so far, for a reader of the growing record.
    ///
    /// # Errors
    /// When it cannot be sealed, or is no record that is sealed on demand.
    fn seal(&mut self) -> Result<Head, Error> {
        Err(Error::refused("this record is not sealed on demand"))
    }

    /// Records that an MCP server was started again: how often it failed lately, and why last.
    ///
    /// # Errors
    /// When it cannot be recorded.
    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error>;

    /// The thread's step ledger and its current end: the child's ledger names both.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    fn ledger(&self) -> Result<Parent, Error>;
}

/// An action that a model may request.
pub trait Tool: Send + Sync {
    /// Its id, as permissions and records name it: `rye/file-system/read`.
    fn id(&self) -> &str;

    /// The schema that the model is shown.
    fn schema(&self) -> &ToolSchema;

    /// May a thread with these capabilities call it at all?
    fn is_permitted(&self, capabilities: &Capabilities) -> bool {
        Call::new("execute", "tool", Some(self.id())).is_ok_and(|call| capabilities.permits(&call))
    }

    /// The same for a thread with these capabilities, where they restrict more than the call.
    fn under(&self, _capabilities: &Capabilities) -> Option<Arc<dyn Tool>> {
        None
    }

    /// May a call with this input run in parallel with other calls of the same answer? Only a call
    /// that changes nothing visible to the others, or that was declared so.
    fn parallel(&self, _input: &Value) -> bool {
        false
    }

    /// Does it.
    fn run(&self, call: &mut Invocation<'_>) -> Outcome;
}

/// The name under which a model knows a tool: its id, in characters that every provider takes.
pub(crate) fn model_name(id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    id.chars().map(plain).collect()
}
