//! `export --html`: one page with a session inside, which shows and verifies it without a server (`spec/page.md`).
//!
//! ```text
//! session or file ─► logs, seals, bodies ──────────┐
//!   --turn N      ─► a proof of each of these turns ┴► page, beside it files with what is too large
//! ```

use super::{ExportArgs, note_verdict, verdict_of, weighed};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::record;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::sessions::{self, Judge, Sessions, Unlock, prove_turns};
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_capture::archive::{ArchiveFs, ArchivedLog};
use threadseal_core::limits::MAX_SOURCE_BYTES;
use threadseal_core::report::Verdict;
use threadseal_reader::plain::plain_texts;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::observer::{MAX_SEAL_FILE_BYTES, seal_path};
use threadseal_store::random::Random as _;
use threadseal_store::read::{RegularFile, open_regular, read_small};
use threadseal_store::sys::path_text;
use threadseal_verify::FileResult;
use threadseal_view::assets;
use threadseal_view::export::{Filling, LogBytes, Role, fill};

/// Most turns of one page by `--turn`.
const MAX_TURNS: usize = 1000;

/// How the page is made.
#[derive(Debug, Args)]
pub(super) struct HtmlArgs {
    /// New file for one page that shows and verifies the session, also from a mail
    #[arg(id = "html", long, value_name = "FILE", conflicts_with = "to")]
    file: Option<PathBuf>,
    /// Only this turn, as a proof; repeatable
    #[arg(long, value_name = "N", requires = "html")]
    turn: Vec<u64>,
    /// Leave detached bodies out
    #[arg(long, requires = "html")]
    without_bodies: bool,
    /// Encrypt the page under a passphrase: the first line of this file; `prompt` asks for it
    #[arg(long, value_name = "FILE|prompt", requires = "html")]
    encrypt: Option<PathBuf>,
}

#[derive(Serialize)]
struct HtmlOutput {
    schema: &'static str,
    session: String,
    files: Vec<String>,
    verdict: Option<Verdict>,
}

/// What goes into a page.
struct Content {
    name: String,
    logs: Vec<LogBytes>,
    verdict: Option<Verdict>,
}

pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    let html = &args.html;
    let Some(to) = &html.file else {
        return Err(Failure::new("name a folder, or a page by --html FILE"));
    };
    if args.versions {
        return Err(Failure::new(
            "a page has the newest version of each log; hint: leave --versions out",
        ));
    }
    if html.turn.len() > MAX_TURNS {
        return Err(Failure::new(format!(
            "a page has at most {MAX_TURNS} turns by --turn; hint: leave --turn out"
        )));
    }
    let content = content(args, context)?;
    let Content {
        name,
        logs,
        verdict,
    } = content;
    let mut left_out = Vec::new();
    if !html.turn.is_empty() {
        left_out.push("turns".to_owned());
    }
    if html.without_bodies {
        left_out.push("bodies".to_owned());
    }
    let encrypt = html
        .encrypt
        .as_ref()
        .map(|path| PassphraseArgs::of_page(Some(path)).for_new_page());
    let encrypt = encrypt.transpose()?;
    let mut random = |buffer: &mut [u8]| context.random.fill(buffer);
    let text = plain_texts(
        logs.iter()
            .map(|log| (log.log.as_str(), log.bytes.as_slice())),
    );
    let filling = Filling {
        name: &name,
        text: &text,
        left_out,
        passphrase: encrypt.as_ref().map(|words| words.as_bytes()),
        random: &mut random,
    };
    let page = fill(&assets::template(), &logs, filling)?;
    let folder = to.parent().unwrap_or(Path::new(""));
    let mut files = vec![to.clone()];
    // The page comes last: where it is, all of its parts are.
    for (name, bytes) in &page.files {
        let place = folder.join(name);
        atomic::create_new(&*context.fs, &place, bytes, PRIVATE_FILE)?;
        files.push(place);
    }
    atomic::create_new(&*context.fs, to, page.html.as_bytes(), PRIVATE_FILE)?;
    let output = HtmlOutput {
        schema: "threadseal.export/1",
        session: name,
        files: files.iter().map(|path| path_text(path)).collect(),
        verdict,
    };
    note_verdict(&output.session, verdict);
    if context.json {
        out.json(&output);
        return Ok(Exit::Done);
    }
    for file in &output.files {
        out.line(Clean(file));
    }
    if !context.quiet {
        if files.len() > 1 {
            let more = counted(files.len() as u64 - 1, "file", "files");
            complain(&format!("note: the page needs {more} beside it"));
        }
        let shown = path_text(to);
        complain(&format!(
            "note: send your identity, too (threadseal id export -o me.id); there: threadseal verify {} --id me.id",
            Clean(&shown)
        ));
    }
    Ok(Exit::Done)
}

fn content(args: &ExportArgs, context: &Context) -> Result<Content, Failure> {
    let path = Path::new(&args.session);
    match context.fs.metadata(path) {
        Ok(_) => of_file(path, args, context),
        Err(_) => of_session(args, context),
    }
}

fn of_session(args: &ExportArgs, context: &Context) -> Result<Content, Failure> {
    let sessions = Sessions::open(Unlock::Ask(&args.passphrase), context)?;
    let id = sessions.find(&args.session)?;
    let logs = sessions.archive.session(&id)?;
    if logs.is_empty() {
        let words = sessions::forgotten(&sessions.archive, &id)?.unwrap_or_default();
        return Err(Failure::new(format!("{id}: {words}")));
    }
    if args.html.turn.is_empty() {
        super::note_secrets(&id, &logs, context);
    }
    let judge = Judge::of_home(&sessions.home, context)?;
    let verdict = verdict_of(&id, &logs, &sessions.archive, &judge.verifier, args.anyway)?;
    let mut all = Vec::new();
    let mut logs: Vec<&ArchivedLog> = logs.iter().collect();
    logs.sort_by_key(|log| log.name.sub_agent.is_some());
    for log in logs {
        let Some(newest) = log.newest() else {
            continue;
        };
        let mut fs = ArchiveFs::new(&sessions.archive);
        let mounted = fs.mount(log, newest, &newest.last());
        let bytes = open_regular(&fs, &mounted.log)?.read_whole(MAX_SOURCE_BYTES)?;
        let seals = read_small(&fs, &mounted.seals, MAX_SEAL_FILE_BYTES)?;
        let name = log.name.to_string();
        if !args.html.turn.is_empty() {
            // Turns are those of the session's own log.
            if log.name.sub_agent.is_none() {
                all.extend(proofs(&name, &bytes, &seals, &args.html.turn)?);
            }
            continue;
        }
        all.push(LogBytes {
            log: name,
            parent: log.name.sub_agent.as_ref().map(|_| id.to_string()),
            role: Role::Log,
            bytes,
            seals: Some(seals),
            bodies: None,
        });
    }
    if all.is_empty() {
        return Err(Failure::new(format!(
            "{id} has no log of its own that is archived"
        )));
    }
    Ok(Content {
        name: id.to_string(),
        logs: all,
        verdict,
    })
}

/// A proof of each of these turns of an observed log.
fn proofs(name: &str, log: &[u8], seals: &[u8], turns: &[u64]) -> Result<Vec<LogBytes>, Failure> {
    let proved = prove_turns(name, log, seals, turns)?.into_iter();
    let proofs = proved.map(|(label, _, proof)| LogBytes {
        log: label,
        parent: None,
        role: Role::Proof,
        bytes: proof.to_string().into_bytes(),
        seals: None,
        bodies: None,
    });
    Ok(proofs.collect())
}

fn of_file(path: &Path, args: &ExportArgs, context: &Context) -> Result<Content, Failure> {
    let verifier = verifying::verifier_of_home(context)?;
    let result = verifier.verify_path(path);
    let verdict = match &result {
        FileResult::Reports(reports) => weighed(&path_text(path), reports, args.anyway)?,
        FileResult::Failed(error) | FileResult::NoRecord(error) => {
            return Err(Failure::new(error.message.clone()));
        }
        _ => return Err(Failure::new("it is no record").about(path)),
    };
    let file = record::open(&*context.fs, path)?;
    let bytes = file.read_whole(MAX_SOURCE_BYTES)?;
    let name = path
        .file_name()
        .map_or_else(|| path_text(path), |name| path_text(Path::new(name)));
    let seals = seal_path(path);
    let seals = match context.fs.metadata(&seals) {
        Ok(_) => Some(read_small(&*context.fs, &seals, MAX_SEAL_FILE_BYTES)?),
        Err(_) => None,
    };
    if !args.html.turn.is_empty() {
        let Some(seals) = &seals else {
            return Err(Failure::new(format!(
                "{name} has its seals within; hint: threadseal prove {} --turn N, and export the proof",
                path.display()
            )));
        };
        let logs = proofs(&name, &bytes, seals, &args.html.turn)?;
        return Ok(Content {
            name,
            logs,
            verdict,
        });
    }
    let log = LogBytes {
        log: name.clone(),
        parent: None,
        role: Role::Log,
        bytes,
        seals,
        bodies: bodies(&file, args, context)?,
    };
    Ok(Content {
        name,
        logs: vec![log],
        verdict,
    })
}

fn bodies(
    file: &RegularFile,
    args: &ExportArgs,
    context: &Context,
) -> Result<Option<Vec<u8>>, Failure> {
    if args.html.without_bodies {
        return Ok(None);
    }
    let bodies = record::bodies_of(&*context.fs, file, MAX_SOURCE_BYTES)?;
    Ok(Some(bodies).filter(|bodies| !bodies.is_empty()))
}
