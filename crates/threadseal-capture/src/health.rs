//! What keeps the hooks of an agent from running, as far as files show it.
//!
//! | agent | settings that silence hooks |
//! |---|---|
//! | Claude Code | `disableAllHooks`; of an organisation also `allowManagedHooksOnly` |
//! | Codex | `[features] hooks = false`; of an organisation also `allow_managed_hooks_only` |
//! | Gemini | `hooksConfig.enabled`, our name in `hooksConfig.disabled` |
//! | Qwen, Copilot | `disableAllHooks` |

use crate::agent::Agent;
use crate::agent::machine::Machine;
use crate::agent::places::SettingsKind;
use crate::install::{self, Action, Journal, RecordKind, Wish};
use crate::settings::hooks::HOOK_NAME;
use crate::settings::{HookCommand, json, managed, plugin};
use serde_json::Value;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_store::sys::Fs;

/// How many files an organisation may split its settings into.
const MAX_MANAGED_FILES: usize = 1000;

/// Something that a user should know or do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The agent, or another part of the installation.
    pub of: String,
    /// The problem, and a command that helps.
    pub message: String,
}

impl Problem {
    /// A problem of an agent.
    pub fn of(agent: Agent, message: impl Into<String>) -> Self {
        Self {
            of: agent.name().to_owned(),
            message: message.into(),
        }
    }
}

/// The state of an agent's hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookState {
    /// All hooks are as `install` writes them.
    Installed,
    /// Hooks of ours are there, but other ones than `install` writes.
    Outdated,
    /// There are none.
    Absent,
    /// The settings cannot be read.
    Unreadable,
}

impl HookState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Outdated => "outdated",
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The hooks of one agent, and what keeps them from running.
#[derive(Debug, Clone)]
pub struct AgentHealth {
    /// The state of its hooks.
    pub state: HookState,
    /// The hooks of ours, each command with its event. A plugin has one.
    pub hooks: Vec<InstalledHook>,
    /// What its user should do.
    pub problems: Vec<Problem>,
}

/// A hook of ours in the settings of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledHook {
    /// The event; of a plugin, its first one.
    pub event: String,
    /// The command line for a shell.
    pub command: String,
    /// The program in it.
    pub program: PathBuf,
    /// The time limit in the unit of the agent.
    pub timeout: Option<u32>,
}

/// Looks at the files of an agent that has hooks.
pub fn look(agent: Agent, wish: &Wish, journal: &Journal, fs: &dyn Fs) -> AgentHealth {
    let mut problems = Vec::new();
    let hooks = installed(agent, wish.machine, journal, fs);
    let (state, hooks) = match hooks {
        Err(error) => {
            problems.push(Problem::of(agent, error.to_string()));
            (HookState::Unreadable, Vec::new())
        }
        Ok(hooks) if hooks.is_empty() => (HookState::Absent, hooks),
        Ok(hooks) if is_current(agent, wish, journal, fs) => (HookState::Installed, hooks),
        Ok(hooks) => (HookState::Outdated, hooks),
    };
    let again = format!("; hint: threadseal install {agent}");
    match state {
        HookState::Absent => problems.push(Problem::of(agent, format!("has no hooks{again}"))),
        HookState::Outdated => {
            let text = format!("its hooks are not as this version writes them{again}");
            problems.push(Problem::of(agent, text));
        }
        HookState::Installed | HookState::Unreadable => {}
    }
    let mut programs: Vec<&Path> = hooks.iter().map(|hook| hook.program.as_path()).collect();
    programs.dedup();
    for program in programs {
        if let Some(text) = wrong_program(program, wish.program, fs) {
            problems.push(Problem::of(agent, format!("{text}{again}")));
        }
    }
    if !hooks.is_empty() {
        problems.extend(ignored(agent, wish.machine, fs));
        let silencers = silencers(agent, wish.machine, fs).into_iter();
        problems.extend(silencers.map(|text| Problem::of(agent, text)));
        problems.extend(untrusted(agent, journal, fs));
    }
    AgentHealth {
        state,
        hooks,
        problems,
    }
}

/// Claude Code and Codex read strict JSON: a comment makes them ignore the whole file, without a word.
pub fn ignored(agent: Agent, machine: &Machine, fs: &dyn Fs) -> Option<Problem> {
    if !matches!(agent, Agent::ClaudeCode | Agent::Codex) {
        return None;
    }
    let path = agent.settings(machine)?.path;
    let text = text_of(&path, fs)?;
    let error = serde_json::from_str::<Value>(&text).err()?;
    let shown = path.display();
    let text = format!("{shown} is no strict JSON, so {agent} ignores all of it: {error}");
    Some(Problem::of(agent, text))
}

/// The hooks of ours in the settings of an agent.
///
/// # Errors
/// When the settings cannot be read.
pub fn installed(
    agent: Agent,
    machine: &Machine,
    journal: &Journal,
    fs: &dyn Fs,
) -> Result<Vec<InstalledHook>, Error> {
    let Some(settings) = agent.settings(machine) else {
        return Ok(Vec::new());
    };
    let Some(text) = install::read_settings(fs, &settings.path)? else {
        return Ok(Vec::new());
    };
    let is_ours = |text: &str| HookCommand::is_ours(text, journal.programs());
    match settings.kind {
        SettingsKind::Plugin => Ok(plugin_hook(&text, machine).into_iter().collect()),
        SettingsKind::Json(shape) => {
            let found = json::hooks(&text, shape);
            let found = found.map_err(|error| install::about(&settings.path, &error))?;
            let own = found.into_iter().filter(|hook| is_ours(&hook.command));
            Ok(own
                .filter_map(|hook| {
                    let program = HookCommand::parse(&hook.command)?.program;
                    Some(InstalledHook {
                        event: hook.event,
                        command: hook.command,
                        program,
                        timeout: hook.timeout,
                    })
                })
                .collect())
        }
    }
}

fn plugin_hook(text: &str, machine: &Machine) -> Option<InstalledHook> {
    if !plugin::has_mark(text) {
        return None;
    }
    let words = plugin::command_of(text)?;
    let mut words = words.into_iter();
    let program = PathBuf::from(words.next()?);
    let home = words.skip_while(|word| word != "--home").nth(1);
    let command = HookCommand {
        program: program.clone(),
        agent: Agent::OpenCode,
        home: home.map(PathBuf::from),
        strict: false,
    };
    Some(InstalledHook {
        event: "session.idle".to_owned(),
        command: command.spelled(machine.system()),
        program,
        timeout: None,
    })
}

/// Would `install` change nothing, with or without `--strict`?
fn is_current(agent: Agent, wish: &Wish, journal: &Journal, fs: &dyn Fs) -> bool {
    [true, false].into_iter().any(|strict| {
        let wish = Wish { strict, ..*wish };
        let plan = install::plan_agent(agent, &wish, journal, fs);
        plan.is_ok_and(|plan| plan.is_some_and(|plan| plan.action() == Action::Keep))
    })
}

fn wrong_program(program: &Path, own: &Path, fs: &dyn Fs) -> Option<String> {
    let shown = program.display();
    let Ok(found) = fs.metadata(program) else {
        return Some(format!("its hooks run {shown}, which does not exist"));
    };
    if found.mode & 0o111 == 0 {
        return Some(format!("its hooks run {shown}, which is no program"));
    }
    let real = |path: &Path| fs.canonicalize(path).ok();
    (real(program) != real(own)).then(|| format!("its hooks run {shown}, not this program"))
}

/// Settings of the user or of an organisation that silence our hooks.
fn silencers(agent: Agent, machine: &Machine, fs: &dyn Fs) -> Vec<String> {
    let own = agent.folder(machine);
    let is_true = |value: &Value| value == &Value::Bool(true);
    let off = "switches all hooks off";
    let mut found = Vec::new();
    let mut check =
        |path: &Path, member: &[&str], silences: &dyn Fn(&Value) -> bool, what: &str| {
            if value(path, member, fs).is_some_and(|value| silences(&value)) {
                let name = member.join(".");
                found.push(format!("{} {what} by {name}", path.display()));
            }
        };
    match agent {
        Agent::ClaudeCode => {
            check(
                &own.join("settings.json"),
                &["disableAllHooks"],
                &is_true,
                off,
            );
            for path in managed_files(agent, machine, fs) {
                check(&path, &["disableAllHooks"], &is_true, off);
                if !has_managed_hooks(&path, fs) {
                    let what = "allows only hooks of the organisation";
                    check(&path, &["allowManagedHooksOnly"], &is_true, what);
                }
            }
        }
        Agent::Gemini => {
            let disabled = |value: &Value| {
                let names = value.as_array().into_iter().flatten();
                names.into_iter().any(|name| name == HOOK_NAME)
            };
            let is_false = |value: &Value| value == &Value::Bool(false);
            let user = [own.join("settings.json")].into_iter();
            for path in user.chain(managed_files(agent, machine, fs)) {
                check(&path, &["hooksConfig", "enabled"], &is_false, off);
                let what = "switches the hook threadseal off";
                check(&path, &["hooksConfig", "disabled"], &disabled, what);
            }
        }
        Agent::Qwen => {
            let user = [own.join("settings.json")].into_iter();
            for path in user.chain(managed_files(agent, machine, fs)) {
                check(&path, &["disableAllHooks"], &is_true, off);
            }
        }
        Agent::Copilot => {
            let files = ["settings.json", "config.json", "hooks/threadseal.json"];
            for path in files.map(|name| own.join(name)) {
                check(&path, &["disableAllHooks"], &is_true, off);
            }
        }
        Agent::Codex => found.extend(codex_silencers(&own, machine, fs)),
        _ => {}
    }
    found
}

fn codex_silencers(own: &Path, machine: &Machine, fs: &dyn Fs) -> Vec<String> {
    let requirements = machine.of_all_users(Path::new("/etc/codex/requirements.toml"));
    let mut found = Vec::new();
    for path in [own.join("config.toml"), requirements.clone()] {
        let Some(text) = text_of(&path, fs) else {
            continue;
        };
        let shown = path.display();
        for name in ["hooks", "codex_hooks"] {
            if is_set(&text, "features", name, "false") {
                found.push(format!("{shown} switches all hooks off by features.{name}"));
            }
        }
        if path == requirements
            && is_set(&text, "", "allow_managed_hooks_only", "true")
            && !text.contains(" hook codex")
        {
            found.push(format!("{shown} allows only hooks of the organisation"));
        }
    }
    found
}

/// Has a TOML text this value? Only the two usual spellings count: in its table, or with dots.
fn is_set(text: &str, table: &str, name: &str, value: &str) -> bool {
    let mut current = String::new();
    text.lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            current = header.trim_end_matches(']').trim().to_owned();
            return false;
        }
        let Some((key, found)) = line.split_once('=') else {
            return false;
        };
        let key = key.trim();
        let dotted = format!("{table}.{name}");
        let is_key = current == table && key == name || current.is_empty() && key == dotted;
        is_key && found.trim() == value
    })
}

fn managed_files(agent: Agent, machine: &Machine, fs: &dyn Fs) -> Vec<PathBuf> {
    let (Some(place), Some(name)) = (
        managed::place(agent, machine.system()),
        managed::file(agent).and_then(|file| Path::new(file).file_name()),
    ) else {
        return Vec::new();
    };
    let place = machine.of_all_users(&place);
    let moved = machine.variable("GEMINI_CLI_SYSTEM_SETTINGS_PATH");
    if let (Agent::Gemini, Some(moved)) = (agent, moved) {
        return vec![moved.to_owned()];
    }
    let mut files = vec![place.join(name)];
    let parts = place.join("managed-settings.d");
    let names = fs.read_dir(&parts).unwrap_or_default();
    let parts = names
        .into_iter()
        .take(MAX_MANAGED_FILES)
        .map(|name| parts.join(name));
    files.extend(parts);
    files
}

fn has_managed_hooks(path: &Path, fs: &dyn Fs) -> bool {
    let found = text_of(path, fs);
    let found = found.and_then(|text| json::hooks(&text, json::Shape::Grouped).ok());
    let mut found = found.into_iter().flatten();
    found.any(|hook| HookCommand::is_ours(&hook.command, &[]))
}

fn value(path: &Path, member: &[&str], fs: &dyn Fs) -> Option<Value> {
    json::member(&text_of(path, fs)?, member).ok().flatten()
}

/// The text of a file that belongs to any user; a file that cannot be read silences nothing here.
fn text_of(path: &Path, fs: &dyn Fs) -> Option<String> {
    let limit = crate::settings::MAX_SETTINGS_BYTES;
    let bytes = threadseal_store::read::read_small(fs, path, limit).ok()?;
    String::from_utf8(bytes).ok()
}

/// Codex runs no hook that its `config.toml` does not trust.
fn untrusted(agent: Agent, journal: &Journal, fs: &dyn Fs) -> Option<Problem> {
    if agent != Agent::Codex {
        return None;
    }
    let hint = "hint: threadseal install codex";
    let mut records = journal.files().iter();
    let record = records.find(|record| record.kind == RecordKind::Trust);
    let Some(record) = record else {
        let text = format!("codex does not trust the hooks, and runs none; {hint}");
        return Some(Problem::of(agent, text));
    };
    let text = text_of(&record.path, fs).unwrap_or_default();
    let is_missing = |key: &&String| !text.contains(key.as_str());
    let missing = record.entries.iter().filter(is_missing).count();
    (missing > 0).then(|| {
        let all = record.entries.len();
        Problem::of(
            agent,
            format!("codex trusts {} of {all} hooks; {hint}", all - missing),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::machine::tests::machine;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use threadseal_store::sys::RealFs;

    struct Scene {
        folder: tempfile::TempDir,
        machine: Machine,
        program: PathBuf,
    }

    fn scene(agents: &[Agent]) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path()).with_root(folder.path().join("root"));
        let program = folder.path().join("threadseal");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let scene = Scene {
            folder,
            machine,
            program,
        };
        let plans: Vec<install::FilePlan> = agents
            .iter()
            .filter_map(|agent| {
                install::plan_agent(*agent, &scene.wish(), &Journal::default(), &RealFs).unwrap()
            })
            .collect();
        install::apply(&plans, &scene.program, &scene.capture(), &RealFs).unwrap();
        scene
    }

    impl Scene {
        fn wish(&self) -> Wish<'_> {
            Wish {
                machine: &self.machine,
                program: &self.program,
                home: None,
                strict: false,
            }
        }

        fn capture(&self) -> PathBuf {
            self.folder.path().join("capture")
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn look(&self, agent: Agent) -> (HookState, Vec<String>) {
            let journal = Journal::read(&RealFs, &self.capture()).unwrap();
            let health = look(agent, &self.wish(), &journal, &RealFs);
            let texts = health.problems.into_iter().map(|problem| problem.message);
            (health.state, texts.collect())
        }

        /// The only problem.
        fn problem(&self, agent: Agent) -> String {
            let (_, problems) = self.look(agent);
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems[0].clone()
        }
    }

    const AGENTS: [Agent; 5] = [
        Agent::ClaudeCode,
        Agent::Gemini,
        Agent::Qwen,
        Agent::Copilot,
        Agent::OpenCode,
    ];

    // T-CAP-16
    #[test]
    fn settings_that_silence_hooks_are_named() {
        let scene = scene(&AGENTS);
        for agent in AGENTS {
            assert_eq!(
                scene.look(agent),
                (HookState::Installed, Vec::new()),
                "{agent}"
            );
        }
        let add = |name: &str, member: &str| {
            let path = scene.folder.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen('{', &format!("{{ {member},"), 1)).unwrap();
        };
        add(".claude/settings.json", "\"disableAllHooks\": true");
        assert!(
            scene
                .problem(Agent::ClaudeCode)
                .contains("by disableAllHooks")
        );
        add(
            ".gemini/settings.json",
            "\"hooksConfig\": {\"disabled\": [\"threadseal\"]}",
        );
        assert!(
            scene
                .problem(Agent::Gemini)
                .contains("hooksConfig.disabled")
        );
        add(".qwen/settings.json", "\"disableAllHooks\": true");
        assert!(
            scene
                .problem(Agent::Qwen)
                .contains("switches all hooks off")
        );
        scene.put(".copilot/config.json", "{\"disableAllHooks\": true}");
        assert!(scene.problem(Agent::Copilot).contains("config.json"));
    }

    // T-CAP-16
    #[test]
    fn an_organisation_that_allows_only_its_own_hooks_is_named() {
        let scene = scene(&[Agent::ClaudeCode]);
        let name = "root/etc/claude-code/managed-settings.d/10.json";
        scene.put(name, "{\"allowManagedHooksOnly\": true}");
        let problem = scene.problem(Agent::ClaudeCode);
        assert!(
            problem.contains("only hooks of the organisation"),
            "{problem}"
        );
        scene.put(name, "{\"allowManagedHooksOnly\": true, \"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"/o/threadseal hook claude-code\"}]}]}}");
        assert_eq!(scene.look(Agent::ClaudeCode).1, Vec::<String>::new());
    }

    // T-CAP-17
    #[test]
    fn hooks_that_run_no_program_or_another_one_are_named() {
        let scene = scene(&[Agent::ClaudeCode, Agent::OpenCode]);
        fs::remove_file(&scene.program).unwrap();
        for agent in [Agent::ClaudeCode, Agent::OpenCode] {
            assert!(scene.problem(agent).contains("does not exist"));
        }
        fs::write(&scene.program, "").unwrap();
        assert!(scene.problem(Agent::ClaudeCode).contains("is no program"));
        fs::set_permissions(&scene.program, fs::Permissions::from_mode(0o755)).unwrap();
        let other = scene.folder.path().join("other/threadseal");
        fs::create_dir(other.parent().unwrap()).unwrap();
        fs::copy(&scene.program, &other).unwrap();
        let settings = scene.folder.path().join(".claude/settings.json");
        let text = fs::read_to_string(&settings).unwrap();
        let program = scene.program.to_str().unwrap();
        fs::write(&settings, text.replace(program, other.to_str().unwrap())).unwrap();
        let (state, problems) = scene.look(Agent::ClaudeCode);
        assert_eq!(state, HookState::Outdated);
        assert!(
            problems
                .iter()
                .any(|text| text.contains("not this program")),
            "{problems:?}"
        );
    }

    // T-CAP-14
    #[test]
    fn hooks_that_codex_does_not_trust_are_named() {
        let scene = scene(&[Agent::Codex]);
        assert!(scene.problem(Agent::Codex).contains("does not trust"));
        scene.put(
            ".codex/config.toml",
            "model = 1 # x\n[features]\nhooks = false # off\n",
        );
        let (_, problems) = scene.look(Agent::Codex);
        assert!(
            problems.iter().any(|text| text.contains("features.hooks")),
            "{problems:?}"
        );
        assert!(is_set(
            "features.hooks = false",
            "features",
            "hooks",
            "false"
        ));
        assert!(!is_set(
            "[other]\nhooks = false",
            "features",
            "hooks",
            "false"
        ));
    }

    // T-CAP-20
    #[test]
    fn a_comment_in_a_file_whose_agent_reads_none_is_named() {
        let scene = scene(&[Agent::ClaudeCode, Agent::Gemini]);
        for (agent, name) in [
            (Agent::ClaudeCode, ".claude/settings.json"),
            (Agent::Gemini, ".gemini/settings.json"),
        ] {
            let path = scene.folder.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("// mine\n{text}")).unwrap();
            assert_eq!(scene.look(agent).0, HookState::Installed);
        }
        let problem = scene.problem(Agent::ClaudeCode);
        assert!(
            problem.contains("ignores all of it") && problem.contains("line 1"),
            "{problem}"
        );
        assert_eq!(scene.look(Agent::Gemini).1, Vec::<String>::new());
    }

    #[test]
    fn an_agent_without_hooks_of_ours_and_one_with_broken_settings_are_named() {
        let scene = scene(&[]);
        assert_eq!(scene.look(Agent::Gemini).0, HookState::Absent);
        scene.put(".gemini/settings.json", "{oops");
        assert_eq!(scene.look(Agent::Gemini).0, HookState::Unreadable);
        assert!(scene.problem(Agent::Gemini).contains("line 1"));
    }
}
