//! Verified ledgers for conversion: verified at their place, then read from lines with the same
//! chain.
//!
//! ```text
//! place ─► verify, with its notes and its signed head ─► verified?
//!       ─► lines in memory ─► verify ─► the same end? ─► result
//! ```

use super::place::Place;
use super::verify::path_of;
use crate::context::Context;
use crate::exit::Failure;
use crate::progress::Bar;
use crate::verifying;
use std::path::PathBuf;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_SOURCE_BYTES;
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::ledger::{BundledLedger, Outcome, Records, RunId, View};
use threadseal_verify::request::{LedgerRequest, VerifyRequest};
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::Verifier;

/// Ledgers that verify.
pub(super) struct Vouched(Vec<BundledLedger>);

impl Vouched {
    /// Reads `runs` at `place`, called `name`, with the home's trust and its known heads. If one
    /// does not verify, returns its report instead.
    ///
    /// # Errors
    /// When it cannot be read, changes meanwhile, or is larger than [`MAX_SOURCE_BYTES`].
    pub(super) fn read(
        place: &Place,
        name: &str,
        runs: &[RunId],
        context: &Context,
    ) -> Result<Result<Self, Box<Report>>, Failure> {
        let (mut ledgers, mut room) = (Vec::new(), MAX_SOURCE_BYTES);
        for run in runs {
            let verifier = verifier(name, run, context)?;
            let ledger = held(place, run, &mut room)?;
            let read = verifier.bundled(&ledger)?;
            let lies = where_it_lies(place, name, run, &verifier, context)?;
            let said = lies.as_ref().unwrap_or(&read);
            if said.report.verdict != Verdict::Verified {
                return Ok(Err(Box::new(said.report.clone())));
            }
            // A ledger under a signed head need not be signed itself, so the lines alone need not
            // be `verified`.
            if read.report.verdict.exit_code() == 1 || read.tip != said.tip {
                let text = format!("the ledger of run {run} changed while it was read");
                return Err(Failure::new(text));
            }
            ledgers.push(ledger);
        }
        Ok(Ok(Self(ledgers)))
    }
}

impl Records for Vouched {
    fn each(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ledger = self.0.iter().find(|ledger| ledger.run == *run);
        let lines = ledger.map(|ledger| &*ledger.lines).unwrap_or_default();
        lines.iter().try_for_each(|line| take(line))
    }
}

/// The report on the first of `runs` against which there is evidence.
///
/// # Errors
/// When one cannot be read.
pub(super) fn evidence(
    place: &Place,
    name: &str,
    runs: &[RunId],
    context: &Context,
) -> Result<Option<Box<Report>>, Failure> {
    for run in runs {
        // A copy is no claim: whose keys count matters only for its verdict.
        let verifier = verifier_at(&[], run, context)?;
        let outcome = match place {
            // What is copied may have grown since it was opened.
            Place::Lines(file) => Some(verifier.ledger_at(file.path())?.1),
            _ => where_it_lies(place, name, run, &verifier, context)?,
        };
        let report = match outcome {
            Some(outcome) => outcome.report,
            None => {
                let mut room = MAX_SOURCE_BYTES;
                verifier.bundled(&held(place, run, &mut room)?)?.report
            }
        };
        if report.verdict.is_evidence() {
            return Ok(Some(Box::new(report)));
        }
    }
    Ok(None)
}

fn verifier(name: &str, run: &RunId, context: &Context) -> Result<Verifier, Failure> {
    let paths: Vec<PathBuf> = path_of(name).into_iter().collect();
    verifier_at(&paths, run, context)
}

fn verifier_at(paths: &[PathBuf], run: &RunId, context: &Context) -> Result<Verifier, Failure> {
    let trust = verifying::gather(&[], &[], &Locality::to(paths, false, &context.fs), context)?;
    let asked = VerifyRequest {
        ledger: LedgerRequest {
            run: Some(run.clone()),
            length: None,
        },
        ..VerifyRequest::by(trust)
    };
    verifying::verifier(asked, &Bar::hidden(), context)
}

/// The lines of `run`, at most `room` bytes.
fn held(place: &Place, run: &RunId, room: &mut usize) -> Result<BundledLedger, Error> {
    if let Place::Bundle(bundle) = place
        && let Some(ledger) = bundle.ledgers.iter().find(|ledger| ledger.run == *run)
    {
        return Ok(ledger.clone());
    }
    let mut lines: Vec<Vec<u8>> = Vec::new();
    place.each(run, &mut |line| {
        *room = room.checked_sub(line.len()).ok_or_else(|| {
            let text = format!("more than {MAX_SOURCE_BYTES} bytes of records");
            Error::new(ErrorKind::Limit, text)
        })?;
        lines.push(line.to_vec());
        Ok(())
    })?;
    Ok(BundledLedger {
        run: run.clone(),
        total: lines.len() as u64,
        first: 0,
        lines,
        view: View::Whole,
    })
}

/// The outcome for the ledger at its place; a bundle has no outcome beyond that of its lines.
fn where_it_lies(
    place: &Place,
    name: &str,
    run: &RunId,
    verifier: &Verifier,
    context: &Context,
) -> Result<Option<Outcome>, Failure> {
    Ok(Some(match place {
        Place::Lines(file) => verifier.ledger_file(file)?,
        Place::Bundle(_) => return Ok(None),
        Place::Store(store) => verifier.run(&**store, run, name)?,
        Place::Files(store) => match place.file_of(Some(run), context)? {
            Some(path) => verifier.ledger_at(&path)?.1,
            None => verifier.run(store, run, name)?,
        },
    }))
}
