"""Installs our hooks for real agents, runs a session of three turns in each, and uninstalls.

Each agent talks to a model on loopback (model.py). The program in the hooks is a script that notes each payload before
the command takes it. The check shows that

* `install` keeps what the user's settings had, and an agent with these settings runs;
* each event that is named below arrived, with a session whose log exists, and Codex trusts the hooks;
* after the hooks and one look of the watcher, each log verifies, `list` has each session, `status` is content, `doctor` lets each hook arrive;
* after an edit of one session and the deletion of another, `status` names exactly these two;
* the session in a database is listed, and an edit of a row is named;
* `uninstall` leaves each file of settings as it was, byte for byte.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import model

TURNS = 3
TURN_SECONDS = 240
PATH = "/usr/local/bin:/usr/bin:/bin"
TASK = "Add a line to the file."

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
        "events": ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"],
        "log": "transcript_path",
    },
    "codex": {
        "settings": {".codex/config.toml": CODEX},
        "first": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
        "next": ["codex", "exec", "resume", "--last", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
        "variables": {"LOCAL_KEY": "none"},
        "events": ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"],
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
        "events": ["SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"],
        "log": "transcript_path",
    },
    "opencode": {
        "settings": {".config/opencode/opencode.json": OPENCODE},
        "first": ["opencode", "run", TASK],
        "next": ["opencode", "run", "-c", TASK],
        "variables": {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        "events": ["session.idle", "tool.execute.after"],
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
        "events": ["sessionStart", "userPromptSubmitted", "postToolUse", "agentStop", "sessionEnd"],
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
        # Without a terminal it reports neither the begin nor the end of a session.
        "events": ["UserPromptSubmit", "PostToolUse", "Stop"],
        "log": "transcript_path",
    },
}
# Files that an install writes, beside those of a user above.
WRITTEN = [".codex/hooks.json", ".config/opencode/plugin", ".config/systemd", ".copilot/hooks"]


# Copilot names no event: the first of these members distinguishes it.
COPILOT_EVENTS = {"toolResult": "postToolUse", "toolName": "preToolUse", "stopReason": "agentStop",
                  "source": "sessionStart", "prompt": "userPromptSubmitted", "reason": "sessionEnd"}


def event_of(payload):
    by_members = (event for member, event in COPILOT_EVENTS.items() if member in payload)
    return payload.get("hook_event_name") or next(by_members, None)


def session_of(payload):
    return payload.get("session_id") or payload["sessionId"]


class Scene:
    """A user's folder, with a home of ours in it."""

    def __init__(self, folder, threadseal, programs, port):
        self.folder, self.threadseal, self.programs, self.port = folder, threadseal, programs, port
        self.notes = folder / "hooks.jsonl"
        self.program = folder / "threadseal"
        self.program.write_text(HOOK.replace("NOTES", str(self.notes)).replace("COMMAND", threadseal))
        self.program.chmod(0o755)
        for agent in AGENTS.values():
            for name, text in agent["settings"].items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.replace("PORT", str(port)))

    def environment(self, **more):
        variables = {name: value.replace("PORT", str(self.port)) for name, value in more.items()}
        path = f"{self.programs}:{PATH}"
        return {"HOME": str(self.folder), "PATH": path, "TERM": "dumb", "NO_PROXY": "127.0.0.1", **variables}

    def command(self, *arguments, code=0):
        ran = subprocess.run([self.threadseal, *arguments], env=self.environment(), cwd=self.folder, capture_output=True,
                             text=True, stdin=subprocess.DEVNULL, timeout=300)
        if ran.returncode != code:
            fail(f"threadseal {' '.join(arguments)} ended with {ran.returncode}, not {code}:\n{ran.stdout}{ran.stderr}")
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

    def session(self, name):
        """A session of three turns; returns what went wrong."""
        agent = AGENTS[name]
        project = self.folder / "projects" / name
        project.mkdir(parents=True)
        environment = self.environment(**agent["variables"])
        for turn in range(TURNS):
            line = agent["first"] if turn == 0 else agent["next"]
            line = [str(self.programs / line[0]), *line[1:]]
            try:
                ran = subprocess.run(line, env=environment, cwd=project, capture_output=True, text=True,
                                     stdin=subprocess.DEVNULL, timeout=TURN_SECONDS)
            except subprocess.TimeoutExpired as late:
                return f"{name}: turn {turn + 1} took more than {TURN_SECONDS} s:\n{late.stdout}\n{late.stderr}"
            if ran.returncode != 0:
                return f"{name}: turn {turn + 1} ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        made = project / "made-by-agent.txt"
        lines = len(made.read_text().splitlines()) if made.exists() else 0
        return None if lines == TURNS else f"{name}: its tool ran {lines} times, not {TURNS}"

    def arrived(self, name):
        """Checks the payloads of an agent; returns how many arrived."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        notes = [json.loads(line) for line in lines]
        payloads = [note["payload"] for note in notes if note["arguments"][:2] == ["hook", name]]
        for event in AGENTS[name]["events"]:
            of_event = [payload for payload in payloads if event_of(payload) == event]
            if len(of_event) < TURNS:
                seen = sorted({str(event_of(payload)) for payload in payloads})
                fail(f"{name}: {event} arrived {len(of_event)} times, not {TURNS}; seen: {seen}")
            for payload in of_event:
                log = payload.get(AGENTS[name]["log"])
                # An agent may report a session before it writes its first line, and Copilot names most logs never.
                early = event in ("SessionStart", "UserPromptSubmit") or log is None and name == "copilot"
                if not early and not pathlib.Path(log).is_file():
                    fail(f"{name}: {event} names {log}, which is no file")
        sessions = {session_of(payload) for payload in payloads}
        if len(sessions) != 1:
            fail(f"{name}: {len(sessions)} sessions instead of one")
        return len(payloads)

    def edited(self, name):
        """Checks that the session in a database is listed, and that an edit of a row is named."""
        place, session = self.log(name)
        listed = json.loads(self.command("list", "--json"))["sessions"]
        listed = [row for row in listed if row["id"] == session]
        if [(row["state"], row["tools"]) for row in listed] != [("verified", TURNS)] or listed[0]["turns"] < 2 * TURNS:
            fail(f"{name}: listed as {listed}")
        database = sqlite3.connect(place)
        part, data = database.execute("SELECT id, data FROM part WHERE data LIKE '%\"tool\"%'").fetchone()
        for value, code in [(data.replace("completed", "error"), 3), (data, 0)]:
            with database:
                database.execute("UPDATE part SET data = ? WHERE id = ?", (value, part))
            ran = subprocess.run([self.threadseal, "verify", str(place)], env=self.environment(), cwd=self.folder,
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            is_named = f'["{part}"] of table part changed' in ran.stdout
            if ran.returncode != code or is_named != (code == 3):
                fail(f"{name}: an edit of {part} ended with {ran.returncode}, not {code}:\n{ran.stdout}{ran.stderr}")
        database.close()

    def log(self, name):
        """The session's log that the agent's last payload names, and the session's id."""
        notes = [json.loads(line) for line in self.notes.read_text().splitlines()]
        member = AGENTS[name]["log"]
        payloads = [note["payload"] for note in notes if note["arguments"][:2] == ["hook", name]]
        payload = [payload for payload in payloads if member in payload][-1]
        return pathlib.Path(payload[member]), f"{name}:{session_of(payload)}"

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
            fail(f"status names {named} and {archived}, not {id_edited} and {id_deleted}")
        print("\n".join(line for line in self.command("status", code=3).splitlines() if "session" in line or ":" in line))
        log.write_bytes(bytes_before)
        gone.write_bytes(gone_before)


def fail(text):
    print(text)
    sys.exit(1)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--threadseal", required=True, help="the command")
    options.add_argument("--agent", action="append", choices=AGENTS, help="only this agent")
    options.add_argument("--programs", required=True, type=pathlib.Path, help="the folder with the agents")
    given = options.parse_args()
    for name in set(AGENTS) - set(given.agent or AGENTS):
        del AGENTS[name]
    port = model.serve()
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(pathlib.Path(folder).resolve(), str(pathlib.Path(given.threadseal).resolve()), given.programs.resolve(), port)
        before = scene.state()
        program = ["--program", str(scene.program)]
        plan = json.loads(scene.command("install", "--json", "--dry-run", *program))
        found = {agent["agent"] for agent in plan["agents"] if agent["installed"]}
        if not set(AGENTS) <= found or scene.state() != before:
            fail(f"found {sorted(found)}, and a plan must change nothing")
        done = json.loads(scene.command("install", "--json", "--yes", *program))
        print(f"installed: {', '.join(sorted(AGENTS))}; codex trusts {done.get('codex_trusts')} hooks")
        commented = scene.folder / ".gemini/settings.json"
        if "gemini" in AGENTS and "// the user's own" not in commented.read_text():
            fail("the comments of the user are gone")
        again = json.loads(scene.command("install", "--json", "--yes", *program))
        actions = {agent["hooks"]["action"] for agent in again["agents"] if agent["hooks"]}
        if actions != {"keep"}:
            fail(f"a second install changes files: {actions}")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            failed = [why for why in pool.map(scene.session, AGENTS) if why]
        if failed:
            fail("\n".join(failed))
        for name in AGENTS:
            print(f"{name}: {TURNS} turns, {scene.arrived(name)} hooks arrived")
        own = scene.folder / "projects/claude-code/own-hook.txt"
        if "claude-code" in AGENTS and len(own.read_text().splitlines()) != TURNS:
            fail("the user's own hook did not run")
        # Hooks of another program are changed in place.
        scene.command("install", "--yes")
        # Copilot writes a line after its last hook, and OpenCode the title of a session. The watcher seals
        # both, here as cron would run it.
        scene.command("watch", "--once", "--quiet")
        for name in AGENTS:
            scene.command("verify", str(scene.log(name)[0]))
        listed = json.loads(scene.command("list", "--json"))["sessions"]
        states = {session["agent"]: session["state"] for session in listed}
        if states != {name: "verified" for name in AGENTS}:
            fail(f"list shows {states}")
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
            fail(f"not as before: {changed}")
        print(f"uninstalled: {len(before)} files and folders of settings are as before")


if __name__ == "__main__":
    main()
