//! `redact` of logs that other programs wrote: lines are replaced, and their salts removed.
//!
//! ```text
//! archived session ─► Archive::redact ─► index without the texts ─► home without the salts
//! --output DIR     ─► a redacted copy of log and seals; nothing else changes
//! ```

use super::RedactArgs;
use crate::context::Context;
use crate::escaped_search::says;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::render::text::counted;
#[cfg(feature = "capture")]
use crate::sessions::{self, Named, Sessions, Unlock};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
#[cfg(feature = "capture")]
use threadseal_capture::archive::{ArchiveFs, ArchivedLog, Statement};
use threadseal_formats::transcript::log::redacted;
use threadseal_formats::transcript::observed::{self, Redaction, SealFile, runs_of};
use threadseal_store::atomic;
use threadseal_store::examine;
#[cfg(feature = "capture")]
use threadseal_store::observer::MAX_SEAL_FILE_BYTES;
use threadseal_store::observer::{read_seals, seal_path};
use threadseal_store::read::open_regular;
#[cfg(feature = "capture")]
use threadseal_store::read::read_small;
use threadseal_store::sys::{FileKind, led_to, path_text};
use threadseal_verify::verifier::MAX_TAKEN_UP_BYTES;

/// Mode of the files of a copy, and of its folder: they are made to be handed on.
const COPY_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// A log that another program wrote.
pub(super) enum Log {
    /// The log at a path, with its seals beside it.
    File(PathBuf),
    /// One in the archive.
    #[cfg(feature = "capture")]
    Session(Named),
}

#[derive(Serialize)]
struct LinesOutput {
    schema: &'static str,
    log: String,
    dry_run: bool,
    /// Numbers of the lines that are redacted by this run.
    lines: Vec<u64>,
    /// Files that were written.
    written: Vec<String>,
    /// Places where the lines are left.
    left: Vec<String>,
}

/// The bytes of a log up to its last sealed line, and of its seal file.
struct Content {
    name: String,
    log: Vec<u8>,
    seals: Vec<u8>,
}

/// The log that the arguments name; `None` if it is another kind of record.
pub(super) fn log_of(args: &RedactArgs, context: &Context) -> Result<Option<Log>, Failure> {
    let path = &args.record;
    if record::address_of(path).is_some() {
        return Ok(None);
    }
    #[cfg(feature = "capture")]
    if let Some(named) = sessions::named(path, context)? {
        return Ok(Some(Log::Session(named)));
    }
    let path = led_to(&*context.fs, path);
    let found = context.fs.metadata(&path);
    if !found.is_ok_and(|found| found.kind == FileKind::Regular) {
        return Ok(None);
    }
    let first = examine::first_line(&open_regular(&*context.fs, &path)?)?;
    let is_native = first.is_some_and(|line| examine::native_record(&line).is_some());
    let has_seals = context.fs.metadata(&seal_path(&path)).is_ok();
    Ok((has_seals && !is_native).then_some(Log::File(path)))
}

/// Redacts the selected lines.
pub(super) fn run(log: Log, args: &RedactArgs, context: &Context, out: &mut Out) -> Outcome {
    if args.finish {
        let text = "--finish is for native records; hint: redact the same lines of the log again";
        return Err(Failure::new(text));
    }
    match log {
        #[cfg(feature = "capture")]
        Log::Session(named) => in_archive(&named, args, context, out),
        Log::File(path) => {
            if args.output.is_none() && !args.dry_run {
                return Err(Failure::new(
                    "the file of another program is not changed; hint: --output DIR writes a redacted copy, and a session of the archive is \
                     redacted by its id",
                ));
            }
            let host = context.host()?;
            let content = Content {
                name: path_text(&path),
                log: open_regular(&*context.fs, &path)?.read_whole(MAX_TAKEN_UP_BYTES)?,
                seals: read_seals(&host, &path)?.unwrap_or_default(),
            };
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            copy(content, None, &name, args, context, out)
        }
    }
}

/// Writes a redacted copy.
fn copy(
    mut content: Content,
    turn: Option<u64>,
    name: &Path,
    args: &RedactArgs,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let file = observed::sound(&content.seals)?;
    // Lines after the last seal are in no copy: nothing covers them.
    let sealed = content.log.split_inclusive(|byte| *byte == b'\n');
    let size: usize = sealed.take(file.leaves.len()).map(<[u8]>::len).sum();
    content.log.truncate(size);
    let end = usize::try_from(file.sealed_bytes).unwrap_or(usize::MAX);
    content.seals.truncate(end);
    let lines = choose(args, turn, &content.log, Some(&file))?;
    let mut output = LinesOutput {
        schema: "threadseal.redact.lines/1",
        log: content.name.clone(),
        dry_run: args.dry_run,
        lines: lines.iter().copied().collect(),
        written: Vec::new(),
        left: vec![content.name.clone()],
    };
    if let Some(folder) = args.output.as_ref().filter(|_| !args.dry_run) {
        let (signer, own_name) = args.signing.observer(context)?;
        let none = || Failure::new("the log has no seal; hint: threadseal seal");
        let last = lines.last();
        let redaction = Redaction {
            head: last
                .and_then(|line| file.first_over(*line))
                .ok_or_else(none)?,
            runs: runs_of(&lines),
            time: context.now()?,
            by: args.by.clone().unwrap_or_else(|| own_name.to_owned()),
            why: args.why.clone().unwrap_or_default(),
        };
        let seals = observed::redact(&content.seals, &redaction, &signer)?;
        let log = redacted(&content.log, &content.seals, &seals)?;
        atomic::create_directories(&*context.fs, folder, FOLDER_MODE)?;
        let place = folder.join(name);
        for (place, bytes) in [(seal_path(&place), seals), (place, log)] {
            atomic::create_new(&*context.fs, &place, &bytes, COPY_MODE)?;
            output.written.push(path_text(&place));
        }
    }
    tell(&output, context, out);
    Ok(Exit::Done)
}

/// Redacts lines of an archived log, or writes a redacted copy of it.
#[cfg(feature = "capture")]
fn in_archive(named: &Named, args: &RedactArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut sessions = Sessions::open(Unlock::Ask(args.signing.passphrase()), context)?;
    let log = sessions.log(named)?;
    let none = || Failure::new(format!("nothing of {} is archived", log.name));
    let newest = log.newest().ok_or_else(none)?;
    let source = sessions.archive.read(&log, newest, 0)?;
    if args.output.is_some() {
        let mut fs = ArchiveFs::new(&sessions.archive);
        let mounted = fs.mount(&log, newest, &newest.last());
        let content = Content {
            name: log.name.to_string(),
            log: source,
            seals: read_small(&fs, &mounted.seals, MAX_SEAL_FILE_BYTES)?,
        };
        let name = mounted.log.file_name().map(PathBuf::from);
        let name = name.unwrap_or_default();
        return copy(content, named.turn, &name, args, context, out);
    }
    let lines = choose(args, named.turn, &source, None)?;
    let mut output = LinesOutput {
        schema: "threadseal.redact.lines/1",
        log: log.name.to_string(),
        dry_run: args.dry_run,
        lines: lines.iter().copied().collect(),
        written: Vec::new(),
        left: left(&log, context),
    };
    if !args.dry_run {
        let (signer, own_name) = args.signing.observer(context)?;
        let statement = Statement {
            by: args.by.as_deref().unwrap_or(own_name),
            why: args.why.as_deref().unwrap_or_default(),
        };
        let done = sessions
            .archive
            .redact(&log.name, &lines, statement, &signer)?;
        let host = context.host()?;
        for redacted in &done.records {
            host.forget_salts(&redacted.record)?;
        }
        sessions.index.refresh(&sessions.archive)?;
        sessions.index.scrub()?;
        output
            .left
            .extend(done.shared.iter().map(ToString::to_string));
        let own = done
            .records
            .iter()
            .find(|own| own.record == newest.record());
        output.lines = own.map(|own| own.lines.clone()).unwrap_or_default();
        if done.unsalted.contains(&newest.record()) {
            return Err(Failure::new(format!(
                "{}: the seals of this record have no salts, so that a redacted line could be guessed; hint: threadseal forget",
                log.name
            )));
        }
        for record in &done.unsalted {
            complain(&format!(
                "note: an earlier version, record {record}, has one of the lines, and cannot be redacted; hint: threadseal forget"
            ));
        }
    }
    tell(&output, context, out);
    Ok(Exit::Done)
}

/// The agent's own files of the log that are there.
#[cfg(feature = "capture")]
fn left(log: &ArchivedLog, context: &Context) -> Vec<String> {
    let is_there = |path: &PathBuf| context.fs.symlink_metadata(path).is_ok();
    let source = log.source().filter(is_there);
    source.iter().map(|path| path_text(path)).collect()
}

/// The numbers of the selected lines that are not redacted yet; at least one.
fn choose(
    args: &RedactArgs,
    turn: Option<u64>,
    log: &[u8],
    seals: Option<&SealFile>,
) -> Result<BTreeSet<u64>, Failure> {
    let mut chosen: BTreeSet<u64> = args.lines.iter().copied().collect();
    for turn in args.turns.iter().copied().chain(turn) {
        chosen.extend(lines_of_turn(log, turn)?);
    }
    let finds_secret = secret_finder(args.secrets)?;
    let lines = log.split_inclusive(|byte| *byte == b'\n');
    let mut count = 0;
    for (line, number) in lines.zip(1..) {
        count = number;
        if args.texts.iter().any(|text| says(line, text)) || finds_secret(line) {
            chosen.insert(number);
        }
    }
    if let Some(beyond) = chosen.iter().find(|line| **line == 0 || **line > count) {
        return Err(Failure::new(format!(
            "there is no sealed line {beyond}; there are {count}, from 1"
        )));
    }
    if let Some(seals) = seals {
        chosen.retain(|line| !seals.is_redacted(*line));
    }
    match chosen.is_empty() {
        false => Ok(chosen),
        true => Err(Failure::new(
            "no line matches; select what to redact: --line, --turn, --match or --secrets",
        )),
    }
}

#[cfg(feature = "capture")]
fn lines_of_turn(log: &[u8], turn: u64) -> Result<BTreeSet<u64>, Failure> {
    let lines = sessions::lines_of(log, &[turn])?;
    Ok(lines.into_iter().next().unwrap_or_default())
}

#[cfg(not(feature = "capture"))]
fn lines_of_turn(_: &[u8], _: u64) -> Result<BTreeSet<u64>, Failure> {
    Err(Failure::new(
        "this build has no turns of logs; hint: --line",
    ))
}

/// Does a line hold a secret? Never if nothing was asked for.
#[cfg(feature = "convert")]
fn secret_finder(is_asked: bool) -> Result<impl Fn(&[u8]) -> bool, Failure> {
    let rules = is_asked.then(crate::secrets::Rules::builtin);
    let rules = rules.transpose().map_err(Failure::new)?;
    Ok(move |line: &[u8]| {
        let rules = rules.as_ref();
        rules.is_some_and(|rules| rules.rule_of_line(line).is_some())
    })
}

#[cfg(not(feature = "convert"))]
fn secret_finder(is_asked: bool) -> Result<impl Fn(&[u8]) -> bool, Failure> {
    match is_asked {
        true => Err(Failure::new("this build finds no secrets; hint: --match")),
        false => Ok(|_: &[u8]| false),
    }
}

fn tell(output: &LinesOutput, context: &Context, out: &mut Out) {
    if context.json {
        out.json(output);
        return;
    }
    let (log, lines) = (Clean(&output.log), output.lines.len() as u64);
    let count = counted(lines, "line", "lines");
    let numbers: Vec<String> = runs_of(&output.lines)
        .into_iter()
        .map(|(first, count)| match count {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + count - 1),
        })
        .collect();
    let numbers = numbers.join(", ");
    out.line(match (output.dry_run, lines) {
        (true, _) => format!("{log}: {count} would be redacted: {numbers}"),
        (false, 0) => format!("{log}: these lines were redacted before"),
        (false, _) => format!("redacted  {log}  {count}: {numbers}"),
    });
    for path in &output.written {
        out.line(format_args!("  written  {}", Clean(path)));
    }
    if context.quiet || output.dry_run {
        return;
    }
    for place in &output.left {
        complain(&format!(
            "note: the lines are left in {}, and in its copies and backups",
            Clean(place)
        ));
    }
}
