//! [`Slot`]: one server of a hub: its connection, and how often it may be started again.
//!
//! ```text
//! call ─► connected? ─ yes ─────────────────────────────► used
//!            │ no, or closed: counted as a failure
//!            └─► failures within the last 2 minutes ─ 5 ─► refused at once
//!                   └─ fewer ─► a pause of 0, 0, 1, 2 or 4 s ─► opened ─┬─► used
//!                                                                       └─► counted as a failure
//! ```

use super::address::Address;
use super::fault::Fault;
use super::handshake::Revision;
use super::server::Connection;
use crate::bounds::{MAX_MCP_FAILURES, MCP_FAILURE_WINDOW};
use crate::toolbox::script::ScriptFile;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use threadseal_store::clock::Clock;
use tokio::sync::Mutex as AsyncMutex;

/// A server that tools of this process share.
pub(super) struct Slot {
    pub(super) address: Address,
    pub(super) name: String,
    /// Its script, as it was verified: a server that is started again runs the same bytes.
    _script: Option<Arc<ScriptFile>>,
    pub(super) state: AsyncMutex<State>,
}

/// What is known about a server.
#[derive(Default)]
pub(super) struct State {
    connection: Option<Connection>,
    speaks: Option<Revision>,
    /// When it failed, within the window.
    failures: VecDeque<Duration>,
    /// Why it failed last.
    last: String,
}

/// A server was started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restarted {
    /// How often it has failed lately.
    pub(super) failures: usize,
    pub(super) why: String,
}

impl Slot {
    pub(super) fn new(address: Address, script: Option<Arc<ScriptFile>>) -> Self {
        Self {
            name: address.name(),
            address,
            _script: script,
            state: AsyncMutex::default(),
        }
    }

    /// Closes the connection, if there is one that no task uses.
    pub(super) async fn close(&self) {
        // A task that still holds it was given up, and is dropped with the runtime.
        if let Ok(mut state) = self.state.try_lock()
            && let Some(connection) = state.connection.take()
        {
            connection.close().await;
        }
    }
}

impl State {
    /// The connection, opened where there is none, and whether it was opened again.
    ///
    /// # Errors
    /// As [`Connection::open`]; at once when the server failed too often.
    pub(super) async fn connected(
        &mut self,
        slot: &Slot,
        clock: &dyn Clock,
    ) -> Result<(&mut Connection, Option<Restarted>), Fault> {
        self.ended(clock).await;
        let mut restarted = None;
        if self.connection.is_none() {
            let pause = self.pause(clock)?;
            tokio::time::sleep(pause).await;
            match Connection::open(&slot.address, self.speaks).await {
                Ok(connection) => {
                    self.speaks = connection.revision();
                    self.connection = Some(connection);
                }
                Err(fault) => {
                    // It may have been replaced by another version.
                    self.speaks = None;
                    self.failed(clock, fault.to_string());
                    return Err(fault);
                }
            }
            restarted = (!self.failures.is_empty()).then(|| Restarted {
                failures: self.failures.len(),
                why: self.last.clone(),
            });
        }
        let missing = || Fault::Ended("it closed the connection".to_owned());
        Ok((self.connection.as_mut().ok_or_else(missing)?, restarted))
    }

    /// How the server ended, where its connection is closed: noted as a failure.
    pub(super) async fn ended(&mut self, clock: &dyn Clock) -> Option<String> {
        let gone = self
            .connection
            .take_if(|connection| connection.is_closed())?;
        self.failed(clock, "it closed the connection".to_owned());
        self.last = gone.close().await;
        Some(self.last.clone())
    }

    fn failed(&mut self, clock: &dyn Clock, why: String) {
        self.failures.push_back(clock.elapsed());
        self.last = why;
    }

    /// How long to wait before the server is started again.
    fn pause(&mut self, clock: &dyn Clock) -> Result<Duration, Fault> {
        let now = clock.elapsed();
        let is_old = |at: &Duration| now.saturating_sub(*at) > MCP_FAILURE_WINDOW;
        while self.failures.front().is_some_and(is_old) {
            self.failures.pop_front();
        }
        let (Some(first), Some(newest)) = (self.failures.front(), self.failures.back()) else {
            return Ok(Duration::ZERO);
        };
        let times = self.failures.len();
        if times >= MAX_MCP_FAILURES {
            let left = (*first + MCP_FAILURE_WINDOW).saturating_sub(now);
            return Err(Fault::TooOften {
                times,
                last: self.last.clone(),
                seconds: left.as_secs() + 1,
            });
        }
        let pause = match times {
            1 => Duration::ZERO,
            more => Duration::from_secs(1 << (more - 2)),
        };
        Ok((*newest + pause).saturating_sub(now))
    }
}
