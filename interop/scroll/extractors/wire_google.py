"""Google generateContent."""

from . import wire
from .values import texts

FORMAT = "google"
FILES = (wire.CAPTURES,)


def records(source):
    return wire.records(source, lambda _events: None)


def is_parsed(_text, _strings):
    return False


def parts(value, at):
    for index, part in enumerate(value.get("parts") or ()):
        place = f"{at}/parts/{index}"
        if "text" in part:
            yield f"{place}/text", "text", part["text"]
        elif "functionCall" in part:
            yield f"{place}/functionCall/args", "input", part["functionCall"].get("args", {})
        elif "functionResponse" in part:
            yield f"{place}/functionResponse/response", "output", part["functionResponse"]["response"]
        else:
            yield from texts(part, place)


def content(record):
    for at, body in wire.bodies(record):
        if isinstance(body.get("contents"), list):
            yield from wire.settings(body, at, ("systemInstruction", "tools"))
            for index, value in enumerate(body["contents"]):
                yield from parts(value, f"{at}/contents/{index}")
        for index, candidate in enumerate(body.get("candidates") or ()):
            yield from parts(candidate.get("content", {}), f"{at}/candidates/{index}/content")
