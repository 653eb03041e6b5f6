"""OpenAI Responses."""

from . import wire
from .values import canonical, texts

FORMAT = "openai-responses"
FILES = (wire.CAPTURES,)


def records(source):
    return wire.records(source, lambda _events: None)


def is_parsed(text, strings):
    return canonical(wire.spelled(text)) in strings


def item(value, at):
    kind = value.get("type", "message")
    if kind == "message":
        yield from wire.said(value.get("content"), f"{at}/content")
    elif kind == "reasoning":
        for name in ("summary", "content"):
            yield from wire.said(value.get(name), f"{at}/{name}")
        if value.get("encrypted_content"):
            # A scroll has this as data beside the text of other items, with a type and an id.
            yield f"{at}/encrypted_content", "text", "redacted_thinking"
            yield f"{at}/encrypted_content", "text", value["encrypted_content"]
    elif kind == "function_call":
        yield f"{at}/arguments", "input", wire.spelled(value["arguments"])
    elif kind == "custom_tool_call":
        yield f"{at}/input", "input", value["input"]
    elif kind.endswith("_output"):
        yield f"{at}/output", "output", value["output"]
    else:
        yield from texts(value, at)


def content(record):
    for at, body in wire.bodies(record):
        if isinstance(body.get("input"), (str, list)) and "model" in body:
            yield from wire.settings(body, at, ("instructions", "tools"))
            if isinstance(body["input"], str):
                yield f"{at}/input", "text", body["input"]
                continue
            for index, value in enumerate(body["input"]):
                yield from item(value, f"{at}/input/{index}")
        if body.get("object") == "response":
            for index, value in enumerate(body["output"]):
                yield from item(value, f"{at}/output/{index}")
