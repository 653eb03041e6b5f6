//! Tools: what a model may have done, each call within the thread's capabilities.
//!
//! ```text
//! model's call {name, input} ─► Toolbox::find ─► capability? ─► Tool::run ─► Outcome {output | error}
//! ```
//! The runner records a call before it starts and its outcome before the model hears of it; nothing here
//! writes to a record. A refused call is an outcome too: the model is told, the thread goes on.

mod chest;
mod command;
mod files;
mod mcp;
mod primaries;
mod process;

pub use crate::cancel::Cancel;
pub use chest::{Permitted, Toolbox};
pub use command::{DeclaredCommand, Workshop};
pub use files::{ReadFile, WriteFile};
pub use mcp::{DeclaredMcp, Hub, Surroundings};
pub use primaries::{ItemPrimary, primary_name};

use crate::capability::{Call, Capabilities};
use crate::model::ToolSchema;
use serde_json::Value;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the tool says; with an error, what it said before.
    pub output: Value,
    /// What went wrong.
    pub error: Option<String>,
    /// With an error: did it begin, and does nobody know whether it was carried out? Else it certainly did not run, or
    /// ended by itself.
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

    /// It began, and nobody knows whether it was carried out.
    pub fn unknown(error: impl Into<String>) -> Self {
        Self {
            unknown: true,
            ..Self::failed(error)
        }
    }

    /// What a child said; where that says `unknown`, nobody knows what it has done.
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

    /// The same with texts of at most `most` bytes each; what is left out is said.
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

    /// What the model reads: a text as itself, anything else as JSON.
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
    /// The same for all attempts at this call: what a tool may use to do it once.
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

    /// Seals everything so far, for whoever reads the record while it grows.
    ///
    /// # Errors
    /// When it cannot be sealed, or is no record that is sealed on demand.
    fn seal(&mut self) -> Result<Head, Error> {
        Err(Error::refused("this record is not sealed on demand"))
    }

    /// The thread's step ledger and where it ends now: what the child's ledger names.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    fn ledger(&self) -> Result<Parent, Error>;
}

/// Something that a model may have done.
pub trait Tool: Send + Sync {
    /// Its id, as permissions and records name it: `rye/file-system/read`.
    fn id(&self) -> &str;

    /// What the model is told of it.
    fn schema(&self) -> &ToolSchema;

    /// May a thread with these capabilities call it at all?
    fn is_permitted(&self, capabilities: &Capabilities) -> bool {
        Call::new("execute", "tool", Some(self.id())).is_ok_and(|call| capabilities.permits(&call))
    }

    /// The same for a thread with these capabilities, where they say more than whether it may be called.
    fn under(&self, _capabilities: &Capabilities) -> Option<Arc<dyn Tool>> {
        None
    }

    /// May a call with this input run while other calls of the same answer do? Only what changes nothing that the
    /// others see, or what was declared so.
    fn parallel(&self, _input: &Value) -> bool {
        false
    }

    /// Does it.
    fn run(&self, call: &mut Invocation<'_>) -> Outcome;
}

/// The name under which a model knows a tool: its id, in characters that every provider takes.
pub fn model_name(id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    id.chars().map(plain).collect()
}
