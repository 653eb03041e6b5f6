"""Runs threads whose tools are real MCP servers, and verifies their records.

    check_mcp.py --threadseal COMMAND --python PYTHON --old-python PYTHON

PYTHON has mcp-server-time and mcp; the old one has the last mcp before the revision 2026-07-28.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOKEN = "for this server alone"

MODERN = ("2026-07-28", {"server/discover"}, {"initialize"})
OLD = ("2025-11-25", {"initialize"}, set())

DIRECTIVE = """# {name}

```xml
<directive name="{name}" version="1.0.0">
  <metadata>
    <description>d</description>
    <category>demo</category>
    <model id="claude-haiku-4-5" />
    <permissions><execute><tool>mcp.*</tool></execute></permissions>
  </metadata>
</directive>
```

Ask.
"""

ANSWERS = """answers:
- calls:
  - {tool: mcp_time, input: {timezone: Europe/Vienna}}
  - {tool: mcp_convert, input: {source_timezone: Europe/Vienna, time: "12:00", target_timezone: Asia/Tokyo}}
  - {tool: mcp_time, input: {timezone: Nowhere/None}}
  - {tool: mcp_words, input: {text: one two three}}
  - {tool: mcp_fail, input: {text: this}}
- text: Done.
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
    sys.exit("the HTTP server does not come")


def tools(python, port):
    stdio = f"tool_type: mcp\ncommand: [{python}, -m, mcp_server_time]\nenv: [PATH]\ntimeout_seconds: 120\n"
    http = (f"tool_type: mcp\nurl: http://127.0.0.1:{port}/mcp\nheader_env: {{Authorization: WORDS_TOKEN}}\n"
            "timeout_seconds: 120\n")
    return {
        "time": stdio + "tool: get_current_time\n",
        "convert": stdio + "tool: convert_time\n",
        "words": http + "tool: count_words\n",
        "fail": http + "tool: fail\n",
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threadseal", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--old-python", required=True)
    options = parser.parse_args()
    command = Path(options.threadseal).resolve()
    # Not resolved: the place of the link makes it a virtual environment.
    python, old = Path(options.python).absolute(), Path(options.old_python).absolute()
    # A server of either revision, and what a client of both asks it with.
    for serving, asked in ((python, MODERN), (old, OLD)):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            port, seen = free_port(), folder / "seen"
            server = subprocess.Popen([serving, Path(__file__).with_name("server.py"), str(port), TOKEN, seen])
            try:
                wait_for(port)
                check(command, python, port, folder)
            finally:
                server.kill()
                server.wait()
            check_asked(seen.read_text().splitlines(), *asked)


def check_asked(seen, revision, must, never):
    """The server was asked in its revision, with these methods and without those."""
    calls = {line for line in seen if line.endswith(" tools/call")}
    methods = {line.partition(" ")[2] for line in seen}
    if calls != {f"{revision} tools/call"} or not must <= methods or never & methods:
        sys.exit(f"WRONG: the server of {revision} was asked\n" + "\n".join(seen))
    print(f"the server was asked in {revision}: {', '.join(sorted(methods))}")


def check(command, python, port, folder):
    environment = {"PATH": os.environ["PATH"], "THREADSEAL_HOME": str(folder / "home"),
                   "WORDS_TOKEN": f"Bearer {TOKEN}", "SECRET": "not listed"}

    def run(*arguments, code=0):
        ran = subprocess.run([command, *arguments], env=environment, cwd=folder, capture_output=True, text=True)
        if ran.returncode != code:
            sys.exit(f"{arguments}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    project = folder / "p"
    files = {project / ".ai/directives/demo/ask.md": DIRECTIVE.format(name="ask")}
    files |= {project / f".ai/tools/mcp/{name}.yaml": text for name, text in tools(python, port).items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "answers.yaml").write_text(ANSWERS)
    run("init", "-q")
    run("seal", "-q", *map(str, files))
    ran = json.loads(run("run", "demo/ask", "--project", "p", "--script", "answers.yaml", "--json"))
    thread = project / ".ai/agent/threads" / ran["thread_id"]
    events = [json.loads(line) for line in (thread / "transcript.jsonl").read_text().splitlines()]
    results = [event["payload"] for event in events if event["event_type"] == "tool_call_result"]
    now, converted, nowhere, words, fail = results
    told = (thread / "capabilities.md").read_text()
    checks = {
        "the time in Vienna": json.loads(now["output"])["timezone"] == "Europe/Vienna",
        "noon in Vienna is evening in Tokyo": "Asia/Tokyo" in converted["output"] and "error" not in converted,
        "no such place is an error": "error" in nowhere,
        "three words over HTTP": "3" in words["output"] and "error" not in words,
        "a tool that fails": "fail" in fail.get("error", ""),
        "schemas of the servers are shown": "source_timezone" in told and "Counts the words of a text." in told,
        "instructions of a server are not": "Ignore all previous" not in told + json.dumps(events),
        "the token is in no record": all(TOKEN not in file.read_text(errors="replace")
                                         for file in thread.iterdir() if file.is_file()),
        "the thread completed": ran["status"] == "completed",
    }
    for name, holds in checks.items():
        if not holds:
            sys.exit(f"WRONG: {name}\n{json.dumps(results, indent=1)}")
    run("verify", "p")
    environment["WORDS_TOKEN"] = "Bearer another"
    run("run", "demo/ask", "--project", "p", "--script", "answers.yaml", code=2)
    print(f"{len(checks) + 2} of {len(checks) + 2}: threads call MCP servers over both transports")


if __name__ == "__main__":
    main()
