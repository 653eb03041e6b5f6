//! Trees of threads that spend all they may, and whose process is killed at a random moment.
//!
//! ```text
//! run ─► children beside and below it, each answer paid ─► kill -9 ─► thread recover --all
//!     ─► no thread runs, no money is held, no limit exceeded, every record verifies
//! ```
//! `THREADSEAL_KILLS=N` plays N rounds.

use crate::histories::Random;
use crate::prelude::*;
use crate::sandbox::option_env;

/// Rounds, if no number is asked for.
const KILLS: usize = 5;
const ROUNDS_OF_A_PROJECT: usize = 10;
/// The longest time, in milliseconds, until the process is killed.
const MOMENTS: usize = 500;

/// Each answer costs 0.0138 dollars; a child may spend 0.05, the tree 0.15.
const MODELS: &str = "models:\n- {id: script, provider: script, context_window: 200000, \
    prices: {input: 3, output: 15}}\n";

fn script() -> String {
    let begin = |name: &str, beside: bool| {
        format!(
            "{{tool: rye_agent_threads_thread_directive, input: {{directive_id: demo/child, \
             inputs: {{name: {name}}}, async: {beside}}}}}"
        )
    };
    let usage = "usage: {input_tokens: 100, output_tokens: 900}";
    let text = "word ".repeat(700);
    let answer = |calls: &[String]| {
        let calls = calls.join(", ");
        format!("{{delay_ms: 60, text: {text}, calls: [{calls}], {usage}}}")
    };
    let last = format!("{{delay_ms: 60, text: Done., {usage}}}");
    format!(
        "conversations:\n- when: Greet Ada\n  answers: [{}, {}, {}, {last}]\n\
         - when: Greet Bob\n  answers: [{}, {last}]\n- when: Greet Cleo\n  answers: [{}, {last}]\n",
        answer(&[begin("Bob", true), begin("Cleo", true)]),
        answer(&[begin("Bob", false)]),
        answer(&[begin("Cleo", false)]),
        answer(&[begin("Cleo", false)]),
        answer(&[]),
    )
}

/// A project with the script.
fn greedy() -> Sandbox {
    let sandbox = project();
    sandbox.sealed("p/.ai/config/agent/models.yaml", MODELS);
    // Only `thread recover` ends what the processes leave.
    let settings = "orphan_detection: {enabled: false}\n";
    sandbox.sealed("p/.ai/config/agent/coordination.yaml", settings);
    sandbox.write("greedy.yaml", script());
    sandbox
}

// T-RUN-37
#[test]
fn a_killed_tree_spent_no_more_than_it_may_and_all_its_ledgers_add_up() {
    let rounds = option_env("THREADSEAL_KILLS");
    let rounds = rounds.map_or(KILLS, |text| text.to_str().unwrap().parse().unwrap());
    let mut random = Random::new(rounds as u64);
    let (mut ended, mut by_itself) = (0, 0);
    let mut sandbox = greedy();
    for round in 0..rounds {
        // Each round looks at all threads of its project.
        if round > 0 && round % ROUNDS_OF_A_PROJECT == 0 {
            sandbox = greedy();
        }
        let line = "run demo/greet --project p -i name=Ada --script greedy.yaml --limit spend=0.15";
        let mut process = sandbox
            .command()
            .args(words(line))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random.below(MOMENTS) as u64));
        if let Some(status) = process.try_wait().unwrap() {
            assert!(matches!(status.code(), Some(0 | 3)), "{status}");
            by_itself += 1;
        }
        let _ = process.kill();
        process.wait().unwrap();

        let recovered = sandbox.json("thread recover --all --project p");
        ended += recovered["threads"].list().len();
        let listed = sandbox.json("thread list --project p");
        for thread in listed["threads"].list() {
            let status = thread["status"].text();
            assert!(
                !["created", "running"].contains(&status),
                "round {round}: {thread}"
            );
        }
        sandbox.ok("thread inspect --project p");
        assert_eq!(money_that_is_wrong(&sandbox), 0, "round {round}");
        sandbox.ok("verify p");
    }
    assert!(ended > 0 && by_itself < rounds, "{ended} {by_itself}");
}

/// Budgets that still hold money, or of which more was spent than there is.
fn money_that_is_wrong(sandbox: &Sandbox) -> i64 {
    let path = sandbox.path("p/.ai/agent/threads/budget_ledger.db");
    if !path.exists() {
        return 0;
    }
    let database = rusqlite::Connection::open(path).unwrap();
    let count = |sql: &str| -> i64 { database.query_row(sql, [], |row| row.get(0)).unwrap() };
    count("SELECT count(*) FROM budget_ledger WHERE status = 'active'")
        + count("SELECT count(*) FROM budget_ledger WHERE actual_spend > max_spend + 1e-9")
        + count("SELECT count(*) FROM threadseal_holds")
}
