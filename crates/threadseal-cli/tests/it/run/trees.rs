//! What a tool starts ends with its call, and with the process of its thread.

use crate::prelude::*;
use threadseal_store::clock::{Clock as _, SystemClock};

const SERVER: &str = include_str!("../../../../threadseal-runtime/src/toolbox/mcp/tests/server.py");
/// In which time all that ran under a process that was killed must be gone.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// Processes that leave their group, their session and their parent; the last one writes its number
/// to `daemon`, and the tool continues when that is there.
const DAEMONS: &str = "sleep 600 & nohup sleep 600 >/dev/null 2>&1 & setsid sleep 600 & \
    (setsid sh -c 'sleep 600 & echo $$ > daemon; sleep 600' &) ; \
    while [ ! -s daemon ]; do sleep 0.01; done;";

/// The member of a declaration that marks all processes of a tool.
pub(crate) fn mark(sandbox: &Sandbox) -> String {
    format!("set_env: {{TREE: {:?}}}\nenv: [PATH]\n", sandbox.work())
}

/// The processes with the mark of a sandbox.
pub(crate) fn marked(sandbox: &Sandbox) -> Vec<PathBuf> {
    let mark = format!("TREE={}", sandbox.work().display()).into_bytes();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.map(|entry| entry.path());
    let is_marked = |path: &PathBuf| {
        let variables = fs::read(path.join("environ")).unwrap_or_default();
        let mut variables = variables.split(|byte| *byte == 0);
        variables.any(|variable| variable == mark)
    };
    all.filter(is_marked).collect()
}

/// None of them is left, or within [`GONE_WITHIN`].
#[track_caller]
pub(crate) fn are_gone(sandbox: &Sandbox) {
    let since = SystemClock.elapsed();
    while !marked(sandbox).is_empty() {
        let late = SystemClock.elapsed() - since > GONE_WITHIN;
        let name = |path: &PathBuf| fs::read_to_string(path.join("cmdline"));
        let left: Vec<_> = marked(sandbox).iter().map(name).collect();
        assert!(!late || left.is_empty(), "{left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A project with the directive `demo/tree`, which may call the tools of `demo`.
fn trees() -> Sandbox {
    let sandbox = project();
    let rights = "<execute><tool>demo.*</tool></execute>";
    let text = directive("tree", rights, "");
    sandbox.sealed("p/.ai/directives/demo/tree.md", text);
    sandbox
}

/// Declares `demo/count` as this shell script.
fn tool(sandbox: &Sandbox, script: &str, more: &str) {
    let argv = json!(["/bin/sh", "-c", script]);
    let text = format!(
        "tool_type: command\ncommand: {argv}\n{}{more}",
        mark(sandbox)
    );
    sandbox.sealed("p/.ai/tools/demo/count.yaml", text);
}

const RUN: &str = "run demo/tree --project p -i name=Ada --script calls.yaml";

fn calls(sandbox: &Sandbox, calls: &str) {
    sandbox.write(
        "calls.yaml",
        format!("answers:\n{calls}- {{text: Done.}}\n"),
    );
}

/// Until the tool of [`DAEMONS`] has started them all.
fn until_begun(sandbox: &Sandbox) {
    let daemon = sandbox.path("p/daemon");
    while !fs::read_to_string(&daemon).is_ok_and(|text| !text.is_empty()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(marked(sandbox).len() >= 6, "{:?}", marked(sandbox));
}

// T-DEC-11 T-TOL-41
#[test]
fn what_leaves_its_group_dies_with_its_call_however_that_ends() {
    for (end, more, code) in [
        ("echo well", "", json!(0)),
        ("exit 7", "", json!(7)),
        ("kill -9 $$", "", Value::Null),
        ("sleep 600", "timeout_seconds: 1\n", Value::Null),
    ] {
        let sandbox = trees();
        tool(&sandbox, &format!("{DAEMONS} {end}"), more);
        calls(&sandbox, "- {calls: [{tool: demo_count}]}\n");
        sandbox.sh(RUN).exits(0);
        are_gone(&sandbox);
        assert!(sandbox.path("p/daemon").exists());
        let events = json_lines(transcript(&sandbox, "tree")).into_iter();
        let mut results = events.filter(|event| event["event_type"] == "tool_call_result");
        let result = results.next().unwrap()["payload"].clone();
        let output: Value = serde_json::from_str(result["output"].text()).unwrap();
        // It is reported as it was: the supervisor changes no outcome.
        assert_eq!(output["exit_code"], code, "{end}: {result}");
        assert_eq!(result["unknown"] == true, code.is_null(), "{end}: {result}");
        if end == "kill -9 $$" {
            result["error"].text().has("signal 9");
        }
    }
}

// T-TOL-41
#[test]
fn what_leaves_its_group_dies_with_a_thread_that_is_cancelled() {
    let sandbox = trees();
    tool(&sandbox, &format!("{DAEMONS} sleep 600"), "");
    calls(&sandbox, "- {calls: [{tool: demo_count}]}\n");
    let mut process = sandbox.spawn(RUN);
    until_begun(&sandbox);
    let thread = thread_id(&thread(&sandbox, "tree"));
    sandbox.ok(format!("thread cancel {thread} --project p"));
    process.wait().unwrap();
    are_gone(&sandbox);
}

// T-TOL-42
#[test]
fn tools_and_servers_die_when_the_process_of_their_thread_is_killed() {
    let sandbox = trees();
    let server = sandbox.write("server.py", SERVER);
    let command = json!(["python3", server, "stdio", "honest", "x"]);
    let text = format!(
        "tool_type: mcp\ntool: echo\ncommand: {command}\n{}",
        mark(&sandbox)
    );
    sandbox.sealed("p/.ai/tools/demo/server.yaml", text);
    tool(&sandbox, &format!("{DAEMONS} sleep 600"), "");
    calls(
        &sandbox,
        "- {calls: [{tool: demo_server, input: {text: x}}, {tool: demo_count}]}\n",
    );
    let mut process = sandbox.spawn(RUN);
    until_begun(&sandbox);
    let is_server = |path: &PathBuf| {
        let command = fs::read_to_string(path.join("cmdline"));
        command.is_ok_and(|command| command.contains("server.py"))
    };
    assert!(marked(&sandbox).iter().any(is_server));
    process.kill().unwrap();
    process.wait().unwrap();
    are_gone(&sandbox);
}

#[test]
fn a_program_that_is_not_there_is_told_as_such() {
    let sandbox = trees();
    let text = "tool_type: command\ncommand: [/no/such/program]\n";
    sandbox.sealed("p/.ai/tools/demo/count.yaml", text);
    calls(&sandbox, "- {calls: [{tool: demo_count}]}\n");
    sandbox.sh(RUN).exits(0);
    let text = read(transcript(&sandbox, "tree"));
    text.has("cannot start /no/such/program: No such file or directory");
}

/// Where the control group of version 2 of a process is, from its `/proc/PID/cgroup`.
fn cgroup(member: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let path = member.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut mounts = mounts.lines();
    let mount = mounts.find(|line| line.contains(" - cgroup2 "))?;
    Some(Path::new(mount.split(' ').nth(4)?).join(path))
}

/// Whether processes may make control groups below their own here.
fn has_cgroups() -> bool {
    let own = cgroup(&fs::read_to_string("/proc/self/cgroup").unwrap());
    let probe = own.map(|own| own.join(format!("probe-{}", std::process::id())));
    probe.is_some_and(|probe| fs::create_dir(&probe).is_ok() && fs::remove_dir(&probe).is_ok())
}

// T-TOL-43
#[test]
fn a_tool_that_kills_its_supervisor_still_loses_its_group_and_its_result() {
    let escapes = "setsid sleep 600 & ";
    let escapes = if has_cgroups() { escapes } else { "" };
    let sandbox = trees();
    tool(
        &sandbox,
        &format!("{escapes} sleep 0.2; kill -9 $PPID; sleep 600"),
        "",
    );
    calls(&sandbox, "- {calls: [{tool: demo_count}]}\n");
    sandbox.sh(RUN).exits(0);
    are_gone(&sandbox);
    let text = read(transcript(&sandbox, "tree"));
    text.has("ended by signal 9").has("\"unknown\"");
}

// T-TOL-43
#[test]
fn what_a_tool_left_that_killed_supervisor_and_runtime_dies_with_the_next_command() {
    if !has_cgroups() {
        println!("skipped: no control groups of version 2 that are ours to divide");
        return;
    }
    let sandbox = trees();
    let kill = "cat /proc/self/cgroup > group; runtime=$(cut -d' ' -f4 /proc/$PPID/stat); kill -9 $runtime $PPID; sleep 600";
    tool(&sandbox, &format!("{DAEMONS} {kill}"), "");
    calls(&sandbox, "- {calls: [{tool: demo_count}]}\n");
    let ended = sandbox.spawn(RUN).wait().unwrap();
    assert!(ended.code().is_none(), "{ended}");
    assert!(!marked(&sandbox).is_empty());
    let group = cgroup(&read(sandbox.path("p/group"))).unwrap();
    assert!(group.is_dir(), "{group:?}");
    sandbox.ok("thread recover --all --project p");
    are_gone(&sandbox);
    assert!(!group.exists(), "{group:?}");
}
