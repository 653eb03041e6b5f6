"""SWE-agent trajectories."""

import json

from .values import parse, texts

FORMAT = "swe-agent"
FILES = ("swe-agent-traj/*.traj",)
LISTS = ("history", "trajectory")


def records(source):
    whole = parse(source)
    yield 0, {name: value for name, value in whole.items() if name not in LISTS}
    entries = list(whole.get("history") or ())
    answers = False
    for number, entry in enumerate(entries, 1):
        # The entry after an action without a call is its answer. Nothing in the entry marks it so.
        answer = answers and entry.get("role") == "user"
        yield number, {**entry, "\0answer": answer}
        answers = entry.get("role") == "assistant" and entry.get("action") and not entry.get("tool_calls")
    yield from enumerate(whole.get("trajectory") or (), len(entries) + 1)


def is_parsed(text, strings):
    if text in ("function", "user"):
        return True
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and all(
        not isinstance(inner, str) or inner in strings for inner in value.values()
    )


def content(record):
    if "role" in record:
        yield from entry(record)
    elif "action" in record or "observation" in record:
        yield from step(record)


def entry(record):
    kind = "output" if record["\0answer"] or record["role"] == "tool" else "text"
    if record.get("content") or kind == "output":
        yield "/content", kind, record["content"]
    for index, call in enumerate(record.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        yield f"/tool_calls/{index}/function/arguments", "input", parse(arguments)
    if record.get("action"):
        yield "/action", "input", {"action": record["action"]}


def step(record):
    if record.get("response"):
        yield "/response", "text", record["response"]
    if record.get("action"):
        yield "/action", "input", {"action": record["action"]}
    if record.get("observation"):
        yield "/observation", "output", record["observation"]
    for name in ("messages", "query"):
        for index, prompt in enumerate(record.get(name) or ()):
            yield from texts(prompt, f"/{name}/{index}")
