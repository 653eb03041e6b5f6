//! [`Cloud`]: S3, GCS, Azure and other storage that the crate `object_store` reaches.
//!
//! An answer of "exists" or "changed" is passed on as it is. The library may have repeated the
//! request after a lost answer. Only the caller can distinguish its own write from another's.

use super::storage::external;
use super::{Object, Objects, Put, Version, damaged};
use crate::runtime::wait_for;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutResult, UpdateVersion,
};
use std::future::poll_fn;
use std::sync::Arc;
use threadseal_core::error::Error;

/// Objects below a prefix of a bucket.
#[derive(Debug)]
pub struct Cloud {
    store: Arc<dyn ObjectStore>,
    prefix: String,
}

impl Cloud {
    /// The objects of `store` whose names begin with `prefix` and `/`; all, if it is empty. The
    /// storage must have conditional writes and list names in order of their bytes.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self {
            store,
            prefix: prefix.trim_matches('/').to_owned(),
        }
    }

    fn path(&self, name: &str) -> Result<Path, Error> {
        let whole = match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        Path::parse(&whole)
            .map_err(|error| Error::invalid(format!("not a name of an object: {error}")))
    }

    fn put(&self, name: &str, bytes: &[u8], mode: PutMode) -> Result<Put, Error> {
        let path = self.path(name)?;
        let put = async {
            let put = self
                .store
                .put_opts(&path, bytes.to_vec().into(), mode.into())
                .await;
            match put {
                Ok(PutResult { e_tag, version, .. }) => Ok(Put::Stored(Version {
                    e_tag,
                    number: version,
                })),
                Err(
                    object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. },
                ) => Ok(Put::Differs),
                Err(error) => Err(self.failed(name, "cannot be written", &error)),
            }
        };
        wait_for(put)
    }

    fn failed(&self, name: &str, what: &str, error: &object_store::Error) -> Error {
        external(self, &format!("{name} {what}: {error}"))
    }
}

impl Objects for Cloud {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        let path = self.path(name)?;
        let fail = |error| self.failed(name, "cannot be read", &error);
        wait_for(async {
            let got = match self.store.get_opts(&path, GetOptions::default()).await {
                Ok(got) => got,
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(fail(error)),
            };
            if got.meta.size > limit as u64 {
                return Err(damaged(self, name, "is larger than it can be"));
            }
            let version = Version {
                e_tag: got.meta.e_tag.clone(),
                number: got.meta.version.clone(),
            };
            let bytes = got.bytes().await.map_err(fail)?.to_vec();
            Ok(Some(Object { bytes, version }))
        })
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        self.put(name, bytes, PutMode::Create)
    }

    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error> {
        let version = UpdateVersion {
            e_tag: version.e_tag.clone(),
            version: version.number.clone(),
        };
        self.put(name, bytes, PutMode::Update(version))
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let prefix = self.path(folder)?;
        let fail = |error| self.failed(folder, "cannot be listed", &error);
        let mut listed = match after {
            "" => self.store.list(Some(&prefix)),
            after => {
                let offset = self.path(&format!("{folder}/{after}"))?;
                self.store.list_with_offset(Some(&prefix), &offset)
            }
        };
        wait_for(async {
            let mut names: Vec<String> = Vec::new();
            while names.len() < limit
                && let Some(found) = poll_fn(|context| listed.as_mut().poll_next(context)).await
            {
                let ObjectMeta { location, .. } = found.map_err(fail)?;
                let whole = location.as_ref();
                let name = whole
                    .strip_prefix(prefix.as_ref())
                    .and_then(|rest| rest.strip_prefix('/'));
                let name = name.unwrap_or(whole).to_owned();
                if names.last().is_some_and(|last| *last >= name) {
                    return Err(external(self, "names are not listed in order"));
                }
                names.push(name);
            }
            Ok(names)
        })
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        wait_for(async {
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.failed(name, "cannot be removed", &error)),
            }
        })
    }

    fn place(&self) -> String {
        match self.prefix.as_str() {
            "" => self.store.to_string(),
            prefix => format!("{}, {prefix}", self.store),
        }
    }
}
