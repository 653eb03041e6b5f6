//! Databases with sessions: only sessions that changed are exported and sealed.
//!
//! ```text
//! opencode.db-wal changed ─► opencode.db ─► stamps of its sessions ─► those that differ ─► sealed
//! ```
//! A database of an agent that is not understood is a refusal, not a file that is passed over.

use super::Watch;
use crate::database_seal::{self, Taking};
use crate::exit::Failure;
use crate::output::Out;
use crate::session_seal::SessionSealed;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_capture::database::{self, Found, Stamps};
use threadseal_store::read::Stamp;
use threadseal_store::sys::path_text;

/// What SQLite calls the files beside a database.
const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A database when it was last sealed.
#[derive(Default)]
pub(super) struct Known {
    /// The state of its files.
    files: String,
    /// The stamps of its sessions that were sealed.
    sessions: Stamps,
}

/// The paths, with a database in the place of each file beside it.
pub(super) fn without_side_files(paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let database = |path: &PathBuf| {
        let text = path.to_str()?;
        let ending = SIDE_FILES.iter().find(|ending| text.ends_with(**ending))?;
        let database = PathBuf::from(text.strip_suffix(*ending)?);
        database.is_file().then_some(database)
    };
    let paths = paths.iter();
    paths
        .map(|path| database(path).unwrap_or_else(|| path.clone()))
        .collect()
}

impl Watch<'_> {
    /// Is it a database? A file that is as it was last seen is only one if it was one then.
    pub(super) fn is_database(&self, path: &Path) -> bool {
        if self.databases.contains_key(path) {
            return true;
        }
        let found = self.sealer.host().fs.metadata(path).ok().map(Stamp::from);
        let is_new = found.is_some() && self.seen.get(path).copied() != found;
        is_new && database::looks_like(path).unwrap_or(false)
    }

    /// Seals the sessions that changed; true if that made a seal.
    pub(super) fn look_at_database(&mut self, path: &Path, out: &mut Out) -> bool {
        let fs = std::sync::Arc::clone(&self.sealer.host().fs);
        let files = database::database_stamp(&*fs, path);
        if self
            .databases
            .get(path)
            .is_some_and(|known| known.files == files)
        {
            return false;
        }
        if let Ok(found) = fs.metadata(path) {
            self.seen.insert(path.to_owned(), Stamp::from(found));
        }
        let stamps = match database::find(path) {
            Ok((Found::Kind(_), stamps)) => stamps,
            Ok((Found::Other(why), _)) => {
                self.pass_over(path, &why);
                return false;
            }
            Err(error) => {
                self.refuse(path, &Failure::new(error.to_string()));
                return false;
            }
        };
        self.passed_over.remove(path);
        self.settle(path);
        let known = self.databases.entry(path.to_owned()).or_default();
        let changed = stamps.iter();
        // One that was refused is tried again, whatever the reason was.
        let changed = changed.filter(|(session, stamp)| {
            let about = database_seal::about(&path_text(path), session);
            known.sessions.get(*session) != Some(*stamp)
                || self.refused.contains_key(Path::new(&about))
        });
        let changed: Vec<(String, String)> = changed
            .map(|(session, stamp)| (session.clone(), stamp.clone()))
            .collect();
        let (mut any, mut all) = (false, true);
        for (session, stamp) in changed {
            match self.seal_session(path, &session, out) {
                Ok(is_new) => {
                    any |= is_new;
                    let known = self.databases.entry(path.to_owned()).or_default();
                    known.sessions.insert(session, stamp);
                }
                // The reason is in `refused`. The next look tries again.
                Err(_) => all = false,
            }
        }
        if let Some(known) = self.databases.get_mut(path).filter(|_| all) {
            known.files = files;
        }
        any
    }

    /// A database without sessions of a known agent. Where an agent keeps its own, or where one had
    /// sessions before, that is a refusal.
    fn pass_over(&mut self, path: &Path, why: &str) {
        let is_of_agent = self.folders.iter().any(|folder| {
            let logs = folder.logs.as_ref();
            logs.is_some_and(|logs| logs.names(path))
        });
        if is_of_agent || self.databases.contains_key(path) {
            return self.refuse(path, &Failure::new(database_seal::unknown(path, why)));
        }
        self.passed_over.insert(path.to_owned());
    }

    /// Seals one session; true if that made a seal. What cannot be sealed is reported once.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn seal_session(
        &mut self,
        path: &Path,
        session: &str,
        out: &mut Out,
    ) -> Result<bool, String> {
        let about = PathBuf::from(database_seal::about(&path_text(path), session));
        match self.try_session(path, session) {
            Ok(sealed) => {
                self.settle(&about);
                let SessionSealed::Added(head, lines) = sealed.sealed else {
                    return Ok(false);
                };
                self.report_seal(&sealed.log, &head, lines, out);
                Ok(true)
            }
            Err(why) => {
                self.refuse(&about, &Failure::new(why.clone()));
                Err(why)
            }
        }
    }

    fn try_session(
        &mut self,
        path: &Path,
        session: &str,
    ) -> Result<database_seal::DatabaseSealed, String> {
        let seal = |watch: &Self| {
            let sealer = watch.sealer.sessions();
            database_seal::seal(sealer, path, session, Taking::default(), watch.context())
        };
        if let Ok(sealed) = seal(self) {
            return Ok(sealed);
        }
        self.renew().map_err(|failure| failure.to_string())?;
        seal(self).map_err(|failure| failure.about(path).to_string())
    }

    /// Seals what a hook names: a session of a database, or all of them.
    #[cfg(unix)]
    pub(super) fn seal_named(
        &mut self,
        path: &Path,
        session: Option<&str>,
        out: &mut Out,
    ) -> Result<(), String> {
        let all = match session {
            Some(session) => vec![session.to_owned()],
            None => {
                let found = database_seal::sessions(path);
                let found = found.map_err(|failure| failure.to_string());
                if let Err(why) = &found {
                    self.refuse(path, &Failure::new(why.clone()));
                }
                found?.1.into_keys().collect()
            }
        };
        let mut any = false;
        for session in all {
            any |= self.seal_session(path, &session, out)?;
        }
        if any {
            self.context().settle_log();
        }
        Ok(())
    }
}
