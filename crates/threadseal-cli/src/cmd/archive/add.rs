//! `archive add PATH…`: finds sessions, seals those that are not sealed, and archives them.
//!
//! ```text
//! files below PATH ─► session_of ─► SessionSealer ─► Archive::keep ─► index
//! ```

use crate::context::Context;
use crate::database_seal::{self, Taking};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::refused_path::{self, RefusedPath};
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::session_seal::{SessionSealer, session_of};
use crate::sessions::{self, Sessions, Unlock};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use threadseal_capture::archive::{Archive, Kept};
use threadseal_capture::database::{self, Found};
use threadseal_capture::session::SessionFile;
use threadseal_store::read::open_regular;
use threadseal_store::sys::{Fs, path_text};
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
    /// Accept databases that are older than what was sealed of them: they were restored from a backup
    #[arg(long)]
    restored: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct AddOutput {
    schema: &'static str,
    logs: Vec<LogOutput>,
    /// Files that are no sessions.
    passed_over: u64,
    refused: Vec<RefusedPath>,
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

struct Adding<'a> {
    sealer: SessionSealer,
    archive: Archive,
    args: &'a AddArgs,
    context: &'a Context,
}

pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Ask(&args.passphrase), context)?;
    let sealer = SessionSealer::open(args.key.as_deref(), &args.passphrase, SEAL_WAIT, context)?;
    let adding = Adding {
        sealer: sealer.with_archive(archive.clone()),
        archive,
        args,
        context,
    };
    let mut output = AddOutput {
        schema: "threadseal.archive.add/1",
        logs: Vec::new(),
        passed_over: 0,
        refused: Vec::new(),
    };
    for path in files(&*context.fs, &args.paths, home.path())? {
        match adding.add(&path) {
            Ok(added) if added.is_empty() => output.passed_over += 1,
            Ok(added) => output.logs.extend(added),
            Err(failure) => {
                let failure = refused_path::with_evidence(failure, &path, context);
                output.refused.push(RefusedPath::of(&path, &failure));
            }
        }
    }
    Sessions::open(Unlock::Ask(&args.passphrase), context)?;
    for refused in &output.refused {
        complain(&refused.message);
    }
    print(&output, context, out);
    Ok(match (output.refused.is_empty(), output.logs.is_empty()) {
        (false, _) => refused_path::exit(&output.refused, Exit::Unconfirmed, out),
        (true, true) => Exit::NoVerdict,
        (true, false) => Exit::Done,
    })
}

impl Adding<'_> {
    /// What came of a file; nothing if it is no session.
    fn add(&self, path: &Path) -> Result<Vec<LogOutput>, Failure> {
        if database::looks_like(path)? {
            return self.add_database(path);
        }
        let file = open_regular(&*self.sealer.host().fs, path)?;
        let Some(session) = session_of(&file, &[])? else {
            return Ok(Vec::new());
        };
        self.sealer.seal_lines(path, session.growth, self.context)?;
        let kept = self.sealer.keep(path, &session, self.args.recall)?;
        Ok(vec![self.output(path, &session, kept)?])
    }

    fn add_database(&self, path: &Path) -> Result<Vec<LogOutput>, Failure> {
        let (Found::Kind(_), sessions) = database::find(path)? else {
            return Ok(Vec::new());
        };
        let taking = Taking {
            restored: self.args.restored,
            recall: self.args.recall,
        };
        let mut added = Vec::new();
        for session in sessions.keys() {
            let sealed = database_seal::seal(&self.sealer, path, session, taking, self.context);
            let sealed = sealed.map_err(|failure| failure.about(path))?;
            if let (Some(file), Some(kept)) = (&sealed.file, sealed.kept) {
                added.push(self.output(&sealed.log, file, Some(kept))?);
            }
        }
        Ok(added)
    }

    fn output(
        &self,
        path: &Path,
        session: &SessionFile,
        kept: Option<Kept>,
    ) -> Result<LogOutput, Failure> {
        let (result, bytes) = match kept {
            None => ("nothing_yet", 0),
            Some(Kept::Added(bytes)) => ("added", bytes),
            Some(Kept::Unchanged) => ("unchanged", 0),
            Some(Kept::Forgotten) => ("forgotten", 0),
            Some(Kept::Off) => ("off", 0),
        };
        Ok(LogOutput {
            path: path_text(path),
            log: self.archive.name_of(session, path)?.to_string(),
            result,
            bytes,
        })
    }
}

/// The regular files that the paths name or hold, without seals, and without the home's own.
fn files(fs: &dyn Fs, paths: &[PathBuf], home: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let real = fs.canonicalize(path);
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
    let logs = counted(output.logs.len() as u64, "log", "logs");
    let passed = counted(output.passed_over, "other file", "other files");
    out.line(format_args!(
        "{logs} of sessions, {passed}, {} refused",
        output.refused.len()
    ));
}
