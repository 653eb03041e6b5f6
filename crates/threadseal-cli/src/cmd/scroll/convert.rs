//! `scroll convert`: writes the same sealed turns in another container. Hashes and signatures stay.

use super::ContainerArg;
use super::input::{self, Writer};
use crate::context::Context;
use crate::exit::{Exit, Outcome, complain};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::canon::jcs;
use threadseal_core::error::Error;
use threadseal_formats::scroll::{Form, SealedTurn};

/// The most turns with uncovered digits that are listed.
const MAX_TOLD: u64 = 20;
/// The most digits of a number that are shown.
const MAX_SHOWN_DIGITS: usize = 40;

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
    drop_uncovered_digits: bool,
    /// New file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Converts. The output would lack digits that no hash covers, so that a `partial` scroll would
/// become `verified`. That is refused unless it is requested; then each loss is reported.
pub(super) fn run(args: &ConvertArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut writer = Writer::new(args.to.into(), args.out.as_deref(), context, out)?;
    let (mut turns, mut lost) = (0_u64, 0_u64);
    let file = input::file_of(args.file.as_ref());
    let end = input::turns(file, context, |bytes, form, place| {
        let about = |why: String| Error::invalid(format!("turn at index {turns}: {why}"));
        if form == Form::Json {
            let (_, spelling) =
                jcs::canonicalize_closely(bytes).map_err(|error| about(error.to_string()))?;
            if let Some(at) = spelling.digits {
                let told = digits_lost(bytes, at, place.from);
                if !args.drop_uncovered_digits {
                    let advice = "hint: --drop-uncovered-digits writes only the covered value";
                    return Err(about(format!("{told}; {advice}")));
                }
                lost += 1;
                if lost <= MAX_TOLD {
                    complain(&format!("warning: turn at index {turns}: {told}; left out"));
                }
            }
        }
        let value = input::value(bytes, form).map_err(about)?;
        let turn = SealedTurn::from_value(value).map_err(|error| about(error.to_string()))?;
        turns += 1;
        writer.turn(&turn)
    })?;
    input::refuse_fault(&end)?;
    writer.finish()?;
    if lost > 0 {
        complain(&format!(
            "warning: numbers in {lost} turns had digits that no hash covers; their canonical value was written"
        ));
    }
    Ok(Exit::Done)
}

/// The report on the first number at `at` of a turn whose digits no hash covers.
fn digits_lost(turn: &[u8], at: usize, from: u64) -> String {
    let rest = turn.get(at..).unwrap_or_default();
    let is_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let number: Vec<u8> = rest
        .iter()
        .take_while(is_number)
        .take(MAX_SHOWN_DIGITS)
        .copied()
        .collect();
    format!(
        "the number {} at byte {} has digits that no hash covers",
        String::from_utf8_lossy(&number),
        from + at as u64
    )
}
