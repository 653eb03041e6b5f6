//! `forget SESSION`: removes what this home keeps of a session, and leaves tombstones.
//!
//! ```text
//! archive: tombstone ─► chunks, tails, journals      index: rows, words
//! source gone, or --source: signed tombstones of its records ─► log of the host ─► log and seals removed
//! ```

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_log;
use crate::output::Out;
use crate::render::clean::Clean;
use crate::sessions::{self, Sessions, Unlock};
use crate::signing::SigningArgs;
use clap::Args;
use serde::Serialize;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use threadseal_capture::archive::{Archive, ArchivedLog, Version, Why};
use threadseal_capture::database;
use threadseal_capture::session::SessionId;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::tombstone::{Statement, Tombstone};
use threadseal_store::home::Home;
use threadseal_store::observer::seal_path;
use threadseal_store::sys::{path_text, text_path};
use threadseal_store::tombstones;

/// What `forget` takes.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// The session
    session: String,
    /// Also delete the agent's own logs of it, and their seals
    #[arg(long)]
    source: bool,
    /// Reason, which every reader of the tombstone can see
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = "")]
    why: String,
    /// Only list what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Remove without a question; without a terminal nothing is removed otherwise
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    signing: SigningArgs,
}

#[derive(Serialize)]
struct ForgetOutput {
    schema: &'static str,
    session: String,
    dry_run: bool,
    /// Bytes of its logs in the archive.
    bytes: u64,
    /// Files of the agent that were deleted.
    deleted: Vec<String>,
    /// Files of the agent that are left.
    left: Vec<String>,
    /// Is none of its logs anywhere but in the archive?
    only_copy: bool,
}

pub(crate) fn run(args: &ForgetArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Never, context)?;
    let id = sessions::find(&archive, &args.session)?;
    let id = id.ok_or_else(|| sessions::none(&args.session))?;
    let logs = archive.session(&id)?;
    if logs.is_empty() {
        return again(args, &archive, &id, &home, context, out);
    }
    let is_there = |path: &PathBuf| context.fs.symlink_metadata(path).is_ok();
    let sources: Vec<PathBuf> = logs.iter().filter_map(ArchivedLog::source).collect();
    // The log of a session in a database is a copy of ours; its agent has the database.
    let database = |path: &PathBuf| database::database_of(&*context.fs, path);
    let is_copy = |path: &PathBuf| database(path).is_some();
    let in_databases = sources.iter().filter_map(database).filter(is_there);
    let left = sources
        .iter()
        .filter(|path| is_there(path) && !args.source && !is_copy(path));
    let left = left.cloned().chain(in_databases);
    let deleted = sources.iter().flat_map(|path| {
        let seals = seal_path(path);
        let goes = args.source || !is_there(path) || is_copy(path);
        [seals, path.clone()]
            .into_iter()
            .filter(move |file| goes && is_there(file))
    });
    let deleted: Vec<PathBuf> = deleted.collect();
    let only_copy = !sources
        .iter()
        .any(|path| is_there(path) || database(path).is_some_and(|path| is_there(&path)));
    let newest = logs.iter().filter_map(ArchivedLog::newest);
    let output = ForgetOutput {
        schema: "threadseal.forget/1",
        session: id.to_string(),
        dry_run: args.dry_run,
        bytes: newest.map(|newest| newest.last().head.size).sum(),
        left: left.map(|path| path_text(&path)).collect(),
        deleted: deleted.iter().map(|path| path_text(path)).collect(),
        only_copy,
    };
    if !args.dry_run {
        confirm(args, &output)?;
        let is_gone = |log: &&ArchivedLog| {
            let source = log.source();
            args.source || source.is_none_or(|path| !is_there(&path) || is_copy(&path))
        };
        let versions = logs.iter().filter(is_gone).flat_map(|log| &log.versions);
        let records: Vec<RecordId> = versions.map(Version::record).collect();
        bury(args, &records, &home, context)?;
        for path in &deleted {
            remove(path, context)?;
        }
        archive.forget(&id, Why::Asked, &args.why)?;
        Sessions::open(Unlock::Never, context)?;
    }
    tell(&output, &id, context, out);
    Ok(Exit::Done)
}

fn confirm(args: &ForgetArgs, output: &ForgetOutput) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let text = "nothing was removed: there is no terminal for the question; hint: add --yes";
        return Err(Failure::new(text));
    }
    let size = super::archive::size_words(output.bytes);
    complain(&format!(
        "would remove {}, {size}, from the archive",
        output.session
    ));
    if output.only_copy {
        complain("the archive has the only copy: the agent's own logs are gone");
    }
    for path in &output.deleted {
        complain(&format!("would delete {}", Clean(path)));
    }
    match super::prune::confirm(1 + output.deleted.len())? {
        true => Ok(()),
        false => Err(Failure::new("nothing was removed: the answer was not yes")),
    }
}

/// Completes a session that was forgotten while its logs were left: their records end now, if the
/// logs are gone.
fn again(
    args: &ForgetArgs,
    archive: &Archive,
    id: &SessionId,
    home: &Home,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let all = archive.forgotten()?;
    let gone = all.iter().find(|gone| gone.session == *id);
    let gone = gone.ok_or_else(|| sessions::none(&args.session))?;
    let host = context.host()?;
    let mut records = Vec::new();
    for record in &gone.records {
        let stored = host.heads.fetch(record)?;
        let place = stored.and_then(|stored| text_path(stored.path_hint.as_deref()?));
        if place.is_none_or(|place| host.fs.symlink_metadata(&place).is_err()) {
            records.push(*record);
        }
    }
    if !args.dry_run {
        bury(args, &records, home, context)?;
    }
    let output = ForgetOutput {
        schema: "threadseal.forget/1",
        session: id.to_string(),
        dry_run: args.dry_run,
        bytes: gone.size,
        deleted: Vec::new(),
        left: Vec::new(),
        only_copy: false,
    };
    tell(&output, id, context, out);
    Ok(Exit::Done)
}

/// Enters the end of the records into the log of the host, so that they are never missing.
fn bury(
    args: &ForgetArgs,
    records: &[RecordId],
    home: &Home,
    context: &Context,
) -> Result<(), Failure> {
    let host = context.host()?;
    let mut known = Vec::new();
    for record in records {
        if host.heads.pruned(record)?.is_none() {
            known.extend(host.heads.fetch(record)?);
        }
    }
    for record in records {
        // Seals that a restart of the log moved here hold hashes of its lines.
        let ended = home.tombstones().join(format!("{record}.seal"));
        remove(&ended, context)?;
    }
    if known.is_empty() {
        return Ok(());
    }
    let Some(log) = key_log::log(context)? else {
        complain(
            "note: this home has no log, so verify --all reports these records as missing; hint: threadseal log init",
        );
        return Ok(());
    };
    let signer = args.signing.signer(context)?;
    for stored in known {
        let statement = Statement {
            at: context.now()?,
            by: args.signing.key_name().to_owned(),
            why: match args.why.as_str() {
                "" => "the session was forgotten".to_owned(),
                reason => reason.to_owned(),
            },
            records: vec![stored.to_log()],
        };
        let tombstone = Tombstone::sign(statement, &*signer)?;
        let place = tombstones::place_in(&home.tombstones(), &stored.head.record);
        tombstones::put(&*host.fs, &place, &tombstone)?;
        log.commit_tombstones(&tombstone.statement().records)?;
    }
    Ok(())
}

fn remove(path: &Path, context: &Context) -> Result<(), Failure> {
    match context.fs.unlink(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::io("delete", path, &error))
        }
        _ => Ok(()),
    }
}

fn tell(output: &ForgetOutput, id: &SessionId, context: &Context, out: &mut Out) {
    if context.json {
        out.json(output);
        return;
    }
    let size = super::archive::size_words(output.bytes);
    let word = if output.dry_run {
        "would forget"
    } else {
        "forgotten"
    };
    out.line(format_args!("{word}  {id}  {size}"));
    for path in &output.deleted {
        out.line(format_args!("  deleted  {}", Clean(path)));
    }
    for path in &output.left {
        complain(&format!(
            "note: the agent's own is left: {}; hint: --source removes logs, no databases",
            Clean(path)
        ));
    }
}
