//! Which cosigned checkpoints are kept beside a log (`spec/tlog.md`, "Asking witnesses").
//!
//! ```text
//! <size>.cosigned     for each policy the newest checkpoint that meets its quorum, and the newest of all
//! cosigned.lock       held while a process changes them
//! ```
//! A witness that does not answer today takes nothing from its cosignature of yesterday. A newer
//! checkpoint replaces an older one only once it meets every quorum that the older one meets. Any
//! writer of the folder may put lines there that do not hold, and one such line condemns a note; so
//! lines that do not hold are left out wherever these files are read.

use crate::layout::description::Description;
use crate::layout::log_dir::{LogDir, damaged};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::{NoteSignature, SignedNote};
use threadseal_core::tlog::policy::{Judgement, Policy};
use threadseal_core::tlog::verifier::{self, VerifierKey};
use threadseal_store::lock::Exclusive;

const ENDING: &str = ".cosigned";
const LOCK: &str = "cosigned.lock";
/// Most files that are looked at, those of the largest checkpoints.
const MAX_COSIGNED: usize = 64;

/// A checkpoint of this log with the cosignatures of witnesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignedNote {
    /// The log's line, and of witnesses of the policies those that hold.
    pub note: SignedNote,
    /// Its tree.
    pub tree: TreeHead,
    /// Does it meet the quorum of a policy?
    pub is_witnessed: bool,
}

/// The cosigned checkpoints beside one log.
pub(crate) struct CosignedNotes<'l> {
    pub(crate) dir: &'l LogDir,
    pub(crate) description: &'l Description,
}

impl CosignedNotes<'_> {
    /// The checkpoints for which cosignatures are kept, the newest first, with the lines of witnesses of these policies. What is
    /// no checkpoint of this log is passed over, and so is a file that cannot be read, with which `warn` is called.
    ///
    /// # Errors
    /// Kind `External` when the folder cannot be read.
    pub(crate) fn list(
        &self,
        policies: &[(String, Policy)],
        warn: &mut dyn FnMut(&str),
    ) -> Result<Vec<CosignedNote>, Error> {
        let kept = self.kept(policies, warn)?.into_iter().rev();
        let each = kept.map(|(_, note)| {
            let checkpoint = self.description.checkpoint(&note)?;
            Some(CosignedNote {
                is_witnessed: policies.iter().any(|(_, policy)| meets(policy, &note)),
                tree: *checkpoint.tree(),
                note,
            })
        });
        Ok(each.flatten().collect())
    }

    /// Keeps the cosignatures of a checkpoint, together with those that are kept, and removes checkpoints that are worth nothing
    /// any more. These are all policies of the home, not only those that were asked about.
    ///
    /// # Errors
    /// Kind `Refused` when the note is no checkpoint of this log, or another one of the same size is kept; `External` when
    /// the system fails.
    pub(crate) fn keep(
        &self,
        note: &SignedNote,
        policies: &[(String, Policy)],
    ) -> Result<(), Error> {
        let dir = self.dir;
        // Of two who asked at once, neither takes away what the other one heard.
        let _alone = Exclusive::enter(&*dir.fs, &dir.file(LOCK))?;
        let checkpoint = self.description.checkpoint(note);
        let checkpoint =
            checkpoint.ok_or_else(|| Error::refused("this is not a checkpoint of this log"))?;
        let size = checkpoint.tree().size;
        let mut all = self.kept(policies, &mut |_| {})?;
        let before = all.get(&size);
        if before.is_some_and(|before| before.text() != note.text()) {
            let path = self.path_of(size);
            return Err(Error::refused(format!(
                "forked: this log signed another checkpoint of {size} entries, {}; keep that file; hint: threadseal log status",
                path.display()
            )));
        }
        let both: Vec<&SignedNote> = [note].into_iter().chain(before).collect();
        let joined = self.joined(&both, policies)?;
        all.insert(size, joined);
        let worth = worth(&all, policies);
        // What is new is durable before anything older goes.
        for (size, note) in all.iter().filter(|(size, _)| worth.contains(size)) {
            dir.replace(&self.path_of(*size), note.to_string().as_bytes())?;
        }
        for size in all.keys().filter(|size| !worth.contains(size)) {
            let path = self.path_of(*size);
            match dir.fs.unlink(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(threadseal_store::sys::failure("remove", &path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What is kept and is a checkpoint of this log, by size, with the lines that hold.
    fn kept(
        &self,
        policies: &[(String, Policy)],
        warn: &mut dyn FnMut(&str),
    ) -> Result<BTreeMap<u64, SignedNote>, Error> {
        let dir = self.dir;
        let names = match dir.fs.read_dir(&dir.root) {
            Ok(names) => names,
            Err(error) => return Err(threadseal_store::sys::failure("read", &dir.root, &error)),
        };
        let sizes = names
            .iter()
            .filter_map(|name| name.to_str()?.strip_suffix(ENDING)?.parse().ok());
        let sizes: BTreeSet<u64> = sizes.collect();
        let mut kept = BTreeMap::new();
        for size in sizes.into_iter().rev().take(MAX_COSIGNED) {
            match self.read_kept(size) {
                Ok(Some(note)) => {
                    kept.insert(size, self.joined(&[&note], policies)?);
                }
                Ok(None) => {}
                Err(error) => warn(&error.to_string()),
            }
        }
        Ok(kept)
    }

    fn read_kept(&self, size: u64) -> Result<Option<SignedNote>, Error> {
        let bytes = self.dir.read(&self.path_of(size), MAX_NOTE_BYTES)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let note = text.and_then(|text| SignedNote::parse(&text).ok());
        Ok(note.filter(|note| {
            let checkpoint = self.description.checkpoint(note);
            checkpoint.is_some_and(|checkpoint| checkpoint.tree().size == size)
        }))
    }

    /// Of notes of one checkpoint one: the log's line, and of each witness of the policies its latest one, as far as they hold.
    fn joined(
        &self,
        notes: &[&SignedNote],
        policies: &[(String, Policy)],
    ) -> Result<SignedNote, Error> {
        let log = self.description.verifier()?;
        let mut keys = vec![&log];
        for (_, policy) in policies {
            for witness in policy.witnesses() {
                if !keys.contains(&&witness.key) {
                    keys.push(&witness.key);
                }
            }
        }
        let lines = notes.iter().flat_map(|note| note.signatures());
        let alone = lines.map(|line| Ok((line, alone(notes[0], line)?)));
        let alone: Vec<(&NoteSignature, SignedNote)> = alone.collect::<Result<_, Error>>()?;
        let mut joined = None::<SignedNote>;
        for key in keys {
            let Some(line) = latest_by(key, &alone) else {
                continue;
            };
            match &mut joined {
                None => joined = Some(self::alone(notes[0], line)?),
                Some(joined) => joined.add(line.clone())?,
            }
        }
        joined.ok_or_else(|| damaged(&self.dir.root))
    }

    fn path_of(&self, size: u64) -> PathBuf {
        self.dir.file(&format!("{size}{ENDING}"))
    }
}

/// The sizes that are kept: for each policy the newest that meets it, and the newest of all.
fn worth(all: &BTreeMap<u64, SignedNote>, policies: &[(String, Policy)]) -> BTreeSet<u64> {
    let newest = all.keys().next_back().copied();
    let met = policies.iter().filter_map(|(_, policy)| {
        let mut newest_first = all.iter().rev();
        let found = newest_first.find(|(_, note)| meets(policy, note));
        found.map(|(size, _)| *size)
    });
    met.chain(newest).collect()
}

fn meets(policy: &Policy, note: &SignedNote) -> bool {
    matches!(policy.judge(note), Ok(Judgement::Witnessed(_)))
}

/// The line by this key that holds, of the latest time; each line comes with the note that has it alone.
fn latest_by<'l>(
    key: &VerifierKey,
    lines: &[(&'l NoteSignature, SignedNote)],
) -> Option<&'l NoteSignature> {
    let held = lines.iter().filter_map(|(line, alone)| {
        let (_, signers) = verifier::open(alone, &[key]).ok()?;
        Some((signers.first()?.time, *line))
    });
    held.max_by_key(|(time, _)| *time).map(|(_, line)| line)
}

/// The note with this line and no other.
fn alone(note: &SignedNote, line: &NoteSignature) -> Result<SignedNote, Error> {
    let text = format!("{}\n{line}", note.text().as_str());
    SignedNote::parse(&text).map_err(|error| Error::new(ErrorKind::External, error.to_string()))
}
