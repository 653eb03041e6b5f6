//! Hints that a ledger has grown: NOTIFY is never trusted, and no append waits for it.
//!
//! ```text
//! appender   after a commit ─► one NOTIFY per [`QUIET`], not durable, on another connection
//! waiter     looks at the sequence ─► sleeps until a hint, or for one poll ─► looks again
//! ```
//! A notifying transaction holds a lock of the whole database until it is committed. One within
//! each append would put all runs in one queue. A hint that is lost costs one poll.

use super::connect::{Server, text_of};
use deadpool_postgres::Pool;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use threadseal_core::error::Error;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

/// Least time between two hints of one process.
const QUIET: Duration = Duration::from_millis(20);
/// Longest sleep of a waiter that receives hints.
const POLL_HEARING: Duration = Duration::from_millis(500);
/// Longest sleep of a waiter that receives none.
const POLL_DEAF: Duration = Duration::from_millis(50);
/// Pause before the listener connects again.
const RECONNECT: Duration = Duration::from_secs(1);

/// The states: no hint is due; a hint is being sent; a change came after it.
const IDLE: u8 = 0;
const SAYING: u8 = 1;
const AGAIN: u8 = 2;

/// Sends hints to other processes.
#[derive(Debug, Default)]
pub(super) struct Teller(Arc<AtomicU8>);

impl Teller {
    /// Lets a hint be sent soon.
    pub(super) fn tell(&self, pool: &Pool) -> Result<(), Error> {
        if self.0.fetch_max(SAYING, Ordering::AcqRel) != IDLE {
            self.0.store(AGAIN, Ordering::Release);
            return Ok(());
        }
        let (state, pool) = (Arc::clone(&self.0), pool.clone());
        crate::runtime::runtime()?.spawn(async move {
            loop {
                // Best effort: a waiter polls as well.
                if let Ok(client) = pool.get().await {
                    let _ = client
                        .batch_execute(
                            "BEGIN; SET LOCAL synchronous_commit = off; NOTIFY threadseal_ledger;
                             COMMIT",
                        )
                        .await;
                }
                tokio::time::sleep(QUIET).await;
                let more =
                    state.compare_exchange(AGAIN, SAYING, Ordering::AcqRel, Ordering::Acquire);
                if more.is_err()
                    && state
                        .compare_exchange(SAYING, IDLE, Ordering::AcqRel, Ordering::Acquire)
                        .is_ok()
                {
                    return;
                }
            }
        });
        Ok(())
    }
}

/// Receives hints of other processes.
#[derive(Debug, Default)]
pub(super) struct Listener {
    heard: Arc<Heard>,
    task: OnceLock<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Heard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    hints: u64,
    hears: bool,
}

impl Listener {
    /// Begins to listen, if it does not yet.
    pub(super) fn start(&self, server: &Arc<Server>) -> Result<(), Error> {
        let runtime = crate::runtime::runtime()?;
        self.task.get_or_init(|| {
            let (server, heard) = (Arc::clone(server), Arc::clone(&self.heard));
            runtime.spawn(async move {
                loop {
                    let _ = listen(&server, &heard).await;
                    heard.set(|state| state.hears = false);
                    tokio::time::sleep(RECONNECT).await;
                }
            })
        });
        Ok(())
    }

    /// The number of received hints.
    pub(super) fn hints(&self) -> u64 {
        self.heard.get().hints
    }

    /// Waits for a hint after the first `hints`, for at most `left` and one poll; returns the
    /// present length of a poll.
    pub(super) fn wait(&self, hints: u64, left: Duration) -> Duration {
        let poll = if self.heard.get().hears {
            POLL_HEARING
        } else {
            POLL_DEAF
        };
        let pause = poll.min(left);
        let state = self
            .heard
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        drop(
            self.heard
                .changed
                .wait_timeout_while(state, pause, |state| state.hints == hints),
        );
        pause
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Heard {
    fn get(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Listens until the connection ends.
async fn listen(server: &Server, heard: &Heard) -> Result<(), String> {
    let connected = server.config.connect(server.tls.clone()).await;
    let (client, mut connection) = connected.map_err(|error| text_of(&error))?;
    let mut begin = pin!(begin(&client, heard));
    let mut begun = false;
    loop {
        // The connection makes progress only while it is polled, also for the statement of `begin`.
        let message = poll_fn(|context| {
            if !begun && begin.as_mut().poll(context).is_ready() {
                begun = true;
            }
            connection.poll_message(context)
        });
        match message.await {
            Some(Ok(AsyncMessage::Notification(_))) => heard.set(|state| state.hints += 1),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(text_of(&error)),
            None => return Ok(()),
        }
    }
}

async fn begin(client: &Client, heard: &Heard) {
    if client
        .batch_execute("LISTEN threadseal_ledger")
        .await
        .is_ok()
    {
        heard.set(|state| {
            state.hears = true;
            // Hints before this moment were not received.
            state.hints += 1;
        });
    }
}
