//! Threads in a database, from the options of `worker`, `run` and `thread`.

use crate::context::{self, Context};
use crate::exit::{Failure, complain};
use clap::Args;
use threadseal_core::error::Error;
use threadseal_runtime::fleet::Fleet;
use threadseal_verify::verifier::{ThreadDatabase, ThreadDatabases};

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Threads that lie in this PostgreSQL database, for workers of many machines: postgres://USER@HOST/NAME
    #[arg(
        long,
        value_name = "URL",
        env = context::DATABASE_SETTING,
        hide_env_values = true
    )]
    database: Option<String>,
}

impl DatabaseArgs {
    /// The database, if one is named.
    ///
    /// # Errors
    /// When it cannot be reached.
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

    /// The database, which must be named.
    ///
    /// # Errors
    /// As [`DatabaseArgs::open`].
    pub(crate) fn required(&self, context: &Context) -> Result<Fleet, Failure> {
        let none =
            || Failure::new("name the database: --database postgres://… or THREADSEAL_DATABASE");
        self.open(context)?.ok_or_else(none)
    }
}

/// Opens databases of threads for the verifier.
pub(crate) struct Databases;

impl ThreadDatabases for Databases {
    fn open(&self, url: &str) -> Result<Option<Box<dyn ThreadDatabase>>, Error> {
        let fleet = Fleet::existing(url)?;
        Ok(fleet.map(|fleet| Box::new(fleet) as Box<dyn ThreadDatabase>))
    }
}
