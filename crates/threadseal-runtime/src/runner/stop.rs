//! Stopping threads from outside: asking one to end, and ending its process.
//!
//! ```text
//! cancel   <thread>/cancel.json {thread_id, requested_at}, signed
//!            ─► its process looks for it ─► Cancel
//! kill     the holder of its record's lock (from the kernel)
//!            ─► the same as the registry's row? ─► pidfd
//!            ─► SIGTERM ─► SIGKILL ─► its threads are recovered, as `killed`
//! ```
//! An attacker who can write a registry's file can write any row. So no row is a reason to signal a
//! process, and none decides the state of a thread. Two things decide: the lock of its record,
//! which only the kernel gives, and the record. A process is signalled only if it alone holds that
//! lock, of a record that has not ended. Where there is a row, the row must name that process. A
//! suspended thread is cancelled under that lock, which a successor needs as well.
//!
//! A request is obeyed when it verifies for this thread. Others are noted in the record, and change
//! nothing.

use super::held_record;
use super::places::Places;
use super::record_writer::WriteHandle;
use super::recover;
use super::services::{Notice, Services};
use crate::bounds::{CANCEL_POLL, KILL_PATIENCE, NOTICE_POLL, TERMINATE_PATIENCE};
use crate::no_links::NoLinks;
use crate::process_id::{Held, ProcessId};
use crate::project::{Project, ThreadFolder};
use crate::registry::{Filter, Subject, Thread};
use crate::signed_file::{Put, SignedFile, read_verified};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, ThreadId};
use threadseal_formats::document::{DocumentKind, Options};
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::host::Host;
use threadseal_store::recorder::Recorder;
use threadseal_store::sys::FileKind;

pub(crate) const KILLED: &str = "its process was killed";

/// How a thread was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    /// It ended normally when its process was asked to end, or had ended before.
    Ended(Status),
    /// Its process was ended, or was gone already.
    Process(Status),
    /// This process runs it: it was asked to end.
    Asked,
}

/// Asks the process that runs a thread to end it: also another process.
///
/// # Errors
/// Kind `Refused` when the thread has ended, or the file in the place of the request is none.
pub(in crate::runner) fn request_cancel(services: &Services, id: &ThreadId) -> Result<(), Error> {
    let folder = services.project.thread(id);
    let path = folder.cancel();
    services.project.inside(&*services.host.fs, &path)?;
    if writer(&services.host, &services.project, id)?.is_none() {
        let there = services.host.fs.symlink_metadata(&folder.transcript());
        if there.is_err() {
            return Err(nobody_runs(id));
        }
        match held_record::hold(services, id) {
            Ok(recorder) => return cancel_held(services, id, &folder, &recorder),
            // A process took it at this moment.
            Err(error)
                if error.kind() == ErrorKind::External
                    && writer(&services.host, &services.project, id)?.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    leave_request(services, id, &|path, bytes| {
        let fs = NoLinks::over(&services.host.fs);
        atomic::replace(&fs, path, bytes, Mode::KeepOr(PRIVATE_FILE))
    })
}

/// Leaves the request in the folder of a running thread; `put` writes it there.
///
/// # Errors
/// As `Engine::request_cancel`.
pub(in crate::runner) fn leave_request(
    services: &Services,
    id: &ThreadId,
    put: &Put<'_>,
) -> Result<(), Error> {
    if let Some(status) = ended(services, id) {
        let text = format!("{id} is {status}, and a process writes after its end");
        return Err(Error::refused(text));
    }
    let folder = services.project.thread(id);
    let path = folder.cancel();
    if services.host.fs.symlink_metadata(&path).is_ok() {
        // Asked before; the existing file must be a request, not something that blocks one.
        return requested(services, &folder, id).map(drop);
    }
    let now = services.host.clock.now()?;
    let request = json!({"thread_id": id.as_str(), "requested_at": now.to_iso_seconds()});
    let mut file = SignedFile::new(&services.host, &path, DocumentKind::Json, None)?;
    let bytes = format!("{request:#}\n");
    file.write_by(
        &services.host,
        &services.keys,
        Some(id),
        bytes.as_bytes(),
        put,
    )
    .map(drop)
}

/// Cancels a thread that waits for a person's decision, for the holder of its order.
///
/// # Errors
/// Kind `Refused` when it does not wait; nothing is changed then.
pub(in crate::runner) fn cancel_suspended(services: &Services, id: &ThreadId) -> Result<(), Error> {
    let recorder = held_record::hold(services, id)?;
    cancel_held(services, id, &services.project.thread(id), &recorder)
}

/// Cancels a thread that waits for a person's decision, under the lock of its record.
fn cancel_held(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    recorder: &Recorder,
) -> Result<(), Error> {
    if !recorder.state().is_ended() {
        return Err(nobody_runs(id));
    }
    if Some(&waits(services, id)?) != recorder.state().head() {
        return Err(Error::refused(format!(
            "another process wrote the record of {id} meanwhile; try again"
        )));
    }
    recover::close(services, id, &folder.metadata(), Status::Cancelled)
}

/// Would [`cancel_suspended`] cancel it? Takes no lock and writes nothing.
///
/// # Errors
/// As [`cancel_suspended`].
pub(in crate::runner) fn check_suspended(services: &Services, id: &ThreadId) -> Result<(), Error> {
    waits(services, id).map(drop)
}

/// The last seal of a thread that waits for a person's decision, by its record and `thread.json`.
fn waits(services: &Services, id: &ThreadId) -> Result<Head, Error> {
    let thread = services.archive().thread(id, None)?;
    let record = thread.record();
    services.archive().belongs_here(record)?;
    let stated = thread.meta().map(|meta| meta.get().status);
    let waits = record.ended() == Some(Status::Suspended)
        && record.successors().is_empty()
        && stated == Some(Status::Suspended);
    if waits {
        return Ok(record.head());
    }
    let status = stated.or_else(|| record.ended());
    let status = status.map_or("over", Status::as_str);
    Err(Error::refused(format!("{id} is {status}: it has ended")))
}

/// The end of a thread, by a record that verifies; None where that contains no end.
pub(in crate::runner) fn ended(services: &Services, id: &ThreadId) -> Option<Status> {
    let record = services.archive().record(id, None);
    record.ok().and_then(|record| record.ended())
}

/// The request to end a thread.
///
/// # Errors
/// When there is none that verifies for this thread.
fn requested(services: &Services, folder: &ThreadFolder, id: &ThreadId) -> Result<Value, Error> {
    let host = &services.host;
    let options = Options {
        expect_thread: Some(id),
        ..Options::new(DocumentKind::Json, &services.trust, host.clock.now()?)
    };
    let checked = read_verified(host, &folder.cancel(), &options)?;
    let request: Value = serde_json::from_slice(&checked.bytes)
        .map_err(|error| Error::refused(format!("cancel.json: {error}")))?;
    if request["thread_id"] == id.as_str() {
        return Ok(request);
    }
    Err(Error::refused(format!(
        "cancel.json asks for {}",
        request["thread_id"]
    )))
}

/// Looks for a request to end thread `id`, and for changes of its places, until the returned value
/// is dropped.
pub(in crate::runner) fn attend(
    services: &Services,
    id: &ThreadId,
    cancel: &Cancel,
    writer: WriteHandle,
    places: Arc<Places>,
) -> Attendant {
    let (stop, stopped) = mpsc::channel::<()>();
    let (services, id, cancel) = (services.clone(), id.clone(), cancel.clone());
    let folder = services.project.thread(&id);
    let look = move || {
        let (mut told, mut known) = (false, None);
        while until_request(&services, &stopped, &places, &mut known) {
            if services.host.fs.symlink_metadata(&folder.cancel()).is_err() {
                continue;
            }
            let (kind, event) = match requested(&services, &folder, &id) {
                Ok(request) => (
                    "cancel_requested",
                    json!({"requested_at": request["requested_at"]}),
                ),
                Err(_) if told => continue,
                Err(why) => ("cancel_refused", json!({"reason": why.to_string()})),
            };
            told = true;
            let reason = event["reason"].as_str();
            let notice = reason.map_or(Notice::CancelRequested, Notice::CancelRefused);
            services.announce(&id, notice);
            // A record that cannot be written fails its thread at the next line.
            writer.leave(move |journal| drop(journal.event(kind, &event)));
            if kind == "cancel_requested" {
                cancel.set();
                return;
            }
        }
    };
    // Without this OS thread the starting thread can still cancel it.
    Attendant {
        stop: Some(stop),
        running: thread::Builder::new().spawn(look).ok(),
    }
}

/// Waits until it is time to look for a request; false where nothing runs any more. A registry of many
/// machines gives notice of each request; `known` is the number at the look before.
fn until_request(
    services: &Services,
    stopped: &Receiver<()>,
    places: &Places,
    known: &mut Option<u64>,
) -> bool {
    let mut waited = Duration::ZERO;
    while stopped.recv_timeout(CANCEL_POLL) == Err(RecvTimeoutError::Timeout) {
        places.look_aside();
        waited += CANCEL_POLL;
        let now = services.registry.notices(Subject::Request).ok().flatten();
        if now.is_none() || now != *known || waited >= NOTICE_POLL {
            *known = now;
            return true;
        }
    }
    false
}

/// Ends a thread's process, with all threads that it runs.
///
/// # Errors
/// Kind `Refused` when the thread has ended, or when the writer of its record is not the
/// process that the registry names. Nothing is signalled then. `External` when the process
/// cannot be ended.
pub(in crate::runner) fn kill(services: &Services, id: &ThreadId) -> Result<Killed, Error> {
    let row = services.registry.get(id)?;
    if let Some(status) = ended(services, id) {
        let text = format!("{id} is {status}: it has ended, and no process is signalled");
        return Err(Error::refused(text));
    }
    let Some(holder) = writer(&services.host, &services.project, id)? else {
        // No process writes it: there is none to end.
        let recovered = recover::recover(services, id, Status::Killed, KILLED)?;
        return Ok(Killed::Process(recovered.status));
    };
    if holder == std::process::id() {
        request_cancel(services, id)?;
        return Ok(Killed::Asked);
    }
    let Some(held) = Held::of(holder)? else {
        return Err(Error::new(
            ErrorKind::External,
            format!("process {holder} is ending; try again"),
        ));
    };
    // Again, now that the number cannot change hands.
    let same = writer(&services.host, &services.project, id)? == Some(holder);
    let is_named = |row: &Thread| row.process().is_some_and(|named| held.id().is(&named));
    if !same || !row.as_ref().is_none_or(is_named) {
        return Err(Error::refused(format!(
            "process {holder} writes the record of {id}, but the registry names another process: no process is signalled"
        )));
    }
    held.terminate()?;
    if !held.is_gone(TERMINATE_PATIENCE)? {
        held.kill()?;
        if !held.is_gone(KILL_PATIENCE)? {
            let text = format!("process {holder} does not end");
            return Err(Error::new(ErrorKind::External, text));
        }
    }
    let killed = match ended(services, id) {
        Some(status) => Killed::Ended(status),
        None => Killed::Process(recover::recover(services, id, Status::Killed, KILLED)?.status),
    };
    bury(services, held.id())?;
    Ok(killed)
}

/// Recovers the threads of a process that is gone, as far as they did not end themselves.
fn bury(services: &Services, process: &ProcessId) -> Result<(), Error> {
    for thread in services.registry.list(&Filter::active())?.threads {
        let of_it = thread.process().is_some_and(|named| process.is(&named));
        if of_it && matches!(thread.standing(), Ok(Status::Created | Status::Running)) {
            let recovered = recover::recover(services, &thread.id, Status::Killed, KILLED)?;
            let notice = Notice::Recovered(recovered.status, recovered.unresolved.len());
            services.announce(&thread.id, notice);
        }
    }
    Ok(())
}

/// The number of the process that writes a thread's record.
pub(super) fn writer(host: &Host, project: &Project, id: &ThreadId) -> Result<Option<u32>, Error> {
    let path = project.thread(id).transcript();
    project.inside(&*host.fs, &path)?;
    // A link or a pipe in its place is no record.
    let found = host.fs.symlink_metadata(&path);
    let found = found.ok().filter(|found| found.kind == FileKind::Regular);
    Ok(found.and_then(|found| host.fs.lock_holder(found.identity)))
}

fn nobody_runs(id: &ThreadId) -> Error {
    Error::refused(format!(
        "no process runs {id}; hint: threadseal thread recover"
    ))
}

/// Looks for requests, until it is dropped; then nothing of it is left.
pub(super) struct Attendant {
    stop: Option<Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl Drop for Attendant {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It may hold the databases of the thread open.
        let _ = self.running.take().map(JoinHandle::join);
    }
}
