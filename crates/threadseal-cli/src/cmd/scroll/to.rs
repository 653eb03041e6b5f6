//! `scroll to`: converts a scroll to another format (`spec/scroll-mappings.md` W6).
//!
//! It writes only verified content, from the bytes that it verified. Anything else is refused with
//! the report, unless `--anyway` is given and there is no evidence against the scroll. Then the
//! output names the verdict if its format allows that, and the exit is that of the verdict: no
//! script takes it for verified.

use super::input;
use super::source;
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::progress::Bar;
use crate::render::json::VerifyOutput;
use crate::verifying::{self, IdArgs};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use threadseal_convert::export::{Chain, Exported, TARGETS, Target, find_target};
use threadseal_core::canon::python::rye_line;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::report::{Report, Verdict, combined_exit_code};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::scroll::ChainCoverage;
use threadseal_formats::verified::Verified;
use threadseal_store::atomic::create_new;
use threadseal_verify::VerifyRequest;
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
    #[command(flatten)]
    id: IdArgs,
    /// Accept a home or trust inside the folder of the scroll
    #[arg(long)]
    allow_local_trust: bool,
    /// Also write a scroll that cannot be confirmed, and exit by its verdict (3); trust it no more
    /// than the person who gave it to you
    #[arg(long)]
    anyway: bool,
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
    let judged = judge(args, context)?;
    let verdicts: Vec<_> = judged.reports.iter().map(|report| report.verdict).collect();
    let exit = Exit::from_code(combined_exit_code(&verdicts, 0));
    let worst = judged.reports.iter().min_by_key(|report| report.verdict);
    let verdict = worst.map_or(Verdict::Unsigned, |report| report.verdict);
    let container = container_of(&judged.bytes);
    let chain = match judged.verified.filter(|_| exit == Exit::Done) {
        Some(verified) => Chain::open(&verified, &judged.bytes, container)?,
        // Evidence against a scroll is never made to look like another text.
        None if verdict.is_evidence() || !args.anyway => {
            if context.json {
                out.json_line(&VerifyOutput::new(&judged.reports, &[], 0, exit.code()));
            }
            let way = match verdict.is_evidence() {
                true => "",
                false => ", --anyway writes it nevertheless",
            };
            complain(&format!(
                "the scroll is {verdict}, so nothing was written; hint: threadseal verify shows the cause{way}"
            ));
            return Ok(exit);
        }
        None => {
            complain(&format!(
                "warning: the scroll is {verdict}; the output is not verified"
            ));
            Chain::danger_unverified(&judged.bytes, container, verdict)?
        }
    };
    write(args, target, &target.export(&chain), context, out)?;
    Ok(exit)
}

/// A scroll, and what verification shows of these bytes.
struct Judged {
    bytes: Vec<u8>,
    /// One for each claim about the scroll.
    reports: Vec<Report>,
    verified: Option<Verified<ChainCoverage>>,
}

/// The scroll and its reports: of a file each claim about it, as `verify` judges it.
fn judge(args: &ToArgs, context: &Context) -> Result<Judged, Failure> {
    let path = input::file_of(args.file.as_ref());
    let paths: Vec<PathBuf> = path.map(Path::to_owned).into_iter().collect();
    let local = Locality::to(&paths, args.allow_local_trust, &context.fs);
    let trust = verifying::gather(&args.id.and(&args.trust), &args.key, &local, context)?;
    let request = VerifyRequest {
        format: Some(ScopeFormat::Scroll),
        ..VerifyRequest::by(trust)
    };
    let verifier = verifying::verifier(request, &Bar::hidden(), context)?;
    let Some(path) = path else {
        let bytes = input::whole_stdin()?;
        let outcome = verifier.scroll_bytes(&bytes, container_of(&bytes))?;
        let mut report = outcome.report;
        report.path = "-".to_owned();
        return Ok(Judged {
            bytes,
            reports: vec![report],
            verified: outcome.verified,
        });
    };
    let source = source::read_by(&verifier, path, MAX_DOCUMENT_BYTES)?;
    let bytes = source.bytes().to_vec();
    let verified = verifier
        .scroll_bytes(&bytes, container_of(&bytes))?
        .verified;
    Ok(Judged {
        bytes,
        reports: source.reports().to_vec(),
        verified,
    })
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
