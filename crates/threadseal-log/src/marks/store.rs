//! [`StoreMark`]: the mark as a row of a database, or an object of a storage.
//!
//! It is replaced on condition that it is what was read, and only by a checkpoint that continues it: of two copies of one home,
//! on whatever machines, the one that comes second is refused.

use super::super::description::{Description, LogId};
use super::super::far::{Raised, Said};
use super::super::view::LogView;
use super::{MAX_MARK_BYTES, ended_text, next, read, said_text};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::objects::{Object, Objects, Put};

/// How often a mark is tried again when another process brings it up.
const MAX_TRIES: usize = 8;

/// The mark in a store.
pub(in super::super) struct StoreMark {
    address: String,
    settings: Vec<(String, String)>,
    name: String,
    /// Opened by the first who needs it, and after a failure once more by the next.
    objects: Mutex<Option<Arc<dyn Objects>>>,
}

impl StoreMark {
    pub(in super::super) fn new(address: &str, id: LogId, settings: &[(String, String)]) -> Self {
        Self {
            address: address.to_owned(),
            settings: settings.to_vec(),
            name: format!("threadseal-marks/{id}"),
            objects: Mutex::default(),
        }
    }

    pub(in super::super) fn read(&self, description: &Description) -> Result<Said, Error> {
        let found = self.objects()?.read(&self.name, MAX_MARK_BYTES)?;
        said(found.as_ref(), description)
    }

    pub(in super::super) fn raise(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<Raised, Error> {
        let objects = self.objects()?;
        for _ in 0..MAX_TRIES {
            let found = objects.read(&self.name, MAX_MARK_BYTES)?;
            let there = said(found.as_ref(), description)?;
            let said = match next(there, &view()?)? {
                ControlFlow::Break(raised) => return Ok(raised),
                ControlFlow::Continue(said) => said,
            };
            if let Put::Stored(_) = self.put(&*objects, found.as_ref(), &said_text(&said))? {
                return Ok(Raised::To(said));
            }
        }
        Err(contended())
    }

    pub(in super::super) fn answer(&self) -> Result<(), Error> {
        self.objects()?.read(&self.name, MAX_MARK_BYTES).map(drop)
    }

    pub(in super::super) fn end(&self, description: &Description) -> Result<(), Error> {
        let objects = self.objects()?;
        for _ in 0..MAX_TRIES {
            let found = objects.read(&self.name, MAX_MARK_BYTES)?;
            // What is damaged there must not stand in the way out.
            let there = said(found.as_ref(), description).unwrap_or_default();
            if there.ended {
                return Ok(());
            }
            if let Put::Stored(_) = self.put(&*objects, found.as_ref(), &ended_text(&there))? {
                return Ok(());
            }
        }
        Err(contended())
    }

    fn put(&self, objects: &dyn Objects, found: Option<&Object>, text: &str) -> Result<Put, Error> {
        match found {
            None => objects.create(&self.name, text.as_bytes()),
            Some(found) => objects.replace_if(&self.name, &found.version, text.as_bytes()),
        }
    }

    fn objects(&self) -> Result<Arc<dyn Objects>, Error> {
        let mut held = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(objects) = &*held {
            return Ok(Arc::clone(objects));
        }
        let opened = open(&self.address, &self.settings)?;
        Ok(Arc::clone(held.insert(opened)))
    }
}

impl fmt::Debug for StoreMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings hold secrets.
        f.debug_tuple("StoreMark").field(&self.address).finish()
    }
}

fn said(found: Option<&Object>, description: &Description) -> Result<Said, Error> {
    read(found.map(|found| &found.bytes[..]), description)
}

fn contended() -> Error {
    Error::new(ErrorKind::External, "others change it all the time")
}

/// Opens a store at an address that holds no secret; `settings` hold those, as environments spell them.
fn open(address: &str, settings: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    if address.starts_with("postgres") {
        return open_postgres(address, settings);
    }
    #[cfg(feature = "object")]
    return threadseal_store::objects::open(address, settings);
    #[cfg(not(feature = "object"))]
    Err(unbuilt())
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &str, settings: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    use threadseal_store::ledger::postgres::{PostgresLedgerStore, PostgresObjects};
    let password = settings.iter().find(|(name, _)| name == "PGPASSWORD");
    let url = with_password(address, password.map(|(_, value)| value.as_str()));
    let store = PostgresLedgerStore::open(&url)?;
    Ok(Arc::new(PostgresObjects::new(Arc::new(store))))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(_: &str, _: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    Err(unbuilt())
}

#[cfg(not(all(feature = "postgres", feature = "object")))]
fn unbuilt() -> Error {
    Error::invalid("this program was built without that kind of store")
}

/// The address, with a password as one more of its settings.
#[cfg(feature = "postgres")]
fn with_password(address: &str, password: Option<&str>) -> String {
    use std::fmt::Write as _;
    let Some(password) = password else {
        return address.to_owned();
    };
    let mut url = address.to_owned();
    url.push(if address.contains('?') { '&' } else { '?' });
    url.push_str("password=");
    for byte in password.bytes() {
        // Written to memory, which does not fail.
        let _ = write!(url, "%{byte:02x}");
    }
    url
}
