"""Installs our hooks for real agents, runs a session of each through all that ends or changes one, and uninstalls.

Each agent talks to a model on loopback (model.py). The program in the hooks is a script that notes each payload before
the command takes it. A session has these steps, each a process of its own:

    tools        a command that works and one that fails
    subagent     resumed; a subagent runs a command
    compaction   resumed; the conversation is shortened
    kill         resumed, with the watcher; killed with SIGKILL after a command, while the model is asked
    resume       resumed

The check shows that

* `install` keeps what the user's settings had, and an agent with these settings runs;
* each event of AGENTS arrived in its step, with a session whose log exists, and Codex trusts the hooks;
* a killed session is sealed within SEAL_SECONDS, and nothing that was sealed before changed;
* each log verifies, `list` has each session once, `show` has what was before the compaction, the error, the subagent;
* after an edit of one session and the deletion of another, `status` names exactly these two;
* the session in a database is listed, and an edit of a row is named;
* `uninstall` leaves each file of settings as it was, byte for byte.

What an agent does not do at its pinned version, each without a terminal:

| agent | fact |
|---|---|
| Claude Code | It does not shorten by the counts of this model; `/compact` is a turn without a command. |
| Gemini CLI | No event for a subagent. Its log calls a command that failed a success, as its tool ran. |
| Gemini CLI | A resume in another minute begins a second log of the session, and then continues the first. |
| OpenCode | No event for a subagent: its session reports as any other. |
| Copilot CLI | A subagent's lines are in the session's log. Its turn is reported under an id of its own. |
| Qwen Code | No event for the begin and the end. A subagent has a log of its own only in the background. |
| Qwen Code | Its log calls a command that failed a success, as its tool ran. |
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import model

TURN_SECONDS = 240
# How long the watcher may take to seal a session that was killed.
SEAL_SECONDS = 5
PATH = "/usr/local/bin:/usr/bin:/bin"
TASK = "TASK"
STEPS = {"tools": model.FAIL, "subagent": model.DELEGATE, "compaction": model.FILL, "kill": model.HOLD, "resume": model.ADD}

# Notes the payload in one append, so that hooks at the same time do not mix. The command then takes it.
HOOK = """#!/usr/bin/env python3
import json, os, subprocess, sys
payload = sys.stdin.buffer.read()
line = json.dumps({"arguments": sys.argv[1:], "payload": json.loads(payload)}) + "\\n"
file = os.open("NOTES", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(file, line.encode())
sys.exit(subprocess.run(["COMMAND", *sys.argv[1:]], input=payload).returncode)
"""

# A user's settings before the install, with comments and hooks where the agent takes them.
CLAUDE = """{
  "env": { "NONE": "" },
  "hooks": {
    "Stop": [{ "hooks": [{ "type": "command", "command": "echo stop >> own-hook.txt" }] }]
  }
}
"""
CODEX = """# the user's own
model = "gpt-5-codex"
model_provider = "local"

[model_providers.local]
name = "local"
base_url = "http://127.0.0.1:PORT/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
requires_openai_auth = false
supports_websockets = false
"""
GEMINI = """{
  // the user's own
  "security": { "auth": { "selectedType": "gemini-api-key" } },
  "privacy": { "usageStatisticsEnabled": false },
  "general": { "enableAutoUpdate": false }
}
"""
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  "autoupdate": false,
  "share": "disabled",
  "model": "local/none",
  "provider": {
    "local": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "local",
      "options": { "baseURL": "http://127.0.0.1:PORT/v1", "apiKey": "none" },
      "models": { "none": { "name": "none", "limit": { "context": 100000, "output": 8000 } } }
    }
  },
  "permission": { "bash": "allow", "edit": "allow" }
}
"""

QWEN = """{
  // the user's own
  "privacy": { "usageStatisticsEnabled": false },
  "general": { "enableAutoUpdate": false },
  "$version": 4
}
"""

AGENTS = {
    "claude-code": {
        "settings": {".claude/settings.json": CLAUDE},
        "first": ["claude", "-p", TASK, "--allowedTools", "Bash", "--model", "claude-sonnet-4-5"],
        "next": ["claude", "-p", TASK, "--continue", "--allowedTools", "Bash", "--model", "claude-sonnet-4-5"],
        "variables": {
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:PORT",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        },
        "begin": ["SessionStart", "UserPromptSubmit", "PostToolUse"],
        "end": ["Stop", "SessionEnd"],
        "also": {"tools": "PostToolUseFailure", "subagent": "SubagentStop", "compaction": "PreCompact"},
        "compaction": "/compact",
        "compacted": '"isCompactSummary":true',
        "log": "transcript_path",
    },
    "codex": {
        "settings": {".codex/config.toml": CODEX},
        "first": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
        "next": ["codex", "exec", "resume", "--last", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
        "variables": {"LOCAL_KEY": "none"},
        "begin": ["SessionStart", "UserPromptSubmit", "PostToolUse"],
        "end": ["Stop", "SessionEnd"],
        "also": {"subagent": "SubagentStop", "compaction": "PreCompact"},
        "compacted": '"type":"compacted"',
        # It also waits for the subagent.
        "more_calls": 1,
        "log": "transcript_path",
    },
    "gemini": {
        "settings": {".gemini/settings.json": GEMINI},
        "first": ["gemini", "--yolo", "-m", "gemini-2.5-flash", "-p", TASK],
        "next": ["gemini", "--yolo", "-m", "gemini-2.5-flash", "--resume", "latest", "-p", TASK],
        "variables": {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:PORT",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        "begin": ["SessionStart", "BeforeAgent", "AfterTool"],
        "end": ["AfterAgent", "SessionEnd"],
        "also": {"compaction": "PreCompress"},
        "compacted": "Thanks for the additional context!",
        # The subagent ends with a call.
        "more_calls": 1,
        "failure_is_success": True,
        "log": "transcript_path",
    },
    "opencode": {
        "settings": {".config/opencode/opencode.json": OPENCODE},
        "first": ["opencode", "run", TASK],
        "next": ["opencode", "run", "-c", TASK],
        "variables": {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        "begin": ["tool.execute.after"],
        "end": ["session.idle", "dispose"],
        "also": {"compaction": "session.compacted"},
        "compacted": '\\"type\\":\\"compaction\\"',
        "log": "database",
    },
    "copilot": {
        "settings": {},
        "first": ["copilot", "-p", TASK, "--allow-all-tools"],
        "next": ["copilot", "-p", TASK, "--allow-all-tools", "--continue"],
        "variables": {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:PORT/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_WIRE_API": "completions",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-5",
            "COPILOT_AUTO_UPDATE": "false",
        },
        "begin": ["sessionStart", "userPromptSubmitted", "postToolUse"],
        "end": ["agentStop", "sessionEnd"],
        "also": {"compaction": "preCompact"},
        "compacted": '"type":"session.compaction_complete"',
        "shares_log": True,
        "log": "transcriptPath",
    },
    "qwen": {
        "settings": {".qwen/settings.json": QWEN},
        "first": ["qwen", "--auth-type", "openai", "--yolo", "-p", TASK],
        "next": ["qwen", "--auth-type", "openai", "--yolo", "--continue", "-p", TASK],
        "variables": {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "http://127.0.0.1:PORT/v1",
            "OPENAI_MODEL": "none",
        },
        "begin": ["UserPromptSubmit", "PostToolUse"],
        "end": ["Stop"],
        "also": {"subagent": "SubagentStop", "compaction": "PreCompact"},
        "compacted": '"subtype":"chat_compression"',
        "failure_is_success": True,
        "log": "transcript_path",
    },
}
# Files that an install writes, beside those of a user above.
WRITTEN = [".codex/hooks.json", ".config/opencode/plugin", ".config/systemd", ".copilot/hooks"]


# Copilot names no event: the first of these members distinguishes it.
COPILOT_EVENTS = {"trigger": "preCompact", "toolResult": "postToolUse", "toolName": "preToolUse", "stopReason": "agentStop",
                  "source": "sessionStart", "prompt": "userPromptSubmitted", "reason": "sessionEnd"}


def event_of(payload):
    by_members = (event for member, event in COPILOT_EVENTS.items() if member in payload)
    return payload.get("hook_event_name") or next(by_members, None)


def session_of(payload):
    return payload.get("session_id") or payload["sessionId"]


class Scene:
    """A user's folder, with a home of ours in it."""

    def __init__(self, folder, threadseal, programs, server):
        self.folder, self.threadseal, self.programs = folder, threadseal, programs
        self.model, self.port = server, server.server_address[1]
        # By agent and step.
        self.payloads = {}
        self.notes = folder / "hooks.jsonl"
        self.program = folder / "threadseal"
        self.program.write_text(HOOK.replace("NOTES", str(self.notes)).replace("COMMAND", threadseal))
        self.program.chmod(0o755)
        for agent in AGENTS.values():
            for name, text in agent["settings"].items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.replace("PORT", str(self.port)))

    def environment(self, **more):
        variables = {name: value.replace("PORT", str(self.port)) for name, value in more.items()}
        path = f"{self.programs}:{PATH}"
        return {"HOME": str(self.folder), "PATH": path, "TERM": "dumb", "NO_PROXY": "127.0.0.1", **variables}

    def ran(self, *arguments):
        return subprocess.run([self.threadseal, *arguments], env=self.environment(), cwd=self.folder, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=300)

    def command(self, *arguments, code=0):
        ran = self.ran(*arguments)
        if ran.returncode != code:
            raise Failed(f"threadseal {' '.join(arguments)} ended with {ran.returncode}, not {code}:\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def state(self):
        """The digests of all files that belong to settings; folders count, too."""
        state = {}
        names = [name for agent in AGENTS.values() for name in agent["settings"]]
        for name in names + WRITTEN:
            path = self.folder / name
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            for file in files + [path]:
                there = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else file.exists()
                state[str(file.relative_to(self.folder))] = there
        return state

    def run(self, name, step):
        """Starts the step of an agent's session, in a group of processes of its own."""
        agent = AGENTS[name]
        task = agent.get(step, f"{STEPS[step]} [{name}]")
        project = self.folder / "projects" / name
        project.mkdir(parents=True, exist_ok=True)
        line = [task if word == TASK else word for word in agent["first" if step == "tools" else "next"]]
        output = open(self.output(name, step), "w")
        # The other agents, which start meanwhile, must not delay the watcher.
        line = ["nice", str(self.programs / line[0]), *line[1:]]
        return subprocess.Popen(line, env=self.environment(**agent["variables"]), cwd=project,
                                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)

    def output(self, name, step):
        return self.folder / f"{name}-{step}.txt"

    def turn(self, name, step):
        """Runs a step to its end."""
        before, running = len(self.notes_of(name)), self.run(name, step)
        try:
            code = running.wait(TURN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            code = f"nothing in {TURN_SECONDS} s"
        if code != 0:
            raise Failed(f"{name}: {step} ended with {code}:\n{self.output(name, step).read_text()[-4000:]}")
        self.payloads[name, step] = self.notes_of(name)[before:]

    def killed(self, name):
        """Kills a session while its model is asked; returns how long the watcher took to seal it."""
        before, running = len(self.notes_of(name)), self.run(name, "kill")
        deadline = time.monotonic() + TURN_SECONDS
        while not self.model.held(name).wait(0.1):
            if running.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{name}: it did not wait for its model:\n{self.output(name, 'kill').read_text()[-4000:]}")
        # An agent may write its call later than it asks the model again. What it never wrote cannot be counted.
        own_log = pathlib.Path(self.sessions()[name]["source"])
        size = -1
        while size != (size := own_log.stat().st_size):
            time.sleep(0.3)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        self.payloads[name, "kill"] = self.notes_of(name)[before:]
        return self.until(f"{name}: after the kill", lambda: self.unsealed(name), SEAL_SECONDS)

    def until(self, what, why_not, limit=TURN_SECONDS):
        """Waits until a look that begins within `limit` has no reason; returns the seconds."""
        begun = time.monotonic()
        looked = 0
        while why := why_not():
            if looked > limit:
                raise Failed(f"{what}: not sealed after {limit} s: {why}")
            time.sleep(0.1)
            looked = time.monotonic() - begun
        return looked

    def unsealed(self, name):
        ran = self.ran("verify", "--json", str(self.log(name)[0]))
        return None if ran.returncode == 0 else ran.stdout[:2000]

    def notes_of(self, name):
        """The payloads of an agent so far."""
        text = self.notes.read_text() if self.notes.exists() else ""
        # The line of another agent may be half written.
        notes = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        return [note["payload"] for note in notes if note["arguments"][:2] == ["hook", name]]

    def arrived(self, name):
        """Checks the payloads of an agent; returns how many arrived."""
        agent, (_, session) = AGENTS[name], self.log(name)
        own_log = pathlib.Path(self.sessions()[name]["source"])
        for step in STEPS:
            payloads = self.payloads[name, step]
            expected = agent["begin"] + (agent["end"] if step != "kill" else [])
            if agent.get(step, "").startswith("/"):
                # Its answer is no turn.
                expected = [event for event in expected if event.startswith("Session")]
            expected += [agent["also"][step]] if step in agent["also"] else []
            seen = {event_of(payload) for payload in payloads}
            if missing := [event for event in expected if event not in seen]:
                raise Failed(f"{name}: in {step} {missing} did not arrive; seen: {sorted(map(str, seen))}")
            for payload in payloads:
                log = payload.get(agent["log"])
                # An agent may report a session before it writes its first line, and Copilot names most logs never.
                early = event_of(payload) in agent["begin"] or log is None and name == "copilot"
                if not early and not pathlib.Path(log).is_file():
                    raise Failed(f"{name}: {event_of(payload)} names {log}, which is no file")
            others = {session_of(payload) for payload in payloads} - {session.split(":")[1]}
            # A subagent may report with an id of its own.
            if others and step != "subagent":
                raise Failed(f"{name}: {step} also reported {others}")
        if agent["compacted"] not in own_log.read_text():
            raise Failed(f"{name}: {own_log} has no compaction")
        return sum(len(self.payloads[name, step]) for step in STEPS)

    def sessions(self):
        """The row of each agent's session in `list`. Others may only be further logs of a session."""
        rows = json.loads(self.command("list", "--json"))["sessions"]
        sessions = {}
        for row in rows:
            if any(row["id"].startswith(f"{other['id']}-") for other in rows):
                if row["agent"] != "gemini" or row["tools"]:
                    raise Failed(f"list has a second session: {row}")
            elif row["agent"] in sessions:
                raise Failed(f"list has two sessions of {row['agent']}: {rows}")
            else:
                sessions[row["agent"]] = row
        return sessions

    def shown(self, name):
        """Checks what `list` and `show` have of a session after all steps."""
        agent, row = AGENTS[name], self.sessions()[name]
        commands = 4 if "compaction" in agent else 5
        made = (self.folder / "projects" / name / "made-by-agent.txt").read_text().splitlines()
        calls = commands + 2 + agent.get("more_calls", 0)
        own_logs = 0 if agent.get("shares_log") else 1
        if (row["state"], row["tools"], row["sub_agents"], len(made)) != ("verified", calls, own_logs, commands):
            raise Failed(f"{name}: {commands} commands, {calls} calls, {own_logs} subagents, but {len(made)} lines and {row}")
        # The beginning of an id is enough.
        shown = json.loads(self.command("show", "--json", row["id"][:-8]))
        texts = [text["text"] for turn in shown["turns"] for text in turn["texts"]]
        for step, task in STEPS.items():
            if step not in agent and not any(f"{task} [{name}]" in text for text in texts):
                raise Failed(f"{name}: show has no {task}")
        results = [result for turn in shown["turns"] for result in turn["results"]]
        failed = [result for result in results if "missing-file.txt" in result["text"]]
        # Gemini may write the results of all calls of one answer beside each of them.
        states = {result["ok"] for result in failed}
        if states != {agent.get("failure_is_success", False)} or not any(result["ok"] for result in results):
            raise Failed(f"{name}: show has the results {results}")
        if len(shown["sub_agents"]) != own_logs:
            raise Failed(f"{name}: show has the subagents {shown['sub_agents']}")
        for subagent in shown["sub_agents"]:
            if not subagent.startswith(f"{row['id']}/"):
                raise Failed(f"{name}: {subagent} is no log of {row['id']}")
            shown = json.loads(self.command("show", "--json", subagent))
            texts = [text["text"] for turn in shown["turns"] for text in turn["texts"]]
        if not any(f"{model.ADD} [{name}]" in text for text in texts) or shown["state"] != "verified":
            raise Failed(f"{name}: its subagent is shown as {shown}")

    def edited(self, name):
        """Checks that an edit of a row of a session in a database is named."""
        place = self.log(name)[0]
        database = sqlite3.connect(place)
        part, data = database.execute("SELECT id, data FROM part WHERE data LIKE '%\"tool\"%'").fetchone()
        for value, code in [(data.replace("completed", "error"), 3), (data, 0)]:
            with database:
                database.execute("UPDATE part SET data = ? WHERE id = ?", (value, part))
            ran = self.ran("verify", str(place))
            is_named = f'["{part}"] of table part changed' in ran.stdout
            if ran.returncode != code or is_named != (code == 3):
                raise Failed(f"{name}: an edit of {part} ended with {ran.returncode}, not {code}:\n{ran.stdout}{ran.stderr}")
        database.close()

    def log(self, name):
        """The session's log, or its database, and the session's id, as the first step reported them."""
        member = AGENTS[name]["log"]
        payload = [payload for payload in self.payloads[name, "tools"] if payload.get(member)][-1]
        return pathlib.Path(payload[member]), f"{name}:{session_of(payload)}"

    def sealed(self):
        """The logs and seals of all sessions so far."""
        logs = [pathlib.Path(row["source"]) for row in self.sessions().values()]
        return {path: path.read_bytes() for log in logs for path in (log, log.with_name(f"{log.name}.seal"))}

    def watcher(self):
        """Starts the watcher, and waits until it has looked at all files."""
        output = open(self.folder / "watcher.txt", "w")
        watcher = subprocess.Popen([self.threadseal, "watch"], env=self.environment(), cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.until("the watcher", lambda: None if "running" in self.ran("status").stdout else "it does not run")
        return watcher

    def edit_and_delete(self):
        """Edits the session of one agent and deletes another's: `status` names both, and no other."""
        edited, deleted = [name for name in AGENTS if AGENTS[name]["log"] != "database"][:2]
        (log, id_edited), (gone, id_deleted) = self.log(edited), self.log(deleted)
        bytes_before = log.read_bytes()
        at = bytes_before.index(b"user")
        log.write_bytes(bytes_before[:at] + b"uzer" + bytes_before[at + 4:])
        gone_before = gone.read_bytes()
        gone.unlink()
        status = json.loads(self.command("status", "--json", code=3))
        named = [problem["of"] for problem in status["problems"]]
        archived = [session["id"] for session in status["archived"]["gone"]]
        if named != [id_edited] or archived != [id_deleted]:
            raise Failed(f"status names {named} and {archived}, not {id_edited} and {id_deleted}")
        print("\n".join(line for line in self.command("status", code=3).splitlines() if "session" in line or ":" in line))
        log.write_bytes(bytes_before)
        gone.write_bytes(gone_before)


class Failed(Exception):
    """What went wrong."""


def each(pool, act):
    """Lets all agents act at once; returns the results by agent."""
    acts = {name: pool.submit(act, name) for name in AGENTS}
    failed = [str(done.exception()) for done in acts.values() if isinstance(done.exception(), Failed)]
    if failed:
        raise Failed("\n".join(failed))
    return {name: done.result() for name, done in acts.items()}


def check(scene):
    before = scene.state()
    program = ["--program", str(scene.program)]
    plan = json.loads(scene.command("install", "--json", "--dry-run", *program))
    found = {agent["agent"] for agent in plan["agents"] if agent["installed"]}
    if not set(AGENTS) <= found or scene.state() != before:
        raise Failed(f"found {sorted(found)}, and a plan must change nothing")
    done = json.loads(scene.command("install", "--json", "--yes", *program))
    print(f"installed: {', '.join(sorted(AGENTS))}; codex trusts {done.get('codex_trusts')} hooks")
    commented = scene.folder / ".gemini/settings.json"
    if "gemini" in AGENTS and "// the user's own" not in commented.read_text():
        raise Failed("the comments of the user are gone")
    again = json.loads(scene.command("install", "--json", "--yes", *program))
    actions = {agent["hooks"]["action"] for agent in again["agents"] if agent["hooks"]}
    if actions != {"keep"}:
        raise Failed(f"a second install changes files: {actions}")
    run_steps(scene)
    for name in AGENTS:
        print(f"{name}: {len(STEPS)} steps, {scene.arrived(name)} hooks arrived")
        scene.shown(name)
    own = scene.folder / "projects/claude-code/own-hook.txt"
    if "claude-code" in AGENTS and len(own.read_text().splitlines()) != 3:
        raise Failed("the user's own hook did not run")
    # Hooks of another program are changed in place.
    scene.command("install", "--yes")
    for name in AGENTS:
        if AGENTS[name]["log"] == "database":
            scene.edited(name)
    print(scene.command("status").strip())
    if len(AGENTS) > 1:
        scene.edit_and_delete()
    fired = json.loads(scene.command("doctor", "--json"))["fired"]
    print(f"doctor: {len(fired)} hooks arrived")
    scene.command("uninstall", "--yes")
    after = scene.state()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        raise Failed(f"not as before: {changed}")
    print(f"uninstalled: {len(before)} files and folders of settings are as before")


def run_steps(scene):
    """All steps of all agents: hooks seal the first ones, the watcher the others."""
    def first(name):
        for step in ("tools", "subagent", "compaction"):
            scene.turn(name, step)

    def last(name):
        seconds = scene.killed(name)
        scene.turn(name, "resume")
        return seconds

    def all_sealed():
        ran = scene.ran("verify", "--all")
        return None if ran.returncode == 0 else ran.stdout

    with concurrent.futures.ThreadPoolExecutor(len(AGENTS)) as pool:
        each(pool, first)
        watcher = scene.watcher()
        try:
            # Copilot writes a line after its last hook, and OpenCode the title of a session.
            scene.until("all sessions", all_sealed)
            sealed = scene.sealed()
            took = each(pool, last)
            print("killed, and sealed after:", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items()))
            scene.until("all sessions", all_sealed)
        finally:
            watcher.terminate()
            watcher.wait()
    for path, content in sealed.items():
        if not path.read_bytes().startswith(content):
            raise Failed(f"{path} does not begin with what was sealed before the kill")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--threadseal", required=True, help="the command")
    options.add_argument("--agent", action="append", choices=AGENTS, help="only this agent")
    options.add_argument("--programs", required=True, type=pathlib.Path, help="the folder with the agents")
    given = options.parse_args()
    for name in set(AGENTS) - set(given.agent or AGENTS):
        del AGENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        threadseal = str(pathlib.Path(given.threadseal).resolve())
        scene = Scene(pathlib.Path(folder).resolve(), threadseal, given.programs.resolve(), model.serve())
        try:
            check(scene)
        except Failed as failed:
            sys.exit(str(failed))


if __name__ == "__main__":
    main()
