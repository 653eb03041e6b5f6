//! Troubles of hooks and of the watcher, for `status`: an agent never sees them.
//!
//! ```text
//! $THREADSEAL_HOME/capture/troubles.jsonl
//! {"at":…,"of":"claude-code","about":"/p/s.jsonl","why":…}   a trouble; it takes the place of one about the same
//! {"at":…,"of":"claude-code","about":"/p/s.jsonl"}           it is sealed: no trouble any more
//! ```
//! Lines are appended, so that hooks that run at once lose none. A file that grew large is written
//! anew, with the troubles that are left.

use super::open_to_append;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::read::read_small;
use threadseal_store::sys::{Fs, append_all, failure};

/// Troubles that are kept; the oldest are dropped.
pub const MAX_TROUBLES: usize = 256;
/// The most bytes of a reason.
const MAX_WHY_BYTES: usize = 2048;
/// A larger file is written anew.
const COMPACTED_BYTES: u64 = 1 << 20;
/// The most bytes of the file: lines of many hooks at once may follow.
const MAX_FILE_BYTES: usize = 16 << 20;

/// Something that could not be sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// When, as RFC 3339.
    pub at: String,
    /// The agent, or `watch`.
    pub of: String,
    /// The file or session; empty where none is known.
    pub about: String,
    /// The reason, with a hint; `None` if it is settled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// The troubles of a home.
#[derive(Debug, Clone)]
pub struct Troubles {
    place: PathBuf,
}

impl Troubles {
    /// Those of the home at `home`.
    pub fn of(home: &Path) -> Self {
        Self {
            place: home.join("capture/troubles.jsonl"),
        }
    }

    /// What is still a trouble, the oldest first. Lines that cannot be read are passed over: they are
    /// notes of ours, and prove nothing.
    pub fn all(&self, fs: &dyn Fs) -> Vec<Trouble> {
        let bytes = read_small(fs, &self.place, MAX_FILE_BYTES).unwrap_or_default();
        let mut all: Vec<Trouble> = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(new) = serde_json::from_slice::<Trouble>(line) else {
                continue;
            };
            all.retain(|old| !old.is_replaced_by(&new));
            if new.why.is_some() {
                all.push(new);
            }
        }
        all.split_off(all.len().saturating_sub(MAX_TROUBLES))
    }

    /// Adds a trouble, or notes that what it is about is settled. A settled one that is no trouble
    /// changes nothing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&self, fs: &dyn Fs, mut trouble: Trouble) -> Result<(), Error> {
        trouble.why = trouble.why.map(shortened);
        let size = fs.metadata(&self.place).map_or(0, |found| found.size);
        if trouble.why.is_none() && size == 0 {
            return Ok(());
        }
        let mut all = self.all(fs);
        if trouble.why.is_none() && !all.iter().any(|old| old.is_replaced_by(&trouble)) {
            return Ok(());
        }
        if size <= COMPACTED_BYTES {
            let line = line(&trouble)?;
            return open_to_append(fs, &self.place)
                .and_then(|file| append_all(&*file, &line))
                .map_err(|error| failure("write", &self.place, &error));
        }
        all.retain(|old| !old.is_replaced_by(&trouble));
        all.extend(Some(trouble).filter(|new| new.why.is_some()));
        let lines: Result<Vec<_>, _> = all.iter().map(line).collect();
        atomic::replace(fs, &self.place, &lines?.concat(), Mode::Set(PRIVATE_FILE))
    }
}

impl Trouble {
    fn is_replaced_by(&self, new: &Self) -> bool {
        self.about == new.about && (self.of == new.of || new.why.is_none())
    }
}

fn line(trouble: &Trouble) -> Result<Vec<u8>, Error> {
    let line = serde_json::to_vec(trouble).map_err(|error| Error::invalid(error.to_string()))?;
    Ok([line, vec![b'\n']].concat())
}

fn shortened(mut why: String) -> String {
    let mut end = why.len().min(MAX_WHY_BYTES);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why.truncate(end);
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_store::sys::RealFs;

    fn trouble(about: &str, why: Option<&str>) -> Trouble {
        Trouble {
            at: "2026-11-26T00:00:00Z".to_owned(),
            of: "codex".to_owned(),
            about: about.to_owned(),
            why: why.map(str::to_owned),
        }
    }

    fn abouts(all: &[Trouble]) -> Vec<&str> {
        all.iter().map(|one| &*one.about).collect()
    }

    #[test]
    fn troubles_are_bounded_replaced_and_settled() {
        let folder = tempfile::tempdir().unwrap();
        let fs = RealFs::shared();
        let troubles = Troubles::of(folder.path());
        let accents = "é".repeat(MAX_WHY_BYTES);
        let add = |about: &str, why| troubles.add(&*fs, trouble(about, why)).unwrap();
        add("a", None);
        assert!(troubles.all(&*fs).is_empty() && !troubles.place.exists());
        add("a", Some("one"));
        add("b", Some(&accents));
        add("a", Some("two"));
        let all = troubles.all(&*fs);
        assert_eq!(abouts(&all), ["b", "a"]);
        assert_eq!(all[1].why.as_deref(), Some("two"));
        assert!(all[0].why.as_ref().unwrap().len() <= MAX_WHY_BYTES);
        add("b", None);
        assert_eq!(abouts(&troubles.all(&*fs)), ["a"]);
        let long = "x".repeat(MAX_WHY_BYTES);
        for number in 0..2 * MAX_TROUBLES {
            add(&number.to_string(), Some(&long));
        }
        let all = troubles.all(&*fs);
        assert_eq!(all.len(), MAX_TROUBLES);
        assert_eq!(
            all.last().unwrap().about,
            (2 * MAX_TROUBLES - 1).to_string()
        );
        let size = std::fs::metadata(&troubles.place).unwrap().len();
        assert!(size <= COMPACTED_BYTES + 4096, "{size}");
    }
}
