//! The database of threads of a build that has none: no value of [`Fleet`] exists.

use std::path::Path;
use threadseal_core::error::{Error, Unbuilt};
use threadseal_store::host::Host;
use threadseal_verify::address::without_secrets;

/// Threads in a database.
#[derive(Debug, Clone)]
pub(crate) enum Fleet {}

impl Fleet {
    pub(crate) fn existing(url: &str) -> Result<Option<Self>, Error> {
        Err(Unbuilt::ThreadDatabases.error(format_args!("open {}", without_secrets(url))))
    }

    pub(crate) fn host(&self, _: &Host, _: &Path, _: Option<&()>) -> Result<Host, Error> {
        match *self {}
    }
}

#[cfg(feature = "agent")]
pub(crate) use with_engine::{Books, Cancelled, Given, OrderEnd};

/// The calls of commands that run threads.
#[cfg(feature = "agent")]
mod with_engine {
    use super::{Error, Fleet, Host, Unbuilt, without_secrets};
    use serde_json::Value;
    use std::sync::Arc;
    use std::time::Duration;
    use threadseal_core::record::{RecordId, ThreadId};
    use threadseal_runtime::budget::BudgetLedger;
    use threadseal_runtime::project::Project;
    use threadseal_runtime::registry::{Inspection, Registry, ViewedRegistry};
    use threadseal_runtime::runner::orchestrator::{Operation, Records};
    use threadseal_runtime::runner::{
        Adoption, Engine, GraphOrder, GraphResumption, Healed, Order, Recovered, ResumeMode,
        Resumption,
    };
    use threadseal_runtime::toolbox::Cancel;

    pub(crate) type Books = (Arc<dyn Registry>, Arc<dyn BudgetLedger>);

    /// The effect of a request to end.
    #[expect(dead_code, reason = "there are no orders")]
    pub(crate) enum Cancelled {
        Order(i64),
        Asked(ThreadId),
    }

    /// An order that was given.
    pub(crate) struct Given {
        pub(crate) order: i64,
        pub(crate) record: RecordId,
        pub(crate) lowered: Vec<&'static str>,
    }

    /// What became of an order.
    #[expect(dead_code, reason = "there are no orders")]
    pub(crate) enum OrderEnd {
        Ended(Value),
        Refused(ThreadId, String),
        Nothing {
            state: String,
            claim: Option<String>,
        },
    }

    impl Fleet {
        pub(crate) fn open(url: &str) -> Result<Self, Error> {
            Err(Unbuilt::ThreadDatabases.error(format_args!("open {}", without_secrets(url))))
        }

        pub(crate) fn place(&self) -> &str {
            match *self {}
        }

        pub(crate) fn warnings(&self) -> Vec<String> {
            match *self {}
        }

        pub(crate) fn project(&self, _: &Project) -> Result<Arc<Project>, Error> {
            match *self {}
        }

        pub(crate) fn registry(&self) -> &ViewedRegistry {
            match *self {}
        }

        pub(crate) fn inspect(&self) -> Result<[(&'static str, Inspection); 2], Error> {
            match *self {}
        }

        pub(crate) fn left(&self) -> Result<Vec<ThreadId>, Error> {
            match *self {}
        }

        pub(crate) fn has_worker(&self) -> Result<bool, Error> {
            match *self {}
        }

        pub(crate) fn books(&self) -> Result<Books, Error> {
            match *self {}
        }

        pub(crate) fn put(&self, _: &Engine, _: &Order, _: Duration) -> Result<Given, Error> {
            match *self {}
        }

        pub(crate) fn put_graph(
            &self,
            _: &Engine,
            _: &GraphOrder,
            _: Duration,
        ) -> Result<Given, Error> {
            match *self {}
        }

        pub(crate) fn outcome(
            &self,
            _: &Records,
            _: &Given,
            _: &Cancel,
            _: &Host,
        ) -> Result<OrderEnd, Error> {
            match *self {}
        }

        pub(crate) fn looking(&self, _: &Engine) -> Result<Engine, Error> {
            match *self {}
        }

        pub(crate) fn resume(
            &self,
            _: &Engine,
            _: &Resumption,
            _: ResumeMode,
            _: Duration,
        ) -> Result<Given, Error> {
            match *self {}
        }

        pub(crate) fn resume_graph(
            &self,
            _: &Engine,
            _: &GraphResumption,
            _: Duration,
        ) -> Result<Given, Error> {
            match *self {}
        }

        pub(crate) fn cancel(&self, _: &Engine, _: &ThreadId) -> Result<Cancelled, Error> {
            match *self {}
        }

        pub(crate) fn cancel_order(&self, _: &Engine, _: i64) -> Result<Cancelled, Error> {
            match *self {}
        }

        pub(crate) fn kill(
            &self,
            _: &Engine,
            _: &ThreadId,
            _: &str,
            _: Duration,
        ) -> Result<Recovered, Error> {
            match *self {}
        }

        pub(crate) fn adopt(
            &self,
            _: &Engine,
            _: &Engine,
            _: &Adoption,
            _: &str,
        ) -> Result<Value, Error> {
            match *self {}
        }

        pub(crate) fn execute(
            &self,
            _: &Engine,
            _: &Operation,
            _: &str,
            _: &Cancel,
        ) -> Result<Value, Error> {
            match *self {}
        }

        #[cfg(feature = "capture")]
        pub(crate) fn orphaned(&self) -> Result<u64, Error> {
            match *self {}
        }

        pub(crate) fn recover_all(
            &self,
            _: &Engine,
            _: &str,
            _: Duration,
        ) -> Result<Vec<Healed>, Error> {
            match *self {}
        }

        pub(crate) fn recover(
            &self,
            _: &Engine,
            _: &ThreadId,
            _: &str,
            _: Duration,
        ) -> Result<Recovered, Error> {
            match *self {}
        }
    }
}
