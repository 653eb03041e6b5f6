//! [`WitnessFiles`]: what a witness remembers of the logs it watches (`spec/tlog.md`, "A witness on a disk").
//!
//! ```text
//! request ─► lock of the log ─► judge against `last` ─► `last` replaced, durable ─► sign ─► `checkpoint` ─► answer
//!                                   └ refused: two trees of one size are kept as evidence
//! ```
//! Laws:
//! * Nothing is signed before the tree, and the time, that are signed stand durably in `last`. So whatever fails, no two
//!   trees of one log are signed of which one does not continue the other.
//! * The times of one log do not go back.
//! * A log whose `last` is lacking or damaged is not cosigned: the earlier tree is not known any more.
//!
//! The folder as a whole can go back, when an older copy is put in its place: a witness that was restored from a copy must
//! continue under a new key.

#[cfg(test)]
mod tests;

use crate::witness::last::{self, Last, read_if_there};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::Signer;
use threadseal_core::limits::{MAX_NOTE_BYTES, MAX_POLICY_BYTES};
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::{KeyName, NoteSignature};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::checkpoint::Origin;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_core::tlog::cosignature::{CosignatureTime, MAX_CLOCK_STEP_SECONDS};
use threadseal_core::tlog::policy::{Policy, PolicyLog};
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_core::tlog::witness::{Accepted, AddCheckpoint, Refusal, judge};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::clock::Clock;
use threadseal_store::lock::Exclusive;
use threadseal_store::sys::{self, Fs};

/// Conflicts that are kept of one log; the first one convicts it already.
pub const MAX_KEPT_CONFLICTS: usize = 64;

const LOGS: &str = "logs";
const LOCK: &str = "lock";
const CHECKPOINT: &str = "checkpoint";
const CONFLICT_ENDING: &str = ".tlog-conflict";

/// The key of a witness, of the usage `witness`, under the name by which it is known.
#[derive(Clone)]
pub struct WitnessKey {
    /// The name in its lines.
    pub name: KeyName,
    /// What signs.
    pub signer: Arc<dyn Signer + Send + Sync>,
}

impl WitnessKey {
    /// What others know it by.
    pub fn verifier(&self) -> VerifierKey {
        VerifierKey::of_witness(self.name.clone(), *self.signer.public_key())
    }
}

impl fmt::Debug for WitnessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WitnessKey").field(&self.verifier()).finish()
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// The witness's line; its tree and time are durable.
    Cosigned(NoteSignature),
    /// It does not cosign.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Where it is kept that the log signed two trees of one size, where the request shows that.
        evidence: Option<PathBuf>,
    },
}

/// What is remembered of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The tree that was cosigned last, and when.
    pub last: Option<(TreeHead, CosignatureTime)>,
    /// Files that convict the log.
    pub conflicts: Vec<PathBuf>,
}

/// The files of a witness.
#[derive(Debug, Clone)]
pub struct WitnessFiles {
    fs: Arc<dyn Fs>,
    root: PathBuf,
}

impl WitnessFiles {
    /// Those of a home.
    pub fn of_home(fs: Arc<dyn Fs>, home: &Path) -> Self {
        Self {
            fs,
            root: home.join("witness"),
        }
    }

    /// Watches a log from now on, by one more key of it; false when that key is known already. What was cosigned of
    /// the log before stays.
    ///
    /// # Errors
    /// Kind `Key` when the key cannot be a log's, `InvalidInput` when the address has blanks or there are too many logs,
    /// `External` when the system fails or a file is damaged.
    pub fn watch(&self, key: &VerifierKey, url: Option<&str>) -> Result<bool, Error> {
        if !key.is_of_log() {
            return Err(Error::key("that key is not the key of a log"));
        }
        let origin = Origin::parse(key.name().as_str());
        let origin = origin.map_err(|error| Error::invalid(error.to_string()))?;
        if url.is_some_and(|url| url.is_empty() || url.contains(char::is_whitespace)) {
            return Err(Error::invalid("the address of a log is one word"));
        }
        let folder = self.folder(&origin);
        atomic::create_directories(&*self.fs, &folder, PRIVATE_DIRECTORY)?;
        let _turn = Exclusive::enter(&*self.fs, &self.root.join(LOCK))?;
        let known = self.logs()?;
        if !last::exists(&*self.fs, &folder)? {
            if known.iter().any(|log| log.key.name() == key.name()) {
                return Err(last::lost(&folder));
            }
            Last::nothing().write(&*self.fs, &folder)?;
        }
        if known.iter().any(|log| log.key == *key) {
            return Ok(false);
        }
        let url = url.map(|url| format!(" {url}")).unwrap_or_default();
        let mut lines: String = known.iter().map(line).collect();
        lines.push_str(&format!("log {key}{url}\nquorum none\n"));
        // What could not be read again is not written.
        Policy::parse(lines.as_bytes()).map_err(|error| Error::invalid(error.to_string()))?;
        let path = self.root.join(LOGS);
        let mode = Mode::Set(PRIVATE_FILE);
        atomic::replace(&*self.fs, &path, lines.as_bytes(), mode).map(|()| true)
    }

    /// The keys of the logs that are watched.
    ///
    /// # Errors
    /// Kind `External` when the list is damaged or cannot be read.
    pub fn logs(&self) -> Result<Vec<PolicyLog>, Error> {
        let path = self.root.join(LOGS);
        let Some(bytes) = read_if_there(&*self.fs, &path, MAX_POLICY_BYTES)? else {
            return Ok(Vec::new());
        };
        let policy = Policy::parse(&bytes).map_err(|error| {
            let text = format!("{}: {error}", path.display());
            Error::new(ErrorKind::External, text)
        })?;
        Ok(policy.logs().to_vec())
    }

    /// What is remembered of a log.
    ///
    /// # Errors
    /// Kind `External` when that is lacking or damaged.
    pub fn remembered(&self, origin: &Origin) -> Result<Remembered, Error> {
        let folder = self.folder(origin);
        let last = Last::read(&*self.fs, &folder, origin)?;
        Ok(Remembered {
            last: last.tree().zip(last.time()),
            conflicts: self.conflicts(&folder)?,
        })
    }

    /// The last cosigned checkpoint of the log with this name of a folder, 64 lower-case hex digits; None where there is none.
    ///
    /// # Errors
    /// Kind `External` when it cannot be read.
    pub fn cosigned(&self, folder: &str) -> Result<Option<Vec<u8>>, Error> {
        if Digest::parse_hex(folder).is_none() {
            return Ok(None);
        }
        let path = self.root.join(folder).join(CHECKPOINT);
        read_if_there(&*self.fs, &path, MAX_NOTE_BYTES)
    }

    /// Does what C2SP tlog-witness asks for: judges, stores what is cosigned, and cosigns, in one step for each log.
    ///
    /// # Errors
    /// Kind `External` when the system fails, a file is lacking or damaged, or the clock is before the last
    /// cosignature; those of [`Signer::sign`]. Then nothing was answered, and to ask again is safe.
    pub fn add_checkpoint(
        &self,
        request: &AddCheckpoint,
        key: &WitnessKey,
        clock: &dyn Clock,
    ) -> Result<Answer, Error> {
        let origin = request.origin();
        let is_its = |log: &PolicyLog| log.key.name().as_str() == origin.as_str();
        let logs = self.logs()?.into_iter().filter(is_its);
        let keys: Vec<VerifierKey> = logs.map(|log| log.key).collect();
        if keys.is_empty() {
            return Ok(Answer::Refused {
                refusal: Refusal::UnknownLog,
                evidence: None,
            });
        }
        let folder = self.folder(origin);
        let _turn = Exclusive::enter(&*self.fs, &folder.join(LOCK))?;
        let last = Last::read(&*self.fs, &folder, origin)?;
        match judge(request, &keys, last.tree().as_ref()) {
            Ok(accepted) => {
                let time = time_behind(last.time(), clock.now()?)?;
                self.cosign(&folder, &accepted, time, key)
                    .map(Answer::Cosigned)
            }
            Err(refusal) => Ok(Answer::Refused {
                refusal,
                evidence: self.keep_evidence(&folder, &keys, &last, request)?,
            }),
        }
    }

    fn cosign(
        &self,
        folder: &Path,
        accepted: &Accepted,
        time: CosignatureTime,
        key: &WitnessKey,
    ) -> Result<NoteSignature, Error> {
        Last::of(accepted, time).write(&*self.fs, folder)?;
        let line = accepted.cosign(&key.name, time, &*key.signer)?;
        let mut note = accepted.note().clone();
        note.add(line.clone())?;
        let path = folder.join(CHECKPOINT);
        let mode = Mode::Set(PRIVATE_FILE);
        atomic::replace(&*self.fs, &path, note.to_string().as_bytes(), mode)?;
        Ok(line)
    }

    /// Keeps what the last checkpoint and this one say against the log together, if anything.
    fn keep_evidence(
        &self,
        folder: &Path,
        keys: &[VerifierKey],
        last: &Last,
        request: &AddCheckpoint,
    ) -> Result<Option<PathBuf>, Error> {
        let Some(note) = last.note() else {
            return Ok(None);
        };
        let find = |key: &VerifierKey| {
            Conflict::find(key.clone(), note.clone(), request.note().clone()).ok()
        };
        let Some(conflict) = keys.iter().find_map(find) else {
            return Ok(None);
        };
        let path = folder.join(name_of(&conflict));
        let kept = self.conflicts(folder)?;
        if !kept.contains(&path) {
            if kept.len() >= MAX_KEPT_CONFLICTS {
                return Ok(None);
            }
            let text = conflict.to_string();
            atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))?;
        }
        Ok(Some(path))
    }

    fn conflicts(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let names = self.fs.read_dir(folder);
        let names = names.map_err(|error| sys::failure("read", folder, &error))?;
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        let ours = names.filter(|name| name.ends_with(CONFLICT_ENDING));
        let mut paths: Vec<PathBuf> = ours.map(|name| folder.join(name)).collect();
        paths.sort();
        Ok(paths)
    }

    fn folder(&self, origin: &Origin) -> PathBuf {
        self.root.join(folder_name(origin))
    }
}

/// The name of a log's folder, and of its part of the addresses that are read: SHA-256 of the origin in hex.
pub fn folder_name(origin: &Origin) -> String {
    Digest::of(origin.as_str().as_bytes()).to_hex()
}

fn line(log: &PolicyLog) -> String {
    match &log.url {
        Some(url) => format!("log {} {url}\n", log.key),
        None => format!("log {}\n", log.key),
    }
}

/// One conflict has one name, whatever other lines stand in its notes.
fn name_of(conflict: &Conflict) -> String {
    let [one, other] = conflict.checkpoints();
    let texts = [
        conflict.key().to_string(),
        one.to_string(),
        other.to_string(),
    ];
    let parts = texts.each_ref().map(String::as_bytes);
    let digest = Digest::tagged("name of a conflict", &parts);
    format!("{}{CONFLICT_ENDING}", &digest.to_hex()[..16])
}

/// The time of a cosignature: now, and never before the last one.
fn time_behind(last: Option<CosignatureTime>, now: Timestamp) -> Result<CosignatureTime, Error> {
    let unusable = |text: &str| Error::new(ErrorKind::External, text);
    let now = CosignatureTime::of(now)
        .ok_or_else(|| unusable("the clock shows the first second of 1970"))?;
    match last {
        Some(last) if now.seconds() + MAX_CLOCK_STEP_SECONDS < last.seconds() => Err(unusable(
            "the clock is before the last cosignature: set it, nothing is cosigned until then",
        )),
        Some(last) => Ok(last.max(now)),
        None => Ok(now),
    }
}
