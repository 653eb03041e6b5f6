"""Anthropic Messages. Turns keep content unchanged, so they contain bodies of calls twice."""

from . import wire
from .values import texts

FORMAT = "anthropic"
FILES = (wire.CAPTURES,)


def records(source):
    return wire.records(source, lambda _events: None)


def is_parsed(_text, _strings):
    return False


def message(value, at):
    said = value.get("content")
    if isinstance(said, str):
        yield f"{at}/content", "text", said
        return
    for index, block in enumerate(said or ()):
        place = f"{at}/content/{index}"
        kind = block.get("type", "")
        if kind == "tool_result":
            yield f"{place}/content", "output", block.get("content")
        elif kind in ("text", "thinking"):
            yield f"{place}/{kind}", "text", block[kind]
        else:
            yield from texts(block, place)
        if kind.endswith("tool_use"):
            yield f"{place}/input", "input", block["input"]


def content(record):
    for at, body in wire.bodies(record):
        if isinstance(body.get("messages"), list):
            yield from wire.settings(body, at, ("system", "tools"))
            for index, value in enumerate(body["messages"]):
                yield from message(value, f"{at}/messages/{index}")
        if body.get("type") == "message":
            yield from message(body, at)
