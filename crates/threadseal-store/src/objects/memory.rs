//! [`MemoryObjects`]: objects that live as long as the process; for tests and short runs.

use super::{Object, Objects, Put, Version, damaged};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::Error;

/// Objects in memory.
#[derive(Debug, Default)]
pub struct MemoryObjects {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    objects: BTreeMap<String, (i64, Vec<u8>)>,
    writes: i64,
}

impl All {
    fn put(&mut self, name: &str, bytes: &[u8]) -> Put {
        self.writes += 1;
        let put = (self.writes, bytes.to_vec());
        self.objects.insert(name.to_owned(), put);
        Put::Stored(Version::of_number(self.writes))
    }
}

impl MemoryObjects {
    /// Without an object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another place with the same objects.
    #[cfg(any(test, feature = "fault"))]
    #[must_use]
    pub fn copy(&self) -> Self {
        let all = self.all();
        let (objects, writes) = (all.objects.clone(), all.writes);
        Self {
            all: Mutex::new(All { objects, writes }),
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        // Every change is made in one step, so a panic elsewhere left nothing half done.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for MemoryObjects {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        let all = self.all();
        match all.objects.get(name) {
            None => Ok(None),
            Some((_, bytes)) if bytes.len() > limit => {
                drop(all);
                Err(damaged(self, name, "is larger than it can be"))
            }
            Some((number, bytes)) => Ok(Some(Object {
                bytes: bytes.clone(),
                version: Version::of_number(*number),
            })),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let mut all = self.all();
        Ok(match all.objects.contains_key(name) {
            true => Put::Differs,
            false => all.put(name, bytes),
        })
    }

    fn replace_if(&self, name: &str, expected: &Version, bytes: &[u8]) -> Result<Put, Error> {
        let mut all = self.all();
        let found = all
            .objects
            .get(name)
            .map(|(number, _)| Version::of_number(*number));
        Ok(match found.as_ref() == Some(expected) {
            true => all.put(name, bytes),
            false => Put::Differs,
        })
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let (prefix, from) = (format!("{folder}/"), format!("{folder}/{after}"));
        let all = self.all();
        let names = all
            .objects
            .range::<String, _>((Bound::Excluded(&from), Bound::Unbounded))
            .map_while(|(name, _)| name.strip_prefix(&prefix));
        Ok(names.take(limit).map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.all().objects.remove(name);
        Ok(())
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}
