//! [`StampFiles`]: time stamps of a log, beside it (`spec/tlog.md`, "Time stamps").
//!
//! ```text
//! timestamps/<size>.checkpoint         the signed note that was stamped, as it is
//!            <size>.<authority>.tsr    the response: TimeStampResp of RFC 3161
//! ```
//! Only what the pinned roots of an authority prove counts of these files. A stamp of a checkpoint proves of every entry below
//! its size that it was in the log no later than at that time.

use crate::layout::description::Description;
use crate::layout::log_dir::LogDir;
use crate::timestamps::authority::Authority;
use crate::timestamps::response::{MAX_TIMESTAMP_BYTES, TimeStamp, verify};
use crate::tree::view::LogView;
use std::io;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::time::Timestamp;
use threadseal_store::atomic;
use threadseal_store::atomic::PRIVATE_DIRECTORY;

const FOLDER: &str = "timestamps";
const NOTE: &str = ".checkpoint";
const RESPONSE: &str = ".tsr";

/// A response that is kept: of which size, by whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptStamp {
    /// The size of the stamped checkpoint.
    pub size: u64,
    /// The name of the authority in this home.
    pub authority: String,
}

impl KeptStamp {
    /// The name of its file in the folder.
    pub fn file(&self) -> String {
        format!("{}.{}{RESPONSE}", self.size, self.authority)
    }
}

/// What a kept response is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JudgedStamp {
    /// The log had these entries no later than then.
    Good(TimeStamp),
    /// It stamps nothing, for this reason.
    Bad(String),
    /// A checkpoint that this log signed, and does not continue, was stamped then: the log was rolled back, or was forked.
    Contradicts(TimeStamp),
}

/// The time stamps beside one log.
pub(crate) struct StampFiles<'l> {
    pub(crate) dir: &'l LogDir,
    pub(crate) description: &'l Description,
}

impl StampFiles<'_> {
    /// Keeps a verified response to a request for a stamp of `note`, a checkpoint of this log.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub(crate) fn keep(
        &self,
        size: u64,
        note: &SignedNote,
        authority: &str,
        response: &[u8],
    ) -> Result<(), Error> {
        let dir = self.dir;
        let kept = KeptStamp {
            size,
            authority: authority.to_owned(),
        };
        atomic::create_directories(&*dir.fs, &dir.file(FOLDER), PRIVATE_DIRECTORY)?;
        // The note first: a response without it proves nothing.
        dir.replace(
            &self.stamp_file(&format!("{size}{NOTE}")),
            note.to_string().as_bytes(),
        )?;
        dir.replace(&self.stamp_file(&kept.file()), response)
    }

    /// The responses that are kept, the smallest checkpoint first.
    ///
    /// # Errors
    /// Kind `External` when the folder cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<KeptStamp>, Error> {
        let dir = self.dir;
        let folder = dir.file(FOLDER);
        let names = match dir.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(threadseal_store::sys::failure("read", &folder, &error)),
        };
        let mut kept: Vec<KeptStamp> = names
            .iter()
            .filter_map(|name| {
                let (size, authority) = name.to_str()?.strip_suffix(RESPONSE)?.split_once('.')?;
                Some(KeptStamp {
                    size: size.parse().ok()?,
                    authority: authority.to_owned(),
                })
            })
            .collect();
        kept.sort();
        Ok(kept)
    }

    /// Judges a response that is kept, against the log as `view` has it. What cannot be read stamps nothing, as what does not verify.
    pub(crate) fn judge(
        &self,
        kept: &KeptStamp,
        authority: &Authority,
        view: &LogView,
    ) -> JudgedStamp {
        let judged = self.try_judging(kept, authority, view);
        judged.unwrap_or_else(|error| JudgedStamp::Bad(error.to_string()))
    }

    fn try_judging(
        &self,
        kept: &KeptStamp,
        authority: &Authority,
        view: &LogView,
    ) -> Result<JudgedStamp, Error> {
        let size = kept.size;
        let Some((note, tree)) = self.stamped_note(size)? else {
            let why = format!("there is no checkpoint of {size} entries by this log beside it");
            return Ok(JudgedStamp::Bad(why));
        };
        let path = self.stamp_file(&kept.file());
        let response = self.dir.read(&path, MAX_TIMESTAMP_BYTES)?;
        let response = response.unwrap_or_default();
        Ok(match verify(&response, &note, authority, None) {
            Err(error) => JudgedStamp::Bad(error.to_string()),
            // A proof, and not the hashes of tiles alone: any writer to the folder may have changed those, and they need not fit each other.
            Ok(stamp) => match view.consistency(&tree)? {
                Some(_) => JudgedStamp::Good(stamp),
                None => JudgedStamp::Contradicts(stamp),
            },
        })
    }

    /// The first good stamp that covers an entry: no later than [`TimeStamp::latest`] it was in the log. `warn` is called for each stamp
    /// before it that stamps nothing, with the reason.
    ///
    /// # Errors
    /// As [`StampFiles::list`].
    pub(crate) fn first_covering(
        &self,
        entry: u64,
        authorities: &[(String, Authority)],
        view: &LogView,
        warn: &mut dyn FnMut(&KeptStamp, &str),
    ) -> Result<Option<(KeptStamp, TimeStamp)>, Error> {
        Ok(first_covering(&self.list()?, entry, |kept| {
            let stamp = self.good(kept, authorities, view, warn)?;
            Some((stamp.latest(), stamp))
        }))
    }

    /// The stamp, if it is good and by one of `authorities`; else `warn` is called with the reason.
    pub(crate) fn good(
        &self,
        kept: &KeptStamp,
        authorities: &[(String, Authority)],
        view: &LogView,
        warn: &mut dyn FnMut(&KeptStamp, &str),
    ) -> Option<TimeStamp> {
        let (_, authority) = authorities
            .iter()
            .find(|(name, _)| *name == kept.authority)?;
        match self.judge(kept, authority, view) {
            JudgedStamp::Good(stamp) => return Some(stamp),
            JudgedStamp::Bad(why) => warn(kept, &why),
            JudgedStamp::Contradicts(_) => {
                warn(kept, "the log does not continue the stamped checkpoint");
            }
        }
        None
    }

    /// The bytes of a checkpoint that was stamped, and its tree; None unless this log alone signed it.
    pub(crate) fn stamped_note(&self, size: u64) -> Result<Option<(Vec<u8>, TreeHead)>, Error> {
        let path = self.stamp_file(&format!("{size}{NOTE}"));
        let Some(bytes) = self.dir.read(&path, MAX_NOTE_BYTES)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes).ok();
        let note = text.and_then(|text| SignedNote::parse(text).ok());
        let tree = note
            .filter(|note| note.signatures().len() == 1)
            .and_then(|note| {
                let checkpoint = self.description.checkpoint(&note)?;
                Some(*checkpoint.tree()).filter(|tree| tree.size == size)
            });
        Ok(tree.map(|tree| (bytes, tree)))
    }

    fn stamp_file(&self, name: &str) -> PathBuf {
        self.dir.file(FOLDER).join(name)
    }
}

/// The first of `kept`, the smallest checkpoint first, that covers an entry and that `judge` takes; of several of one checkpoint
/// the one of the earliest moment. `judge` gives a moment and what is returned beside the stamp.
pub(crate) fn first_covering<T>(
    kept: &[KeptStamp],
    entry: u64,
    mut judge: impl FnMut(&KeptStamp) -> Option<(Timestamp, T)>,
) -> Option<(KeptStamp, T)> {
    let mut found: Option<(KeptStamp, Timestamp, T)> = None;
    for one in kept.iter().filter(|kept| kept.size > entry) {
        let known = found.as_ref();
        if known.is_some_and(|(first, ..)| first.size < one.size) {
            break;
        }
        let earliest = known.map(|(_, moment, _)| *moment);
        if let Some((moment, more)) = judge(one)
            && earliest.is_none_or(|earliest| moment < earliest)
        {
            found = Some((one.clone(), moment, more));
        }
    }
    found.map(|(kept, _, more)| (kept, more))
}
