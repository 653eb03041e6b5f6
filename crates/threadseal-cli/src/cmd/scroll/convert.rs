//! `scroll convert`: writes the same sealed turns in another container. Hashes and signatures stay.

use super::ContainerArg;
use super::digits::Digits;
use super::input::{self, Writer};
use super::seal::after;
use super::source;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::progress::Bar;
use crate::verifying;
use clap::Args;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::report::{Format, Report};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::scroll::{Form, SealedTurn};
use threadseal_store::read::RegularFile;
use threadseal_verify::VerifyRequest;
use threadseal_verify::address::STANDARD_INPUT;
use threadseal_verify::trust_locality::Locality;

/// What `scroll convert` takes.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A scroll [default: standard input]
    file: Option<PathBuf>,
    /// The container to write
    #[arg(long, value_enum)]
    to: ContainerArg,
    /// Drop digits of numbers that no hash covers, and report each place; without this option such
    /// a scroll is refused
    #[arg(long)]
    anyway: bool,
    /// Refuse also a scroll whose timestamps alone have such digits
    #[arg(long, conflicts_with = "anyway")]
    strict_digits: bool,
    /// New file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Converts a scroll against which there is no evidence. The output would lack digits that no hash
/// covers, so that a `partial` scroll would become `verified`. That is refused unless it is
/// requested. The last digits of a timestamp do not count for the verdict, so they are left out.
/// Each loss is reported.
pub(super) fn run(args: &ConvertArgs, context: &Context, out: &mut Out) -> Outcome {
    let (file, reports) = judge(args, context)?;
    let worst = reports.iter().min_by_key(|report| report.verdict);
    if let Some(report) = worst.filter(|report| report.verdict.is_evidence()) {
        return Ok(source::refuse(&reports, report, context, out));
    }
    let mut writer = Writer::new(args.to.into(), args.out.as_deref(), context, out)?;
    let (mut turns, mut head) = (0_u64, None);
    let mut digits = Digits {
        any: args.anyway,
        of_timestamps: !args.strict_digits,
        done: "written",
        turns: 0,
    };
    let end = input::turns_of(&file, |bytes, form, place| {
        let about = |why: String| Error::invalid(format!("turn at index {turns}: {why}"));
        let value = input::value(bytes, form).map_err(about)?;
        let turn = SealedTurn::from_value(value).map_err(|error| about(error.to_string()))?;
        if form == Form::Json {
            digits.check(turns, bytes, place.from)?;
        }
        turns += 1;
        head = Some(after(head, &turn));
        writer.turn(&turn)
    })?;
    input::refuse_fault(&end)?;
    let mut scrolls = reports.iter();
    let verified = scrolls.find(|report| report.format == Format::Scroll);
    if verified.and_then(|report| report.head) != head {
        let text = "the scroll changed after it was verified; hint: convert it again";
        return Err(Failure::new(text));
    }
    writer.finish()?;
    digits.finish();
    Ok(Exit::Done)
}

/// The scroll, and a report for each claim about it.
fn judge(args: &ConvertArgs, context: &Context) -> Result<(RegularFile, Vec<Report>), Failure> {
    let locality = Locality::to(&[], false, &context.fs);
    let trust = verifying::gather(&[], &[], &locality, context)?;
    let request = VerifyRequest {
        format: Some(ScopeFormat::Scroll),
        ..VerifyRequest::by(trust)
    };
    let verifier = verifying::verifier(request, &Bar::hidden(), context)?;
    if let Some(path) = input::file_of(args.file.as_ref()) {
        let source = verifier.judge_source(path)?;
        return Ok((source.file().clone(), source.reports().to_vec()));
    }
    let file = RegularFile::of_stream(input::whole_stdin()?, Path::new(STANDARD_INPUT))?;
    let report = verifier
        .scroll_file(&file, input::container_in(&file)?)?
        .report;
    Ok((file, vec![report]))
}
