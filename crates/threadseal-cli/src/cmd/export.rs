//! `export SESSION DIR`: the logs of a session with their seals, as files that verify anywhere.
//! `export SESSION --html FILE`: one page that shows and verifies them.

#[cfg(feature = "view")]
mod html;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::sessions::{self, Judge, Unlock};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_capture::archive::{Archive, ArchiveFs, ArchivedLog, Version};
use threadseal_capture::session::SessionId;
use threadseal_capture::state::verify_version;
use threadseal_core::report::{Report, Verdict};
use threadseal_store::atomic::{NewFile, PRIVATE_DIRECTORY, PRIVATE_FILE, create_directories};
use threadseal_store::read::{Source as _, open_regular};
use threadseal_store::sys::path_text;
use threadseal_verify::Verifier;
use threadseal_verify::verifier::FileResult;

/// What `export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session; with --html also the file of a record
    session: String,
    /// The folder, made if it is missing; no file in it is replaced
    #[arg(value_name = "DIR")]
    #[cfg_attr(feature = "view", arg(required_unless_present = "html"))]
    #[cfg_attr(not(feature = "view"), arg(required = true))]
    to: Option<PathBuf>,
    #[cfg(feature = "view")]
    #[command(flatten)]
    html: html::HtmlArgs,
    /// Also the earlier versions of logs that were written again
    #[arg(long)]
    versions: bool,
    /// Export the session although there is evidence against it
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct ExportOutput {
    schema: &'static str,
    session: String,
    files: Vec<String>,
    /// The verdict on what is exported; none where there is none.
    verdict: Option<Verdict>,
}

pub(crate) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    let Some(to) = &args.to else {
        #[cfg(feature = "view")]
        return html::run(args, context, out);
        #[cfg(not(feature = "view"))]
        return Err(Failure::new("name a folder"));
    };
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Ask(&args.passphrase), context)?;
    let id = sessions::find(&archive, &args.session)?;
    let id = id.ok_or_else(|| sessions::none(&args.session))?;
    let logs = archive.session(&id)?;
    if logs.is_empty() {
        let words = sessions::forgotten(&archive, &id)?.unwrap_or_default();
        return Err(Failure::new(format!("{id}: {words}")));
    }
    let judge = Judge::of_home(&home, context)?;
    let verdict = verdict_of(&id, &logs, &archive, &judge.verifier, args.anyway)?;
    note_secrets(&id, &logs, context);
    create_directories(&*context.fs, to, PRIVATE_DIRECTORY)?;
    let mut files = Vec::new();
    let mut names = BTreeSet::new();
    for log in &logs {
        let skipped = match args.versions {
            true => 0,
            false => log.versions.len().saturating_sub(1),
        };
        for (number, version) in log.versions.iter().enumerate().skip(skipped) {
            let place = to.join(file_name(log, number, &mut names));
            files.extend(write(&archive, log, version, &place, context)?);
        }
    }
    let output = ExportOutput {
        schema: "threadseal.export/1",
        session: id.to_string(),
        files: files.iter().map(|path| path_text(path)).collect(),
        verdict,
    };
    note_verdict(&output.session, verdict);
    if context.json {
        out.json(&output);
    } else {
        for file in &output.files {
            out.line(Clean(file));
        }
    }
    Ok(Exit::Done)
}

/// Names what looks like a secret in logs that are exported.
fn note_secrets(session: &SessionId, logs: &[ArchivedLog], context: &Context) {
    let newest = logs.iter().filter_map(ArchivedLog::newest);
    let marks: Vec<_> = newest.flat_map(|newest| &newest.secrets).collect();
    let Some(first) = marks.first().filter(|_| !context.quiet) else {
        return;
    };
    let lines = counted(marks.len() as u64, "line", "lines");
    complain(&format!(
        "note: {lines} with what looks like a secret are exported, first line {} ({}); hint: threadseal redact {session} --secrets --why TEXT",
        first.line, first.rule
    ));
}

/// The verdict on the logs of a session, as [`weighed`].
fn verdict_of(
    session: &SessionId,
    logs: &[ArchivedLog],
    archive: &Archive,
    verifier: &Verifier,
    anyway: bool,
) -> Result<Option<Verdict>, Failure> {
    let mut reports = Vec::new();
    for log in logs {
        for number in 0..log.versions.len() {
            let result = verify_version(log, number, archive, verifier);
            let result = result.iter().flat_map(FileResult::reports);
            reports.extend(result.cloned());
        }
    }
    weighed(&format!("session {session}"), &reports, anyway)
}

/// The verdict that counts of these reports: evidence most, then what is not confirmed. Without
/// `anyway` a record with evidence against it is refused, with the first report that has it.
fn weighed(subject: &str, reports: &[Report], anyway: bool) -> Result<Option<Verdict>, Failure> {
    let evidence = reports.iter().find(|report| report.verdict.is_evidence());
    if let Some(report) = evidence.filter(|_| !anyway) {
        let hint = "; hint: --anyway exports it as evidence";
        return Err(Failure::refused(subject, report, hint));
    }
    let unconfirmed = reports
        .iter()
        .find(|report| report.verdict != Verdict::Verified);
    let counts = evidence.or(unconfirmed).or(reports.first());
    Ok(counts.map(|report| report.verdict))
}

/// Names the verdict on what is exported, unless it is verified.
fn note_verdict(subject: &str, verdict: Option<Verdict>) {
    let subject = Clean(subject);
    match verdict {
        Some(Verdict::Verified) => {}
        Some(verdict) => complain(&format!("warning: {subject} is {verdict}")),
        None => complain(&format!("warning: there is no verdict on {subject}")),
    }
}

/// The name of the log's source; of several equal names all but one have a number.
fn file_name(log: &ArchivedLog, version: usize, names: &mut BTreeSet<PathBuf>) -> PathBuf {
    let source = log.source();
    let source = source
        .as_deref()
        .and_then(Path::file_name)
        .map(PathBuf::from);
    let name = source.unwrap_or_else(|| PathBuf::from("log.jsonl"));
    let name = match version + 1 == log.versions.len() {
        true => name,
        false => PathBuf::from(format!("version-{version}-{}", name.display())),
    };
    let mut unique = name.clone();
    let mut number = 2;
    while !names.insert(unique.clone()) {
        unique = PathBuf::from(format!("{number}-{}", name.display()));
        number += 1;
    }
    unique
}

fn write(
    archive: &Archive,
    log: &ArchivedLog,
    version: &Version,
    place: &Path,
    context: &Context,
) -> Result<[PathBuf; 2], Failure> {
    let mut fs = ArchiveFs::new(archive);
    let mounted = fs.mount(log, version, &version.last());
    let mut seals = place.as_os_str().to_owned();
    seals.push(".seal");
    let places = [place.to_owned(), PathBuf::from(seals)];
    for (from, to) in [&mounted.log, &mounted.seals].into_iter().zip(&places) {
        let file = open_regular(&fs, from)?;
        let mut new = NewFile::begin(&*context.fs, to, PRIVATE_FILE)?;
        let (mut chunks, mut buffer) = (file.chunks(), Vec::new());
        loop {
            chunks.next_chunk(&mut buffer)?;
            if buffer.is_empty() {
                break;
            }
            new.write(&buffer)?;
        }
        new.commit_new()?;
    }
    Ok(places)
}
