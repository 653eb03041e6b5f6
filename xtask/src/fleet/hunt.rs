//! Runs four workers, and kills them.

use super::{Plan, Scene};
use crate::console::Fallible;
use std::collections::HashSet;
use std::process::Child;
use std::time::Duration;
use threadseal_store::clock::{Clock, SystemClock};
use threadseal_store::postgres::leases::Orders;
use threadseal_store::postgres::{PostgresDatabase, cell};

/// The number of processes at a time.
const WORKERS: usize = 4;
/// A root thread and its two children.
const THREADS_PER_ORDER: u64 = 3;
/// The interval between two rounds of the hunter.
const LOOK: Duration = Duration::from_millis(3);
/// The shortest life of a worker. A worker that cannot begin proves nothing.
const LEAST_LIFE: Duration = Duration::from_millis(150);
/// The interval between two insertions into a tail.
const INJECT: Duration = Duration::from_millis(300);

/// The text that is inserted into tails. No prompt may contain it.
pub(super) const MARK: &str = "INJECTED-INTO-A-TAIL";

/// The counts of a hunt.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) orders: u64,
    pub(super) kills: u64,
    pub(super) kills_in_tools: u64,
    pub(super) injected: u64,
    pub(super) is_over: bool,
}

struct Worker {
    child: Child,
    born: Duration,
}

/// Completes all orders with workers that are killed meanwhile.
pub(super) fn hunt(scene: &Scene, plan: Plan) -> Fallible<Tally> {
    let database = PostgresDatabase::open(&scene.url)?;
    let orders = Orders::open(&database)?;
    let mut tally = Tally::default();
    // Some roots lose a child with the worker that ran it.
    give(
        scene,
        plan.threads.div_ceil(THREADS_PER_ORDER) * 11 / 10,
        &mut tally,
    )?;
    let clock = SystemClock;
    let (began, mut seen, mut injected_at) = (clock.elapsed(), HashSet::new(), Duration::ZERO);
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(born(scene, number)?);
    }
    let mut next_random = Duration::ZERO;
    loop {
        let now = clock.elapsed() - began;
        let open = orders.open_orders(&[])?;
        let enough = tally.kills >= plan.kills && tally.kills_in_tools >= plan.kills_in_tools;
        if open == 0 && enough || now > plan.longest {
            tally.is_over = open == 0;
            break;
        }
        if open <= WORKERS as u64 && !enough {
            give(scene, 8, &mut tally)?;
        }
        // Spreads the kills over the orders: too many at once would stop all progress.
        let done = (tally.orders - open.min(tally.orders)) * plan.kills / tally.orders.max(1);
        let may_kill = !enough && tally.kills <= done + plan.kills / 10;
        for (number, worker) in workers.iter_mut().enumerate() {
            let ended = worker.child.try_wait()?.is_some();
            let old = clock.elapsed() - worker.born >= LEAST_LIFE;
            let in_tool = may_kill && old && begun_by(scene, worker.child.id(), &mut seen)?;
            let at_random = may_kill && old && now >= next_random && number == random(WORKERS)?;
            if in_tool || at_random {
                worker.child.kill()?;
                tally.kills += 1;
                tally.kills_in_tools += u64::from(in_tool);
                next_random = now + Duration::from_millis(random(400)? as u64);
            }
            if in_tool || at_random || ended {
                worker.child.wait()?;
                *worker = born(scene, number)?;
            }
        }
        // Each insertion makes a worker leave its order. More would keep the last orders from
        // completing.
        if now >= injected_at + INJECT && tally.injected < plan.kills / 2 {
            injected_at = now;
            tally.injected += inject(&database)?;
        }
        std::thread::sleep(LOOK);
    }
    for worker in &mut workers {
        worker.child.kill()?;
        worker.child.wait()?;
    }
    Ok(tally)
}

fn give(scene: &Scene, count: u64, tally: &mut Tally) -> Fallible<()> {
    for _ in 0..count {
        scene.order("fleet/root")?;
    }
    tally.orders += count;
    Ok(())
}

fn born(scene: &Scene, number: usize) -> Fallible<Worker> {
    Ok(Worker {
        child: scene.worker(&format!("w{number}"), "1.5")?,
        born: SystemClock.elapsed(),
    })
}

/// Whether this process began a new call, which takes a while.
fn begun_by(scene: &Scene, process: u32, seen: &mut HashSet<String>) -> Fallible<bool> {
    let text = std::fs::read_to_string(scene.path("counter"))?;
    let last = text.lines().rev().take(2 * WORKERS);
    let ending = format!(" {process}");
    let mut found = false;
    for line in last {
        if !seen.contains(line) {
            found |= line.ends_with(&ending);
            if line.ends_with(&ending) {
                seen.insert(line.to_owned());
            }
        }
    }
    // Kills during only some of them.
    Ok(found && random(3)? == 0)
}

/// Inserts a line after the last seal of a running thread. An attacker with write access to the
/// database could do this.
fn inject(database: &PostgresDatabase) -> Fallible<u64> {
    let line = format!(
        "{{\"timestamp\":1.0,\"thread_id\":\"x\",\"event_type\":\"cognition_in\",\
         \"payload\":{{\"text\":\"{MARK}\",\"role\":\"user\"}}}}\n"
    );
    let sql = "
        WITH chosen AS (
          SELECT f.inode, f.size FROM threadseal_files f
          JOIN threadseal_threads t ON f.path = '.ai/agent/threads/' || t.thread_id || '/transcript.jsonl'
          JOIN threadseal_chunks c ON c.inode = f.inode AND c.at + octet_length(c.bytes) = f.size
          WHERE t.status = 'running' AND position('\"final\":true'::bytea IN c.bytes) = 0
          ORDER BY random() LIMIT 1),
        file AS (
          UPDATE threadseal_files f SET size = f.size + octet_length($1::bytea), version = f.version + 1
          FROM chosen WHERE f.inode = chosen.inode AND f.size = chosen.size
          RETURNING f.inode, f.size)
        INSERT INTO threadseal_chunks SELECT inode, size - octet_length($1::bytea), $1 FROM file RETURNING 1";
    // A concurrent writer may win; then no line was inserted.
    match database.once(sql, &[&line.as_bytes()]) {
        Ok(rows) => rows.first().map_or(Ok(0), |row| {
            let put: i32 = cell(row, 0)?;
            Ok(u64::from(put == 1))
        }),
        Err(_) => Ok(0),
    }
}

fn random(below: usize) -> Fallible<usize> {
    let bytes: [u8; 4] = threadseal_store::random::array(&threadseal_store::random::SystemRandom)?;
    Ok(u32::from_be_bytes(bytes) as usize % below.max(1))
}
