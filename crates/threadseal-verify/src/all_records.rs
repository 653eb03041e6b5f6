//! `verify --all`: every record that this home knows, in any place (`spec/report.md` §4).
//!
//! ```text
//! store of heads ─┐                 ┌─ place ─► looked at there
//!                 ├─► all records ──┤
//! log of the home ┘                 └─ none, or nothing there ─► among the paths that were named, by record id
//! ```
//! What has no place in the store of heads may have one in the private index beside the log: files, folders and SQLite files are looked
//! into, other stores must be named. A place only leads to a record: one that was moved is found in the folders that are
//! named, under any name.

use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::inputs::Candidate;
use crate::output::PathError;
use crate::verifier::pruned::Pruned;
use crate::verifier::{FileResult, Verifier, is_openable, nothing_at, report_missing};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_formats::ledger::record_in_place;
use threadseal_store::address;
use threadseal_store::heads::{HeadStore as _, RecordKind, StoredHead};
use threadseal_store::home::Home;
use threadseal_store::observer::seal_path;
use threadseal_store::sys::text_path;

/// All records that a home knows.
#[derive(Debug)]
pub struct AllRecords {
    known: Vec<StoredHead>,
    /// Where those lie that have no place there, by the private index.
    places: BTreeMap<RecordId, Vec<String>>,
    /// Was more named to look in?
    searched: bool,
}

impl AllRecords {
    /// Asks the store of heads of `home` and its log.
    ///
    /// # Errors
    /// When either cannot be read: a missing record could then not be noticed.
    pub fn of(home: &Home, log: &HomeLog, searched: bool) -> Result<Self, VerifyError> {
        let mut known = BTreeMap::<RecordId, StoredHead>::new();
        let heads = home.heads();
        for logged in heads.all()? {
            let record = logged.head.record;
            known.extend(heads.fetch(&record)?.map(|stored| (record, stored)));
        }
        match log {
            HomeLog::There(log) if !log.standing().vouches() => {
                let text = "not all records are known: the log was rolled back or cannot be read; hint: threadseal log status";
                return Err(VerifyError::refused(text));
            }
            HomeLog::There(log) => {
                for at in log.records()? {
                    let record = at.logged.head.record;
                    known
                        .entry(record)
                        .or_insert_with(|| StoredHead::of_log(at));
                }
            }
            HomeLog::Missing(why) | HomeLog::Damaged(why) => {
                return Err(VerifyError::refused(format!(
                    "not all records are known: {why}"
                )));
            }
            HomeLog::Never => {}
        }
        let mut places = BTreeMap::new();
        for (record, known) in &known {
            let own = known
                .path_hint
                .iter()
                .filter(|hint| address::is_address(hint));
            let noted = match log {
                HomeLog::There(log) if known.path_hint.is_none() => log.places_of(record),
                _ => Vec::new(),
            };
            let noted = noted.into_iter().filter(|place| is_openable(place));
            places.insert(*record, own.cloned().chain(noted).collect());
        }
        Ok(Self {
            known: known.into_values().collect(),
            places,
            searched,
        })
    }

    /// Which these are.
    pub fn records(&self) -> impl Iterator<Item = RecordId> {
        self.known.iter().map(|known| known.head.record)
    }

    /// The files that they lay in last, as far as those are known.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.known.iter().filter_map(place_of);
        let noted = self.places.values().flatten();
        let noted = noted.filter_map(|place| text_path(place));
        own.chain(noted.filter(|place| place.is_absolute()))
    }

    /// A report of each record that none of `here` is and that was pruned.
    pub fn pruned(
        &self,
        verifier: &Verifier,
        pruned: &Pruned,
        here: &mut BTreeSet<RecordId>,
    ) -> Vec<Report> {
        let mut reports = Vec::new();
        for known in &self.known {
            if !here.contains(&known.head.record)
                && let Some(report) = pruned.report(verifier.context(), known)
            {
                here.insert(known.head.record);
                reports.push(report);
            }
        }
        reports
    }

    /// Reports of the records that the index leads to and that none of `here` is; and those that are unknown until their
    /// store is named.
    pub fn elsewhere(
        &self,
        verifier: &Verifier,
        here: &mut BTreeSet<RecordId>,
    ) -> (Vec<Report>, Vec<PathError>) {
        let mut wanted: BTreeMap<&str, Vec<&StoredHead>> = BTreeMap::new();
        for known in &self.known {
            let record = known.head.record;
            for place in self.places.get(&record).into_iter().flatten() {
                if !here.contains(&record) {
                    wanted.entry(place).or_default().push(known);
                }
            }
        }
        let (mut reports, mut unread) = (Vec::new(), Vec::new());
        let mut request: Vec<(&str, &StoredHead, Option<String>)> = Vec::new();
        for (place, known) in wanted {
            match verifier.look_into(place) {
                Ok(Some(found)) => {
                    for report in found {
                        let of = |known: &&StoredHead| is_of(&report, known, place);
                        if let Some(record) = known.iter().find(|k| of(k)).map(|k| k.head.record)
                            && here.insert(record)
                        {
                            reports.push(report);
                        }
                    }
                }
                Ok(None) => request.extend(known.into_iter().map(|known| (place, known, None))),
                Err(why) => request.extend(
                    known
                        .into_iter()
                        .map(|known| (place, known, Some(why.to_string()))),
                ),
            }
        }
        here.extend(verifier.joined());
        for (place, known, why) in request {
            let (kind, record, seq) = (known.kind, known.head.record, known.head.seq);
            if here.insert(record) {
                let why = why.map_or(String::new(), |why| format!(" ({why})"));
                unread.push(PathError {
                    path: Some(place.to_owned()),
                    message: format!(
                        "{kind} {record} was sealed in {place} up to seal {seq}, which was not searched{why}: name it"
                    ),
                    unbuilt: None,
                    is_page: false,
                });
            }
        }
        (reports, unread)
    }

    /// The files in the places of the records, without those that are verified already.
    pub fn candidates(&self, already: &[Candidate]) -> Vec<Candidate> {
        let mut taken: BTreeSet<PathBuf> = already.iter().map(|file| real(&file.path)).collect();
        let ledgers: BTreeSet<RecordId> = self.of_kind(RecordKind::Ledger);
        let mut found = Vec::new();
        for known in &self.known {
            let Some(path) = place_of(known) else {
                continue;
            };
            let mut there = vec![path.clone()];
            if known.kind == RecordKind::Observed {
                there.push(seal_path(&path));
            }
            there.extend(ledger_beside(&path, known, &ledgers));
            for path in there {
                let file = path.metadata().ok().filter(std::fs::Metadata::is_file);
                if let (Some(file), true) = (file, taken.insert(real(&path))) {
                    found.push(Candidate {
                        path,
                        named: false,
                        bytes: file.len(),
                    });
                }
            }
        }
        found
    }

    /// A report of each record that none of `here` is. One that never had a place is not known to be gone, unless
    /// it was searched for; nor is one whose place, or what may be it, is in `unread`.
    pub fn missing(
        &self,
        verifier: &Verifier,
        here: &BTreeSet<RecordId>,
        unread: &Unread,
    ) -> (Vec<Report>, Vec<PathError>) {
        let (mut missing, mut unknown) = (Vec::new(), Vec::new());
        let gone = |known: &&StoredHead| !here.contains(&known.head.record);
        for known in self.known.iter().filter(gone) {
            match self.why_gone(known, unread) {
                Ok(text) => {
                    let path = known.path_hint.clone().unwrap_or_default();
                    missing.push(report_missing(verifier.context(), &path, known, text));
                }
                Err(failure) => unknown.push(PathError::of(place_of(known).as_deref(), &failure)),
            }
        }
        (missing, unknown)
    }

    /// The text about a record that was not found.
    ///
    /// # Errors
    /// When it is not known to be gone.
    fn why_gone(&self, known: &StoredHead, unread: &Unread) -> Result<String, VerifyError> {
        let (kind, record, seq) = (known.kind, known.head.record, known.head.seq);
        let Some(path) = place_of(known) else {
            return match self.searched {
                true if unread.among_named => Err(VerifyError::refused(format!(
                    "{kind} {record} was not found, and a part of the named paths could not be read"
                ))),
                true => Ok(format!(
                    "this host knows seal {seq} of it, but it is not in the named paths"
                )),
                false if self.has_place(&record) => Ok(format!(
                    "this host sealed it up to seal {seq}, but it is in none of the places where it was sealed"
                )),
                false => Err(VerifyError::refused(format!(
                    "no place of {kind} {record} is known: name its folder or store"
                ))),
            };
        };
        if unread.holds(&path) || (kind == RecordKind::Observed && unread.holds(&seal_path(&path)))
        {
            let text = format!("the place where {kind} {record} was sealed could not be read");
            return Err(VerifyError::refused(text).about(&path));
        }
        nothing_at(&path)?;
        Ok(match self.searched {
            false => format!("this host sealed it here up to seal {seq}, but it is missing"),
            true => format!(
                "this host sealed it here up to seal {seq}, but it is missing, also from the named paths{}",
                if unread.among_named {
                    " that could be read"
                } else {
                    ""
                }
            ),
        })
    }

    fn has_place(&self, record: &RecordId) -> bool {
        self.places
            .get(record)
            .is_some_and(|places| !places.is_empty())
    }

    fn of_kind(&self, kind: RecordKind) -> BTreeSet<RecordId> {
        let of_kind = self.known.iter().filter(|known| known.kind == kind);
        of_kind.map(|known| known.head.record).collect()
    }
}

/// What could not be looked at just now, and may be a record.
#[derive(Debug, Default)]
pub struct Unread {
    places: BTreeSet<PathBuf>,
    /// Was any of it named, or in what was named?
    among_named: bool,
}

impl Unread {
    /// Of `candidates` those that were `seen` to fail, the first `named` of which were named or in what was named; and
    /// whether anything else of that could not be looked at.
    pub fn of(
        candidates: &[Candidate],
        seen: &[FileResult],
        named: usize,
        else_unread: bool,
    ) -> Self {
        let is_unread = |seen: &FileResult| matches!(seen, FileResult::Failed(_));
        let pairs = candidates.iter().zip(seen);
        let failed = pairs.filter(|(_, seen)| is_unread(seen));
        Self {
            places: failed.map(|(candidate, _)| real(&candidate.path)).collect(),
            among_named: else_unread || seen.iter().take(named).any(is_unread),
        }
    }

    fn holds(&self, path: &Path) -> bool {
        self.places.contains(&real(path))
    }
}

/// Where a file really is, as far as that is known.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Is this a report of the known record, which has this place? The head of an unsigned ledger is
/// kept under a name of its run and its place.
fn is_of(report: &Report, known: &StoredHead, place: &str) -> bool {
    let is_ledger = known.kind == RecordKind::Ledger;
    report.record.is_some_and(|record| {
        let in_place = is_ledger.then(|| record_in_place(&record, place));
        [Some(record), in_place].contains(&Some(known.head.record))
    })
}

/// Where a record lay last, if that is written down.
pub fn place_of(known: &StoredHead) -> Option<PathBuf> {
    known.path_hint.as_deref().and_then(text_path)
}

/// The ledger of a thread beside its transcript: ledgers have no places of their own.
fn ledger_beside(path: &Path, known: &StoredHead, ledgers: &BTreeSet<RecordId>) -> Option<PathBuf> {
    if known.kind != RecordKind::Transcript {
        return None;
    }
    let run = threadseal_formats::ledger::RunId::parse(&known.head.record.to_string()).ok()?;
    let is_known = ledgers.contains(&run.record_id());
    is_known.then(|| path.with_file_name(format!("ledger_{run}.jsonl")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::digest::Digest;
    use threadseal_core::record::Head;
    use threadseal_core::time::Timestamp;

    fn known(path: Option<&Path>) -> StoredHead {
        StoredHead {
            head: Head {
                record: RecordId::from_bytes([1; 32]),
                seq: 0,
                size: 1,
                line: Digest::of(b"line"),
            },
            root: None,
            salts: None,
            key: None,
            kind: RecordKind::Observed,
            is_final: false,
            thread: None,
            first_seen: Timestamp::UNIX_EPOCH,
            updated: Timestamp::UNIX_EPOCH,
            path_hint: path.map(|path| path.to_str().unwrap().to_owned()),
            aliases: Vec::new(),
            logged: None,
            vouches: true,
        }
    }

    // T-TRA-17
    #[test]
    fn a_record_is_gone_only_where_its_place_could_be_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let is_gone = |known: StoredHead, searched, unread: &Unread| {
            let all = AllRecords {
                known: vec![known],
                places: BTreeMap::new(),
                searched,
            };
            all.why_gone(&all.known[0], unread).is_ok()
        };
        let failed = |path: PathBuf| {
            let candidate = Candidate {
                path,
                named: false,
                bytes: 0,
            };
            let failed = FileResult::Failed(PathError::of(None, &VerifyError::refused("no")));
            Unread::of(&[candidate], &[failed], 1, false)
        };
        let none = Unread::default();
        for searched in [false, true] {
            assert!(is_gone(known(Some(&path)), searched, &none));
            for unread in [failed(path.clone()), failed(seal_path(&path))] {
                assert!(!is_gone(known(Some(&path)), searched, &unread));
            }
            // A file elsewhere that cannot be read is no evidence about this place.
            let elsewhere = failed(folder.path().join("other"));
            assert!(is_gone(known(Some(&path)), searched, &elsewhere));
            assert!(!is_gone(known(None), searched, &elsewhere));
        }
        assert!(is_gone(known(None), true, &none));
        std::os::unix::fs::symlink("circle", folder.path().join("circle")).unwrap();
        let inside = folder.path().join("circle/s.jsonl");
        assert!(!is_gone(known(Some(&inside)), true, &none));
    }
}
