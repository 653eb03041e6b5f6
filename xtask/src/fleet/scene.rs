//! The surroundings of the fleet: a home, a project, a database, an outside file.

use crate::console::Fallible;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use threadseal_runtime::fleet::Fleet;
use threadseal_store::postgres::throwaway::Cluster;

/// A root thread: it writes an outside line, has a child do the same, writes another, and ends.
const ROOT: &str = r#"# Root

```xml
<directive name="root" version="1.0.0">
  <metadata>
    <description>A job with children.</description>
    <category>fleet</category>
    <author>threadseal</author>
    <model tier="fast" />
    <limits turns="12" tokens="200000" spend="0.50" spawns="8" />
    <permissions>
      <execute>
        <tool>fleet.effect</tool>
        <tool>rye.agent.threads.thread_directive</tool>
      </execute>
    </permissions>
  </metadata>
</directive>
```

This is a root job.
"#;

const LEAF: &str = r#"# Leaf

```xml
<directive name="leaf" version="1.0.0">
  <metadata>
    <description>A job of a child.</description>
    <category>fleet</category>
    <author>threadseal</author>
    <model tier="fast" />
    <limits turns="6" tokens="50000" spend="0.05" />
    <permissions>
      <execute>
        <tool>fleet.effect</tool>
      </execute>
    </permissions>
  </metadata>
</directive>
```

This is a leaf job.
"#;

/// Writes a line with the call and its process, then waits.
const EFFECT: &str = r#"tool_type: command
description: Has an effect outside.
command: [/bin/sh, -c, 'read -r _ _ _ worker _ <"/proc/$PPID/stat"; echo "$THREADSEAL_CALL $0 $worker" >>"$FLEET_COUNTER"; sleep 0.04', "${inputs.n}"]
env: [FLEET_COUNTER]
timeout_seconds: 20
config_schema:
  type: object
  properties:
    n: {type: integer}
  required: [n]
  additionalProperties: false
"#;

const MODELS: &str = "models:\n  - {id: script, provider: script, context_window: 200000, \
                      prices: {input: 3.000001, output: 15.000007}}\n";

const SCRIPT: &str = "
conversations:
  - when: root job
    answers:
      - {text: first, calls: [{tool: fleet_effect, input: {n: 1}, id: a1}], usage: {input_tokens: 101, output_tokens: 7}}
      - {text: a child, calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: fleet/leaf}, id: a2}], usage: {input_tokens: 211, output_tokens: 13}}
      - {text: second, calls: [{tool: fleet_effect, input: {n: 2}, id: a3}], usage: {input_tokens: 307, output_tokens: 11}}
      - {text: another, calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: fleet/leaf}, id: a4}], usage: {input_tokens: 401, output_tokens: 17}}
      - {text: done, usage: {input_tokens: 503, output_tokens: 5}}
  - when: leaf job
    answers:
      - {text: mine, calls: [{tool: fleet_effect, input: {n: 1}, id: b1}], usage: {input_tokens: 53, output_tokens: 3}}
      - {text: done, usage: {input_tokens: 71, output_tokens: 2}}
";

/// The places of all files.
pub(super) struct Scene {
    pub(super) folder: tempfile::TempDir,
    pub(super) url: String,
    pub(super) fleet: Fleet,
    program: PathBuf,
}

impl Scene {
    pub(super) fn new(cluster: &Cluster) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        let ai = folder.path().join("project/.ai");
        let mut files = Vec::new();
        for (path, text) in [
            ("directives/fleet/root.md", ROOT),
            ("directives/fleet/leaf.md", LEAF),
            ("tools/fleet/effect.yaml", EFFECT),
            ("config/agent/models.yaml", MODELS),
        ] {
            let path = ai.join(path);
            std::fs::create_dir_all(path.parent().ok_or("no folder")?)?;
            std::fs::write(&path, text)?;
            files.push(path);
        }
        std::fs::write(folder.path().join("script.yaml"), SCRIPT)?;
        std::fs::write(folder.path().join("counter"), "")?;
        let url = cluster.fresh();
        let scene = Self {
            fleet: Fleet::open(&url)?,
            program: program()?,
            folder,
            url,
        };
        let made = scene
            .command(&["init", "-q"])
            .stdout(Stdio::null())
            .status()?;
        if !made.success() {
            return Err("threadseal init failed".into());
        }
        // A tool that takes a variable of the environment must be signed.
        let sealed = scene.command(&["seal", "-q"]).args(&files).status()?;
        match sealed.success() {
            true => Ok(scene),
            false => Err("threadseal seal failed".into()),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// A command of the program with these arguments, in this scene.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("THREADSEAL_HOME", self.path("home"))
            .env("FLEET_COUNTER", self.path("counter"))
            .env("THREADSEAL_DATABASE", &self.url)
            .stdin(Stdio::null());
        command
    }

    /// Prints the last output of the workers.
    pub(super) fn tell(&self) -> Fallible<()> {
        let log = std::fs::read_to_string(self.path("workers.log"))?;
        let left = log.lines().filter(|line| line.contains("order "));
        let left: Vec<&str> = left.collect();
        for line in left.iter().skip(left.len().saturating_sub(20)) {
            crate::console::say(line);
        }
        Ok(())
    }

    /// Gives an order to run this directive.
    pub(super) fn order(&self, directive: &str) -> Fallible<()> {
        let given = self
            .command(&["run", directive, "--detach", "-q", "--project"])
            .arg(self.project())
            .stdout(Stdio::null())
            .status()?;
        match given.success() {
            true => Ok(()),
            false => Err("threadseal run --detach failed".into()),
        }
    }

    /// A new worker, whose leases last that many seconds.
    pub(super) fn worker(&self, name: &str, lease: &str) -> Fallible<Child> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("workers.log"))?;
        let project = self.project();
        let script = self.path("script.yaml");
        let child = self
            .command(&["worker", "--name", name, "--lease", lease])
            .args(["--project".as_ref(), project.as_os_str()])
            .args(["--script".as_ref(), script.as_os_str()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(child)
    }
}

/// The program: `$THREADSEAL`, else one that is now built next to this one.
#[expect(
    clippy::disallowed_methods,
    reason = "chores are told about their surroundings here"
)]
fn program() -> Fallible<PathBuf> {
    if let Some(named) = std::env::var_os("THREADSEAL") {
        return Ok(named.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "threadseal-cli"])
        .status()?;
    if !built.success() {
        return Err("cargo build failed".into());
    }
    let own = std::env::current_exe()?;
    let profile = own.parent().ok_or("no folder")?;
    let target = profile.parent().ok_or("no folder")?;
    let found = [profile, &target.join("debug")].map(|folder: &Path| folder.join("threadseal"));
    let found = found.into_iter().find(|path| path.exists());
    found.ok_or_else(|| "threadseal was not built; name it by THREADSEAL".into())
}
