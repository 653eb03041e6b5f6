"""mini-swe-agent trajectories, or any list of messages."""

from .values import parse

FORMAT = "mini-swe-agent"
FILES = ("mini-swe-agent-json/*.json",)


def records(source):
    whole = parse(source)
    if isinstance(whole, dict):
        yield 0, {name: value for name, value in whole.items() if name != "messages"}
        whole = whole["messages"]
    yield from enumerate(whole, 1)


def is_parsed(_text, _strings):
    return False


def content(record):
    if record.get("content"):
        yield "/content", "text", record["content"]
