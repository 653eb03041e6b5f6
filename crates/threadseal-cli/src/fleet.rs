//! Threads in a database, from the options of `worker`, `run` and `thread`.
//!
//! Without the features `agent` and `cloud` there is no [`Fleet`]: to name a database is an error.

#[cfg(not(all(feature = "agent", feature = "cloud")))]
mod absent;

use crate::context;
#[cfg(feature = "agent")]
use crate::context::Context;
use crate::exit::Failure;
#[cfg(feature = "agent")]
use crate::exit::complain;
use clap::Args;

#[cfg(not(all(feature = "agent", feature = "cloud")))]
pub(crate) use absent::Fleet;
#[cfg(all(feature = "agent", not(feature = "cloud")))]
pub(crate) use absent::{Books, Cancelled, Given, OrderEnd};
#[cfg(all(feature = "agent", feature = "cloud"))]
pub(crate) use threadseal_runtime::fleet::{Books, Cancelled, Fleet, Given, OrderEnd};

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// PostgreSQL database with the threads, for workers on many machines:
    /// postgres://USER@HOST/NAME
    #[arg(
        long,
        value_name = "URL",
        env = context::DATABASE_SETTING,
        hide_env_values = true
    )]
    #[cfg_attr(not(all(feature = "agent", feature = "cloud")), arg(hide = true))]
    database: Option<String>,
}

impl DatabaseArgs {
    /// The database, if one is named.
    ///
    /// # Errors
    /// When it cannot be reached.
    #[cfg(feature = "agent")]
    pub(crate) fn open(&self, context: &Context) -> Result<Option<Fleet>, Failure> {
        let Some(url) = &self.database else {
            return Ok(None);
        };
        let fleet = Fleet::open(url)?;
        if !context.quiet {
            for warning in fleet.warnings() {
                complain(&format!("warning: {warning}"));
            }
        }
        Ok(Some(fleet))
    }

    /// The database, if one is named and contains threads; nothing is created in it.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub(crate) fn existing(&self) -> Result<Option<Fleet>, Failure> {
        let url = self.database.as_deref();
        Ok(url.map_or(Ok(None), Fleet::existing)?)
    }

    /// Its address, if one is named.
    #[cfg(all(feature = "agent", feature = "cloud"))]
    pub(crate) fn url(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The database, which must be named.
    ///
    /// # Errors
    /// As [`DatabaseArgs::open`].
    #[cfg(all(feature = "agent", feature = "cloud"))]
    pub(crate) fn required(&self, context: &Context) -> Result<Fleet, Failure> {
        let none =
            || Failure::new("name the database: --database postgres://… or THREADSEAL_DATABASE");
        self.open(context)?.ok_or_else(none)
    }
}

/// Opens databases of threads for the verifier.
#[cfg(all(feature = "agent", feature = "cloud"))]
pub(crate) struct Databases;

#[cfg(all(feature = "agent", feature = "cloud"))]
impl threadseal_verify::verifier::ThreadDatabases for Databases {
    fn open(
        &self,
        url: &str,
    ) -> Result<
        Option<Box<dyn threadseal_verify::verifier::ThreadDatabase>>,
        threadseal_core::error::Error,
    > {
        let fleet = Fleet::existing(url)?;
        Ok(fleet.map(|fleet| Box::new(fleet) as _))
    }
}
