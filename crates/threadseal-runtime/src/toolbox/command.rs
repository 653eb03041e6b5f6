//! [`DeclaredCommand`]: a tool that a project declares as a command.
//!
//! ```text
//! arguments ─► schema ─► script verified, its bytes held ─► argv, stdin, environment ─► process
//!    ─► {success, stdout, stderr, exit_code, truncated?}     or an error with the output
//! ```
//! An exit code other than 0 is an error: the model reads both outputs. It sees the variables that
//! its declaration lists and the caller's environment has. It also sees `THREADSEAL_CALL`, which is
//! the same for all attempts at one call, and `THREADSEAL_SCRIPT`, the file that its script is from.

use super::process::{Fate, Output, Task, run};
use super::script::ScriptFile;
use super::supervisor::Supervisor;
use super::{Invocation, Outcome, Tool, model_name};
use crate::item::{Finder, Grounds, Item, ItemId, ItemKind, ItemPolicy};
use crate::model::ToolSchema;
use crate::project::Project;
use crate::secrets::Secrets;
use crate::tool::{self, CommandTool};
use serde_json::{Map, Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::trust::Trust;
use threadseal_store::host::Host;

/// The variable that names a call.
const CALL_VARIABLE: &str = "THREADSEAL_CALL";
/// The variable with the fencing token of the lease under which the call runs: services that take
/// effects refuse lower tokens.
const FENCE_VARIABLE: &str = "THREADSEAL_FENCE";
/// The variable with the path of the verified script: what is there now may be another one.
pub(super) const SCRIPT_VARIABLE: &str = "THREADSEAL_SCRIPT";

/// The error text for a command that ended without an exit code.
const NOT_KNOWN: &str = "whether it did its work is not known";

/// The surroundings of commands.
#[derive(Clone)]
pub struct Workshop {
    /// The project.
    pub project: Arc<Project>,
    /// Files, clock, heads.
    pub host: Host,
    /// Whose signatures count for scripts.
    pub trust: Arc<Trust>,
    /// Where scripts are found.
    pub finder: Finder,
    /// Which of them may be used.
    pub policy: ItemPolicy,
    /// The environment of this program's caller.
    pub environment: Arc<Vec<(String, String)>>,
    /// The values that no record repeats.
    pub secrets: Arc<Secrets>,
    /// What ends all that a command or a server starts; None: their process groups are killed.
    pub supervisor: Option<Supervisor>,
}

impl Workshop {
    /// The script of a command, if it has one, that verifies now. If the command sees variables
    /// that may hold secrets, an unsigned script is refused under every policy.
    ///
    /// # Errors
    /// As [`Finder::load`].
    pub(super) fn script(&self, command: &CommandTool) -> Result<Option<Item>, Error> {
        let Some(id) = &command.script else {
            return Ok(None);
        };
        let grounds = Grounds {
            trust: &self.trust,
            now: self.host.clock.now()?,
            heads: &*self.host.heads,
            policy: match command.sees_secrets() {
                true => ItemPolicy::Signed,
                false => self.policy,
            },
        };
        self.finder.load(ItemKind::Script, id, &grounds).map(Some)
    }
}

/// A command that a project declares.
pub struct DeclaredCommand {
    id: String,
    schema: ToolSchema,
    declaration: tool::Tool,
    command: CommandTool,
    shop: Workshop,
}

impl DeclaredCommand {
    /// The tool of this id; None when the declaration is no command.
    pub fn new(id: &ItemId, declaration: tool::Tool, shop: Workshop) -> Option<Self> {
        let tool::ToolKind::Command(command) = declaration.kind.clone() else {
            return None;
        };
        declaration.teach(&shop.environment, &shop.secrets);
        let nothing = || json!({"type": "object", "properties": {}});
        let parameters = declaration
            .schema
            .as_ref()
            .map_or_else(nothing, |schema| schema.to_json().clone());
        Some(Self {
            id: id.as_str().to_owned(),
            schema: ToolSchema {
                name: model_name(id.as_str()),
                description: declaration.description.clone(),
                parameters,
            },
            declaration,
            command,
            shop,
        })
    }

    fn task(&self, call: &Invocation<'_>) -> Result<Task, Error> {
        let given = match call.input {
            Value::Object(given) => given.clone(),
            Value::Null => Map::new(),
            _ => return Err(Error::invalid("arguments have names: they are an object")),
        };
        let mut context = json!({"inputs": self.declaration.arguments(given)?});
        let (mut script, mut variable) = (None, None);
        if let Some(item) = self.shop.script(&self.command)? {
            let held = ScriptFile::new(item.text())?;
            context["script"] = held.path().into();
            variable = Some((SCRIPT_VARIABLE.to_owned(), item.path().to_owned()));
            script = Some(held);
        }
        let mut environment = self.environment(&context, call.idempotency_key)?;
        environment.extend(variable);
        let directory = self
            .shop
            .project
            .root()
            .join(&self.command.working_directory);
        self.shop.project.inside(&*self.shop.host.fs, &directory)?;
        let stdin = self
            .command
            .stdin
            .as_ref()
            .map(|template| template.render_text(&context));
        Ok(Task {
            argv: self.command.argv(&context)?,
            supervisor: self.shop.supervisor.clone(),
            directory,
            environment,
            script,
            stdin: stdin.transpose()?.unwrap_or_default().into_bytes(),
            timeout: self.declaration.timeout,
            max_output_bytes: usize::try_from(self.declaration.max_output_bytes)
                .unwrap_or(usize::MAX),
        })
    }

    fn environment(&self, context: &Value, key: &str) -> Result<Vec<(String, String)>, Error> {
        let listed = |(name, _): &&(String, String)| self.command.env.contains(name);
        let mut environment: Vec<_> = self
            .shop
            .environment
            .iter()
            .filter(listed)
            .cloned()
            .collect();
        for (name, template) in &self.command.set_env {
            let value = template.render_text(context)?;
            if value.contains('\0') {
                return Err(Error::invalid(format!("{name} would hold a NUL")));
            }
            environment.push((name.clone(), value));
        }
        environment.push((CALL_VARIABLE.to_owned(), key.to_owned()));
        if let Some(token) = self.shop.host.heads.fence() {
            environment.push((FENCE_VARIABLE.to_owned(), token.to_string()));
        }
        Ok(environment)
    }
}

impl Tool for DeclaredCommand {
    fn id(&self) -> &str {
        &self.id
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn parallel(&self, _: &Value) -> bool {
        self.declaration.parallel == Some(true)
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let ran = self.task(call).and_then(|task| run(task, call.cancel));
        match ran {
            Ok((fate, stdout, stderr)) => outcome(fate, &stdout, &stderr),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

fn outcome(fate: Fate, stdout: &Output, stderr: &Output) -> Outcome {
    let text = |output: &Output| String::from_utf8_lossy(&output.bytes).into_owned();
    let mut said = json!({"success": false, "stdout": text(stdout), "stderr": text(stderr)});
    let kept = |output: &Output| output.bytes.len() as u64 == output.total;
    if !kept(stdout) || !kept(stderr) {
        said["truncated"] = json!({"stdout_bytes": stdout.total, "stderr_bytes": stderr.total});
    }
    let error = match fate {
        Fate::Ended(status) => {
            said["exit_code"] = status.code().into();
            said["success"] = status.success().into();
            match (status.code(), status.signal()) {
                (Some(0), _) => None,
                (Some(code), _) => Some(format!("it ended with exit code {code}")),
                (None, signal) => Some(format!(
                    "it was ended by signal {}: {NOT_KNOWN}",
                    signal.unwrap_or(0)
                )),
            }
        }
        Fate::TimedOut => Some(format!("it took too long and was stopped: {NOT_KNOWN}")),
        Fate::Stopped(why) => Some(format!("it was stopped, for {why}: {NOT_KNOWN}")),
    };
    // Only an exit code proves that the command finished.
    let unknown = !matches!(fate, Fate::Ended(status) if status.code().is_some());
    // Models read either the output or the error: so the error repeats the output.
    let error = error.map(|error| format!("{error}\n{said}"));
    Outcome {
        output: said,
        error,
        unknown,
    }
}

#[cfg(test)]
mod tests;
