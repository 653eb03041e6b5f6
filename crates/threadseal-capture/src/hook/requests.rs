//! Requests of hooks, which the watcher holds durably before it answers.
//!
//! ```text
//! $THREADSEAL_HOME/capture/requests.jsonl   {"agent":…,"event":…,"session":…,"logs":[…],"database":…}   a line each
//! hook ─► append, fsync ─► "held" ─► sealed ─► no request is left ─► the file is emptied
//! ```
//! A watcher that was killed finds the requests at its next start. A line that a crash cut was never
//! answered, so it is passed over.

use super::{Payload, open_to_append};
use crate::Agent;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_store::read::read_small;
use threadseal_store::sys::{FileHandle, Fs, append_all, failure};

/// The most bytes of requests that wait at once. A hook that finds no room seals by itself.
pub const MAX_REQUESTS_BYTES: u64 = 16 << 20;

/// A request to seal what a payload names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The name of the agent.
    pub agent: String,
    /// Its word for the event.
    pub event: String,
    /// Its id of the session.
    pub session: Option<String>,
    /// The logs that the payload names.
    pub logs: Vec<PathBuf>,
    /// The database that has the session.
    pub database: Option<PathBuf>,
}

impl Request {
    /// The request that follows from a payload.
    pub fn new(agent: Agent, payload: Payload) -> Self {
        let Payload {
            event,
            session,
            logs,
            database,
        } = payload;
        Self {
            agent: agent.name().to_owned(),
            event,
            session,
            logs,
            database,
        }
    }
}

/// The requests that are held.
#[derive(Debug)]
pub struct Requests {
    file: Arc<dyn FileHandle>,
    place: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Requests without an end of their work.
    waiting: u64,
}

impl Requests {
    /// Opens the requests of the home at `home`, and gives those that an earlier watcher left.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(fs: &dyn Fs, home: &Path) -> Result<(Self, Vec<Request>), Error> {
        let place = home.join("capture/requests.jsonl");
        let file = open_to_append(fs, &place);
        let file = file.map_err(|error| failure("open", &place, &error))?;
        let limit = usize::try_from(2 * MAX_REQUESTS_BYTES).unwrap_or(usize::MAX);
        let bytes = read_small(fs, &place, limit)?;
        let lines = bytes.split(|byte| *byte == b'\n');
        let left: Vec<Request> = lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let requests = Self {
            file,
            place,
            held: Mutex::new(Held {
                bytes: bytes.len() as u64,
                waiting: left.len() as u64,
            }),
        };
        // The next line must not continue one that a crash cut.
        if bytes.last().is_some_and(|last| *last != b'\n') {
            requests.append(b"\n")?;
        }
        Ok((requests, left))
    }

    /// Holds a request: it is on the disk when this returns.
    ///
    /// # Errors
    /// When there is no room, or the disk fails.
    pub fn hold(&self, request: &Request) -> Result<(), Error> {
        let line =
            serde_json::to_vec(request).map_err(|error| Error::invalid(error.to_string()))?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = line.len() as u64 + 1;
        if held.bytes + bytes > MAX_REQUESTS_BYTES {
            return Err(Error::refused("too many requests of hooks wait"));
        }
        // Counted first: what fails after some bytes were written takes room, too.
        held.bytes += bytes;
        self.append(&[line, vec![b'\n']].concat())?;
        let synced = self.file.sync_data();
        synced.map_err(|error| failure("make durable", &self.place, &error))?;
        held.waiting += 1;
        Ok(())
    }

    /// Notes that the work for `count` requests has ended; empties the file when none is left.
    ///
    /// # Errors
    /// When the file cannot be emptied. The requests are then met again, which seals nothing twice.
    pub fn end(&self, count: u64) -> Result<(), Error> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.waiting = held.waiting.saturating_sub(count);
        if held.waiting > 0 || held.bytes == 0 {
            return Ok(());
        }
        let emptied = self.file.set_len(0);
        emptied.map_err(|error| failure("empty", &self.place, &error))?;
        held.bytes = 0;
        Ok(())
    }

    /// How many requests wait.
    pub fn waiting(&self) -> u64 {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.waiting
    }

    fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        append_all(&*self.file, bytes).map_err(|error| failure("write", &self.place, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use threadseal_store::sys::RealFs;

    fn request(session: &str) -> Request {
        Request {
            agent: "codex".to_owned(),
            event: "Stop".to_owned(),
            session: Some(session.to_owned()),
            logs: vec!["/a.jsonl".into()],
            database: None,
        }
    }

    // T-CAP-32
    #[test]
    fn requests_that_were_held_are_found_after_a_crash_at_any_byte() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealFs::shared();
        let open = || Requests::open(&*disk, folder.path()).unwrap();
        let (requests, left) = open();
        assert!(left.is_empty());
        for session in ["one", "two"] {
            requests.hold(&request(session)).unwrap();
        }
        let place = folder.path().join("capture/requests.jsonl");
        let whole = fs::read(&place).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for end in 0..=whole.len() {
            fs::write(&place, &whole[..end]).unwrap();
            let (requests, left) = open();
            let count = usize::from(end >= first) + usize::from(end + 1 >= whole.len());
            assert_eq!(left.len(), count, "{end}");
            requests.hold(&request("three")).unwrap();
            let left = open().1;
            assert_eq!(left.last(), Some(&request("three")), "{end}");
        }
        let (requests, left) = open();
        requests.end(left.len() as u64 - 1).unwrap();
        assert_eq!(requests.waiting(), 1);
        requests.end(1).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"");
    }

    // T-CAP-33
    #[test]
    fn requests_have_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealFs::shared();
        let (requests, _) = Requests::open(&*disk, folder.path()).unwrap();
        let large = request(&"x".repeat(4 << 20));
        let held = (0..8).take_while(|_| requests.hold(&large).is_ok()).count();
        assert_eq!(held, 3);
        requests.end(3).unwrap();
        requests.hold(&large).unwrap();
    }
}
