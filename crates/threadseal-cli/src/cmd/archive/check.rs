//! `archive verify` and `archive fsck`.

use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::render::text;
use crate::render::text::counted;
use crate::sessions::{self, Judge, Unlock};
use clap::Args;
use serde::Serialize;
use threadseal_capture::archive::ArchivedLog;
use threadseal_capture::state::verify_version;
use threadseal_core::report::Verdict;
use threadseal_store::sys::path_text;
use threadseal_verify::FileResult;

/// What `archive verify` takes.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Sessions [default: all]
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// What `archive fsck` takes.
#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct VerifyOutput {
    schema: &'static str,
    logs: Vec<LogOutput>,
    forgotten: Vec<String>,
}

#[derive(Serialize)]
struct LogOutput {
    log: String,
    /// The version of a log that was written again, from 0.
    version: usize,
    verdict: Option<&'static str>,
    message: Option<String>,
}

#[derive(Serialize)]
struct FsckOutput {
    schema: &'static str,
    logs: u64,
    chunks: u64,
    bytes: u64,
    damage: Vec<String>,
    orphans: Vec<String>,
}

/// Verifies every version of the logs from the archive alone.
pub(super) fn verify(args: &VerifyArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Ask(&args.passphrase), context)?;
    let judge = Judge::of_home(&home, context)?;
    let (mut logs, mut forgotten) = (Vec::new(), Vec::new());
    if args.sessions.is_empty() {
        logs = archive.logs()?;
        forgotten = archive
            .forgotten()?
            .into_iter()
            .map(|gone| gone.session)
            .collect();
    }
    for name in &args.sessions {
        let id = sessions::find(&archive, name)?.ok_or_else(|| sessions::none(name))?;
        let own = archive.session(&id)?;
        if own.is_empty() {
            forgotten.push(id);
        }
        logs.extend(own);
    }
    let mut output = VerifyOutput {
        schema: "threadseal.archive.verify/1",
        logs: Vec::new(),
        forgotten: forgotten.iter().map(ToString::to_string).collect(),
    };
    let mut codes = Vec::new();
    for log in &logs {
        verify_log(log, &archive, &judge, context, out, &mut output, &mut codes);
    }
    let exit = match (codes.is_empty(), output.forgotten.is_empty()) {
        (true, true) => Exit::NoVerdict,
        (true, false) => Exit::Unconfirmed,
        (false, _) => Exit::from_code(combined(&codes)),
    };
    if context.json {
        out.json(&output);
        return Ok(exit);
    }
    for id in &forgotten {
        let words = sessions::forgotten(&archive, id)?.unwrap_or_default();
        out.line(format_args!("{id}  {}", Clean(&words)));
    }
    if !context.quiet {
        let good = codes.iter().filter(|code| **code == 0).count();
        out.line(format_args!("{good} of {} verified", codes.len()));
    }
    Ok(exit)
}

fn combined(codes: &[u8]) -> u8 {
    [1, 2, 3]
        .into_iter()
        .find(|code| codes.contains(code))
        .unwrap_or(0)
}

fn verify_log(
    log: &ArchivedLog,
    archive: &threadseal_capture::Archive,
    judge: &Judge,
    context: &Context,
    out: &mut Out,
    output: &mut VerifyOutput,
    codes: &mut Vec<u8>,
) {
    let name = log.name.to_string();
    if let Some(why) = &log.damage {
        codes.push(2);
        output.logs.push(LogOutput {
            log: name.clone(),
            version: log.versions.len(),
            verdict: None,
            message: Some(why.clone()),
        });
        if !context.json {
            out.line(format_args!("no verdict  {name}: {}", Clean(why)));
        }
    }
    for number in 0..log.versions.len() {
        let Some(result) = verify_version(log, number, archive, &judge.verifier) else {
            continue;
        };
        let failed = match &result {
            FileResult::Failed(error) | FileResult::NoRecord(error) => Some(error.message.clone()),
            _ => None,
        };
        if let Some(message) = failed {
            codes.push(2);
            if !context.json {
                out.line(format_args!("no verdict  {name}: {}", Clean(&message)));
            }
            output.logs.push(LogOutput {
                log: name.clone(),
                version: number,
                verdict: None,
                message: Some(message),
            });
        }
        for report in result.reports() {
            codes.push(report.verdict.exit_code());
            if !context.json && (report.verdict != Verdict::Verified || !context.quiet) {
                out.line(format_args!(
                    "{}  {name}",
                    context.palette.verdict(report.verdict)
                ));
            }
            if !context.json && report.verdict != Verdict::Verified {
                out.line(text::report(report, context.palette));
            }
            output.logs.push(LogOutput {
                log: name.clone(),
                version: number,
                verdict: Some(report.verdict.as_str()),
                message: report
                    .findings
                    .first()
                    .map(|finding| finding.message.clone()),
            });
        }
    }
}

/// Reads all of the archive.
pub(super) fn fsck(args: &FsckArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let archive = sessions::archive(&home, Unlock::Ask(&args.passphrase), context)?;
    let found = archive.fsck(&mut |_| {})?;
    let output = FsckOutput {
        schema: "threadseal.archive.fsck/1",
        logs: found.logs,
        chunks: found.chunks,
        bytes: found.bytes,
        damage: found.damage.iter().map(ToString::to_string).collect(),
        orphans: found.orphans.iter().map(|place| path_text(place)).collect(),
    };
    let exit = match found.is_sound() {
        true => Exit::Done,
        false => Exit::Evidence,
    };
    if context.json {
        out.json(&output);
        return Ok(exit);
    }
    for damage in &output.damage {
        out.line(format_args!("damaged  {}", Clean(damage)));
    }
    for orphan in &output.orphans {
        out.line(format_args!(
            "not needed  {}; hint: threadseal archive prune",
            Clean(orphan)
        ));
    }
    let (logs, chunks, faults) = (output.logs, output.chunks, output.damage.len());
    let bytes = super::size_words(output.bytes);
    let (logs, chunks) = (
        counted(logs, "log", "logs"),
        counted(chunks, "chunk", "chunks"),
    );
    out.line(format_args!("{logs}, {chunks}, {bytes}: {faults} damaged"));
    Ok(exit)
}
