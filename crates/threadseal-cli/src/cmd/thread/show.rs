//! `thread show`.

use super::{Row, in_registry};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::registry::{Filter, Registry as _, RegistryView, Thread};

/// What `thread show` takes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// The thread
    thread: String,
}

#[derive(Serialize)]
struct ShowOutput<'a> {
    schema: &'static str,
    thread: Row<'a>,
    result: Option<Value>,
    children: Vec<&'a str>,
    folder: Option<String>,
}

pub(super) fn run(args: &ShowArgs, context: &Context, out: &mut Out) -> Outcome {
    let project = args.project.open(context)?;
    let id = ThreadId::parse(&args.thread)?;
    let (thread, children, folder) = match args.database.open(context)? {
        Some(fleet) => {
            let registry = fleet.registry();
            let thread = registry.get(&id)?;
            let thread = thread.ok_or_else(|| unknown(&id))?;
            (
                thread,
                registry.list(&Filter::children_of(&id))?.threads,
                None,
            )
        }
        None => {
            let (thread, children) = in_registry(context, &project, &id, |view| {
                let children = view.list(&Filter::children_of(&id))?.threads;
                Ok((known(view, &id)?, children))
            })?;
            (thread, children, project.find_thread(&*context.fs, &id)?)
        }
    };
    let folder = folder.map(|folder| folder.path().to_string_lossy().into_owned());
    let output = ShowOutput {
        schema: "threadseal.thread.show/1",
        result: thread.result.as_deref().map(shown_result),
        children: children.iter().map(|child| child.id.as_str()).collect(),
        folder,
        thread: Row::of(&thread),
    };
    if context.json {
        out.json(&output);
        return Ok(Exit::Done);
    }
    let value = serde_json::to_value(&output).map_err(|error| Failure::new(error.to_string()))?;
    let row = value["thread"].as_object().into_iter().flatten();
    let rest = ["result", "folder"].map(|name| (name, &value[name]));
    let all = row.map(|(name, value)| (name.as_str(), value)).chain(rest);
    for (name, value) in all.filter(|(_, value)| !value.is_null()) {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        out.line(format_args!("{name:<22}  {}", Clean(&text)));
    }
    for child in &output.children {
        out.line(format_args!("{:<22}  {}", "child", Clean(child)));
    }
    Ok(Exit::Done)
}

/// The result is JSON text; in a damaged registry it can be any text.
fn shown_result(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

pub(super) fn known(view: &RegistryView<'_>, id: &ThreadId) -> Result<Thread, Error> {
    view.get(id)?.ok_or_else(|| unknown(id))
}

pub(super) fn unknown(id: &ThreadId) -> Error {
    Error::refused(format!("no thread {id} is registered here"))
}
