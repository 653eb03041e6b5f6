//! [`StoreMark`]: the mark as a row of a database, or an object of a storage.
//!
//! It is replaced on condition that it is what was read, and only by a checkpoint that continues it: of two copies of one home,
//! on whatever machines, the one that comes second is refused.

use crate::layout::description::{Description, LogId};
use crate::marks::mark_state::{MAX_MARK_BYTES, MarkState, RemoteMark, UpdateResult};
use crate::tree::view::LogView;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(not(feature = "postgres"))]
use threadseal_core::error::Unbuilt;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::objects::{Object, Objects, Put};

/// How often a mark is tried again when another process brings it up.
const MAX_TRIES: usize = 8;

/// The mark in a store.
pub(crate) struct StoreMark {
    address: String,
    settings: Vec<(String, String)>,
    name: String,
    /// Opened at the first use, and after a failure again at the next.
    objects: Mutex<Option<Arc<dyn Objects>>>,
}

impl StoreMark {
    pub(crate) fn new(address: &str, id: LogId, settings: &[(String, String)]) -> Self {
        Self {
            address: address.to_owned(),
            settings: settings.to_vec(),
            name: format!("threadseal-marks/{id}"),
            objects: Mutex::default(),
        }
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

impl RemoteMark for StoreMark {
    fn read(&self, description: &Description) -> Result<MarkState, Error> {
        let found = self.objects()?.read(&self.name, MAX_MARK_BYTES)?;
        state(found.as_ref(), description)
    }

    fn update(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<UpdateResult, Error> {
        let objects = self.objects()?;
        for _ in 0..MAX_TRIES {
            let found = objects.read(&self.name, MAX_MARK_BYTES)?;
            let there = state(found.as_ref(), description)?;
            let next = match there.next(&view()?)? {
                ControlFlow::Break(result) => return Ok(result),
                ControlFlow::Continue(next) => next,
            };
            if let Put::Stored(_) = self.put(&*objects, found.as_ref(), &next.to_text())? {
                return Ok(UpdateResult::Updated(next));
            }
        }
        Err(contended())
    }

    fn can_end(&self) -> Result<(), Error> {
        self.objects()?.read(&self.name, MAX_MARK_BYTES).map(drop)
    }

    fn end(&self, description: &Description) -> Result<(), Error> {
        let objects = self.objects()?;
        for _ in 0..MAX_TRIES {
            let found = objects.read(&self.name, MAX_MARK_BYTES)?;
            // Damaged content must not block the way out.
            let there = state(found.as_ref(), description).unwrap_or_default();
            if there.ended {
                return Ok(());
            }
            let text = there.into_ended().to_text();
            if let Put::Stored(_) = self.put(&*objects, found.as_ref(), &text)? {
                return Ok(());
            }
        }
        Err(contended())
    }
}

impl fmt::Debug for StoreMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings hold secrets.
        f.debug_tuple("StoreMark").field(&self.address).finish()
    }
}

fn state(found: Option<&Object>, description: &Description) -> Result<MarkState, Error> {
    MarkState::parse(found.map(|found| &found.bytes[..]), description)
}

fn contended() -> Error {
    Error::new(ErrorKind::External, "other processes keep changing it")
}

/// Opens a store at an address that holds no secret; `settings` hold those, as environments spell them.
fn open(address: &str, settings: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    if address.starts_with("postgres") {
        return open_postgres(address, settings);
    }
    threadseal_store::objects::open(address, settings)
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &str, settings: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    use threadseal_store::postgres::PostgresObjects;
    let password = settings.iter().find(|(name, _)| name == "PGPASSWORD");
    let url = with_password(address, password.map(|(_, value)| value.as_str()));
    Ok(Arc::new(PostgresObjects::open(&url)?))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(address: &str, _: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    Err(Unbuilt::Postgres.error(format_args!("open {address}")))
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
