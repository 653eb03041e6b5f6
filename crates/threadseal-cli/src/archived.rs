//! `verify` and the archive: sessions by their ids, and records that are missing in their place.
//!
//! ```text
//! verify 3f9c1a   ─► logs of the session: each at its source, or else from the archive
//! verify DIR      ─► missing records that are archived: from the archive
//! ```
//! An unsigned tombstone of the archive excuses nothing: a record stays missing until the log of the
//! host knows its end.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::passphrase::PassphraseArgs;
use crate::sessions::{self, Named, Unlock};
use std::collections::BTreeMap;
use std::path::PathBuf;
use threadseal_capture::state::verify_archived;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, Verdict};
use threadseal_verify::VerifyError;
use threadseal_verify::output::PathError;
use threadseal_verify::run::VerifyRun;
use threadseal_verify::{FileResult, Verifier};

/// Divides what `verify` names into sessions and paths.
///
/// # Errors
/// When a name is the beginning of several ids, or the archive cannot be read.
pub(crate) fn split(
    named: &[PathBuf],
    context: &Context,
) -> Result<(Vec<Named>, Vec<PathBuf>), Failure> {
    let (mut found, mut paths) = (Vec::new(), Vec::new());
    for path in named {
        match sessions::named(path, context)? {
            Some(session) => found.push(session),
            None => paths.push(path.clone()),
        }
    }
    Ok((found, paths))
}

/// Verifies the logs of a session: at their sources, or from the archive where those are gone.
///
/// # Errors
/// When the archive cannot be read, or the session was forgotten.
pub(crate) fn verify(
    named: &Named,
    verifier: &Verifier,
    run: &mut VerifyRun,
    context: &Context,
) -> Result<(), Failure> {
    let home = context.existing_home()?;
    let unlock = Unlock::Ask(&PassphraseArgs::default());
    let archive = sessions::archive(&home, unlock, context)?;
    let id = sessions::find(&archive, &named.session)?;
    let id = id.ok_or_else(|| sessions::none(&named.session))?;
    let logs = match named.sub_agent.as_deref() {
        Some(name) => vec![sessions::log_of(&archive, &id, Some(name))?],
        None => archive.session(&id)?,
    };
    if let (true, Some(words)) = (logs.is_empty(), sessions::forgotten(&archive, &id)?) {
        return Err(Failure::new(format!("{id}: {words}")));
    }
    for log in &logs {
        let source = log.source();
        let source = source.filter(|path| context.fs.symlink_metadata(path).is_ok());
        let result = match &source {
            Some(path) => Some(verifier.verify_path(path)),
            None => verify_archived(log, &archive, verifier),
        };
        let place = match source {
            Some(_) => None,
            None => Some(format!("{} in the archive", log.name)),
        };
        match result {
            Some(FileResult::Reports(reports)) => {
                run.results.extend(reports.into_iter().map(|mut report| {
                    report.path = place.clone().unwrap_or(report.path);
                    report
                }));
            }
            Some(FileResult::Failed(error) | FileResult::NoRecord(error)) => run.errors.push(error),
            _ => {
                let failure = Failure::new(format!("{} is no record", log.name));
                run.errors
                    .push(PathError::of(None, &VerifyError::from(failure)));
            }
        }
    }
    Ok(())
}

/// Puts the reports of archived copies in the place of those about missing records: an agent deletes
/// its old sessions, and leaves their seals.
///
/// # Errors
/// When the archive or the home cannot be read.
pub(crate) fn look(
    reports: &mut [Report],
    verifier: &Verifier,
    context: &Context,
) -> Result<(), Failure> {
    let is_missing = |report: &&mut Report| report.verdict == Verdict::Missing;
    let missing: Vec<&mut Report> = reports.iter_mut().filter(is_missing).collect();
    let Some(home) = context.home()?.filter(|_| !missing.is_empty()) else {
        return Ok(());
    };
    let archive = sessions::archive(&home, Unlock::Never, context)?;
    let logs = archive.logs()?;
    let mut places = BTreeMap::<RecordId, _>::new();
    for log in &logs {
        for version in &log.versions {
            places.insert(version.record(), log);
        }
    }
    let forgotten = archive.forgotten()?;
    for report in missing {
        let Some(record) = report.record else {
            continue;
        };
        if let Some(log) = places.get(&record) {
            let Some(result) = verify_archived(log, &archive, verifier) else {
                continue;
            };
            let mut found = result.reports().iter();
            if let Some(found) = found.find(|found| found.record == Some(record)) {
                *report = found.clone();
                report.path = format!("{} in the archive", log.name);
            }
        } else if let Some(gone) = forgotten.iter().find(|gone| gone.records.contains(&record)) {
            let id = &gone.session;
            complain(&format!(
                "note: record {record} is of {id}, which was forgotten while its log was there; hint: threadseal forget {id} --yes"
            ));
        }
    }
    Ok(())
}
