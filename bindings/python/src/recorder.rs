//! [`Recorder`]: a native record, written from any number of threads.
//!
//! ```text
//! record ─► queue ─┬─► the thread that has the record writes all that waits, with one flush or fsync
//! record ─► queue ─┘   the others find their events written, and return
//! ```
//! Invariants:
//! * A call returns only after the promise for its own events holds: written, or durable.
//! * Events are in the record in the order in which their calls entered the queue.
//! * A process that was forked from the one that opened the record writes nothing.

use crate::errors::{not_verified, of_class, raised};
use crate::home::Identity;
use crate::json;
use pyo3::prelude::{Bound, Py, PyAny, PyErr, PyRef, PyResult, Python, pyclass, pymethods};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal::formats::transcript::ext::Ext;
use threadseal::{
    Ending, Error, ErrorKind, EventType, Opened, OpenedHome, Payload, TailPolicy, Verdict, Writer,
};

/// The most lines between two seals that are not asked for.
const MAX_SEAL_EVERY: u64 = 1 << 20;
/// What becomes of lines after the last seal of a record that is continued.
const TAILS: [(&str, TailPolicy); 3] = [
    ("refuse", TailPolicy::Refuse),
    ("set_aside", TailPolicy::SetAside),
    ("adopt", TailPolicy::Adopt),
];

/// An event that waits to be recorded.
#[pyclass(frozen, module = "threadseal._native")]
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) event_type: EventType,
    pub(crate) payload: Payload,
}

/// The one writer of a record.
#[pyclass(frozen, module = "threadseal._native")]
pub(crate) struct Recorder {
    queue: Mutex<Queue>,
    core: Mutex<Core>,
    path: PathBuf,
    thread: String,
    record: String,
    process: u32,
    durable: bool,
    seal_every: u64,
    moved: Option<PathBuf>,
}

/// Events that no thread has written yet.
#[derive(Default)]
struct Queue {
    waiting: Vec<(u64, Event)>,
    /// The ticket of the next event.
    next: u64,
}

/// The record, and what became of the events.
struct Core {
    /// None after the end.
    recorder: Option<threadseal::Recorder>,
    home: Option<OpenedHome>,
    /// Turns that are over.
    turns: u64,
    /// Events with smaller tickets are written, or failed.
    done: u64,
    failures: BTreeMap<u64, Error>,
}

#[pymethods]
impl Recorder {
    /// Begins a record at `path`: line 1 is durable and sealed.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one call of Python")]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn create(
        py: Python<'_>,
        identity: PyRef<'_, Identity>,
        path: PathBuf,
        thread: &str,
        model: Option<String>,
        directive: Option<String>,
        detached: bool,
        durable: bool,
        seal_every: u64,
    ) -> PyResult<Self> {
        let writer = identity.0.clone();
        let made = py.detach(|| {
            check_seal_every(seal_every)?;
            let writer = if detached {
                writer.with_detached_bodies()
            } else {
                writer
            };
            let mut manifest = writer.manifest()?;
            (manifest.model, manifest.directive) = (model, directive);
            let recorder = writer.record_as(&path, thread, manifest)?;
            Ok(Self::of(recorder, None, &writer, (durable, seal_every)))
        });
        made.map_err(|error| raised(py, &error))
    }

    /// Continues a record, after it verified; `tail` decides what becomes of lines after its last seal.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn resume(
        py: Python<'_>,
        identity: PyRef<'_, Identity>,
        path: PathBuf,
        tail: &str,
        durable: bool,
        seal_every: u64,
    ) -> PyResult<Self> {
        let writer = identity.0.clone();
        let made = py.detach(|| {
            check_seal_every(seal_every)?;
            let policy = TAILS.iter().find(|(name, _)| *name == tail);
            let policy = policy
                .ok_or_else(|| Error::invalid(format!("there is no tail policy {tail:?}")))?;
            let Opened {
                recorder, moved, ..
            } = writer.resume_with(&path, policy.1)?;
            if recorder.state().is_ended() {
                return Err(Error::refused(
                    "the record has ended; hint: begin a new one",
                ));
            }
            let moved = moved.map(|moved| moved.path);
            Ok(Self::of(recorder, moved, &writer, (durable, seal_every)))
        });
        made.map_err(|error| refusal(py, &writer, &path, &error))
    }

    /// Records one event.
    fn record(&self, event_type: &str, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let event = json::event(event_type, payload)?;
        let py = payload.py();
        let mut failed = self.detached(py, || self.write(vec![event]))?;
        match failed.pop() {
            None => Ok(()),
            Some((_, error)) => Err(raised(py, &error)),
        }
    }

    /// Records many events with one flush or fsync; gives for each that failed its place and exception.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn record_batch(
        &self,
        py: Python<'_>,
        events: Vec<PyRef<'_, Event>>,
    ) -> PyResult<Vec<(usize, Py<PyAny>)>> {
        let events = events.iter().map(|event| (**event).clone()).collect();
        let failed = self.detached(py, || self.write(events))?;
        let exception =
            |(at, error): (usize, Error)| (at, raised(py, &error).into_value(py).into_any());
        Ok(failed.into_iter().map(exception).collect())
    }

    /// Makes all events so far durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.asked(py, |core| core.recorder()?.sync())
    }

    /// Seals all events so far, durably, and gives the head. A turn ends with it, unless `in_turn`.
    fn seal(&self, py: Python<'_>, in_turn: bool) -> PyResult<String> {
        self.asked(py, |core| {
            let head = core.seal()?;
            core.turns += u64::from(!in_turn);
            Ok(head)
        })
    }

    /// Ends the record with a terminal event and a final seal, and gives the head.
    fn end(&self, py: Python<'_>, ending: &str, payload: &Bound<'_, PyAny>) -> PyResult<String> {
        let payload = json::object(payload)?;
        self.asked(py, |core| {
            let payload = Payload::parse(&payload)?;
            let (ending, turn) = (ending_of(ending)?, core.turns + 1);
            let head = core.recorder()?.end(ending, &payload, turn)?;
            core.recorder = None;
            core.settle();
            Ok(head.to_string())
        })
    }

    /// Seals what has no seal and gives the record up, in any case. It can be resumed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_forked() {
            return Ok(());
        }
        self.asked(py, |core| {
            if core.recorder.is_none() {
                return Ok(());
            }
            // Also after a failed write: what is on the disk then waits for a resume.
            let sealed = core.seal();
            core.recorder = None;
            core.settle();
            sealed.map(drop)
        })
    }

    /// Gives the record up without a seal, as a crash does. What was written stays.
    fn abandon(&self, py: Python<'_>) {
        if !self.is_forked() {
            py.detach(|| lock(&self.core).recorder = None);
        }
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    #[getter]
    fn thread(&self) -> &str {
        &self.thread
    }

    /// The id of the record.
    #[getter]
    fn record_id(&self) -> &str {
        &self.record
    }

    /// The file that holds the tail of the resumed record, if one was set aside.
    #[getter]
    fn set_aside(&self) -> Option<&Path> {
        self.moved.as_deref()
    }

    /// Has it no writer any more? In a forked process it has none.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.is_forked() || py.detach(|| lock(&self.core).recorder.is_none())
    }

    /// The last seal; none after the end, and in a forked process.
    #[getter]
    fn head(&self, py: Python<'_>) -> Option<String> {
        if self.is_forked() {
            return None;
        }
        py.detach(|| {
            let core = lock(&self.core);
            let head = core.recorder.as_ref()?.state().head()?;
            Some(head.to_string())
        })
    }
}

impl Recorder {
    fn of(
        recorder: threadseal::Recorder,
        moved: Option<PathBuf>,
        writer: &Writer,
        (durable, seal_every): (bool, u64),
    ) -> Self {
        let state = recorder.state();
        Self {
            queue: Mutex::default(),
            path: recorder.path().to_owned(),
            thread: state.thread().as_str().to_owned(),
            record: state.manifest().record.to_string(),
            process: std::process::id(),
            durable,
            seal_every,
            moved,
            core: Mutex::new(Core {
                turns: state.turn(),
                home: writer.home().cloned(),
                recorder: Some(recorder),
                done: 0,
                failures: BTreeMap::new(),
            }),
        }
    }

    /// Was the process forked from the one that opened the record? Then a lock may be one that no thread gives back.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Runs `work` without the interpreter's lock, in the process that opened the record.
    fn detached<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
        if self.is_forked() {
            let text = format!(
                "this recorder belongs to the process {}, from which this one was forked; hint: open a record of its own in each process",
                self.process
            );
            return Err(of_class(py, "Superseded", text));
        }
        Ok(py.detach(work))
    }

    /// Runs `work` on the record, after everything that waits was written.
    fn asked<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = self.detached(py, || {
            let mut core = lock(&self.core);
            self.drain(&mut core);
            work(&mut core)
        })?;
        done.map_err(|error| raised(py, &error))
    }

    /// Puts events into the queue and returns when they are written; the place and error of each that failed.
    fn write(&self, events: Vec<Event>) -> Vec<(usize, Error)> {
        let count = events.len() as u64;
        let first = {
            let mut queue = lock(&self.queue);
            let first = queue.next;
            queue.next += count;
            queue.waiting.extend((first..).zip(events));
            first
        };
        let mut core = lock(&self.core);
        if core.done < first + count {
            self.drain(&mut core);
        }
        if core.failures.is_empty() {
            return Vec::new();
        }
        let own = (0..).zip(first..first + count);
        own.filter_map(|(at, ticket)| Some((at, core.failures.remove(&ticket)?)))
            .collect()
    }

    /// Writes everything that waits.
    fn drain(&self, core: &mut Core) {
        let (waiting, next) = {
            let mut queue = lock(&self.queue);
            (std::mem::take(&mut queue.waiting), queue.next)
        };
        if waiting.is_empty() {
            return;
        }
        let tickets: Vec<u64> = waiting.iter().map(|(ticket, _)| *ticket).collect();
        for (ticket, event) in waiting {
            if let Err(error) = core.append(&event, self.seal_every) {
                core.failures.insert(ticket, error);
            }
        }
        let kept = core.recorder().and_then(|recorder| match self.durable {
            true => recorder.sync(),
            false => recorder.flush(),
        });
        if let Err(error) = kept {
            for ticket in tickets {
                core.failures.entry(ticket).or_insert_with(|| error.clone());
            }
        }
        core.done = next;
    }
}

impl Core {
    fn recorder(&mut self) -> Result<&mut threadseal::Recorder, Error> {
        let text = "the record is closed; hint: resume it, or begin a new one";
        self.recorder.as_mut().ok_or_else(|| Error::refused(text))
    }

    fn append(&mut self, event: &Event, seal_every: u64) -> Result<(), Error> {
        let recorder = self.recorder()?;
        recorder.append_buffered(&event.event_type, &event.payload)?;
        match recorder.state().unsealed_lines() >= seal_every {
            true => self.seal().map(drop),
            false => Ok(()),
        }
    }

    /// Seals what has no seal yet, in the turn that is open.
    fn seal(&mut self) -> Result<String, Error> {
        let turn = self.turns + 1;
        let recorder = self.recorder()?;
        let head = match (recorder.state().unsealed_lines(), recorder.state().head()) {
            (0, Some(head)) => *head,
            _ => recorder.seal(turn, Ext::default())?,
        };
        Ok(head.to_string())
    }

    /// Heads that cannot be written into the log now wait there for the next process.
    fn settle(&self) {
        let settled = self.home.as_ref().map(OpenedHome::settle);
        drop(settled);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.is_forked() {
            // The lock on the file belongs to the process that opened it.
            let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(core.recorder.take());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_seal_every(lines: u64) -> Result<(), Error> {
    match (1..=MAX_SEAL_EVERY).contains(&lines) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "seal_every is 1 to {MAX_SEAL_EVERY}"
        ))),
    }
}

fn ending_of(word: &str) -> Result<Ending, Error> {
    Ok(match word {
        "completed" => Ending::Completed,
        "error" => Ending::Error,
        "cancelled" => Ending::Cancelled,
        "suspended" => Ending::Suspended,
        _ => return Err(Error::invalid(format!("there is no ending {word:?}"))),
    })
}

/// Why a record is not continued, with its report where it is the reason.
fn refusal(py: Python<'_>, writer: &Writer, path: &Path, error: &Error) -> PyErr {
    if error.kind() != ErrorKind::Refused {
        return raised(py, error);
    }
    let run = py.detach(|| {
        writer
            .verifier()
            .ok()?
            .verify_all(vec![path.to_owned()])
            .ok()
    });
    let worst = run.and_then(|run| run.results.into_iter().min_by_key(|report| report.verdict));
    match worst.filter(|report| !matches!(report.verdict, Verdict::Verified | Verdict::Open)) {
        Some(report) => not_verified(py, &report),
        None => raised(py, error),
    }
}
