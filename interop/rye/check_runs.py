"""Threads that the command runs, and whose records both Ryes accept.

They use the models of four providers, tools, a child and a hook. Each thread of `demo/report` calls
a command, a tool of an MCP server and another directive, and returns. A hook runs a directive at
its end.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from models import Models
from rig import Rig

ADDER = Path(__file__).with_name("mcp_adder.py")

DIRECTIVE = """# {name}

```xml
<directive name="{name}" version="1.0.0">
  <metadata>
    <description>{name}</description>
    <category>demo</category>
    <author>interop</author>
    <model id="{model}" />
    <limits turns="9" spend="0.5" />
    <permissions>
      <execute>
        <tool>demo.*</tool>
        <directive>demo.*</directive>
        <tool>rye.agent.threads.thread_directive</tool>
      </execute>
    </permissions>
    {hooks}
  </metadata>
  <inputs><input name="topic" type="string" required="true">what it is about</input></inputs>
  {outputs}
</directive>
```

{prompt}
"""

OUTPUTS = '<outputs><output name="total" required="true">the sum</output></outputs>'
HOOKS = """<hooks>
    <hook id="note" event="after_complete">
      <action primary="execute" item_type="directive" item_id="demo/note">
        <param name="topic">${cost.turns} turns</param>
      </action>
    </hook>
  </hooks>"""

COUNT = """tool_type: command
description: Counts the bytes of a file
command: [/usr/bin/wc, -c, "${inputs.file}"]
config_schema:
  type: object
  properties: {file: {type: string}}
  required: [file]
"""

ADD = """tool_type: mcp
description: Adds
command: [PYTHON, SERVER]
tool: add
"""

# Each protocol: the requested model, and the variable with its provider's key.
PROVIDERS = {
    "anthropic": ("claude-haiku-4-5", "anthropic"),
    "openai_responses": ("gpt-5-mini", "openai"),
    "openai": ("gpt-4o-mini", "openrouter"),
    "gemini": ("gemini-2.5-flash", "gemini"),
}
KEYS = {f"{name}_API_KEY": "none" for name in ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER")}


def plan(asked):
    """The answer of a model: the parent calls its tools in turn, the others answer with text."""
    if "I AM THE CHILD" in asked.text and "I AM THE PARENT" not in asked.text:
        return "The child says é 日本 🦀."
    if "I AM THE NOTE" in asked.text and "I AM THE PARENT" not in asked.text:
        return "Noted."
    if asked.results == 0:
        return [(asked.tool("demo_count"), {"file": "words.txt"})]
    if asked.results == 1:
        return [(asked.tool("demo_add"), {"a": 19, "b": 23})]
    if asked.results == 2:
        order = {"directive_id": "demo/child", "inputs": {"topic": "numbers"}}
        return [(asked.tool("thread_directive"), order)]
    return [(asked.tool("directive_return"), {"total": "42"})]


def project(rig, name, model):
    """A project whose items are sealed with the home's keys."""
    root = rig.work(name)
    (root / "words.txt").write_text("twelve bytes")
    files = {
        "directives/demo/report.md": DIRECTIVE.format(
            name="report", model=model, hooks=HOOKS, outputs=OUTPUTS, prompt="I AM THE PARENT of {input:topic}."
        ),
        "directives/demo/child.md": DIRECTIVE.format(
            name="child", model=model, hooks="", outputs="", prompt="I AM THE CHILD of {input:topic}."
        ),
        "directives/demo/note.md": DIRECTIVE.format(
            name="note", model=model, hooks="", outputs="", prompt="I AM THE NOTE: {input:topic}."
        ),
        "tools/demo/count.yaml": COUNT,
        "tools/demo/add.yaml": ADD.replace("PYTHON", sys.executable).replace("SERVER", str(ADDER)),
    }
    for path, text in files.items():
        path = root / ".ai" / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sealed = rig.run("seal", *(root / ".ai" / path for path in files))
    rig.expect(f"{name}: items sealed", sealed["exit"], 0)
    return root


def run(rig, root, models, protocol):
    """Runs the directive as a user does, and returns its result."""
    model, provider = PROVIDERS[protocol]
    done = subprocess.run(
        [rig.command, "--home", rig.home, "--json", "run", "demo/report", "--project", root]
        + ["--input", "topic=sums", "--model", model, "--provider", provider]
        + ["--base-url", models.base_url(protocol)],
        capture_output=True,
        text=True,
        env=os.environ | KEYS,
    )
    if done.returncode != 0:
        sys.exit(f"{protocol}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def left_behind(rig, root, protocol):
    """All records of the threads are verified, by the command and by both Ryes."""
    answer = rig.run("verify", root)
    rig.expect(f"{protocol}: the project verifies", (answer["exit"], answer["errors"]), (0, []))
    folders = sorted(path.parent for path in (root / ".ai/agent/threads").rglob("transcript.jsonl"))
    rig.expect(f"{protocol}: three threads", [f.name.split("-")[0] for f in folders], ["child", "note", "report"])
    for folder in folders:
        what = f"{protocol}: {folder.name.split('-')[0]}"
        for rye in rig.ryes:
            transcript = rye.ask(op="verify_transcript", path=str(folder / "transcript.jsonl"))
            rig.expect(f"{rye.name} on {what}", transcript["strict"].get("valid"), True)
            metadata = rye.ask(op="verify_json", path=str(folder / "thread.json"))
            rig.expect(f"{rye.name} on thread.json of {what}", metadata, True)
            path = str(folder / "capabilities.md")
            capabilities = rye.ask(op="verify_text", path=path, item="knowledge")
            rig.expect(f"{rye.name} on capabilities.md of {what}", capabilities.get("valid"), True)
    return folders


def check(rig, models, protocol):
    root = project(rig, f"runs-{protocol}", PROVIDERS[protocol][0])
    models.requests.clear()
    result = run(rig, root, models, protocol)
    rig.expect(f"{protocol}: outputs", (result["status"], result["outputs"]), ("completed", {"total": "42"}))
    protocols = {protocol for protocol, _ in models.requests}
    rig.expect(f"{protocol}: only this protocol was spoken", protocols, {protocol})
    folders = left_behind(rig, root, protocol)
    told = events(folders[-1] / "transcript.jsonl")
    outputs = [e["payload"].get("output") for e in told if e["event_type"] == "tool_call_result"]
    rig.expect(f"{protocol}: the command ran", "12 words.txt" in json.dumps(outputs[0]), True)
    rig.expect(f"{protocol}: the MCP server answered", "42" in json.dumps(outputs[1]), True)
    rig.expect(f"{protocol}: the child spoke", "日本" in json.dumps(outputs[2], ensure_ascii=False), True)
    hooks = [e for e in told if e["event_type"] == "hook_call_start"]
    rig.expect(f"{protocol}: the hook ran once", len(hooks), 1)
    rig.expect(f"{protocol}: turns", result["cost"]["turns"], 4)
    seen = json.dumps([body for _, body in models.requests], ensure_ascii=False)
    rig.expect(f"{protocol}: the model heard the result of the command", "12 words.txt" in seen, True)


def main():
    rig = Rig.from_arguments()
    with Models(plan) as models:
        for protocol in PROVIDERS:
            check(rig, models, protocol)
    rig.finish()


main()
