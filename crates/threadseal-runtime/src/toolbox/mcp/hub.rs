//! [`Hub`]: the MCP servers of one process, and the OS thread that communicates with them.
//!
//! ```text
//! tools, on any thread ── Work ──► one thread with its own runtime ── a task for each ──► servers
//!                      ◄─ reply ──
//! ```
//! All threads and graph runs of a process share it, and with it each server: tools with equal
//! addresses [`lease`](Hub::lease) one [`Slot`]. A server without a lease is closed after a while,
//! all of them when the hub is dropped. Only this module uses the runtime. Callers wait on a
//! channel, check for cancellation and timeout, and drop the call when they give up.

use super::address::Address;
use super::fault::Fault;
use super::server::{self, Called, Offer};
use super::slot::{Restarted, Slot};
use crate::bounds::{KILL_GRACE, MCP_IDLE_TIME, POLL_INTERVAL};
use crate::item::Item;
use crate::toolbox::Cancel;
use crate::toolbox::script::ScriptFile;
use futures_util::future::{Either, join_all, select};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::clock::Clock;
use tokio::runtime::Builder;
use tokio::sync::{mpsc as tasks, oneshot};

/// The servers of one process. It begins with the first that is used.
pub struct Hub {
    clock: Arc<dyn Clock>,
    /// How long a server without a lease stays open.
    idle: Duration,
    running: OnceLock<Result<Running, String>>,
    /// The scripts of servers, by their digest, as long as a server has one.
    scripts: Mutex<BTreeMap<Digest, Weak<ScriptFile>>>,
    servers: Servers,
}

/// The servers that tools have, or had until lately.
type Servers = Arc<Mutex<BTreeMap<Address, Entry>>>;

struct Entry {
    slot: Arc<Slot>,
    holders: usize,
    /// How often the last holder has left.
    left: u64,
}

/// The right to use a server. It may be closed when no one has it.
pub(super) struct Lease {
    hub: Arc<Hub>,
    slot: Arc<Slot>,
}

struct Running {
    work: Option<tasks::UnboundedSender<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Work {
    Ask(Request),
    /// The last holder of a server left it, for this many times.
    Left(Arc<Slot>, u64),
}

/// A request to a server.
struct Request {
    slot: Arc<Slot>,
    tool: String,
    /// The digest of the description that the model was shown, where that came from the server.
    shown: Option<Digest>,
    ask: Ask,
    /// Ends when the caller gives up.
    given_up: oneshot::Receiver<()>,
}

enum Ask {
    Offer(SyncSender<Result<Offer, Error>>),
    Call {
        arguments: Map<String, Value>,
        key: String,
        reply: SyncSender<Result<Answer, Error>>,
    },
}

/// What came of a call.
pub(super) struct Answer {
    pub(super) called: Result<Called, Error>,
    /// The server was started again for it.
    pub(super) restarted: Option<Restarted>,
}

impl Hub {
    /// A hub without servers.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            idle: MCP_IDLE_TIME,
            running: OnceLock::new(),
            scripts: Mutex::default(),
            servers: Servers::default(),
        }
    }

    /// A hub that closes servers without a lease this soon.
    #[cfg(test)]
    pub(super) fn closing_after(clock: Arc<dyn Clock>, idle: Duration) -> Self {
        Self {
            idle,
            ..Self::new(clock)
        }
    }

    /// A script that was verified, under a path at which its server reads it.
    ///
    /// # Errors
    /// As [`ScriptFile::new`].
    pub(super) fn script(&self, script: &Item) -> Result<Arc<ScriptFile>, Error> {
        let mut scripts = locked(&self.scripts);
        scripts.retain(|_, held| held.strong_count() > 0);
        if let Some(held) = scripts.get(&script.sha256()).and_then(Weak::upgrade) {
            return Ok(held);
        }
        let held = Arc::new(ScriptFile::new(script.text())?);
        scripts.insert(script.sha256(), Arc::downgrade(&held));
        Ok(held)
    }

    /// The server at an address, which all that ask for it share.
    pub(super) fn lease(
        self: &Arc<Self>,
        address: Address,
        script: Option<Arc<ScriptFile>>,
    ) -> Lease {
        let mut servers = locked(&self.servers);
        let entry = servers.entry(address.clone()).or_insert_with(|| Entry {
            slot: Arc::new(Slot::new(address, script)),
            holders: 0,
            left: 0,
        });
        entry.holders += 1;
        Lease {
            hub: Arc::clone(self),
            slot: Arc::clone(&entry.slot),
        }
    }

    fn running(&self) -> Result<&Running, Error> {
        let begin = || Running::begin(self).map_err(|why| why.to_string());
        self.running.get_or_init(begin).as_ref().map_err(|why| {
            let text =
                format!("MCP servers cannot be reached: {why}; hint: run fewer threads at once");
            Error::new(ErrorKind::External, text)
        })
    }
}

impl Lease {
    /// The server, as errors and events name it.
    pub(super) fn name(&self) -> &str {
        &self.slot.name
    }

    /// A tool as its server offers it now.
    ///
    /// # Errors
    /// As [`server::Connection::open`] and [`server::Connection::offer`]; kind `External` when it
    /// takes too long.
    pub(super) fn offer(
        &self,
        tool: &str,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<Offer, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        let _asking = self.ask(tool, None, Ask::Offer(reply))?;
        wait(&answer, timeout, cancel).map_err(|fault| fault.of(self.name()))?
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When nothing was sent. A call that exceeds its time, or that the thread's end gives up, is
    /// lost: it may have reached the server.
    pub(super) fn call(
        &self,
        (tool, shown): (&str, Option<Digest>),
        arguments: Map<String, Value>,
        key: String,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<Answer, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        let call = Ask::Call {
            arguments,
            key,
            reply,
        };
        let _asking = self.ask(tool, shown, call)?;
        wait(&answer, timeout, cancel).unwrap_or_else(|fault| {
            Ok(Answer {
                called: Ok(Called::Lost(fault)),
                restarted: None,
            })
        })
    }

    /// Hands over work. Dropping the returned sender gives the work up.
    fn ask(
        &self,
        tool: &str,
        shown: Option<Digest>,
        ask: Ask,
    ) -> Result<oneshot::Sender<()>, Error> {
        let (asking, given_up) = oneshot::channel();
        let work = Work::Ask(Request {
            slot: Arc::clone(&self.slot),
            tool: tool.to_owned(),
            shown,
            ask,
            given_up,
        });
        match self.hub.running()?.hand_over(work) {
            true => Ok(asking),
            false => Err(Fault::Ended("this program ends".to_owned()).of(self.name())),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut servers = locked(&self.hub.servers);
        let Some(entry) = servers.get_mut(&self.slot.address) else {
            return;
        };
        entry.holders -= 1;
        if entry.holders > 0 {
            return;
        }
        entry.left += 1;
        let left = entry.left;
        match self.hub.running.get() {
            Some(Ok(running)) => drop(running.hand_over(Work::Left(Arc::clone(&self.slot), left))),
            _ => drop(servers.remove(&self.slot.address)),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn begin(hub: &Hub) -> std::io::Result<Self> {
        let (work, incoming) = tasks::unbounded_channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let desk = Arc::new(Desk {
            servers: Arc::clone(&hub.servers),
            clock: Arc::clone(&hub.clock),
            idle: hub.idle,
        });
        let thread = thread::Builder::new().spawn(move || {
            runtime.block_on(serve(desk, incoming));
            // Tasks of servers that do not end are dropped, and their processes killed.
            runtime.shutdown_timeout(KILL_GRACE);
        })?;
        Ok(Self {
            work: Some(work),
            thread: Mutex::new(Some(thread)),
        })
    }

    fn hand_over(&self, work: Work) -> bool {
        let work_is_taken = |sender: &tasks::UnboundedSender<Work>| sender.send(work).is_ok();
        self.work.as_ref().is_some_and(work_is_taken)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.work = None;
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

/// The answer, or why the wait ends without one.
fn wait<T>(
    answer: &Receiver<Result<T, Error>>,
    timeout: Duration,
    cancel: &Cancel,
) -> Result<Result<T, Error>, Fault> {
    let mut left = timeout;
    loop {
        let slice = left.min(POLL_INTERVAL);
        match answer.recv_timeout(slice) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Fault::Ended("it was closed".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => left -= slice,
        }
        if let Some(why) = cancel.why() {
            return Err(Fault::Stopped(why.to_string()));
        }
        if left.is_zero() {
            return Err(Fault::TooLong);
        }
    }
}

/// What the tasks of a hub share.
struct Desk {
    servers: Servers,
    clock: Arc<dyn Clock>,
    idle: Duration,
}

/// Does each piece of work on a task of its own, until no sender is left.
async fn serve(desk: Arc<Desk>, mut incoming: tasks::UnboundedReceiver<Work>) {
    while let Some(work) = incoming.recv().await {
        let desk = Arc::clone(&desk);
        match work {
            Work::Ask(request) => drop(tokio::spawn(desk.attend(request))),
            Work::Left(slot, left) => drop(tokio::spawn(desk.close_idle(slot, left))),
        }
    }
    let all = std::mem::take(&mut *locked(&desk.servers));
    let slots: Vec<Arc<Slot>> = all.into_values().map(|entry| entry.slot).collect();
    join_all(slots.iter().map(|slot| slot.close())).await;
}

impl Desk {
    /// Closes a server that had no holder for a while.
    async fn close_idle(self: Arc<Self>, slot: Arc<Slot>, left: u64) {
        tokio::time::sleep(self.idle).await;
        let is_idle = |entry: &Entry| entry.holders == 0 && entry.left == left;
        {
            let mut servers = locked(&self.servers);
            if !servers.get(&slot.address).is_some_and(is_idle) {
                return;
            }
            servers.remove(&slot.address);
        }
        slot.close().await;
    }

    async fn attend(self: Arc<Self>, request: Request) {
        let Request {
            slot,
            tool,
            shown,
            ask,
            given_up,
        } = request;
        let given_up = pin!(given_up);
        match ask {
            Ask::Offer(reply) => {
                let offer = pin!(self.offered(&slot, &tool, shown));
                if let Either::Left((offer, _)) = select(offer, given_up).await {
                    let _ = reply.send(offer);
                }
            }
            Ask::Call {
                arguments,
                key,
                reply,
            } => {
                let called = pin!(self.called(&slot, tool, shown, arguments, key));
                // Dropping the call notifies the server.
                if let Either::Left((answer, _)) = select(called, given_up).await {
                    let _ = reply.send(answer);
                }
            }
        }
    }

    /// The tool of a server that is there.
    async fn offered(
        &self,
        slot: &Slot,
        tool: &str,
        shown: Option<Digest>,
    ) -> Result<Offer, Error> {
        let mut state = slot.state.lock().await;
        let offered = match state.connected(slot, &*self.clock).await {
            Ok((connection, _)) => connection.offer(tool, shown).await,
            Err(fault) => Err(fault),
        };
        offered.map_err(|fault| fault.of(&slot.name))
    }

    async fn called(
        &self,
        slot: &Slot,
        tool: String,
        shown: Option<Digest>,
        arguments: Map<String, Value>,
        key: String,
    ) -> Result<Answer, Error> {
        let (peer, restarted) = {
            let mut state = slot.state.lock().await;
            let connected = state.connected(slot, &*self.clock).await;
            let (connection, restarted) = connected.map_err(|fault| fault.of(&slot.name))?;
            let offered = connection.offer(&tool, shown).await;
            if let Err(fault) = offered {
                return Ok(Answer {
                    called: Err(fault.of(&slot.name)),
                    restarted,
                });
            }
            (connection.peer(), restarted)
        };
        let mut called = server::call(peer, tool, arguments, key).await;
        if let Ok(Called::Lost(fault @ (Fault::Ended(_) | Fault::Broke(_)))) = &mut called {
            let mut state = slot.state.lock().await;
            if let Some(how) = state.ended(&*self.clock).await {
                *fault = Fault::Ended(how);
            }
        }
        Ok(Answer {
            called: called.map_err(|fault| fault.of(&slot.name)),
            restarted,
        })
    }
}
