//! `archive add PATH…`: finds sessions, seals those that are not sealed, and archives them.
//!
//! ```text
//! files below PATH ─► identify ─► SessionSealer ─► index
//! ```

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::session_seal::{SessionSealer, session_of};
use crate::sessions::{Sessions, Unlock};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use threadseal_capture::archive::Kept;
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;
use walkdir::WalkDir;

/// Longest wait for another process that seals the same log.
const SEAL_WAIT: Duration = Duration::from_secs(10);

/// What `archive add` takes.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Logs of agents, or folders of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Name of the key that seals [default: self-observed]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Archive sessions again that were forgotten
    #[arg(long)]
    recall: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct AddOutput {
    schema: &'static str,
    logs: Vec<LogOutput>,
    /// Files that are no sessions.
    passed_over: u64,
    refused: Vec<RefusedOutput>,
}

#[derive(Serialize)]
struct LogOutput {
    path: String,
    log: String,
    /// `added`, `unchanged`, `forgotten`, `off`, or `nothing_yet`
    result: &'static str,
    /// Bytes that were added.
    bytes: u64,
}

#[derive(Serialize)]
struct RefusedOutput {
    path: String,
    message: String,
}

struct Adding<'a> {
    sealer: SessionSealer,
    context: &'a Context,
    args: &'a AddArgs,
}

pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let adding = Adding {
        sealer: SessionSealer::open(args.key.as_deref(), &args.passphrase, SEAL_WAIT, context)?,
        context,
        args,
    };
    let mut output = AddOutput {
        schema: "threadseal.archive-add/1",
        logs: Vec::new(),
        passed_over: 0,
        refused: Vec::new(),
    };
    for path in files(&args.paths, home.path())? {
        match adding.add(&path) {
            Ok(Some(added)) => output.logs.push(added),
            Ok(None) => output.passed_over += 1,
            Err(error) => output.refused.push(RefusedOutput {
                path: path_text(&path),
                message: error.to_string(),
            }),
        }
    }
    Sessions::open(Unlock::Ask(&args.passphrase), context)?;
    for refused in &output.refused {
        complain(&refused.message);
    }
    print(&output, context, out);
    Ok(match (output.refused.is_empty(), output.logs.is_empty()) {
        (false, _) => Exit::Unconfirmed,
        (true, true) => Exit::NoVerdict,
        (true, false) => Exit::Done,
    })
}

impl Adding<'_> {
    fn add(&self, path: &Path) -> Result<Option<LogOutput>, Failure> {
        let file = open_regular(&*self.sealer.host().fs, path)?;
        let Some(session) = session_of(&file, &[])? else {
            return Ok(None);
        };
        let path = file.path();
        self.sealer.seal_lines(path, session.growth, self.context)?;
        let kept = self.sealer.keep(path, &session, self.args.recall)?;
        let (result, bytes) = match kept {
            None => ("nothing_yet", 0),
            Some(Kept::Added(bytes)) => ("added", bytes),
            Some(Kept::Unchanged) => ("unchanged", 0),
            Some(Kept::Forgotten) => ("forgotten", 0),
            Some(Kept::Off) => ("off", 0),
        };
        Ok(Some(LogOutput {
            path: path_text(path),
            log: session.key(),
            result,
            bytes,
        }))
    }
}

/// The regular files that the paths name or hold, without seals, and without the home's own.
fn files(paths: &[PathBuf], home: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let real = std::fs::canonicalize(path);
        let real = real.map_err(|error| Failure::io("read", path, &error))?;
        let entries = WalkDir::new(real).sort_by_file_name().into_iter();
        let entries = entries.filter_entry(|entry| entry.path() != home).flatten();
        let files = entries.filter(|entry| entry.file_type().is_file());
        let files = files.map(walkdir::DirEntry::into_path);
        found.extend(files.filter(|path| path.extension().is_none_or(|ending| ending != "seal")));
    }
    Ok(found)
}

fn print(output: &AddOutput, context: &Context, out: &mut Out) {
    if context.json {
        out.json(output);
        return;
    }
    if !context.quiet {
        for log in &output.logs {
            let (result, name, path) = (
                log.result.replace('_', " "),
                Clean(&log.log),
                Clean(&log.path),
            );
            out.line(format_args!("{result:<11}  {name}  {path}"));
        }
    }
    let (logs, passed, refused) = (output.logs.len(), output.passed_over, output.refused.len());
    out.line(format_args!(
        "{logs} logs of sessions, {passed} other files, {refused} refused"
    ));
}
