//! [`Objects`]: the five calls of object storage, and what is made of them.

use std::fmt;
use threadseal_core::error::{Error, ErrorKind};

/// Names that are listed at once.
pub(crate) const PAGE: usize = 1000;

/// The version of an object: the storage's tag or number for it, and no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The entity tag (S3, Azure).
    pub(super) e_tag: Option<String>,
    /// The generation or version (GCS).
    pub(super) number: Option<String>,
}

impl Version {
    /// The version of this number.
    pub(crate) fn of_number(number: i64) -> Self {
        Self {
            e_tag: None,
            number: Some(number.to_string()),
        }
    }

    /// Its number, if it was made of one.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn as_number(&self) -> Option<i64> {
        self.number.as_ref()?.parse().ok()
    }
}

/// An object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// Its version, to replace it.
    pub version: Version,
}

/// The result of a conditional write.
#[must_use = "the object may not have been written"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is written.
    Stored(Version),
    /// Another version exists, or an object at all; nothing changed now. The same write may have
    /// been done before, when it was repeated after a lost answer.
    Differs,
}

/// Named objects.
pub trait Objects: fmt::Debug + Send + Sync {
    /// The newest version of an object of at most `limit` bytes; `None` when there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] above `limit`, [`ErrorKind::External`] when the storage fails.
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error>;

    /// Writes an object that must not exist.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the storage fails; the object may be written all the same.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error>;

    /// Writes an object in place of this version of it.
    ///
    /// # Errors
    /// As [`Objects::create`].
    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error>;

    /// Names of the objects in `folder`, without it, in order of their bytes, at most `limit`. They
    /// come after the name `after` (empty: from the first).
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the storage fails or lists in another order.
    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the storage fails; the object may be gone all the same.
    fn remove(&self, name: &str) -> Result<(), Error>;

    /// The place of the objects, without secrets, for people.
    fn place(&self) -> String;

    /// The name that the storage has for its own place, as ledgers in it have; `None` where the path
    /// of its file is that name.
    fn own_place(&self) -> Option<String> {
        Some(format!("object:{}", self.place()))
    }
}

/// Writes an object whose name follows from its bytes. An existing object must have the same bytes.
/// Another writer wrote it, or this one did before its answer was lost.
///
/// # Errors
/// As [`Objects::create`]; [`ErrorKind::Refused`] when an object with other bytes has the name.
pub fn seal(objects: &dyn Objects, name: &str, bytes: &[u8]) -> Result<(), Error> {
    match objects.create(name, bytes)? {
        Put::Stored(_) => Ok(()),
        Put::Differs => match objects.read(name, bytes.len())? {
            Some(found) if found.bytes == bytes => Ok(()),
            Some(_) => Err(damaged(objects, name, "does not match its name")),
            None => Err(external(
                objects,
                &format!(
                    "{name} was there and is gone; another program removes objects while they are written"
                ),
            )),
        },
    }
}

/// An object that is to be written, under a name that follows from its bytes.
#[cfg(feature = "object")]
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Calls `look` with every name in `folder`, in order, some at a time.
pub(crate) fn each_name(
    objects: &dyn Objects,
    folder: &str,
    look: &mut dyn FnMut(&[String]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut after = String::new();
    loop {
        let names = objects.list(folder, &after, PAGE)?;
        look(&names)?;
        match names.into_iter().last() {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

/// Names in `folder` after `last` and up to `end`.
#[cfg(feature = "object")]
pub(crate) fn names_between(
    objects: &dyn Objects,
    folder: &str,
    last: &str,
    end: &str,
) -> Result<Vec<String>, Error> {
    let (mut after, mut found) = (last.to_owned(), Vec::new());
    loop {
        let names = objects.list(folder, &after, PAGE)?;
        let is_last = names.last().is_none_or(|name| name.as_str() >= end);
        after = names.last().cloned().unwrap_or_default();
        found.extend(names.into_iter().filter(|name| name.as_str() <= end));
        if is_last {
            return Ok(found);
        }
    }
}

/// The error for an object that cannot be the stored one.
pub fn damaged(objects: &dyn Objects, name: &str, how: &str) -> Error {
    Error::refused(format!("{name} in {} {how}", objects.place()))
}

pub(super) fn external(objects: &dyn Objects, what: &str) -> Error {
    let text = format!("{}: {what}", objects.place());
    // Servers answer with whole pages; a message is one line.
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    Error::new(ErrorKind::External, line)
}
