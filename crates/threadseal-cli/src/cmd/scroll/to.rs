//! `scroll to`: converts a scroll to another format (`spec/scroll-mappings.md` W6).
//!
//! It writes only verified content, from the bytes that it verified. Anything else is refused with
//! the report, unless `--unverified` is given. Then the output is marked as unverified if its
//! format allows that, and the exit is that of the verdict: no script takes it for verified.

use super::input;
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::json::VerifyOutput;
use crate::verifying;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use threadseal_convert::export::{Chain, Exported, TARGETS, Target, find_target};
use threadseal_core::canon::python::rye_line;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::report::combined_exit_code;
use threadseal_formats::scroll::Container;
use threadseal_store::atomic::create_new;
use threadseal_verify::detect::container_of;
use threadseal_verify::trust_locality::Locality;

/// Mode of a new file: only its user may read the output of an agent.
const EXPORT_MODE: u32 = 0o600;

/// What `scroll to` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct ToArgs {
    /// Format to write
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.iter().map(|target| target.name)))]
    format: String,
    /// A scroll [default: standard input]
    file: Option<PathBuf>,
    /// Require this key's signature on every turn; repeatable, then one of these keys must have
    /// signed
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// Trust these instead of the home's trust store; repeatable
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    /// Accept a home or trust inside the folder of the scroll
    #[arg(long)]
    allow_local_trust: bool,
    /// Also write a scroll that does not verify, and exit by its verdict; trust it no more than the
    /// person who gave it to you
    #[arg(long)]
    unverified: bool,
    /// New file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// New file for the parts that the format cannot hold
    #[arg(long, value_name = "FILE")]
    account: Option<PathBuf>,
}

/// Verifies and writes.
pub(super) fn run(args: &ToArgs, context: &Context, out: &mut Out) -> Outcome {
    let Some(target) = find_target(&args.format) else {
        return Err(Failure::new("no such format"));
    };
    let bytes = match input::file_of(args.file.as_ref()) {
        Some(path) => input::file(path, context)?.read_whole(MAX_DOCUMENT_BYTES)?,
        None => input::whole_stdin()?,
    };
    let container = container_of(&bytes);
    let (chain, exit) = match chain(args, &bytes, container, context, out)? {
        (Some(chain), exit) => (chain, exit),
        (None, exit) => return Ok(exit),
    };
    write(args, target, &target.export(&chain), context, out)?;
    Ok(exit)
}

/// The chain that may be written, and the exit of its verdict. If the verdict does not suffice, the
/// report was printed.
fn chain(
    args: &ToArgs,
    bytes: &[u8],
    container: Container,
    context: &Context,
    out: &mut Out,
) -> Result<(Option<Chain>, Exit), Failure> {
    let paths: Vec<PathBuf> = input::file_of(args.file.as_ref())
        .map(Path::to_owned)
        .into_iter()
        .collect();
    let local = Locality::to(&paths, args.allow_local_trust, &context.fs);
    let trust = verifying::gather(&args.trust, &args.key, &local, context)?;
    let verifier = verifying::verifier_by(trust, context)?;
    let outcome = verifier.scroll_bytes(bytes, container)?;
    if let Some(verified) = &outcome.verified {
        return Ok((Some(Chain::open(verified, bytes, container)?), Exit::Done));
    }
    let mut report = outcome.report;
    let exit = Exit::from_code(combined_exit_code(&[report.verdict], 0));
    let verdict = report.verdict.as_str();
    if args.unverified {
        let chain = Chain::danger_unverified(bytes, container)?;
        complain(&format!(
            "warning: the scroll is {verdict}; the output is not verified"
        ));
        return Ok((Some(chain), exit));
    }
    report.path = match input::file_of(args.file.as_ref()) {
        Some(path) => path.display().to_string(),
        None => "-".to_owned(),
    };
    if context.json {
        out.json(&VerifyOutput::new(&[report], &[], 0, exit.code()));
    }
    complain(&format!(
        "the scroll is {verdict}, so nothing was written; hint: threadseal scroll verify shows the cause, --unverified writes it nevertheless"
    ));
    Ok((None, exit))
}

fn write(
    args: &ToArgs,
    target: &Target,
    exported: &Exported,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    if let Some(path) = &args.account {
        let account = exported.account(target.name);
        let mut text = rye_line(&account);
        text.push(b'\n');
        create_new(&*context.fs, path, &text, EXPORT_MODE)?;
    }
    match &args.out {
        Some(path) => create_new(&*context.fs, path, &exported.bytes, EXPORT_MODE)?,
        None => out.bytes(&exported.bytes),
    }
    Ok(())
}
