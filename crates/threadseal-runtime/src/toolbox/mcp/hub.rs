//! [`Hub`]: the MCP servers of one thread, and the OS thread that communicates with them.
//!
//! ```text
//! tools, on any thread ── Work ──► one thread with its own runtime ── a task for each ──► servers
//!                      ◄─ reply ──
//! ```
//! A script of a server is held as it was verified, as long as the hub: a server that is started
//! again runs the same bytes. Only this module uses the runtime. Callers wait on a channel, check for cancellation and
//! timeout, and drop the call when they give up. When the hub is dropped, its servers end.

use super::address::Address;
use super::server::{self, Called, Connection, Offer, Order};
use crate::bounds::{KILL_GRACE, POLL_INTERVAL};
use crate::item::Item;
use crate::toolbox::Cancel;
use crate::toolbox::script::ScriptFile;
use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use tokio::runtime::Builder;
use tokio::sync::{Mutex as AsyncMutex, mpsc as tasks, oneshot};

/// The servers of one thread. It begins with the first that is used.
#[derive(Default)]
pub struct Hub {
    running: OnceLock<Result<Running, String>>,
    /// The scripts of servers, by their digest.
    scripts: Mutex<BTreeMap<Digest, ScriptFile>>,
}

struct Running {
    work: Option<tasks::UnboundedSender<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A request to a server.
struct Work {
    order: Order,
    ask: Ask,
    /// Ends when the caller gives up.
    given_up: oneshot::Receiver<()>,
}

enum Ask {
    Offer(SyncSender<Result<Offer, Error>>),
    Call {
        arguments: Map<String, Value>,
        key: String,
        reply: SyncSender<Result<Called, Error>>,
    },
}

type Slot = Arc<AsyncMutex<Option<Connection>>>;
type Servers = Arc<Mutex<BTreeMap<Arc<Address>, Slot>>>;

impl Hub {
    /// The path under which servers read a script that was verified.
    ///
    /// # Errors
    /// As [`ScriptFile::new`].
    pub(super) fn hold(&self, script: &Item) -> Result<String, Error> {
        let scripts = self.scripts.lock();
        let mut scripts = scripts.unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = scripts.get(&script.sha256()) {
            return Ok(held.path());
        }
        let held = ScriptFile::new(script.text())?;
        let path = held.path();
        scripts.insert(script.sha256(), held);
        Ok(path)
    }

    /// A tool as its server offers it now.
    ///
    /// # Errors
    /// As [`Connection::open`] and [`Connection::offer`]; kind `External` when it takes too long.
    pub(super) fn offer(
        &self,
        order: Order,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<Offer, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        let _asking = self.ask(order, Ask::Offer(reply))?;
        wait(&answer, timeout, cancel)?
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// As [`server::call`]. A call that exceeds its time, or that the thread's end gives up, is
    /// lost: it may have reached the server.
    pub(super) fn call(
        &self,
        order: Order,
        arguments: Map<String, Value>,
        key: String,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<Called, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        let call = Ask::Call {
            arguments,
            key,
            reply,
        };
        let _asking = self.ask(order, call)?;
        wait(&answer, timeout, cancel).unwrap_or_else(|why| Ok(Called::Lost(why.to_string())))
    }

    /// Hands over work. Dropping the returned sender gives the work up.
    fn ask(&self, order: Order, ask: Ask) -> Result<oneshot::Sender<()>, Error> {
        let running = self
            .running
            .get_or_init(|| Running::begin().map_err(|why| why.to_string()));
        let gone = || {
            Error::new(
                ErrorKind::External,
                "MCP servers cannot be reached any more",
            )
        };
        let running = running.as_ref().map_err(|why| {
            Error::new(
                ErrorKind::External,
                format!("MCP servers cannot be reached: {why}"),
            )
        })?;
        let (asking, given_up) = oneshot::channel();
        let work = Work {
            order,
            ask,
            given_up,
        };
        let sender = running.work.as_ref().ok_or_else(gone)?;
        sender.send(work).map_err(|_| gone())?;
        Ok(asking)
    }
}

impl Running {
    fn begin() -> std::io::Result<Self> {
        let (work, incoming) = tasks::unbounded_channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().spawn(move || {
            runtime.block_on(serve(incoming));
            // Tasks of servers that do not end are dropped, and their processes killed.
            runtime.shutdown_timeout(KILL_GRACE);
        })?;
        Ok(Self {
            work: Some(work),
            thread: Mutex::new(Some(thread)),
        })
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
) -> Result<Result<T, Error>, Error> {
    let given_up = |why: &str| Error::new(ErrorKind::External, why.to_owned());
    let mut left = timeout;
    loop {
        let slice = left.min(POLL_INTERVAL);
        match answer.recv_timeout(slice) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(given_up("the connection to the MCP server broke"));
            }
            Err(RecvTimeoutError::Timeout) => left -= slice,
        }
        if let Some(why) = cancel.why() {
            return Err(given_up(&format!("it was stopped, for {why}")));
        }
        if left.is_zero() {
            return Err(given_up("it took too long and was given up"));
        }
    }
}

/// Does each piece of work on a task of its own, until no sender is left.
async fn serve(mut incoming: tasks::UnboundedReceiver<Work>) {
    let servers = Servers::default();
    while let Some(work) = incoming.recv().await {
        tokio::spawn(attend(Arc::clone(&servers), work));
    }
    let all = std::mem::take(&mut *servers.lock().unwrap_or_else(PoisonError::into_inner));
    for slot in all.into_values() {
        // A task that still holds it was given up, and is dropped with the runtime.
        if let Ok(mut slot) = slot.try_lock()
            && let Some(connection) = slot.take()
        {
            connection.close().await;
        }
    }
}

async fn attend(servers: Servers, work: Work) {
    let given_up = pin!(work.given_up);
    match work.ask {
        Ask::Offer(reply) => {
            let offer = pin!(offered(&servers, &work.order));
            if let Either::Left((offer, _)) = select(offer, given_up).await {
                let _ = reply.send(offer);
            }
        }
        Ask::Call {
            arguments,
            key,
            reply,
        } => {
            let called = pin!(called(&servers, work.order, arguments, key));
            // Dropping the call notifies the server.
            if let Either::Left((result, _)) = select(called, given_up).await {
                let _ = reply.send(result);
            }
        }
    }
}

fn slot(servers: &Servers, address: &Arc<Address>) -> Slot {
    let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(servers.entry(Arc::clone(address)).or_default())
}

/// The tool of an order, at a server that is there.
async fn offered(servers: &Servers, order: &Order) -> Result<Offer, Error> {
    let slot = slot(servers, &order.address);
    let mut slot = slot.lock().await;
    connected(&mut slot, order).await?.offer(order).await
}

async fn connected<'c>(
    slot: &'c mut Option<Connection>,
    order: &Order,
) -> Result<&'c mut Connection, Error> {
    if slot.as_ref().is_some_and(Connection::is_closed)
        && let Some(gone) = slot.take()
    {
        gone.close().await;
    }
    if slot.is_none() {
        *slot = Some(Connection::open(&order.address).await?);
    }
    slot.as_mut()
        .ok_or_else(|| Error::new(ErrorKind::External, "the MCP server is gone"))
}

async fn called(
    servers: &Servers,
    order: Order,
    arguments: Map<String, Value>,
    key: String,
) -> Result<Called, Error> {
    let peer = {
        let slot = slot(servers, &order.address);
        let mut slot = slot.lock().await;
        let connection = connected(&mut slot, &order).await?;
        connection.offer(&order).await?;
        connection.peer()
    };
    server::call(peer, order.tool, arguments, key).await
}
