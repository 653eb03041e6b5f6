//! Adopts a finished thread of Rye into a database.
//!
//! ```text
//! Rye's thread verified in the folder ─► order reserved, its lease held here ─► line signed
//!     ─► thread.json, capabilities.md, transcript.jsonl copied, in this order
//!     ─► carried out as by a worker: verified again in the database ─► order done
//! ```
//! The transcript comes last: where it is, the other files are, and each has to be the one of the folder, if
//! that has the thread: a record of Rye that was cut at a seal verifies. An adoption that was lost before that
//! fails under the next worker and can be repeated; one that was lost later is carried out by it.

use super::Fleet;
use super::database::is_final;
use super::giving::Wanted;
use super::work::{Held, while_held};
use crate::bounds::{LEASE_TIME, MAX_CONVERSATION_BYTES, ORDER_LIFETIME};
use crate::item::ItemKind;
use crate::limit::Limits;
use crate::project::ThreadFolder;
use crate::runner::{Adoptable, Adoption, Engine};
use crate::signed_order::{From, OrderGrounds, Task, VerifiedOrder};
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::ThreadId;
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::host::Host;
use threadseal_store::postgres::files;
use threadseal_store::postgres::leases::{Lease, Taken};
use threadseal_store::random;
use threadseal_store::read::read_small;
use threadseal_store::sys;

impl Fleet {
    /// Brings a finished thread of Rye from the folder of `local` into the database; gives its result.
    /// Meanwhile its order is held as `worker`.
    ///
    /// # Errors
    /// Kind `Refused` as [`Engine::adopt`], when another thread started it, or when a worker holds its
    /// order; the database is not changed then. Otherwise as [`Engine::adopt`].
    pub fn adopt(
        &self,
        base: &Engine,
        local: &Engine,
        wanted: &Adoption,
        worker: &str,
    ) -> Result<Value, Error> {
        let looking = self.looking(base)?;
        let (order, is_here) = self.copied(&wanted.thread)?;
        let found = match is_here {
            true => {
                refuse_other_copy(local, &looking, &wanted.thread)?;
                looking.check_adoptable(wanted)?
            }
            false => {
                refuse_child(local, &wanted.thread)?;
                local.check_adoptable(wanted)?
            }
        };
        let taken = self.hold(&base.services.host, order, worker)?;
        let (asked, cancel) = (wanted.cancel.clone(), Cancel::default());
        let lease = &taken.lease;
        let done = while_held(&self.meters, lease, LEASE_TIME, [&asked, &cancel], || {
            let order = self.order_to_adopt(base, lease, wanted, &found)?;
            if !is_here {
                self.copy_thread(base, local, lease, &wanted.thread)?;
            }
            let limits = Limits::default();
            let held = Held {
                order: &order,
                lease,
                limits: &limits,
                cancel: &cancel,
            };
            self.work_on(base, &held, &mut |_| {})
        });
        match &done {
            Ok(result) => lease.finish(&result.to_string())?,
            Err(error) if is_final(error) => {
                let why = error.to_string();
                let result = json!({"success": false, "error": why});
                lease.set_aside(&why, &result.to_string())?;
            }
            // The next worker may be able to do it.
            Err(_) => lease.give_up()?,
        }
        done
    }

    /// The order that has files of this thread; is its transcript there?
    fn copied(&self, id: &ThreadId) -> Result<(Option<i64>, bool), Error> {
        let folder = ThreadFolder::new(Path::new(super::THREADS), id);
        let order_of = |path: &Path| files::order_of(&self.database, &path.to_string_lossy());
        let transcript = order_of(&folder.transcript())?;
        let mut order = transcript;
        for path in [folder.metadata(), folder.capabilities()] {
            order = order.or(order_of(&path)?);
        }
        Ok((order, transcript.is_some()))
    }

    /// The lease of a new order, or of the one that has files of the thread.
    fn hold(&self, host: &Host, order: Option<i64>, worker: &str) -> Result<Taken, Error> {
        let holder = random::array(&*host.random)?;
        let Some(order) = order else {
            return self.orders.reserve(worker, holder, LEASE_TIME);
        };
        let taken = self.orders.seize(order, worker, holder, LEASE_TIME)?;
        taken.ok_or_else(|| {
            Error::refused(format!(
                "order {order}, which adopts it, is held by a worker that is alive"
            ))
        })
    }

    /// The order, signed by this host and written into the row that it holds.
    fn order_to_adopt(
        &self,
        base: &Engine,
        lease: &Lease,
        wanted: &Adoption,
        found: &Adoptable,
    ) -> Result<VerifiedOrder, Error> {
        let task = Task::Adopt(From {
            order: lease.order(),
            after: lease.token().saturating_sub(1),
            last: wanted.thread.clone(),
            head: found.head,
        });
        let order = Wanted {
            kind: ItemKind::Directive,
            item: &found.directive,
            inputs: wanted.inputs.clone(),
            limits: Limits::default(),
            task,
        };
        let (signed, _) = self.signed(base, order, ORDER_LIFETIME)?;
        lease.write_task(signed.text())?;
        let services = &base.services;
        signed.verify(&OrderGrounds {
            keys: &[services.keys.native.public_key().key_id()],
            trust: &services.trust,
            now: services.host.clock.now()?,
            database: self.project_id()?,
            row: lease.order(),
            token: lease.token(),
        })
    }

    /// Copies Rye's files to the files of the order.
    fn copy_thread(
        &self,
        base: &Engine,
        local: &Engine,
        lease: &Lease,
        id: &ThreadId,
    ) -> Result<(), Error> {
        let found = folder_of(local, id)?;
        let found = found.ok_or_else(|| Error::refused(format!("{id} has no files here")))?;
        let root = base.services.project.root();
        let host = self.host(&base.services.host, root, Some(lease))?;
        let to = ThreadFolder::new(&root.join(super::THREADS), id);
        atomic::create_directories(&*host.fs, to.path(), PRIVATE_DIRECTORY)?;
        for ((path, most), (target, _)) in files_of(&found).into_iter().zip(files_of(&to)) {
            if let Some(bytes) = bytes_of(local, &path, most)? {
                atomic::replace(&*host.fs, &target, &bytes, Mode::Set(PRIVATE_FILE))?;
            } else if host.fs.symlink_metadata(&target).is_ok() {
                // One of an earlier attempt would be judged with the transcript.
                let gone = host.fs.unlink(&target);
                gone.map_err(|error| sys::failure("remove", &target, &error))?;
            }
        }
        Ok(())
    }
}

/// The files of a thread of Rye in the order in which they are copied, and the most bytes of each.
fn files_of(folder: &ThreadFolder) -> [(PathBuf, usize); 3] {
    [
        (folder.metadata(), MAX_DOCUMENT_BYTES),
        (folder.capabilities(), MAX_DOCUMENT_BYTES),
        (folder.transcript(), MAX_CONVERSATION_BYTES),
    ]
}

fn folder_of(engine: &Engine, id: &ThreadId) -> Result<Option<ThreadFolder>, Error> {
    let services = &engine.services;
    services.project.find_thread(&*services.host.fs, id)
}

/// The content of a file within the project; None where there is none.
fn bytes_of(engine: &Engine, path: &Path, most: usize) -> Result<Option<Vec<u8>>, Error> {
    let (fs, project) = (&*engine.services.host.fs, &engine.services.project);
    if fs.symlink_metadata(path).is_err() {
        return Ok(None);
    }
    project.inside(fs, path)?;
    read_small(fs, path, most).map(Some)
}

/// The copy in the database has to be what the folder has, where that has the thread.
fn refuse_other_copy(local: &Engine, looking: &Engine, id: &ThreadId) -> Result<(), Error> {
    let (Some(here), Some(there)) = (folder_of(local, id)?, folder_of(looking, id)?) else {
        return Ok(());
    };
    if bytes_of(local, &here.transcript(), MAX_CONVERSATION_BYTES)?.is_none() {
        return Ok(());
    }
    for ((path, most), (copy, _)) in files_of(&here).into_iter().zip(files_of(&there)) {
        if bytes_of(local, &path, most)? != bytes_of(looking, &copy, most)? {
            return Err(Error::refused(format!(
                "{} is another file than its copy in the database",
                path.display()
            )));
        }
    }
    Ok(())
}

/// A thread inherits from the one that started it, and a database has no threads of Rye above others.
fn refuse_child(local: &Engine, id: &ThreadId) -> Result<(), Error> {
    let row = local.services.registry.get(id)?;
    match row.and_then(|row| row.parent) {
        None => Ok(()),
        Some(parent) => Err(Error::refused(format!(
            "{id} was started by {parent}, which is not in the database; hint: adopt it without --database"
        ))),
    }
}
