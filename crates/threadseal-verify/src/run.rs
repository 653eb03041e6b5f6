//! All paths of one run: files, folders, stores and databases, and what links their records.

use crate::address::{self, Stores, without_secrets};
use crate::all_records::{AllRecords, Unread};
use crate::error::VerifyError;
use crate::inputs::{self, Candidate, Found};
use crate::output::{self, PathError, VerifyOutput};
use crate::request::{LineageRequest, VerifyRequest};
use crate::verifier::pruned::{self, Pruned};
use crate::verifier::{FileResult, Verifier};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use threadseal_core::record::{ExpectedHead, RecordId, RecordKind};
use threadseal_core::report::{Report, Verdict, combined_exit_code};
use threadseal_store::address::is_object_storage;
use threadseal_store::sys::path_text;
use threadseal_store::tombstones;

/// Looks after the first, where a record that was sealed meanwhile seems to be missing.
const SECOND_LOOKS: usize = 2;

/// The paths of a run.
#[derive(Debug, Clone)]
pub struct Paths {
    named: Vec<PathBuf>,
    has_folder: bool,
    are_many: bool,
}

impl Paths {
    /// The files, folders and addresses that were named.
    pub fn new(named: Vec<PathBuf>) -> Self {
        let has_folder = named.iter().any(|path| path.is_dir());
        let is_store = |path: &PathBuf| address::address_of(path).is_some_and(|a| !a.contains('#'));
        let has_store = named.iter().any(is_store);
        // Many files may be one record: a lineage.
        let are_many = named.len() > 1 || has_folder || has_store;
        Self {
            named,
            has_folder,
            are_many,
        }
    }

    /// Refuses a request about one record where these paths may be several. An expected head is no such request: a
    /// lineage has many files.
    ///
    /// # Errors
    /// When the request has a length or an older state.
    pub fn refuse_single(&self, has_length: bool, has_as_of: bool) -> Result<(), VerifyError> {
        let option = match (has_length, has_as_of) {
            (true, _) => "--expect-length",
            (_, true) => "--as-of",
            _ => return Ok(()),
        };
        match self.are_many {
            true => Err(VerifyError::invalid(format!(
                "{option} applies to one record: name one file"
            ))),
            false => Ok(()),
        }
    }

    /// Follows each path to its files; with `all`, also to the places of all records that a home knows.
    pub fn find(self, all: Option<AllRecords>, stores: &Stores) -> PathSet {
        let mut found = inputs::find(&self.named, stores);
        found.fold_stores(stores);
        let named = found.files.len();
        if let Some(all) = &all {
            let more = all.candidates(&found.files);
            found.files.extend(more);
        }
        PathSet {
            paths: self,
            found,
            named,
            all,
        }
    }
}

/// The files of a run.
#[derive(Debug)]
pub struct PathSet {
    paths: Paths,
    found: Found,
    /// How many of the files were named, or are in what was named.
    named: usize,
    all: Option<AllRecords>,
}

impl PathSet {
    /// How many bytes the files have.
    pub fn bytes(&self) -> u64 {
        self.found.files.iter().map(|file| file.bytes).sum()
    }
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct VerifyRun {
    /// One report for each claim.
    pub results: Vec<Report>,
    /// Paths without a verdict.
    pub errors: Vec<PathError>,
    /// Files of no known format inside folders.
    pub passed_over: u64,
}

impl VerifyRun {
    /// A run that failed as a whole.
    pub fn failed(error: &VerifyError) -> Self {
        Self {
            errors: vec![PathError::of(None, error)],
            ..Self::default()
        }
    }

    /// 0 verified, 1 evidence against a record, 2 no verdict, 3 not confirmed.
    pub fn exit_code(&self) -> u8 {
        let verdicts: Vec<Verdict> = self.results.iter().map(|report| report.verdict).collect();
        combined_exit_code(&verdicts, self.errors.len())
    }

    /// The results as `threadseal verify --json` prints them.
    pub fn output(&self) -> VerifyOutput<'_> {
        VerifyOutput::new(
            &self.results,
            &self.errors,
            self.passed_over,
            self.exit_code(),
        )
    }

    /// The bytes of [`VerifyRun::output`].
    pub fn to_json(&self) -> Vec<u8> {
        output::to_vec(&self.output())
    }

    fn add(&mut self, result: FileResult) {
        match result {
            FileResult::Reports(reports) => self.results.extend(reports),
            FileResult::PassedOver => self.passed_over += 1,
            FileResult::Elsewhere | FileResult::Link(..) => {}
            FileResult::NoRecord(error) | FileResult::Failed(error) => self.errors.push(error),
        }
    }

    /// Verifies the stores and databases that were named, and notes those without a record in `empty`. Could all be read?
    fn add_stores(
        &mut self,
        found: &Found,
        verifier: &Verifier,
        empty: &mut Vec<PathBuf>,
    ) -> Result<bool, VerifyError> {
        let mut all_read = true;
        let mut failed = |run: &mut Self, path, failure: &VerifyError| {
            all_read = false;
            run.errors.push(PathError::of(path, failure));
        };
        for address in &found.stores {
            match verifier.store_at(address) {
                Ok(reports) => {
                    if reports.is_empty() && !found.has_files_of(address) {
                        empty.push(without_secrets(address).into());
                    }
                    self.results.extend(reports);
                }
                Err(failure) => failed(self, Some(Path::new(address)), &failure),
            }
        }
        let thread = verifier.request().thread.as_ref();
        for (url, named) in &found.databases {
            let named = named.as_ref();
            if let (Some(named), Some(asked)) =
                (named, thread.filter(|asked| Some(*asked) != named))
            {
                let text = format!("the address names {named}, but --thread names {asked}");
                return Err(VerifyError::invalid(text));
            }
            match verifier.database(url, named.or(thread)) {
                Ok(results) => {
                    if !results.iter().any(FileResult::tells) {
                        empty.push(without_secrets(url).into());
                    }
                    results.into_iter().for_each(|result| self.add(result));
                }
                Err(failure) => failed(self, None, &failure),
            }
        }
        Ok(all_read)
    }

    /// An empty set is never a success, whatever else was named. A record of which nothing is left has its report.
    fn note_empty_paths(&mut self, empty: Vec<PathBuf>) {
        for path in empty {
            let is_inside = |report: &Report| place_of(&report.path).starts_with(&path);
            if !self.results.iter().any(is_inside) {
                self.errors.push(nothing_in(&path));
            }
        }
    }

    /// Takes out the exported pages that were met: none of them has a verdict yet, and each that stays
    /// counts as a path without one.
    pub fn take_pages(&mut self) -> Vec<PathBuf> {
        let pages = self.errors.extract_if(.., |error| error.is_page);
        pages
            .filter_map(|page| page.path)
            .map(PathBuf::from)
            .collect()
    }

    /// Notes that `files` files of no known format in `folder` are verified by the caller: the folder is
    /// not empty, and they are not passed over.
    pub fn add_elsewhere(&mut self, folder: &Path, files: u64) {
        let nothing = nothing_in(folder);
        self.errors.retain(|error| error.message != nothing.message);
        self.passed_over = self.passed_over.saturating_sub(files);
    }

    /// Replaces the error of a named path that is not there by reports of what was pruned there.
    fn explain_pruned(&mut self, pruned: &Pruned, verifier: &Verifier) -> Result<(), VerifyError> {
        for error in std::mem::take(&mut self.errors) {
            let absent = error.path.as_deref().map(Path::new);
            let absent = absent.filter(|path| !path.exists());
            let left =
                absent.map(|path| pruned.left_at(verifier.context(), &tombstones::place_of(path)));
            match left.transpose()?.filter(|left| !left.is_empty()) {
                Some(left) => self.results.extend(left),
                None => self.errors.push(error),
            }
        }
        Ok(())
    }
}

/// The path at which a report's record is: a file, or the folder that is a store.
fn place_of(path: &str) -> &Path {
    let store = path.strip_prefix("object+file:");
    let folder = store.map(|store| store.rsplit_once('#').map_or(store, |(folder, _)| folder));
    Path::new(folder.unwrap_or(path))
}

fn nothing_in(path: &Path) -> PathError {
    let path = path_text(path);
    PathError {
        message: format!("nothing to verify in {path}: no file of a known format"),
        path: Some(path),
        unbuilt: None,
        is_page: false,
    }
}

impl Verifier {
    /// Verifies all that `paths` name, and the links between the records that are there.
    ///
    /// # Errors
    /// When the request does not fit the paths, or the heads or the log are damaged.
    pub fn verify_all(&self, paths: Vec<PathBuf>) -> Result<VerifyRun, VerifyError> {
        let paths = Paths::new(paths);
        let request = self.request();
        paths.refuse_single(request.scroll.length.is_some(), request.as_of.is_some())?;
        self.verify_set(paths.find(None, self.stores()))
    }

    /// As [`Verifier::verify_all`], of paths that were followed to their files.
    ///
    /// # Errors
    /// As [`Verifier::verify_all`].
    pub fn verify_set(&self, set: PathSet) -> Result<VerifyRun, VerifyError> {
        let PathSet {
            paths,
            mut found,
            named,
            all,
        } = set;
        // A walk sees the objects in a folder of them, and no record.
        if paths.has_folder {
            found.add_stores(self.stores_in(&found.others)?, self.stores());
        }
        let verifier = self.for_set(&paths).among(found.files.len());
        let look = |candidate: &Candidate| verifier.verify_candidate(candidate);
        let mut results: Vec<FileResult> = match found.files.as_slice() {
            // A single record may use both halves of the machine.
            [only] => vec![look(only)],
            files => files.par_iter().map(look).collect(),
        };
        if let Some(progress) = self.progress() {
            progress.done();
        }
        let mut empty = empty_paths(&found, &results);
        let mut run = VerifyRun {
            errors: std::mem::take(&mut found.errors),
            passed_over: found.passed_over,
            ..VerifyRun::default()
        };
        for (path, error) in std::mem::take(&mut found.vanished) {
            if !verifier.never_sealed(&path) {
                run.errors.push(error);
            }
        }
        let all_read = run.add_stores(&found, &verifier, &mut empty)?;
        // One file does not show what else is missing.
        if paths.has_folder || all.is_some() {
            let (files, others) = (&found.files, &found.others);
            let (mut missing, mut unread) = verifier.missing(files, &mut results, others);
            for _ in 0..SECOND_LOOKS {
                if missing.is_empty() || !verifier.look_again(files, &mut results, &missing) {
                    break;
                }
                (missing, unread) = verifier.missing(files, &mut results, others);
            }
            run.results.extend(missing);
            run.errors.extend(unread);
        }
        let lineages = verifier.lineage_reports(&found.files, &mut results)?;
        if paths.are_many && self.request().expect_head.is_some() && lineages.is_empty() {
            return Err(VerifyError::invalid(
                "--expect-head applies to one record: name one file, or the folder of a lineage",
            ));
        }
        run.results.extend(lineages);
        if paths.has_folder || all.is_some() {
            let gone = verifier.gone_from_folders(&found, &results, &run.results)?;
            run.results.extend(gone);
        }
        let unread = Unread::of(&found.files, &results, named, found.unread || !all_read);
        let gone = verifier.transcripts_gone(&found, &results)?;
        results.into_iter().for_each(|result| run.add(result));
        run.results.extend(gone);
        let pruned = verifier.pruned_of(&paths, &found, all.as_ref(), &run.results)?;
        for report in &mut run.results {
            pruned.tell(verifier.context(), report)?;
        }
        run.explain_pruned(&pruned, &verifier)?;
        let Some(all) = all else {
            run.note_empty_paths(empty);
            return Ok(run);
        };
        // Of all known records, the named paths are only more places to search: a record there may have been pruned.
        let here = run.results.iter().filter_map(|report| report.record);
        let mut here: BTreeSet<RecordId> = here.chain(verifier.joined()).collect();
        run.results
            .extend(all.pruned(&verifier, &pruned, &mut here));
        let (elsewhere, unasked) = all.elsewhere(&verifier, &mut here);
        run.results.extend(elsewhere);
        run.errors.extend(unasked);
        let (missing, unknown) = all.missing(&verifier, &here, &unread);
        run.results.extend(missing);
        run.errors.extend(unknown);
        Ok(run)
    }

    /// A report of each scroll, ledger and lineage that was in the folders of `found`, and of which a file there
    /// shows that it is gone. `results` are those of the files, `others` the reports besides.
    fn gone_from_folders(
        &self,
        found: &Found,
        results: &[FileResult],
        others: &[Report],
    ) -> Result<Vec<Report>, VerifyError> {
        let pairs = found.files.iter().zip(results);
        let no_record = pairs.filter(|(_, seen)| match seen {
            FileResult::PassedOver | FileResult::NoRecord(_) => true,
            // Evidence against the file itself is enough.
            FileResult::Reports(reports) => reports
                .iter()
                .all(|report| report.record.is_none() && !report.verdict.is_evidence()),
            _ => false,
        });
        let paths = no_record.map(|(file, _)| file.path.clone());
        let paths: Vec<PathBuf> = paths.chain(found.others.iter().cloned()).collect();
        let reports = results.iter().flat_map(FileResult::reports).chain(others);
        let here = reports.filter_map(|report| report.record);
        let here: BTreeSet<RecordId> = here.chain(self.joined()).collect();
        let mut gone = self.gone_from_places(&paths, &here)?;
        gone.extend(self.newest_links_gone(&found.files)?);
        Ok(gone)
    }

    /// A report of each transcript that this host sealed in object storage that was named, and that is
    /// not among the records there. `results` are those of the files of `found`.
    fn transcripts_gone(
        &self,
        found: &Found,
        results: &[FileResult],
    ) -> Result<Vec<Report>, VerifyError> {
        let reports = results.iter().flat_map(FileResult::reports);
        let here: BTreeSet<RecordId> = reports.filter_map(|report| report.record).collect();
        let mut gone = Vec::new();
        for address in found.stores.iter().filter(|store| is_object_storage(store)) {
            // One that cannot be read may be any of them.
            let pairs = found.files.iter().zip(results);
            let mut unread = pairs.filter(|(_, seen)| matches!(seen, FileResult::Failed(_)));
            if unread.any(|(file, _)| file.is_in(address)) {
                continue;
            }
            let Ok(store) = self.stores().ledgers(address) else {
                continue;
            };
            let own = store.place();
            let kind = RecordKind::Transcript;
            gone.extend(self.gone_from(kind, address, own.as_deref(), &here)?);
        }
        Ok(gone)
    }

    /// The same verifier, asking lineages for the expected head, and single files only where `paths` are one.
    fn for_set(&self, paths: &Paths) -> Self {
        let request = self.request();
        let expected = request.expect_head;
        let head = expected.or(request.as_of.map(ExpectedHead::Head));
        self.with_request(VerifyRequest {
            expect_head: head.filter(|_| !paths.are_many),
            exact_head: request.exact_head || request.as_of.is_some(),
            lineage: LineageRequest {
                head: head.or(request.lineage.head),
                ..request.lineage.clone()
            },
            ..request.clone()
        })
    }

    /// The tombstones that concern a run.
    fn pruned_of(
        &self,
        paths: &Paths,
        found: &Found,
        all: Option<&AllRecords>,
        results: &[Report],
    ) -> Result<Pruned, VerifyError> {
        let absent = paths.named.iter().filter(|path| !path.exists()).cloned();
        let known = all.into_iter().flat_map(AllRecords::files).chain(absent);
        let mut places = pruned::places(&*self.host().fs, &found.files, known);
        let here = results.iter().filter_map(|report| report.record);
        let known = here.chain(all.into_iter().flat_map(AllRecords::records));
        places.extend(pruned::tombstones_of(self.context(), known));
        Pruned::at(self.context(), &places)
    }
}

/// The folders that were named and hold no file that is a record.
fn empty_paths(found: &Found, results: &[FileResult]) -> Vec<PathBuf> {
    let holds_none = |(_, files): &&(PathBuf, Range<usize>)| {
        let results = results.get(files.clone()).unwrap_or_default();
        !results.iter().any(FileResult::tells)
    };
    let folders = found.folders.iter().filter(holds_none);
    folders.map(|(folder, _)| folder.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home_log::HomeLog;
    use crate::hosts;
    use std::fs;
    use threadseal_core::digest::Digest;
    use threadseal_core::record::Head;
    use threadseal_core::trust::Trust;
    use threadseal_store::heads::Durability;
    use threadseal_store::host::{Host, Published};

    /// The errors of a run in `folder` from which the file or folder `name` vanished meanwhile.
    fn errors_without(host: &Host, folder: &Path, name: &str) -> usize {
        let now = host.clock.now().unwrap();
        let request = VerifyRequest::by(Trust::default());
        let verifier = Verifier::new(request, host.clone(), HomeLog::Never, now);
        let path = folder.join(name);
        fs::write(folder.join("kept.md"), "text\n").unwrap();
        fs::write(&path, "{}").unwrap();
        let set = Paths::new(vec![folder.to_owned()]).find(None, verifier.stores());
        assert!(set.found.files.iter().any(|file| file.path == path));
        fs::remove_file(&path).unwrap();
        verifier.verify_set(set).unwrap().errors.len()
    }

    fn seal(host: &Host, path: &Path, kind: RecordKind) {
        host.publish(&Published {
            head: Head {
                record: host.new_record().unwrap(),
                seq: 0,
                size: 2,
                line: Digest::of(b"{}"),
            },
            root: None,
            salts: None,
            key: None,
            kind,
            is_final: false,
            thread: None,
            path: Some(path),
            aliases: &[],
            durability: Durability::Durable,
        })
        .unwrap();
    }

    // T-CMD-21
    #[test]
    fn a_file_that_vanished_is_an_error_only_where_it_was_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let (host, folder) = (hosts::without_home(), folder.path());
        // The error is that nothing is left to verify.
        assert_eq!(errors_without(&host, folder, ".threadseal-1-2.tmp"), 1);
        fs::write(folder.join("kept.json"), "{\"a\": 1}").unwrap();
        assert_eq!(errors_without(&host, folder, "registry.db-journal"), 0);
        // Seals are beside it.
        for beside in ["log.jsonl.seal", "log.jsonl.head"] {
            fs::write(folder.join(beside), "").unwrap();
            let before = errors_without(&host, folder, "other.jsonl");
            assert_eq!(errors_without(&host, folder, "log.jsonl"), before + 1);
            fs::remove_file(folder.join(beside)).unwrap();
        }
        // This host sealed it.
        for (name, kind) in [
            ("a.md", RecordKind::Document),
            ("b.jsonl", RecordKind::Observed),
            ("c.jsonl", RecordKind::Transcript),
        ] {
            fs::write(folder.join(name), "{}").unwrap();
            seal(&host, &folder.join(name), kind);
            assert_eq!(errors_without(&host, folder, name), 1, "{name}");
        }
    }
}
