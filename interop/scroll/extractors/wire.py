"""Captures of requests and responses: records, bodies in strings, event streams."""

import json

from .values import lines, parse, texts

BODIES = ("request", "body", "request_body", "response", "response_body")
CAPTURES = "generated-here/wire-requests-from-real-clients.jsonl"


def events(text):
    """The JSON of each event of a stream."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data and data != ["[DONE]"]:
            yield parse("\n".join(data))


def decoded(value, assemble):
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return parse(value)
        except ValueError:
            return value
    if isinstance(value, str) and value.startswith(("data:", "event:")):
        return assemble(list(events(value)))
    return value


def records(source, assemble):
    """The records of a capture, from 1, with their bodies read."""
    try:
        whole = parse(source)
        listed = enumerate(whole if isinstance(whole, list) else [whole], 1)
    except ValueError:
        listed = lines(source)
    for number, record in listed:
        inner = {n: decoded(v, assemble) if n in BODIES else v for n, v in record.items()}
        yield number, inner


def bodies(record):
    """Every place where a body may be, and its value."""
    yield "", record
    for name in BODIES:
        if isinstance(record.get(name), dict):
            yield f"/{name}", record[name]
            if isinstance(record[name].get("body"), dict):
                yield f"/{name}/body", record[name]["body"]


def said(content, at):
    """A text, or all texts in a list of parts."""
    if isinstance(content, str):
        yield at, "text", content
    for index, part in enumerate(content if isinstance(content, list) else ()):
        place = f"{at}/{index}"
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield f"{place}/text", "text", part["text"]
        else:
            yield from texts(part, place)


def settings(body, at, names):
    """Instructions and definitions of tools."""
    for name in names:
        if isinstance(body.get(name), (str, list)):
            yield from said(body[name], f"{at}/{name}")
        elif isinstance(body.get(name), dict):
            yield from texts(body[name], f"{at}/{name}")


def spelled(arguments):
    """The object in a string of arguments, else the string."""
    try:
        value = json.loads(arguments)
    except (ValueError, TypeError):
        return arguments
    return parse(arguments) if isinstance(value, dict) else arguments
