//! Many waiting orders and many workers on one host: how long, and what it costs the server.
//!
//! ```text
//! orders wait ─► all workers begin ─► orders done        time, connections, memory
//!   ─► nothing to do for a while                         transactions of idle workers
//!   ─► one order after the other                         time from its order to its end
//! ```

use super::{Scene, audit};
use crate::console::{Fallible, say};
use std::process::Child;
use std::time::Duration;
use threadseal_runtime::fleet::Census;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::postgres::{PostgresDatabase, cell};

/// The amount of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    orders: usize,
    workers: usize,
    idle: Duration,
    longest: Duration,
}

pub(super) const FULL: Plan = Plan {
    orders: 1000,
    workers: 50,
    idle: Duration::from_secs(60),
    longest: Duration::from_secs(1800),
};
pub(super) const QUICK: Plan = Plan {
    orders: 40,
    workers: 6,
    idle: Duration::from_secs(10),
    longest: Duration::from_secs(180),
};

/// How many processes give orders at once.
const GIVERS: usize = 4;
/// Between two looks at the database.
const LOOK: Duration = Duration::from_millis(250);
/// Until the server's counts have what all sessions did.
const SETTLE: Duration = Duration::from_secs(12);
/// Orders that are given one by one.
const SINGLE: usize = 10;
/// Most transactions of an idle worker in a second. It looks at the queue, at rows that cannot be taken, and renews nothing.
const MAX_IDLE_RATE: f64 = 0.5;

/// Workers, which are ended when this is dropped.
struct Workers(Vec<Child>);

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            // One that ended has been waited for by this.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

#[derive(Debug, Default)]
struct Peaks {
    connections: u64,
    memory: u64,
    most_memory: u64,
}

/// Runs the plan and prints its figures; true when all orders were done, nothing is wrong with the records, and idle
/// workers ask seldom.
pub(super) fn run(scene: &Scene, plan: Plan) -> Fallible<bool> {
    let database = PostgresDatabase::open(&scene.url)?;
    give(scene, plan.orders)?;
    let before = transactions(&database)?;
    let began = SystemClock.elapsed();
    let workers = (0..plan.workers).map(|number| scene.worker(&format!("w{number}"), "30"));
    let workers = Workers(workers.collect::<Fallible<_>>()?);
    let mut peaks = Peaks::default();
    let is_over = until_done(scene, &workers, plan, &mut peaks)?;
    let seconds = (SystemClock.elapsed() - began).as_secs_f64();
    let busy = transactions(&database)? - before;
    say(&format!(
        "{} orders, {} workers: {seconds:.1} s, {:.1} orders/s, {} transactions an order",
        plan.orders,
        plan.workers,
        plan.orders as f64 / seconds,
        busy / plan.orders as u64
    ));
    say(&format!(
        "{} connections at most, {:.2} a worker; {} MB in all workers, {} MB in the largest",
        peaks.connections,
        peaks.connections as f64 / plan.workers as f64,
        peaks.memory >> 10,
        peaks.most_memory >> 10
    ));
    let before = transactions(&database)?;
    std::thread::sleep(plan.idle);
    // This process asks twice.
    let idle = (transactions(&database)? - before).saturating_sub(2);
    let rate = idle as f64 / plan.idle.as_secs_f64() / plan.workers as f64;
    say(&format!(
        "nothing to do: {idle} transactions in {} s, {rate:.3} a worker and second",
        plan.idle.as_secs()
    ));
    for _ in 0..SINGLE {
        scene.order("fleet/leaf")?;
        until_done(scene, &workers, plan, &mut peaks)?;
    }
    let sql = "SELECT (percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM ended_at - created_at)) * 1000)::bigint
               FROM (SELECT ended_at, created_at FROM threadseal_orders ORDER BY id DESC LIMIT $1) o";
    let single = i64::try_from(SINGLE)?;
    let median: i64 = database.read(|session| cell(&session.one(sql, &[&single])?, 0))?;
    say(&format!(
        "one order at a time: {median} ms from order to end"
    ));
    drop(workers);
    let found = audit::audit(scene)?;
    say(&found.to_string());
    for complaint in found.complaints.iter().take(20) {
        say(&format!("WRONG: {complaint}"));
    }
    let all = found.threads == (plan.orders + SINGLE) as u64;
    Ok(is_over && all && found.complaints.is_empty() && rate <= MAX_IDLE_RATE)
}

fn give(scene: &Scene, count: usize) -> Fallible<()> {
    std::thread::scope(|scope| {
        let share = |giver| (count + giver) / GIVERS;
        let give = move |share: usize| {
            (0..share)
                .try_for_each(|_| scene.order("fleet/leaf").map_err(|error| error.to_string()))
        };
        let givers: Vec<_> = (0..GIVERS)
            .map(|giver| scope.spawn(move || give(share(giver))))
            .collect();
        for giver in givers {
            giver.join().map_err(|_| "a giver of orders panicked")??;
        }
        Ok(())
    })
}

/// Waits until no order is open; false where that takes too long.
fn until_done(scene: &Scene, workers: &Workers, plan: Plan, peaks: &mut Peaks) -> Fallible<bool> {
    let began = SystemClock.elapsed();
    loop {
        let census: Census = scene.fleet.census()?;
        peaks.connections = peaks.connections.max(census.connections[0]);
        let memory = workers.0.iter().map(|worker| resident(worker.id()));
        let memory: Vec<u64> = memory.collect();
        peaks.memory = peaks.memory.max(memory.iter().sum());
        peaks.most_memory = peaks.most_memory.max(memory.into_iter().max().unwrap_or(0));
        if census.ready + census.taken + census.expired == 0 {
            return Ok(true);
        }
        if SystemClock.elapsed() - began > plan.longest {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

/// The transactions of this database so far.
fn transactions(database: &PostgresDatabase) -> Fallible<u64> {
    // A session that is idle sends its last counts to the others after ten seconds.
    std::thread::sleep(SETTLE);
    let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let count: i64 = database.read(|session| cell(&session.one(sql, &[])?, 0))?;
    Ok(u64::try_from(count)?)
}

/// The memory of a process in KiB; 0 where it is gone.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.unwrap_or(0)
}
