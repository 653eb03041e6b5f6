//! [`RecordWriter`]: the one place from which a thread's record is written, while several of its calls run.
//!
//! ```text
//! loop of the thread ── owns the Journal ── serves ◄── WriteHandle ── a call, on a thread of its own
//!                                                  ◄── WriteHandle ── an asynchronous child that ended
//! ```
//! Code that runs in parallel with the loop asks through a [`WriteHandle`], and the loop writes. So a
//! record has one writer, and its lines have one order.

use super::services::{Notice, Progress, Watch};
use crate::journal::Journal;
use crate::toolbox::{Outcome, Parentage};
use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// An event to write.
pub(crate) type Job = Box<dyn FnOnce(&mut Journal) + Send>;

enum Message {
    Job(Job),
    /// A call is over, or its code panicked.
    Over(usize, Result<(Outcome, u64), Box<dyn Any + Send>>),
}

/// The place where a thread's record is written.
pub(crate) struct RecordWriter {
    incoming: Receiver<Message>,
    handle: WriteHandle,
}

/// A handle through which others ask the writer.
#[derive(Clone)]
pub(crate) struct WriteHandle {
    outgoing: Sender<Message>,
    /// Follows the thread of the record.
    watch: Arc<dyn Watch>,
}

impl RecordWriter {
    pub(crate) fn new(watch: &Arc<dyn Watch>) -> Self {
        let (outgoing, incoming) = mpsc::channel();
        let watch = Arc::clone(watch);
        Self {
            incoming,
            handle: WriteHandle { outgoing, watch },
        }
    }

    /// The same where no one follows the thread.
    #[cfg(test)]
    pub(crate) fn unwatched() -> Self {
        let no_one: Arc<dyn Watch> = Arc::new(crate::testing::prelude::Ignore);
        Self::new(&no_one)
    }

    pub(crate) fn handle(&self) -> WriteHandle {
        self.handle.clone()
    }

    /// Writes the events that were requested meanwhile.
    pub(crate) fn serve(&self, journal: &mut Journal) {
        while let Ok(message) = self.incoming.try_recv() {
            if let Message::Job(job) = message {
                job(journal);
            }
        }
    }

    /// Waits up to `wait` for something to write, and writes it.
    pub(crate) fn serve_for(&self, wait: Duration, journal: &mut Journal) {
        if let Ok(Message::Job(job)) = self.incoming.recv_timeout(wait) {
            job(journal);
        }
        self.serve(journal);
    }

    /// The next thing to write, if one arrives within `wait`; also for a record that is written
    /// elsewhere.
    pub(crate) fn next(&self, wait: Duration) -> Option<Job> {
        match self.incoming.recv_timeout(wait) {
            Ok(Message::Job(job)) => Some(job),
            _ => None,
        }
    }

    /// Runs `count` calls, each on an OS thread of its own, and writes their requests until all are
    /// over. Returns their results, in their order.
    pub(crate) fn run(
        &self,
        journal: &mut Journal,
        count: usize,
        call: &(dyn Fn(usize, &mut WriteHandle) -> (Outcome, u64) + Sync),
    ) -> Vec<(Outcome, u64)> {
        let mut over: Vec<Option<(Outcome, u64)>> = (0..count).map(|_| None).collect();
        let mut panicked = None;
        thread::scope(|scope| {
            let mut left = count;
            for (place, over) in over.iter_mut().enumerate() {
                let mut handle = self.handle();
                let work = move || {
                    let ran = AssertUnwindSafe(|| call(place, &mut handle));
                    let ran = panic::catch_unwind(ran);
                    // The writer outlives the scope.
                    let _ = handle.outgoing.send(Message::Over(place, ran));
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                    *over = Some((Outcome::failed(format!("it cannot run now: {error}")), 0));
                    left -= 1;
                }
            }
            while left > 0 {
                match self.incoming.recv_timeout(Duration::from_secs(1)) {
                    Ok(Message::Job(job)) => job(journal),
                    Ok(Message::Over(place, ran)) => {
                        left -= 1;
                        match ran {
                            Ok(ran) => over[place] = Some(ran),
                            Err(payload) => panicked = Some(payload),
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    // The writer holds a handle of its own.
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
        let missing = || (Outcome::failed("it did not end"), 0);
        over.into_iter()
            .map(|over| over.unwrap_or_else(missing))
            .collect()
    }
}

impl WriteHandle {
    /// Has an event written, and waits for it.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Journal) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = || Error::new(ErrorKind::External, "the thread has ended".to_owned());
        let (reply, answer) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |journal| {
            // The caller may have given up.
            let _ = reply.send(work(journal));
        });
        self.outgoing.send(Message::Job(job)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Leaves an event to be written at the loop's next opportunity. A thread that has ended writes
    /// nothing more.
    pub(crate) fn leave(&self, job: impl FnOnce(&mut Journal) + Send + 'static) {
        let _ = self.outgoing.send(Message::Job(Box::new(job)));
    }
}

impl Parentage for WriteHandle {
    fn child_begins(
        &mut self,
        child: &ThreadId,
        record: &RecordId,
        directive: &str,
    ) -> Result<Head, Error> {
        let (child, record, directive) = (child.clone(), *record, directive.to_owned());
        self.ask(move |journal| journal.child_begins(&child, &record, &directive))
    }

    fn child_ended(&mut self, child: &ThreadId, status: &str, head: &Head) -> Result<(), Error> {
        let (child, status, head) = (child.clone(), status.to_owned(), *head);
        self.ask(move |journal| journal.child_ended(&child, &status, &head))
    }

    fn seal(&mut self) -> Result<Head, Error> {
        self.ask(Journal::seal)
    }

    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error> {
        let (server, why) = (server.to_owned(), why.to_owned());
        let watch = Arc::clone(&self.watch);
        self.ask(move |journal| {
            journal.server_restarted(&server, failures, &why)?;
            let notice = Notice::ServerRestarted(&server, failures, &why);
            watch.progress(journal.thread(), Progress::Notice(notice));
            Ok(())
        })
    }

    fn ledger(&self) -> Result<Parent, Error> {
        self.ask(|journal| journal.ledger())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::*;

    #[test]
    fn a_server_that_is_started_again_is_recorded_and_shown() {
        let scene = Scene::new();
        let (id, mut journal) = scene.journal();
        let heard = Arc::new(Heard::default());
        let writer = RecordWriter::new(&(Arc::clone(&heard) as _));
        let call = |_, handle: &mut WriteHandle| {
            let told = handle.server_restarted("npx server", 2, "it ended with exit code 3");
            assert!(told.is_ok());
            (Outcome::ok("said"), 0)
        };
        writer.run(&mut journal, 1, &call);
        let notice = "MCP server npx server was started again; 2 failures, the last one: it ended with exit code 3";
        assert_eq!(heard.notices(), [format!("{id}: {notice}")]);
        let events = scene.events(&id);
        assert_eq!(events.one("mcp_server_restarted")["failures"], 2);
    }
}
