//! Object storage that fails on command: every call counted, each able to fail in each way.

use super::{Object, Objects, Put, Version};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threadseal_core::error::{Error, ErrorKind};

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFault {
    /// Nothing is done.
    Fails,
    /// It is done, and its answer is lost.
    AnswerLost,
    /// It is done twice, as a client does that lost the first answer; the second one comes back.
    Repeated,
    /// Nothing is done now or later: the process died here.
    Stops,
    /// It is done, and nothing later: the process died before it got the answer.
    StopsAfter,
}

impl ObjectFault {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Fails,
        Self::AnswerLost,
        Self::Repeated,
        Self::Stops,
        Self::StopsAfter,
    ];
}

/// Storage whose calls can fail.
#[derive(Debug)]
pub struct FaultObjects {
    behind: Arc<dyn Objects>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: usize,
    planned: Option<(usize, ObjectFault)>,
    stopped: bool,
}

impl FaultObjects {
    /// Passes calls to `behind`, until a fault is planned.
    pub fn new(behind: Arc<dyn Objects>) -> Self {
        Self {
            behind,
            state: Mutex::default(),
        }
    }

    /// Lets the `call`-th call from now on (from 0) fail.
    pub fn plan(&self, call: usize, fault: ObjectFault) {
        *self.state() = State {
            planned: Some((call, fault)),
            ..State::default()
        };
    }

    /// Calls since the last plan.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A number and two flags: whole whatever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, call: impl Fn(&dyn Objects) -> Result<T, Error>) -> Result<T, Error> {
        let fault = {
            let mut state = self.state();
            let number = state.calls;
            state.calls += 1;
            let fault = state.planned.filter(|(planned, _)| *planned == number);
            if state.stopped {
                return Err(failed("the process is dead"));
            }
            let fault = fault.map(|(_, fault)| fault);
            state.stopped = matches!(fault, Some(ObjectFault::Stops | ObjectFault::StopsAfter));
            fault
        };
        match fault {
            None => call(&*self.behind),
            Some(ObjectFault::Fails | ObjectFault::Stops) => Err(failed("nothing was done")),
            Some(ObjectFault::AnswerLost | ObjectFault::StopsAfter) => {
                let _ = call(&*self.behind)?;
                Err(failed("the answer was lost"))
            }
            Some(ObjectFault::Repeated) => {
                let _ = call(&*self.behind)?;
                call(&*self.behind)
            }
        }
    }
}

fn failed(what: &str) -> Error {
    Error::new(ErrorKind::External, what)
}

impl Objects for FaultObjects {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        self.call(|behind| behind.read(name, limit))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        self.call(|behind| behind.create(name, bytes))
    }

    fn replace_if(&self, name: &str, version: &Version, bytes: &[u8]) -> Result<Put, Error> {
        self.call(|behind| behind.replace_if(name, version, bytes))
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        self.call(|behind| behind.list(folder, after, limit))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.call(|behind| behind.remove(name))
    }

    fn place(&self) -> String {
        self.behind.place()
    }

    fn own_place(&self) -> Option<String> {
        self.behind.own_place()
    }
}
