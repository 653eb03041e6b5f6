//! `cargo xtask fleet [--load] [--quick]`: threads on many processes, which are killed again and again; with `--load`,
//! many at once.
//!
//! ```text
//! one PostgreSQL ◄── 4 × `threadseal worker`   orders, children, a tool that leaves a line outside
//!       ▲                    ▲
//!       │ lines inserted     │ SIGKILL, often while a tool runs
//!       └ into unsealed tails
//! ```
//! Then it audits the results:
//!
//! * Each thread ended once, money adds up, and each record verifies.
//! * No outside line occurs twice.
//! * Each call that may have been carried out is listed.
//! * No text that was inserted into a tail ever reached a model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a chore fails by panicking and says where, also in its helpers"
)]

mod audit;
mod hunt;
mod load;
mod scene;

use crate::console::Fallible;
use scene::Scene;
use std::time::Duration;
use threadseal_store::clock::{Clock, SystemClock};
use threadseal_store::postgres::throwaway::Cluster;

/// The amount of work.
#[derive(Debug, Clone, Copy)]
struct Plan {
    threads: u64,
    kills: u64,
    kills_in_tools: u64,
    longest: Duration,
}

const FULL: Plan = Plan {
    threads: 500,
    kills: 200,
    kills_in_tools: 30,
    longest: Duration::from_secs(240),
};
const QUICK: Plan = Plan {
    threads: 60,
    kills: 20,
    kills_in_tools: 5,
    longest: Duration::from_secs(90),
};

/// What is tried.
#[derive(Debug, Clone, Copy)]
enum Work {
    Hunt(Plan),
    Load(load::Plan),
}

/// Runs the fleet and audits its results; true when every rule held.
pub(crate) fn run(arguments: &[&str]) -> Fallible<bool> {
    let work = match arguments {
        [] => Work::Hunt(FULL),
        ["--quick"] => Work::Hunt(QUICK),
        ["--load"] => Work::Load(load::FULL),
        ["--load", "--quick"] => Work::Load(load::QUICK),
        _ => return Err(crate::USAGE.into()),
    };
    // Workers are killed, but the server is not: its disk needs no care.
    let settings = "-c fsync=off -c full_page_writes=off -c autovacuum=off -c max_connections=600";
    let Some(cluster) = Cluster::start(settings) else {
        crate::console::say("skipped: PostgreSQL's server programs are not installed");
        return Ok(true);
    };
    let scene = Scene::new(&cluster)?;
    match work {
        Work::Hunt(plan) => hunted(&scene, plan),
        Work::Load(plan) => load::run(&scene, plan),
    }
}

/// Workers that are killed, and what is found afterwards.
fn hunted(scene: &Scene, plan: Plan) -> Fallible<bool> {
    let began = SystemClock.elapsed();
    let tally = hunt::hunt(scene, plan)?;
    let seconds = (SystemClock.elapsed() - began).as_secs_f64();
    crate::console::say(&format!(
        "{} orders, {} SIGKILLs ({} while a tool ran), {} lines put into tails, {seconds:.1} s",
        tally.orders, tally.kills, tally.kills_in_tools, tally.injected
    ));
    let found = audit::audit(scene)?;
    crate::console::say(&found.to_string());
    let enough = tally.kills >= plan.kills
        && tally.kills_in_tools >= plan.kills_in_tools
        && found.threads >= plan.threads
        && tally.is_over;
    if !enough {
        crate::console::say(&format!("too little happened: {plan:?}"));
    }
    for complaint in found.complaints.iter().take(20) {
        crate::console::say(&format!("WRONG: {complaint}"));
    }
    let good = enough && found.complaints.is_empty();
    if !good {
        scene.tell()?;
    }
    Ok(good)
}
