//! [`Committer`]: the thread of a process that commits what waits in it.
//!
//! Publishing puts a head into the process's spool file and into memory, and returns. The thread waits a moment for more heads,
//! unless a caller waits for it, so that the heads of one turn share a commit. Then it takes all that waits, and
//! what processes that ended have left, commits it with one fsync, and clears the spool. What fails keeps waiting: the next head, a
//! flush or the next process tries again. Lines that no tag shows to be of this home are set aside (`spool_quarantine`).

use crate::commit::batch::{Fork, HeadBatch};
use crate::commit::log_access::LogAccess;
use crate::commit::spool::{LeftSpool, Spool};
use crate::commit::spool_quarantine::{Aside, SpoolQuarantine};
use crate::index::head_index::HeadIndex;
use crate::tree::writer::Writer;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::sys;

/// Heads that wait in memory; when more of them cannot be committed, they wait on the disk alone.
const MAX_WAITING: usize = if cfg!(test) { 1000 } else { 65_536 };
/// Longest wait of a process that ends for another one that is in the log.
const MAX_LAST_WAIT: Duration = Duration::from_secs(1);
/// How long the first head that waits for a commit waits for others.
const GATHERING: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 200 });
/// Forks that are remembered until the next flush.
const MAX_FORKS: usize = 64;

/// What a commit did.
#[derive(Debug, Default)]
struct Committed {
    /// Heads that were refused.
    forks: Vec<Fork>,
    /// Of each file that was left, the lines that are to be set aside.
    aside: Vec<Aside>,
}

/// The result of a commit, and why the marks lag, if they do.
type CommitAnswer = Result<(Committed, Option<Error>), Error>;

/// What became of the heads that waited.
#[derive(Debug, Default)]
pub struct Published {
    /// Heads that still wait.
    pub waiting: usize,
    /// Why; if none waits, why the second place lags the log.
    pub error: Option<Error>,
    /// Heads that were refused since the last flush.
    pub forks: Vec<Fork>,
    /// Lines that no tag shows to be of this home, set aside since the last flush.
    pub set_aside: usize,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<LoggedHead>,
    /// Did something come that is to be tried?
    fresh: bool,
    /// Did the last attempt fail, and with how many?
    failed: Option<usize>,
    /// Heads in files of this process that it has let go of.
    let_go: usize,
    /// Lines that were set aside.
    set_aside: usize,
    /// Is there a head that could not be put on the disk?
    unspooled: bool,
    /// Is the thread at work on what it took?
    busy: bool,
    /// A flush asks for an attempt, also when nothing new waits.
    asked: bool,
    /// Does a caller wait for what waits?
    hurried: bool,
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

    /// Waits for more heads, as long as no caller waits for a commit.
    fn gather<'g>(&self, queue: MutexGuard<'g, Queue>) -> MutexGuard<'g, Queue> {
        let alone = |queue: &mut Queue| !(queue.asked || queue.hurried || queue.closing);
        let gathered = self.changed.wait_timeout_while(queue, GATHERING, alone);
        gathered.unwrap_or_else(PoisonError::into_inner).0
    }

    fn wait<'g>(&self, queue: MutexGuard<'g, Queue>) -> MutexGuard<'g, Queue> {
        self.changed
            .wait(queue)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, and the way to it.
#[derive(Debug)]
pub(crate) struct Committer {
    access: Arc<LogAccess>,
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(crate) fn start(access: Arc<LogAccess>) -> Self {
        let gate = Arc::<Gate>::default();
        let thread = {
            let (access, gate) = (Arc::clone(&access), Arc::clone(&gate));
            thread::Builder::new()
                .name("seal log".to_owned())
                .spawn(move || run(&access, &gate))
        };
        if let Err(error) = &thread {
            let text = format!("cannot start a thread: {error}");
            let error = Error::new(ErrorKind::External, text).with_source(sys::cause(error));
            gate.queue().error = Some(error);
        }
        Self {
            access,
            gate,
            thread: thread.ok(),
        }
    }

    pub(crate) fn publish(&self, head: &LoggedHead) {
        let mut queue = self.gate.queue();
        if let Some(entry) = LogEntry::Head(*head).to_bytes() {
            let spooled = queue.spooled(&self.access, &entry);
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

    /// Has what waits committed without waiting for more.
    pub(crate) fn hurry(&self) {
        self.gate.queue().hurried = true;
        self.gate.changed.notify_all();
    }

    pub(crate) fn flush(&self, longest: Duration) -> Published {
        let mut queue = self.gate.queue();
        if self.thread.is_some() {
            // An attempt that is under way, or about to be, is waited for and not made twice.
            queue.asked |= !(queue.busy || queue.fresh);
            queue.hurried = true;
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
            waiting: queue.waiting.len() + queue.let_go,
            error: queue.error.take(),
            forks: std::mem::take(&mut queue.forks),
            set_aside: std::mem::take(&mut queue.set_aside),
        }
    }

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
        let leaving = &self.access.leaving;
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
            queue.hurried = true;
            self.gate.changed.notify_all();
            let at_work = |queue: &mut Queue| queue.at_work();
            let waited = self
                .gate
                .changed
                .wait_timeout_while(queue, MAX_LAST_WAIT, at_work);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.access.leaving.store(true, Ordering::Relaxed);
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

    fn answer(&mut self, taken: Vec<LoggedHead>, answer: CommitAnswer) {
        match answer {
            Ok((done, unmarked)) => {
                self.failed = None;
                self.let_go = 0;
                self.error = unmarked;
                self.forks.extend(done.forks);
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
                    // The file is released here, and is read again with those of processes that ended.
                    self.spool = None;
                    self.let_go += self.waiting.len();
                    self.waiting.clear();
                    self.failed = None;
                }
            }
        }
    }

    fn spooled(&mut self, access: &LogAccess, entry: &[u8]) -> Result<(), Error> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self.spool.insert(Spool::create(
                &access.dir,
                access.description.id,
                &*access.random,
            )?),
        };
        spool.append(entry)
    }
}

fn run(access: &LogAccess, gate: &Gate) {
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
        queue = gate.gather(queue);
        queue.hurried = false;
        let taken = std::mem::take(&mut queue.waiting);
        let asked = queue.asked;
        // Marks that lag are tried again with nothing new, too.
        let pending = queue.error.is_some();
        let look = first || asked || queue.let_go > 0;
        queue.fresh = false;
        queue.busy = true;
        drop(queue);

        let left = match look {
            true => LeftSpool::all(&access.dir),
            false => Vec::new(),
        };
        first = false;
        let is_empty = taken.is_empty() && left.iter().all(|left| left.lines.is_empty());
        let answer = match is_empty && !pending {
            true => Ok((Committed::nothing(&left), None)),
            false => access.write(&|| !gate.queue().waiting.is_empty(), |writer, index| {
                commit_all(access, writer, index, &left, &taken)
            }),
        };
        let set_aside = match &answer {
            Ok((done, _)) => settle(access, left, &done.aside),
            Err(_) => 0,
        };

        let mut queue = gate.queue();
        queue.set_aside += set_aside;
        queue.answer(taken, answer);
        queue.busy = false;
        queue.asked &= !asked;
        gate.changed.notify_all();
        if queue.closing && !queue.fresh && !queue.asked {
            return;
        }
    }
}

impl Committed {
    /// As many files as were left, and nothing in any.
    fn nothing(left: &[LeftSpool]) -> Self {
        Self {
            forks: Vec::new(),
            aside: vec![Some(Vec::new()); left.len()],
        }
    }
}

/// Removes files whose heads were committed, and answers how many of their lines were set aside.
fn settle(access: &LogAccess, left: Vec<LeftSpool>, aside: &[Aside]) -> usize {
    let mut count = 0;
    for (left, aside) in left.into_iter().zip(aside) {
        // What cannot be judged, or kept elsewhere, stays where it is and is looked at again.
        if let Some(aside) = aside
            && quarantine(access).keep(aside).is_ok()
        {
            count += aside.len();
            left.done(&access.dir);
        }
    }
    count
}

/// Commits what the log does not have of heads that wait and of what was left.
fn commit_all(
    access: &LogAccess,
    writer: &mut Writer<'_>,
    index: &HeadIndex,
    left: &[LeftSpool],
    taken: &[LoggedHead],
) -> Result<Committed, Error> {
    let (mut batch, mut aside) = (HeadBatch::begin(writer), Vec::new());
    let quarantine = quarantine(access);
    for left in left {
        quarantine.add_own(&mut batch, writer, index, left)?;
    }
    for head in taken {
        batch.add(writer, index, head)?;
    }
    for left in left {
        // After the others: the newest head of a record covers all that those before it cover.
        aside.push(quarantine.add_stored(&mut batch, writer, index, left)?);
    }
    writer.commit(&batch.entries)?;
    let forks = batch.forks;
    Ok(Committed { forks, aside })
}

fn quarantine(access: &LogAccess) -> SpoolQuarantine<'_> {
    SpoolQuarantine {
        dir: &access.dir,
        log: access.description.id,
    }
}
