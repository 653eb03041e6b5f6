//! Hints that something changed: NOTIFY is never trusted, and no append waits for it.
//!
//! ```text
//! append                  after a commit ─► one NOTIFY per [`QUIET`], not durable, on another connection
//! order, end, request     NOTIFY in its transaction: sent if it is committed
//! waiter                  looks ─► sleeps until a hint, or for one poll ─► looks again
//! ```
//! A notifying transaction holds a lock of the whole database until it is committed. One within
//! each append would put all runs in one queue; the others are rare. A hint that is lost costs one
//! poll. A listener that lost its connection wakes all, and connects again.

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
/// Longest sleep of a waiter for a ledger, with hints and without.
const LEDGER_POLLS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(50)];
/// Longest sleep of a waiter for anything else, with hints and without.
const POLLS: [Duration; 2] = [Duration::from_secs(30), Duration::from_millis(500)];
/// How often a waiter looks whether it shall stop.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// Pause before the listener connects again.
const RECONNECT: Duration = Duration::from_secs(1);
/// A connection that is silent for so long is probed: a listener sends nothing itself.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What a hint is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A ledger grew, or a row of a thread changed.
    Ledger,
    /// An order is ready.
    Orders,
    /// A thread ended or was suspended, or an order is done.
    Ends,
    /// A holder of an order is asked to end, or lost its lease.
    Requests,
}

impl Channel {
    const ALL: [Self; 4] = [Self::Ledger, Self::Orders, Self::Ends, Self::Requests];

    /// Its name on the server.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ledger => "threadseal_ledger",
            Self::Orders => "threadseal_orders",
            Self::Ends => "threadseal_ends",
            Self::Requests => "threadseal_requests",
        }
    }

    fn poll(self, hears: bool) -> Duration {
        let [hearing, deaf] = match self {
            Self::Ledger => LEDGER_POLLS,
            _ => POLLS,
        };
        if hears { hearing } else { deaf }
    }
}

/// The numbers of hints that were received so far. Taken before a look, they show what came after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks([u64; Channel::ALL.len()]);

impl Marks {
    /// Those of a caller that knows only this channel's number.
    pub fn known(channel: Channel, count: u64) -> Self {
        let mut marks = Self::default();
        marks.0[channel as usize] = count;
        marks
    }

    /// The number of hints of one channel.
    pub fn of(&self, channel: Channel) -> u64 {
        self.0[channel as usize]
    }

    /// Did a hint of one of these channels come between the two?
    pub fn differ(&self, other: &Self, channels: &[Channel]) -> bool {
        channels
            .iter()
            .any(|channel| self.of(*channel) != other.of(*channel))
    }

    fn all(&mut self) {
        self.0.iter_mut().for_each(|count| *count += 1);
    }
}

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
    marks: Marks,
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
                    // Hints are lost from here on: who waits looks, and polls.
                    heard.set(|state| {
                        state.hears = false;
                        state.marks.all();
                    });
                    tokio::time::sleep(RECONNECT).await;
                }
            })
        });
        Ok(())
    }

    /// The numbers of received hints.
    pub(super) fn marks(&self) -> Marks {
        self.heard.get().marks
    }

    /// Does it receive hints at this moment?
    pub(super) fn hears(&self) -> bool {
        self.heard.get().hears
    }

    /// Waits for a hint of these channels after `marks`, for at most `left` and one poll, or until
    /// `stop`; returns the time that was given to it.
    pub(super) fn wait(
        &self,
        channels: &[Channel],
        marks: &Marks,
        left: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Duration {
        let hears = self.hears();
        let polls = channels.iter().map(|channel| channel.poll(hears));
        let pause = polls.fold(left, Duration::min);
        let mut waited = Duration::ZERO;
        while waited < pause && !stop() {
            let slice = STOP_LOOK.min(pause - waited);
            let state = self.heard.state.lock();
            let state = state.unwrap_or_else(PoisonError::into_inner);
            let silent = |state: &mut State| !state.marks.differ(marks, channels);
            let slept = self.heard.changed.wait_timeout_while(state, slice, silent);
            let (state, _) = slept.unwrap_or_else(PoisonError::into_inner);
            waited += slice;
            if state.marks.differ(marks, channels) {
                break;
            }
        }
        waited
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

    fn note(&self, name: &str) {
        let channel = Channel::ALL.into_iter().find(|it| it.name() == name);
        if let Some(channel) = channel {
            self.set(|state| state.marks.0[channel as usize] += 1);
        }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Listens until the connection ends.
async fn listen(server: &Server, heard: &Heard) -> Result<(), String> {
    let mut config = server.config.clone();
    config.keepalives_idle(KEEPALIVE);
    let connected = config.connect(server.tls.clone()).await;
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
            Some(Ok(AsyncMessage::Notification(notice))) => heard.note(notice.channel()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(text_of(&error)),
            None => return Ok(()),
        }
    }
}

async fn begin(client: &Client, heard: &Heard) {
    let listen: String = Channel::ALL
        .iter()
        .map(|channel| format!("LISTEN {};", channel.name()))
        .collect();
    if client.batch_execute(&listen).await.is_ok() {
        heard.set(|state| {
            state.hears = true;
            // Hints before this moment were not received.
            state.marks.all();
        });
    }
}
