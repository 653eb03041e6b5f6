//! [`PlaceList`]: the second places that the log itself lists, compared with those that `log.json` names.
//!
//! ```text
//! last entry `places` ─► names ─┐
//! log.json ─► addresses ────────┼─► more here: the next commit lists them; fewer here: [`Forgotten`]
//! <log id>.places ─► addresses ─┘   only a help: the name of each must be in the entry
//! ```
//! A name is a tag under the secret of the home. Readers of the log learn no address from it.

use crate::entries::PlacesEntry;
use crate::layout::description::{Description, LogId};
use crate::layout::home_secret::HomeSecret;
use crate::layout::log_dir::LogDir;
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
use crate::marks::folder_mark::FolderMark;
use std::collections::BTreeSet;
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

const DOMAIN: &[u8] = b"threadseal/1 second place\0";

/// Second places that the log lists and `log.json` does not name any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The number of the entry that lists them.
    pub entry: u64,
    /// Those whose addresses are known.
    pub places: Vec<MarkLocation>,
    /// How many others there are.
    pub nameless: usize,
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places.iter().map(ToString::to_string);
        let nameless = (self.nameless > 0).then(|| format!("{} without an address", self.nameless));
        let all: Vec<String> = places.chain(nameless).collect();
        write!(
            f,
            "entry {} lists second places that log.json does not name any more: {}",
            self.entry,
            all.join(", ")
        )
    }
}

/// The last list of a log, and the addresses in `log.json` at one moment.
pub(crate) struct PlaceList {
    id: LogId,
    secret: Option<HomeSecret>,
    listed: Option<PlacesEntry>,
    /// The places besides the default one.
    pub(crate) named: Vec<MarkLocation>,
}

impl PlaceList {
    /// The list `listed`, and `log.json` as it is now: another process may have changed it.
    pub(crate) fn read(
        dir: &LogDir,
        id: LogId,
        listed: Option<PlacesEntry>,
    ) -> Result<Self, Error> {
        let marks = Description::read(dir, id)?.marks;
        Ok(Self {
            id,
            secret: HomeSecret::find(dir)?,
            listed,
            named: marks.into_iter().skip(1).collect(),
        })
    }

    /// The list with another secret: the one that was made for it.
    pub(crate) fn under(self, secret: HomeSecret) -> Self {
        Self {
            secret: Some(secret),
            ..self
        }
    }

    /// What the log lists and `log.json` lacks; `folders` may know the addresses.
    pub(crate) fn forgotten(&self, folders: &[FolderMark]) -> Option<Forgotten> {
        let listed = self.listed.as_ref()?;
        let missing = self.missing();
        if missing.is_empty() {
            return None;
        }
        let mut found = BTreeSet::new();
        let known = folders.iter().flat_map(FolderMark::known_places);
        let places: Vec<MarkLocation> = known
            .filter(|place| {
                let name = self.name(place);
                name.is_some_and(|name| missing.contains(&name) && found.insert(name))
            })
            .collect();
        Some(Forgotten {
            entry: listed.number,
            nameless: missing.len() - found.len(),
            places,
        })
    }

    /// The entry that a commit has to write, since `log.json` names places that the log does not list.
    pub(crate) fn due(&self) -> Result<Option<Vec<u8>>, Error> {
        let named = self.names(&self.named)?;
        match named.is_subset(&self.listed()) {
            true => Ok(None),
            false => PlacesEntry::bytes(named.into_iter().collect()).map(Some),
        }
    }

    /// The entry that lists `places`, and of those that were forgotten all but `removed`; none of those where that is None.
    pub(crate) fn without(
        &self,
        removed: Option<&MarkLocation>,
        places: &[MarkLocation],
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut next = self.names(places)?;
        if let Some(removed) = removed {
            let removed = self.names(std::slice::from_ref(removed))?;
            next.extend(self.missing().difference(&removed));
        }
        match next == self.listed() {
            true => Ok(None),
            false => PlacesEntry::bytes(next.into_iter().collect()).map(Some),
        }
    }

    /// Does the log list this place?
    pub(crate) fn lists(&self, place: &MarkLocation) -> bool {
        let name = self.name(place);
        name.is_some_and(|name| self.listed().contains(&name))
    }

    fn listed(&self) -> BTreeSet<Digest> {
        let listed = self.listed.iter().flat_map(|listed| &listed.names);
        listed.copied().collect()
    }

    /// Without the secret all that are listed: no name can be made to compare with them.
    fn missing(&self) -> BTreeSet<Digest> {
        let named = self.named.iter().filter_map(|place| self.name(place));
        let mut missing = self.listed();
        for name in named {
            missing.remove(&name);
        }
        missing
    }

    fn names(&self, places: &[MarkLocation]) -> Result<BTreeSet<Digest>, Error> {
        let names = places.iter().map(|place| self.name(place));
        let names = names.collect::<Option<_>>();
        names.ok_or_else(|| Error::invalid("the secret of the home is missing"))
    }

    fn name(&self, place: &MarkLocation) -> Option<Digest> {
        let text = format!("{}\n{place}", self.id);
        let secret = self.secret.as_ref()?;
        Some(Digest::from_bytes(
            secret.tag_bytes(DOMAIN, text.as_bytes()),
        ))
    }
}

/// The list of a log of which these are entries, and what was forgotten of it.
pub(crate) fn forgotten(
    home: &LogHome,
    description: &Description,
    listed: Option<PlacesEntry>,
) -> Result<Option<Forgotten>, Error> {
    let list = PlaceList::read(&home.dir(description.id), description.id, listed)?;
    Ok(list.forgotten(&FolderMark::all(home, description)))
}
