//! `prove SESSION#TURN`: a proof of the lines of one turn of an archived session.

use super::{MODE, ProveArgs};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::render::text;
use crate::sessions::{Judge, Named, Sessions, Unlock, prove_turns};
use serde::Serialize;
use threadseal_capture::archive::ArchiveFs;
use threadseal_capture::session::Growth;
use threadseal_capture::state::verifier_over;
use threadseal_core::report::{Report, Verdict};
use threadseal_store::atomic;
use threadseal_store::observer::MAX_SEAL_FILE_BYTES;
use threadseal_store::read::read_small;
use threadseal_store::sys::path_text;

#[derive(Serialize)]
struct ProveOutput<'a> {
    schema: &'static str,
    path: Option<String>,
    turn: u64,
    lines: Vec<u64>,
    result: &'a Report,
}

/// Verifies the archived log, and proves the lines of the turn if it is verified.
pub(super) fn run(named: &Named, args: &ProveArgs, context: &Context, out: &mut Out) -> Outcome {
    let sessions = Sessions::open(Unlock::Ask(&PassphraseArgs::default()), context)?;
    let log = sessions.log(named)?;
    let newest = log.newest();
    let newest =
        newest.ok_or_else(|| Failure::new(format!("nothing of {} is archived", log.name)))?;
    if log.facts.growth() == Growth::Rewrites {
        let text = "its agent writes one document, whose turns have no lines of their own: one turn cannot be proved without the others";
        return Err(Failure::new(format!("{}: {text}", log.name)));
    }
    let mut fs = ArchiveFs::new(&sessions.archive);
    let mounted = fs.mount(&log, newest, &newest.last());
    let seals = read_small(&fs, &mounted.seals, MAX_SEAL_FILE_BYTES)?;
    let judge = Judge::of_home(&sessions.home, context)?;
    let result = verifier_over(fs, &judge.verifier).verify_path(&mounted.log);
    let [report] = result.reports() else {
        return Err(Failure::new(format!("there is no verdict on {}", log.name)));
    };
    let exit = Exit::from_code(report.verdict.exit_code());
    out.because(report);
    if report.verdict != Verdict::Verified {
        if !context.json {
            out.line(text::report(report, context.palette));
        }
        complain("only turns of a verified session can be proved; hint: threadseal verify");
        return Ok(exit);
    }
    let source = sessions.archive.read(&log, newest, 0)?;
    let turn = args.named.turn;
    let proved = prove_turns(&log.name.to_string(), &source, &seals, &[turn])?;
    let none = || Failure::new(format!("there is no turn {turn}"));
    let (_, numbers, proof) = proved.into_iter().next().ok_or_else(none)?;
    let bytes = proof.to_string();
    match &args.out {
        None => out.bytes(bytes.as_bytes()),
        Some(path) => {
            atomic::create_new(&*context.fs, path, bytes.as_bytes(), MODE)?;
            if context.json {
                out.json(&ProveOutput {
                    schema: "threadseal.prove/1",
                    path: Some(path_text(path)),
                    turn,
                    lines: numbers.into_iter().collect(),
                    result: report,
                });
            } else if !context.quiet {
                let (size, path) = (bytes.len(), path_text(path));
                let path = Clean(&path);
                out.line(format_args!("{path}: {size} bytes prove turn {turn}"));
                let key = sessions.home.path().join("keys/self-observed.observed.pub");
                if context.fs.symlink_metadata(&key).is_ok() {
                    let key = path_text(&key);
                    out.line(format_args!(
                        "send it with {0}; to check it: threadseal check-proof {path} --key {0}",
                        Clean(&key)
                    ));
                }
            }
        }
    }
    if !proof.alone().is_empty() && !context.quiet {
        let lines: Vec<String> = proof.alone().iter().map(ToString::to_string).collect();
        complain(&format!(
            "note: the proof has the hashes of lines {} alone: a reader can confirm a guess of such a line",
            lines.join(", ")
        ));
    }
    Ok(exit)
}
