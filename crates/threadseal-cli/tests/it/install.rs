//! `install` and `uninstall` on a machine of a test: a user's folder with agents that only give their
//! version, and a service manager that notes its calls.

use crate::prelude::*;
use crate::sandbox::PROGRAM;
use std::os::unix::fs::PermissionsExt as _;

const CLAUDE: &str = "{\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"bell\"}]}]\n  }\n}\n";

/// A user with agents.
pub(crate) struct User {
    pub(crate) sandbox: Sandbox,
}

impl User {
    /// A user with these programs, each a script.
    pub(crate) fn new(programs: &[(&str, &str)]) -> Self {
        let user = Self {
            sandbox: Sandbox::new(),
        };
        fs::create_dir_all(user.path("bin")).unwrap();
        for (name, script) in programs {
            user.program(name, script);
        }
        user
    }

    /// A user with Claude Code, OpenCode and aider, and a systemd that obeys.
    pub(crate) fn with_agents() -> Self {
        Self::new(&[
            ("claude", "echo '2.1.331 (Claude Code)'"),
            ("opencode", "echo 1.18.33"),
            ("aider", "echo aider 0.86.2"),
            ("systemctl", "echo \"$*\" >> \"$HOME/systemctl.log\""),
        ])
    }

    pub(crate) fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A path below the user's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path("user").join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        self.sandbox.write(Path::new("user").join(name), text);
    }

    pub(crate) fn read(&self, name: &str) -> String {
        read(self.path(name))
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words(line))
            .env_clear()
            .env("HOME", self.path(""))
            .env("PATH", self.path("bin"))
            .current_dir(self.sandbox.work())
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32, line: &str) -> Ran {
        let ran = Ran::of(self.command(line).output().unwrap());
        assert_eq!(ran.code, code, "{line}: {} {}", ran.stdout, ran.stderr);
        ran
    }

    /// The digests of all that the user has but the home of ours.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let mut state = snapshot(&self.path(""));
        state.retain(|path, _| !path.starts_with(".local") && !path.ends_with("systemctl.log"));
        state
    }

    /// What `status` gives as JSON, whatever its exit.
    pub(crate) fn status(&self) -> Value {
        Ran::of(self.command("status --json").output().unwrap()).json()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path(".local/share/threadseal")
    }
}

fn snapshot(folder: &Path) -> BTreeMap<String, String> {
    let files = walkdir(folder).into_iter();
    files
        .map(|path| {
            let bytes = fs::read(&path).unwrap_or_default();
            let name = path
                .strip_prefix(folder)
                .unwrap()
                .to_string_lossy()
                .into_owned();
            (name, Digest::of(&bytes).to_hex())
        })
        .collect()
}

fn walkdir(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.clone());
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(walkdir(&path));
        }
    }
    found
}

// T-CAP-08
#[test]
fn an_install_is_shown_asked_for_applied_and_undone() {
    let user = User::with_agents();
    user.put(".claude/settings.json", CLAUDE);
    user.put(".claude/projects/p/s.jsonl", "{}\n");
    let before = user.state();
    let planned = user.exits(0, "install --dry-run");
    planned
        .prints("claude-code 2.1.331   hooks in ~/.claude/settings.json (kept: 1 of yours)")
        .prints("1 session")
        .prints("opencode 1.18.33      plugin in ~/.config/opencode/plugin/threadseal.js")
        .prints("aider 0.86.2          writes into each project")
        .prints("systemd user unit threadseal.service")
        .prints("~/.local/share/threadseal will be made")
        .omits("codex");
    user.exits(2, "install")
        .warns("nothing was written")
        .warns("--yes");
    user.exits(2, "install --json");
    assert_eq!(user.state(), before);
    assert!(!user.home().exists());

    user.exits(0, "install --yes")
        .prints("threadseal.service runs");
    let settings = user.read(".claude/settings.json");
    let command = format!("\"'{PROGRAM}' hook claude-code\"");
    assert_eq!(settings.matches(&command).count(), 8, "{settings}");
    assert!(settings.contains("\"bell\""));
    assert!(
        user.read(".config/systemd/user/threadseal.service")
            .contains("\" \"watch\"\n")
    );
    let calls = user.read("systemctl.log");
    assert!(
        calls.contains("--user enable --quiet threadseal.service"),
        "{calls}"
    );
    assert!(user.home().join("trust.toml").exists());

    let again = user.exits(0, "install --json").json();
    assert_eq!(again["makes_home"], false);
    let claude = again["agents"].item("agent", "claude-code");
    assert_eq!(claude["hooks"]["action"], "keep");
    assert_eq!(
        (&claude["hooks"]["kept"], &claude["hooks"]["replaced"]),
        (&json!(1), &json!(8))
    );

    user.exits(0, "uninstall --dry-run")
        .prints("gets back its bytes from before");
    user.exits(2, "uninstall").warns("--yes");
    let undone = user.exits(0, "uninstall --yes --json").json();
    undone.is(json!({"applied": true, "files/0/action": "restore"}));
    assert!(
        user.read("systemctl.log").contains("disable --now"),
        "{calls}"
    );
    assert_eq!(user.state(), before);
    user.exits(0, "uninstall").prints("nothing is installed");
}

// T-CAP-05
#[test]
fn settings_that_are_broken_are_refused_alone_and_stay() {
    let user = User::with_agents();
    user.put(
        ".claude/settings.json",
        "{\n  \"model\": \"opus\",\n  oops\n}\n",
    );
    let refused = user.exits(2, "install --yes");
    refused
        .warns("claude-code: cannot use")
        .warns("settings.json")
        .warns("line 3");
    assert_eq!(
        user.read(".claude/settings.json"),
        "{\n  \"model\": \"opus\",\n  oops\n}\n"
    );
    assert!(user.path(".config/opencode/plugin/threadseal.js").exists());
    let refused = user.exits(2, "install --yes --json").json();
    assert_eq!(refused["problems"][0]["of"], "claude-code");
}

// T-CAP-20
#[test]
fn an_install_warns_of_settings_that_their_agent_ignores() {
    let user = User::with_agents();
    user.put(
        ".claude/settings.json",
        "{\n  // mine\n  \"model\": \"opus\"\n}\n",
    );
    let warned = user.exits(2, "install claude-code --yes");
    warned.warns("claude-code ignores all of it");
    assert!(
        user.read(".claude/settings.json")
            .contains("hook claude-code")
    );
    user.exits(0, "uninstall --yes");
    assert_eq!(
        user.read(".claude/settings.json"),
        "{\n  // mine\n  \"model\": \"opus\"\n}\n"
    );
}

#[test]
fn only_agents_that_are_there_or_named_get_hooks() {
    let user = User::with_agents();
    user.exits(0, "install qwen --no-watcher --yes");
    assert!(user.read(".qwen/settings.json").contains("hook qwen"));
    assert!(!user.path(".claude").exists() && !user.path(".config").exists());
    user.exits(2, "install clyde --yes").warns("claude-code");
    user.exits(0, "uninstall qwen --yes");
    assert!(!user.path(".qwen").exists());
}

// T-CAP-15
#[test]
fn a_home_in_another_place_is_named_in_each_command() {
    let user = User::with_agents();
    let home = user.path("else where");
    let mut command = user.command("install --yes");
    command.env("THREADSEAL_HOME", &home);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let named = format!("--home '{}'", home.display());
    assert!(user.read(".claude/settings.json").contains(&named));
    let named = format!("\"--home\" \"{}\"", home.display());
    assert!(
        user.read(".config/systemd/user/threadseal.service")
            .contains(&named)
    );
    assert!(
        user.read(".config/opencode/plugin/threadseal.js")
            .contains("else where")
    );
    // Another home takes the hooks over: an agent never runs two.
    user.exits(0, "install --yes");
    assert!(!user.read(".claude/settings.json").contains("else where"));
}

#[test]
fn strict_hooks_run_before_tools_until_they_are_installed_without() {
    let user = User::with_agents();
    user.exits(0, "install claude-code --strict --yes");
    let settings = user.read(".claude/settings.json");
    assert!(settings.contains("PreToolUse") && settings.contains("hook claude-code --strict"));
    user.exits(0, "install claude-code --yes");
    assert!(!user.read(".claude/settings.json").contains("PreToolUse"));
}

#[test]
fn files_of_an_organisation_go_into_a_folder_and_touch_no_user() {
    let user = User::with_agents();
    let before = user.state();
    user.exits(2, "install --managed out").warns("--yes");
    user.exits(0, "install --managed out --yes")
        .prints("its place is /etc/claude-code");
    let written = user.sandbox.read("out/codex/requirements.toml");
    assert!(written.contains("[[hooks.Stop.hooks]]"), "{written}");
    for name in [
        "claude-code/managed-settings.json",
        "gemini-cli/settings.json",
    ] {
        assert!(
            user.sandbox
                .read(Path::new("out").join(name))
                .contains("hook ")
        );
    }
    user.exits(0, "install --managed out --yes")
        .prints("up to date");
    let managed = user
        .exits(0, "install --managed out --dry-run --json")
        .json();
    managed.is(json!({"applied": false, "files/0/changes": false}));
    user.exits(2, "install opencode --managed out --yes")
        .warns("reads no hooks of an organisation");
    assert_eq!(user.state(), before);
    assert!(!user.home().exists());
}

#[test]
fn without_a_service_manager_the_plan_names_the_way_by_hand() {
    let user = User::new(&[("claude", "echo 2.1.331")]);
    user.exits(0, "install --yes").prints("watch --once");
    let user = User::new(&[("systemctl", "exit 1")]);
    user.exits(0, "install --yes").prints("watch --once");
    assert!(!user.path(".config").exists());
    user.exits(0, "uninstall --yes");
}

/// A program with our name whose hook seals the log that the payload names.
const SEALING: &str = r#"case $3 in hook) ;; *) exec PROGRAM "$@" ;; esac
payload=$(/bin/cat)
log=${payload#*'ranscript'*'":"'}
log=${log%%'"'*}
exec PROGRAM --quiet --home "$2" seal --detached "$log" > /dev/null"#;

// T-CAP-18
#[test]
fn doctor_runs_each_hook_and_status_names_what_keeps_one_from_running() {
    let user = User::with_agents();
    user.put("work/notes.txt", "");
    user.exits(3, "status")
        .prints("there is no home")
        .prints("claude-code: has no hooks");
    user.exits(0, "install claude-code opencode --yes");
    user.exits(3, "status")
        .prints("systemctl --user enable --now threadseal.service");
    let mut watch = user.command("watch");
    let _watcher = Started(watch.stdout(Stdio::null()).spawn().unwrap());
    let runs = || user.status()["watcher"] == "running";
    assert!((0..600).any(|_| runs() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
    user.exits(0, "status")
        .prints("claude-code 2.1.331   8 hooks, 0 sessions")
        .prints("watcher               running")
        .prints("all is well");
    let good = user.exits(0, "doctor --json").json();
    assert_eq!(good["fired"].list().len(), 9, "{good:#}");
    assert!(
        good["fired"]
            .list()
            .iter()
            .all(|fired| fired["arrived"] == true)
    );
    assert_eq!(
        good["sealed"],
        json!([{"agent": "claude-code", "sealed": true}])
    );

    // A hook that fails did not arrive, and one that seals did.
    user.program("threadseal", "echo broken >&2; exit 1");
    let script = user.path("bin/threadseal");
    user.exits(
        0,
        &format!("install claude-code --yes --no-watcher --program {script:?}"),
    );
    let broken = user.exits(3, "doctor claude-code --json").json();
    let fired = broken["fired"].list();
    assert_eq!(fired.len(), 8);
    assert!(
        fired
            .iter()
            .all(|fired| fired["arrived"] == false && fired["failure"] == "broken")
    );
    user.program("threadseal", &SEALING.replace("PROGRAM", PROGRAM));
    let heads = fs::read_dir(user.home().join("heads")).unwrap().count();
    let sealed = user.exits(3, "doctor claude-code --json").json();
    let fired = sealed["fired"].list();
    assert!(
        fired.iter().all(|fired| fired["arrived"] == true),
        "{sealed:#}"
    );
    assert_eq!(sealed["sealed"][0]["sealed"], true, "{sealed:#}");
    // The only problem left is that the hooks run another program.
    let problems = sealed["problems"].list();
    assert!(
        problems
            .iter()
            .all(|problem| problem["of"] == "claude-code"),
        "{sealed:#}"
    );
    assert!(
        problems
            .iter()
            .any(|problem| problem["message"].text().contains("not this program"))
    );
    assert_eq!(
        fs::read_dir(user.home().join("heads")).unwrap().count(),
        heads
    );
    user.program("threadseal", "exit 0");
    user.exits(3, "doctor claude-code")
        .prints("did not seal the session of the check");
}

/// A process that ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
