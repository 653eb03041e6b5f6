//! Finding items: in the project, in the user's space, in this program.

use super::{Candidate, Item, ItemId, ItemKind, ItemPolicy, MAX_ITEM_BYTES, Standing, builtin};
use crate::bounds::{MAX_ITEM_LEVELS, MAX_ITEMS};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_store::heads::HeadStore;
use threadseal_store::read::read_small;
use threadseal_store::sys::{self, FileKind, Fs, path_text};

/// The basis on which an item is judged.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// Whose signatures count.
    pub trust: &'a Trust,
    /// The moment by which keys are judged.
    pub now: Timestamp,
    /// The seals that this host knows, so that an older or a stripped version is noticed.
    pub heads: &'a dyn HeadStore,
    /// The items that may be used.
    pub policy: ItemPolicy,
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
            Error::invalid(format!(
                "there is no {kind} {id} in .ai/ of {spaces}, and no built-in one"
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

    /// All items of this id, the one that counts first: settings are merged from them.
    ///
    /// # Errors
    /// As [`Finder::find`], for any of them.
    pub fn find_all(
        &self,
        kind: ItemKind,
        id: &ItemId,
        grounds: &Grounds<'_>,
    ) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for space in &self.spaces {
            items.extend(self.in_space(space, kind, id, grounds)?);
        }
        items.extend(built_in(kind, id));
        Ok(items)
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
        let (folders, endings) = kind.places();
        for folder in self
            .spaces
            .iter()
            .flat_map(|space| folders.iter().map(move |folder| (space, folder)))
        {
            let root = folder.0.join(".ai").join(folder.1);
            self.walk(&root, "", endings, MAX_ITEM_LEVELS, &mut found)?;
        }
        Ok(found.into_iter().collect())
    }

    fn walk(
        &self,
        folder: &Path,
        prefix: &str,
        endings: &[&str],
        levels: usize,
        found: &mut BTreeSet<ItemId>,
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
            found.extend(id);
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
                        .judge(&home, path, &absent, kind, id, grounds)
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
        home: &Path,
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
        let (real_home, real_path) = (real(home)?, real(path)?);
        if !real_path.starts_with(&real_home) {
            return Err(Error::refused(format!(
                "{} leads out of {}",
                path_text(path),
                path_text(home)
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
        let standing = candidate.standing(grounds)?;
        candidate.into_item(id, standing)
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
