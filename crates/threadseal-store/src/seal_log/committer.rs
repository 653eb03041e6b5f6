//! [`Committer`]: the thread of a process that commits what waits in it.
//!
//! Publishing puts a head into the process's spool file and into memory, and returns. The thread takes all that waits, and
//! what processes that ended have left, commits it with one fsync, and clears the spool. What fails keeps waiting: the next head, a
//! flush or the next process tries again.

use super::Shared;
use super::index::Index;
use super::spool::{Left, Spool};
use super::writer::Writer;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use threadseal::error::{Error, ErrorKind};
use threadseal::record::RecordId;
use threadseal::tlog::entry::{LogEntry, LoggedHead};

/// Heads that wait in memory; when more of them cannot be committed, they wait on the disk alone.
const MAX_WAITING: usize = if cfg!(test) { 1000 } else { 65_536 };
/// Longest wait of a process that ends for another one that is in the log.
const MAX_LAST_WAIT: Duration = Duration::from_secs(1);
/// Forks that are remembered until somebody asks.
const MAX_FORKS: usize = 64;

/// A head that another one of the same record and number stands in the way of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The one that stands in the log.
    pub logged: LoggedHead,
    /// The one that was to be committed.
    pub refused: LoggedHead,
}

/// Heads that were refused, and why the marks are behind, if they are.
type Done = (Vec<Fork>, Option<Error>);

/// What became of the heads that waited.
#[derive(Debug, Default)]
pub struct Published {
    /// Heads that still wait.
    pub waiting: usize,
    /// Why; where none waits, why the second place is behind the log.
    pub error: Option<Error>,
    /// Heads that were refused since the last time somebody asked.
    pub forks: Vec<Fork>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<LoggedHead>,
    /// Did something come that is to be tried?
    fresh: bool,
    /// Did the last attempt fail, and with how many?
    failed: Option<usize>,
    /// Heads in files of this process that it has let go of.
    set_aside: usize,
    /// Is there a head that could not be put on the disk?
    unspooled: bool,
    /// Is the thread at work on what it took?
    busy: bool,
    /// Somebody asks for an attempt, also when nothing new waits.
    asked: bool,
    closing: bool,
    error: Option<Error>,
    forks: Vec<Fork>,
    spool: Option<Spool>,
}

#[derive(Debug, Default)]
struct Gate {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Gate {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, queue: MutexGuard<'g, Queue>) -> MutexGuard<'g, Queue> {
        self.changed
            .wait(queue)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, and the way to it.
#[derive(Debug)]
pub(super) struct Committer {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(super) fn start(shared: Arc<Shared>) -> Self {
        let gate = Arc::<Gate>::default();
        let thread = {
            let (shared, gate) = (Arc::clone(&shared), Arc::clone(&gate));
            thread::Builder::new()
                .name("seal log".to_owned())
                .spawn(move || run(&shared, &gate))
        };
        if let Err(error) = &thread {
            let text = format!("no thread can be started: {error}");
            gate.queue().error = Some(Error::new(ErrorKind::External, text));
        }
        Self {
            shared,
            gate,
            thread: thread.ok(),
        }
    }

    pub(super) fn publish(&self, head: &LoggedHead) {
        let mut queue = self.gate.queue();
        if let Some(entry) = LogEntry::Head(*head).to_bytes() {
            let spooled = queue.spooled(&self.shared, &entry);
            if let Err(error) = spooled {
                queue.unspooled = true;
                queue.error = Some(error);
            }
        }
        queue.waiting.push(*head);
        // What fails again and again is tried less and less often.
        let waiting = queue.waiting.len();
        queue.fresh |= queue.failed.is_none_or(|failed| waiting >= 2 * failed);
        self.gate.changed.notify_all();
    }

    pub(super) fn flush(&self, longest: Duration) -> Published {
        let mut queue = self.gate.queue();
        if self.thread.is_some() {
            // An attempt that is under way, or about to be, is waited for and not made twice.
            queue.asked |= !(queue.busy || queue.fresh);
            self.gate.changed.notify_all();
            queue = self.rested(queue, longest);
        }
        if queue.waiting.is_empty() {
            // Nothing waits in it, and a process may end in ways that close nothing.
            if let Some(spool) = queue.spool.take_if(|spool| !spool.is_used()) {
                spool.close();
            }
        }
        Published {
            waiting: queue.waiting.len() + queue.set_aside,
            error: queue.error.take(),
            forks: std::mem::take(&mut queue.forks),
        }
    }
}

impl Committer {
    /// Waits until nothing is tried any more; for another process no longer than this.
    fn rested<'g>(
        &'g self,
        queue: MutexGuard<'g, Queue>,
        longest: Duration,
    ) -> MutexGuard<'g, Queue> {
        let at_work = |queue: &mut Queue| queue.at_work();
        let waited = self
            .gate
            .changed
            .wait_timeout_while(queue, longest, at_work);
        let (queue, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if !waited.timed_out() {
            return queue;
        }
        let leaving = &self.shared.leaving;
        leaving.store(true, Ordering::Relaxed);
        let rested = self.gate.changed.wait_while(queue, at_work);
        leaving.store(false, Ordering::Relaxed);
        rested.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        let mut queue = self.gate.queue();
        if self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            let at_work = |queue: &mut Queue| queue.at_work();
            let waited = self
                .gate
                .changed
                .wait_timeout_while(queue, MAX_LAST_WAIT, at_work);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.shared.leaving.store(true, Ordering::Relaxed);
        queue.closing = true;
        self.gate.changed.notify_all();
        drop(queue);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked leaves what it did not commit in the spool.
            let _ = thread.join();
        }
        if let Some(spool) = self.gate.queue().spool.take() {
            spool.close();
        }
    }
}

impl Queue {
    /// Is something tried, or about to be?
    fn at_work(&self) -> bool {
        self.asked || self.busy || self.fresh
    }

    fn spooled(&mut self, shared: &Shared, entry: &[u8]) -> Result<(), Error> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self
                .spool
                .insert(Spool::create(&shared.place, &*shared.random)?),
        };
        spool.append(entry)
    }
}

fn run(shared: &Shared, gate: &Gate) {
    let mut first = true;
    loop {
        let mut queue = gate.queue();
        while !(queue.fresh || queue.asked || queue.closing) {
            queue = gate.wait(queue);
        }
        if queue.closing && !queue.fresh && !queue.asked && queue.failed.is_some() {
            // It waits on the disk for the next process.
            return;
        }
        let taken = std::mem::take(&mut queue.waiting);
        let asked = queue.asked;
        // Marks that are behind are tried again with nothing new, too.
        let pending = queue.error.is_some();
        let look = first || asked || queue.set_aside > 0;
        queue.fresh = false;
        queue.busy = true;
        drop(queue);

        let left = match look {
            true => Left::all(&shared.place),
            false => Vec::new(),
        };
        first = false;
        let heads = left.iter().flat_map(|left| &left.heads).chain(&taken);
        let heads: Vec<LoggedHead> = heads.copied().collect();
        let done = match heads.is_empty() && !pending {
            true => Ok((Vec::new(), None)),
            false => shared.write(&|| !gate.queue().waiting.is_empty(), |writer, index| {
                commit(writer, index, &heads)
            }),
        };
        if done.is_ok() {
            left.into_iter().for_each(|left| left.done(&shared.place));
        }

        let mut queue = gate.queue();
        queue.answer(taken, done);
        queue.busy = false;
        queue.asked &= !asked;
        gate.changed.notify_all();
        if queue.closing && !queue.fresh && !queue.asked {
            return;
        }
    }
}

impl Queue {
    fn answer(&mut self, taken: Vec<LoggedHead>, done: Result<Done, Error>) {
        match done {
            Ok((forks, unmarked)) => {
                self.failed = None;
                self.set_aside = 0;
                self.error = unmarked;
                self.forks.extend(forks);
                self.forks.truncate(MAX_FORKS);
                if self.waiting.is_empty()
                    && let Some(spool) = &mut self.spool
                {
                    spool.clear();
                    self.unspooled = false;
                }
            }
            Err(error) => {
                self.error = Some(error);
                self.waiting.splice(0..0, taken);
                self.failed = Some(self.waiting.len());
                if self.waiting.len() >= MAX_WAITING && !self.unspooled {
                    // Its file is nobody's from here on, and is taken up with those of processes that ended.
                    self.spool = None;
                    self.set_aside += self.waiting.len();
                    self.waiting.clear();
                    self.failed = None;
                }
            }
        }
    }
}

/// Commits those of these heads that the log does not have, and answers with those that it refuses.
pub(super) fn commit(
    writer: &mut Writer<'_>,
    index: &Index,
    heads: &[LoggedHead],
) -> Result<Vec<Fork>, Error> {
    let mut fresh: HashMap<RecordId, BTreeMap<u64, LoggedHead>> = HashMap::new();
    for entry in writer.contents().fresh() {
        if let Ok(LogEntry::Head(logged)) = LogEntry::read(entry) {
            let of = fresh.entry(logged.head.record).or_default();
            of.entry(logged.head.seq).or_insert(logged);
        }
    }
    let (mut entries, mut forks) = (Vec::new(), Vec::new());
    for head in heads {
        let (record, seq) = (head.head.record, head.head.seq);
        let of = fresh.entry(record).or_default();
        let known = match of.get(&seq) {
            Some(known) => Some(*known),
            None => match index.at(&record, seq)? {
                Some(at) => Some(head_at(writer, at)?),
                None => None,
            },
        };
        match known {
            Some(known) if known.head == head.head => continue,
            Some(logged) => {
                forks.push(Fork {
                    logged,
                    refused: *head,
                });
                continue;
            }
            None => {}
        }
        let later = of.last_key_value().is_some_and(|(last, _)| *last > seq);
        if later || newest_in_tiles(writer, index, &record)?.is_some_and(|last| last > seq) {
            // Heads of one record stand in order; a later one says all that this one says.
            continue;
        }
        let Some(entry) = LogEntry::Head(*head).to_bytes() else {
            continue;
        };
        of.insert(seq, *head);
        entries.push(entry);
    }
    writer.commit(&entries)?;
    Ok(forks)
}

fn newest_in_tiles(
    writer: &Writer<'_>,
    index: &Index,
    record: &RecordId,
) -> Result<Option<u64>, Error> {
    match index.newest(record, writer.contents().base())? {
        None => Ok(None),
        Some(at) => Ok(Some(head_at(writer, at)?.head.seq)),
    }
}

fn head_at(writer: &Writer<'_>, at: u64) -> Result<LoggedHead, Error> {
    match LogEntry::read(&writer.contents().entry(at)?) {
        Ok(LogEntry::Head(logged)) => Ok(logged),
        _ => Err(Error::new(
            ErrorKind::External,
            "the index of the log names another entry; run: threadseal log fsck",
        )),
    }
}
