//! Threads that are marked as running, and that nothing runs: of this project, and of the database that the environment
//! names.

use crate::capture::counted;
use crate::context::{self, Context};
use crate::engine::records;
use crate::exit::Failure;
use crate::fleet::Fleet;
use crate::project::ProjectArgs;
use threadseal_capture::health::Problem;
use threadseal_runtime::registry::Filter;

/// One problem for each place where such threads are.
pub(super) fn orphaned(context: &Context) -> Vec<Problem> {
    let of_database = in_database().unwrap_or_else(|failure| Some(failure.to_string()));
    let of_project = in_project(context).unwrap_or_else(|failure| Some(failure.to_string()));
    let problem = |message| Problem {
        of: "threads".to_owned(),
        message,
    };
    of_project
        .into_iter()
        .chain(of_database)
        .map(problem)
        .collect()
}

fn in_project(context: &Context) -> Result<Option<String>, Failure> {
    let place = ProjectArgs::default();
    if context.home()?.is_none() || !place.is_there(context) {
        return Ok(None);
    }
    let records = records(&place, context, None)?;
    let mut count = 0;
    for thread in &records.registry.list(&Filter::active())?.threads {
        count += u64::from(records.is_orphaned(thread)?);
    }
    Ok(message(count, "whose process is gone", ""))
}

fn in_database() -> Result<Option<String>, Failure> {
    let Some(url) = context::database_setting() else {
        return Ok(None);
    };
    let url = url.to_str().unwrap_or_default();
    let fleet = Fleet::existing(url)?;
    let count = fleet.map_or(Ok(0), |fleet| fleet.orphaned())?;
    Ok(message(
        count,
        "in the database that no worker continues",
        " --database URL",
    ))
}

fn message(count: u64, which: &str, more: &str) -> Option<String> {
    let threads = counted(usize::try_from(count).unwrap_or(usize::MAX), "thread");
    (count > 0).then(|| {
        format!("marked as running: {threads} {which}; hint: threadseal thread recover --all{more}")
    })
}
