//! Finding items: in the project, in the user's space, in this program.

use super::file::{Candidate, Grounds, ItemPolicy};
use super::{Item, ItemId, ItemKind, MAX_ITEM_BYTES, Standing, builtin, near};
use crate::bounds::{MAX_ITEM_LEVELS, MAX_ITEMS, MAX_LISTED_ITEMS};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_store::heads::RecordKind;
use threadseal_store::read::read_small;
use threadseal_store::sys::{self, FileKind, Fs, path_text};

/// Knowledge that threads and runs of graphs write, signed by their own keys.
const OF_THREADS: [&str; 2] = ["agent/threads/", "graphs/"];

/// A file of an item.
#[derive(Debug)]
pub struct Surveyed {
    /// The file.
    pub path: PathBuf,
    /// Why it may be used if unsigned items may; an error where it may not be used at all.
    pub standing: Result<Standing, Error>,
}

/// Where items are looked for.
#[derive(Debug, Clone)]
pub struct Finder {
    fs: Arc<dyn Fs>,
    spaces: Vec<PathBuf>,
}

impl Finder {
    /// Looks in these folders' `.ai/`, first to last (the project, then the user's space), then in
    /// this program.
    pub fn new(fs: Arc<dyn Fs>, spaces: Vec<PathBuf>) -> Self {
        Self { fs, spaces }
    }

    /// The item that counts.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is none, `Refused` when it may not be used. A refused file is
    /// never replaced by one of a later space.
    pub fn load(&self, kind: ItemKind, id: &ItemId, grounds: &Grounds<'_>) -> Result<Item, Error> {
        self.find(kind, id, grounds)?.ok_or_else(|| {
            let spaces: Vec<String> = self.spaces.iter().map(|path| path_text(path)).collect();
            let spaces = spaces.join(", ");
            // Where a folder cannot be read, the cause is enough.
            let near = near::nearest(id, &self.ids(kind).unwrap_or_default());
            let hint =
                near.map_or_else(String::new, |near| format!("; hint: the nearest is {near}"));
            Error::invalid(format!(
                "there is no {kind} {id} in .ai/ of {spaces}, and no built-in one{hint}"
            ))
        })
    }

    /// The item that counts, if there is one.
    ///
    /// # Errors
    /// As [`Finder::load`], but for its absence.
    pub fn find(
        &self,
        kind: ItemKind,
        id: &ItemId,
        grounds: &Grounds<'_>,
    ) -> Result<Option<Item>, Error> {
        for space in &self.spaces {
            if let Some(item) = self.in_space(space, kind, id, grounds)? {
                return Ok(Some(item));
            }
        }
        Ok(built_in(kind, id))
    }

    /// The files of a setting, the one that counts first: values are merged from them.
    ///
    /// # Errors
    /// As [`Finder::find`], for any of them; kind `Refused` when one is gone that this host sealed.
    pub(crate) fn settings(&self, id: &ItemId, grounds: &Grounds<'_>) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for space in &self.spaces {
            match self.in_space(space, ItemKind::Config, id, grounds)? {
                Some(item) => items.push(item),
                None => self.refuse_lost(space, id, grounds)?,
            }
        }
        items.extend(built_in(ItemKind::Config, id));
        Ok(items)
    }

    /// Refuses a setting without a file here, if this host sealed one: else the values of the next
    /// space would count, unnoticed.
    fn refuse_lost(&self, space: &Path, id: &ItemId, grounds: &Grounds<'_>) -> Result<(), Error> {
        let (folders, endings) = ItemKind::Config.places();
        for folder in folders {
            for ending in endings {
                let path = space
                    .join(".ai")
                    .join(folder)
                    .join(format!("{id}.{ending}"));
                for place in self.places_of_absent(space, &path) {
                    let known = grounds.heads.find_by_place(RecordKind::Document, &place)?;
                    let Some(known) = known else { continue };
                    return Err(Error::refused(format!(
                        "{}: {}: this host sealed this setting (record {}), and the file is gone; hint: put it back, or \
                         seal an empty file there: threadseal seal --inline {0}",
                        path_text(&path),
                        Verdict::Missing,
                        known.head.record
                    )));
                }
            }
        }
        Ok(())
    }

    /// The places that a missing file may have had: as its path is spelled, since a link that is new
    /// must hide nothing, and behind the links of the folders that are still there.
    fn places_of_absent(&self, space: &Path, path: &Path) -> BTreeSet<String> {
        let behind = |folder: &Path| {
            let real = self.fs.canonicalize(folder).ok()?;
            Some(path_text(&real.join(path.strip_prefix(folder).ok()?)))
        };
        let nearest = path.ancestors().skip(1).find_map(behind);
        behind(space).into_iter().chain(nearest).collect()
    }

    /// Is the item of the first space, the project?
    pub fn is_first(&self, item: &Item) -> bool {
        let first = self.spaces.first();
        let inside = |space: &PathBuf| {
            let own = format!("{}/", path_text(&space.join(".ai")));
            item.path().starts_with(&own)
        };
        first.is_some_and(inside)
    }

    /// The ids of all items of this kind, in order: files of each space, and built-in ones. Their
    /// contents are not read.
    ///
    /// # Errors
    /// Kind `External` when a folder cannot be read, `Limit` beyond [`MAX_ITEMS`] or
    /// [`MAX_ITEM_LEVELS`].
    pub fn ids(&self, kind: ItemKind) -> Result<Vec<ItemId>, Error> {
        let mut found: BTreeSet<ItemId> = builtin::ids(kind)
            .map(ItemId::parse)
            .collect::<Result<_, _>>()?;
        for space in &self.spaces {
            found.extend(self.files_of(space, kind)?.into_values());
        }
        Ok(found.into_iter().collect())
    }

    /// The files of all items of the first space, in order, but for those that threads write.
    ///
    /// # Errors
    /// As [`Finder::ids`].
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let first = self.spaces.first().into_iter();
        let all = first.map(|space| self.declared(space));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().flatten().map(|(path, _)| path).collect())
    }

    /// The files of all items of the first space, judged as if unsigned items might be used.
    ///
    /// # Errors
    /// As [`Finder::ids`].
    pub fn survey(&self, grounds: &Grounds<'_>) -> Result<Vec<Surveyed>, Error> {
        match self.spaces.first() {
            Some(space) => self.survey_of(space, grounds),
            None => Ok(Vec::new()),
        }
    }

    fn survey_of(&self, space: &Path, grounds: &Grounds<'_>) -> Result<Vec<Surveyed>, Error> {
        let grounds = Grounds {
            policy: ItemPolicy::AllowUnsigned,
            ..*grounds
        };
        let judge = |(path, (kind, id)): (PathBuf, (ItemKind, ItemId))| {
            let found = self.in_space(space, kind, &id, &grounds);
            let gone = || Error::invalid(format!("{} is gone", path_text(&path)));
            let standing = found.and_then(|item| Ok(item.ok_or_else(gone)?.standing));
            Surveyed { path, standing }
        };
        Ok(self.declared(space)?.into_iter().map(judge).collect())
    }

    /// The files of a space, each once, and the first kind of item that each can be.
    fn declared(&self, space: &Path) -> Result<BTreeMap<PathBuf, (ItemKind, ItemId)>, Error> {
        let mut all = BTreeMap::new();
        for kind in ItemKind::ALL {
            for (path, id) in self.files_of(space, kind)? {
                let by_thread = |prefix: &&str| id.as_str().starts_with(*prefix);
                if kind != ItemKind::Knowledge || !OF_THREADS.iter().any(by_thread) {
                    all.entry(path).or_insert((kind, id));
                }
            }
        }
        Ok(all)
    }

    fn files_of(&self, space: &Path, kind: ItemKind) -> Result<BTreeMap<PathBuf, ItemId>, Error> {
        let mut found = BTreeMap::new();
        let (folders, endings) = kind.places();
        for folder in folders {
            let root = space.join(".ai").join(folder);
            self.walk(&root, "", endings, MAX_ITEM_LEVELS, &mut found)?;
        }
        Ok(found)
    }

    fn walk(
        &self,
        folder: &Path,
        prefix: &str,
        endings: &[&str],
        levels: usize,
        found: &mut BTreeMap<PathBuf, ItemId>,
    ) -> Result<(), Error> {
        let too_much =
            |what: String| Error::new(ErrorKind::Limit, format!("{}: {what}", path_text(folder)));
        if !self.is_there(folder)? {
            return Ok(());
        }
        let names = self
            .fs
            .read_dir(folder)
            .map_err(|error| sys::failure("list", folder, &error))?;
        for name in names {
            let path = folder.join(&name);
            let Some(name) = name.to_str() else {
                continue;
            };
            let metadata = self
                .fs
                .symlink_metadata(&path)
                .map_err(|error| sys::failure("look at", &path, &error))?;
            if metadata.kind == FileKind::Directory {
                let levels = levels
                    .checked_sub(1)
                    .ok_or_else(|| too_much("too many levels".to_owned()))?;
                self.walk(&path, &format!("{prefix}{name}/"), endings, levels, found)?;
                continue;
            }
            let stem = endings
                .iter()
                .find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'));
            let id = stem.and_then(|stem| ItemId::parse(&format!("{prefix}{stem}")).ok());
            found.extend(id.map(|id| (path, id)));
            if found.len() > MAX_ITEMS {
                return Err(too_much(format!("more than {MAX_ITEMS} items")));
            }
        }
        Ok(())
    }

    fn in_space(
        &self,
        space: &Path,
        kind: ItemKind,
        id: &ItemId,
        grounds: &Grounds<'_>,
    ) -> Result<Option<Item>, Error> {
        let (folders, endings) = kind.places();
        let home = space.join(".ai");
        for folder in folders {
            let spelled = endings.iter();
            let spelled = spelled.map(|ending| home.join(folder).join(format!("{id}.{ending}")));
            let (mut there, mut absent) = (Vec::new(), Vec::new());
            for path in spelled {
                match self.is_there(&path)? {
                    true => there.push(path),
                    false => absent.push(path),
                }
            }
            match &there[..] {
                [] => {}
                [path] => {
                    return self
                        .judge(space, path, &absent, kind, id, grounds)
                        .map(Some);
                }
                [path, other, ..] => {
                    return Err(Error::refused(format!(
                        "{} and {} are both {kind} {id}: remove one",
                        path_text(path),
                        path_text(other)
                    )));
                }
            }
        }
        Ok(None)
    }

    fn is_there(&self, path: &Path) -> Result<bool, Error> {
        match self.fs.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(sys::failure("look at", path, &error)),
        }
    }

    /// `absent` are the other paths that the item could have.
    fn judge(
        &self,
        space: &Path,
        path: &Path,
        absent: &[PathBuf],
        kind: ItemKind,
        id: &ItemId,
        grounds: &Grounds<'_>,
    ) -> Result<Item, Error> {
        let real = |path: &Path| {
            self.fs
                .canonicalize(path)
                .map_err(|error| sys::failure("resolve", path, &error))
        };
        let home = space.join(".ai");
        let (real_home, real_path) = (real(&home)?, real(path)?);
        if !real_path.starts_with(&real_home) {
            return Err(Error::refused(format!(
                "{} leads out of {}",
                path_text(path),
                path_text(&home)
            )));
        }
        let bytes = read_small(&*self.fs, &real_path, MAX_ITEM_BYTES)?;
        // A missing file has no place; its folder has one.
        let folder = real_path.parent().unwrap_or(&real_home);
        let absent = absent.iter().filter_map(|path| path.file_name());
        let absent: Vec<String> = absent.map(|name| path_text(&folder.join(name))).collect();
        let candidate = Candidate {
            absent: &absent,
            kind,
            path: &path_text(path),
            place: &path_text(&real_path),
            home: &real_home,
            fs: &*self.fs,
            bytes: &bytes,
        };
        let (standing, report) = candidate.standing(grounds)?;
        if !standing.vouches() && grounds.policy == ItemPolicy::Signed {
            // An end that accuses no seal has a remedy of its own; a new seal would remove a valid one.
            let doubted = |found: &Finding| {
                matches!(
                    found.code,
                    FindingCode::KeyEndDoubted | FindingCode::KeyRotated
                )
            };
            let advice = match report.findings.iter().any(doubted) {
                true => String::new(),
                false => self.unsealed(space, path, grounds),
            };
            return Err(candidate.refuse(&report, &advice));
        }
        candidate.into_item(id, standing)
    }

    /// For the refusal of `path`: what else of its space no trusted key vouches for, so that one
    /// step seals it all.
    fn unsealed(&self, space: &Path, path: &Path, grounds: &Grounds<'_>) -> String {
        let others = self.survey_of(space, grounds).unwrap_or_default();
        let others = others.iter().filter(|other| {
            let unsealed = |standing: &Standing| !standing.vouches();
            other.path != path && other.standing.as_ref().is_ok_and(unsealed)
        });
        let name = |other: &Surveyed| {
            let name = other.path.strip_prefix(space.join(".ai"));
            path_text(name.unwrap_or(&other.path))
        };
        let names: Vec<String> = others.map(name).collect();
        let mut also = String::new();
        if !names.is_empty() {
            let shown = &names[..names.len().min(MAX_LISTED_ITEMS)];
            also = format!("; no trusted key sealed these either: {}", shown.join(", "));
            if names.len() > shown.len() {
                also.push_str(&format!(" and {} more", names.len() - shown.len()));
            }
        }
        let space = path_text(space);
        format!("{also}; hint: threadseal seal --project {space}, or --allow-unsigned")
    }
}

fn built_in(kind: ItemKind, id: &ItemId) -> Option<Item> {
    let text = builtin::find(kind, id.as_str())?;
    Some(Item {
        kind,
        id: id.clone(),
        path: format!("builtin:{kind}/{id}"),
        text: text.to_owned(),
        sha256: Digest::of(text.as_bytes()),
        standing: Standing::Builtin,
    })
}
