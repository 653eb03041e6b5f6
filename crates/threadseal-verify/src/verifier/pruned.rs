//! Records that this host pruned (`spec/host-log.md`, "Tombstones").
//!
//! ```text
//! RECORD.tombstone, or, of a record in a store, $THREADSEAL_HOME/tombstones/<record>.tombstone
//!                  ─► signed by its key ─► the log has the same entry ─► no later seal is known ─► pruned, not missing
//! ```
//! A tombstone alone proves nothing: every holder of a key can sign one. A record without a tombstone in the log of this host is missing.
//! A log that went back proves neither: a record with a tombstone by a trusted key is then neither pruned nor missing, but open.

use super::context::Context;
use super::displacement;
use super::log::LOG_MISSING;
use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::inputs::Candidate;
use crate::output::TOMBSTONE;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{CheckResult, Completeness, Finding, FindingCode, Report, Verdict};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::trust::{Purpose, ScopeFormat};
use threadseal_store::heads::StoredHead;
use threadseal_store::sys::{Fs, led_to, path_text};
use threadseal_store::tombstones::{self, Found, TOMBSTONE_ENDING};

/// Records of which a tombstone and the log say that they were pruned.
#[derive(Debug, Default)]
pub struct Pruned(BTreeMap<RecordId, Grave>);

#[derive(Debug)]
struct Grave {
    head: Head,
    /// Is no later seal known?
    is_last: bool,
    tombstone: String,
    /// Who, when and why.
    said: String,
    /// Does only the tombstone say so, because the log was rolled back or cannot be read?
    is_doubted: bool,
}

/// Where tombstones may lie: those among `files`, those of what was named, and those of records `known` by their places.
pub fn places(
    fs: &dyn Fs,
    files: &[Candidate],
    known: impl Iterator<Item = PathBuf>,
) -> Vec<PathBuf> {
    let is_one = |path: &Path| path.to_string_lossy().ends_with(TOMBSTONE_ENDING);
    let among = files.iter().filter(|file| is_one(&file.path));
    let named = files
        .iter()
        .filter(|file| file.named && !is_one(&file.path));
    let beside = named.map(|file| tombstones::place_of(&led_to(fs, &file.path)));
    let known = known.map(|path| tombstones::place_of(&path));
    let mut all: Vec<PathBuf> = among.map(|file| file.path.clone()).collect();
    all.extend(beside.chain(known));
    all.sort();
    all.dedup();
    all
}

/// Where the tombstones of these records are, if they were pruned in stores.
pub(crate) fn tombstones_of(
    context: &Context,
    records: impl Iterator<Item = RecordId>,
) -> Vec<PathBuf> {
    let folder = context.tombstones.as_deref();
    // Most homes have none.
    let folder = folder.filter(|folder| context.host.fs.metadata(folder).is_ok());
    let of = |folder: &Path| {
        let places = records.map(|record| tombstones::place_in(folder, &record));
        places.collect()
    };
    folder.map_or_else(Vec::new, of)
}

/// Those of `missing` that this host did not prune: of the others the places were free.
///
/// # Errors
/// As [`Pruned::at`].
pub(super) fn explain_pruned(
    context: &Context,
    missing: Vec<Report>,
) -> Result<Vec<Report>, VerifyError> {
    let places = missing.iter().map(|report| Path::new(&report.path));
    let places: Vec<PathBuf> = places.map(tombstones::place_of).collect();
    let pruned = Pruned::at(context, &places)?;
    let is_pruned = |record: &RecordId| pruned.explain_pruned(record, None).is_some();
    let missing = missing.into_iter();
    let missing = missing.filter(|report| !report.record.as_ref().is_some_and(is_pruned));
    Ok(missing.collect())
}

impl Pruned {
    /// Reads the tombstones at `places`, and keeps those that the log of the home has, too; where the log was rolled back or cannot be read, those
    /// that a trusted key signed.
    ///
    /// # Errors
    /// When there is one, and the log or the heads cannot be read.
    pub(crate) fn at(context: &Context, places: &[PathBuf]) -> Result<Self, VerifyError> {
        let log = match &context.log {
            HomeLog::Never => return Ok(Self::default()),
            HomeLog::There(log) => Some(log).filter(|log| log.standing().vouches()),
            HomeLog::Missing(_) | HomeLog::Damaged(_) => None,
        };
        let read = |place: &PathBuf| match tombstones::read(&*context.host.fs, place) {
            Ok(Found::Tombstone(found)) => Some((place.clone(), *found)),
            // What cannot be read speaks for nothing.
            Ok(Found::Nothing | Found::Other) | Err(_) => None,
        };
        let found: Vec<_> = places.iter().filter_map(read).collect();
        if found.is_empty() {
            return Ok(Self::default());
        }
        let mut logged: BTreeMap<RecordId, Vec<LoggedHead>> = BTreeMap::new();
        for entry in log.map_or(Ok(Vec::new()), |log| log.tombstones())? {
            logged.entry(entry.head.record).or_default().push(entry);
        }
        let mut graves = BTreeMap::new();
        for (place, tombstone) in found {
            let statement = tombstone.statement();
            let is_doubted = log.is_none();
            if is_doubted && !is_trusted(context, tombstone.public()) {
                continue;
            }
            let why = match statement.why.as_str() {
                "" => String::new(),
                why => format!(": {why}"),
            };
            let said = format!("{} on {}{why}", statement.by, statement.at.to_iso_seconds());
            for record in &statement.records {
                let (id, head) = (record.head.record, record.head);
                let says_log = logged.get(&id).is_some_and(|known| known.contains(record));
                if !says_log && !is_doubted {
                    continue;
                }
                let stored = context.host.heads.fetch(&id)?;
                let grave = Grave {
                    head,
                    is_last: stored.is_some_and(|stored| is_newest(&stored, &head)),
                    tombstone: path_text(&place),
                    said: said.clone(),
                    is_doubted,
                };
                graves.insert(id, grave);
            }
        }
        Ok(Self(graves))
    }

    /// Why this record is not there, if it was pruned and had no other seal later, `named` among them.
    pub(super) fn explain_pruned(
        &self,
        record: &RecordId,
        named: Option<&Head>,
    ) -> Option<Finding> {
        let grave = self.last(record, named)?;
        let text = format!("{} was pruned by {}", grave.head, grave.said);
        (!grave.is_doubted).then(|| Finding::note(FindingCode::Pruned, text))
    }

    fn last(&self, record: &RecordId, named: Option<&Head>) -> Option<&Grave> {
        let grave = self.0.get(record).filter(|grave| grave.is_last)?;
        let covers = named.is_none_or(|named| named.seq <= grave.head.seq);
        covers.then_some(grave)
    }

    /// A report of a record that is `known` and was pruned.
    pub(crate) fn report(&self, context: &Context, known: &StoredHead) -> Option<Report> {
        let grave = self.last(&known.head.record, Some(&known.head))?;
        // What has no place of its own is shown by what is left of it.
        let path = known.path_hint.as_ref().unwrap_or(&grave.tombstone);
        let mut report = displacement::report_of(context, path, known);
        report.head = Some(grave.head);
        let why = Some(grave.tombstone.clone());
        if let Some(finding) = self.explain_pruned(&known.head.record, Some(&known.head)) {
            report.completeness = Completeness::Final;
            report.check(TOMBSTONE, CheckResult::Pass, why);
            report.find(finding);
        } else {
            report.check(TOMBSTONE, CheckResult::Skipped, why);
            let text = format!(
                "its tombstone states that it was pruned by {}; the log, which must confirm this, was rolled back or cannot be read. Repair the log first; \
                 hint: threadseal prune then writes its entry again",
                grave.said
            );
            report.downgrade(
                Verdict::Open,
                Finding::warning(FindingCode::PrunedUnproved, text),
            );
        }
        Some(report)
    }

    /// Reports of what was pruned and has its tombstone at `place`.
    ///
    /// # Errors
    /// When the heads are damaged.
    pub(crate) fn left_at(
        &self,
        context: &Context,
        place: &Path,
    ) -> Result<Vec<Report>, VerifyError> {
        let place = path_text(place);
        let mut reports = Vec::new();
        for (record, _) in self.0.iter().filter(|(_, grave)| grave.tombstone == place) {
            let known = context.host.heads.fetch(record)?;
            reports.extend(known.and_then(|known| self.report(context, &known)));
        }
        Ok(reports)
    }

    /// Reports of a record that is there that it should not be, and of a missing one that it was
    /// pruned.
    ///
    /// # Errors
    /// When the heads are damaged.
    pub(crate) fn tell(&self, context: &Context, report: &mut Report) -> Result<(), VerifyError> {
        let Some((record, grave)) = report
            .record
            .and_then(|record| Some((record, self.0.get(&record)?)))
        else {
            return Ok(());
        };
        let mut findings = report.findings.iter();
        let has_seals = findings.any(|found| found.code == LOG_MISSING);
        if report.verdict == Verdict::Missing {
            let stored = context.host.heads.fetch(&record)?;
            let pruned = stored.and_then(|known| self.report(context, &known));
            let Some(pruned) = pruned else {
                return Ok(());
            };
            let path = std::mem::take(&mut report.path);
            *report = pruned;
            report.path = path;
            if !has_seals {
                return Ok(());
            }
        }
        if grave.is_doubted {
            return Ok(());
        }
        let (tombstone, said) = (&grave.tombstone, &grave.said);
        let text = format!(
            "it was pruned by {said} ({tombstone}), but still exists; hint: threadseal prune finishes the interrupted deletion"
        );
        report.find(Finding::warning(FindingCode::PrunedButPresent, text));
        Ok(())
    }
}

/// Does the trust vouch for the key, whether or not it is one that was asked for? A record may be pruned by another key than its own.
fn is_trusted(context: &Context, key: &PublicKey) -> bool {
    let purpose = Purpose {
        usage: KeyUsage::Native,
        format: ScopeFormat::Transcript,
        thread: None,
        evidence: None,
        heads: &[],
    };
    let trust = &context.request.trust;
    let judged = [
        trust.judge(key, &purpose, context.now),
        trust.judge_unpinned(key, &purpose, context.now),
    ];
    judged.iter().any(|judged| judged.standing.counts())
}

/// Is `head` the newest seal that the home and its log know of the record?
pub fn is_newest(stored: &StoredHead, head: &Head) -> bool {
    let logged = stored.logged.as_ref();
    stored.head == *head && logged.is_none_or(|at| at.logged.head == *head)
}
