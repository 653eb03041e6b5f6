"""OpenCode sessions, as `opencode export` writes them."""

from .values import parse, texts

FORMAT = "opencode"
FILES = ("generated-here/opencode-*-export.json",)
PLACE = ("id", "sessionID", "messageID")


def records(source):
    whole = parse(source)
    yield 0, {name: value for name, value in whole.items() if name != "messages"}
    yield from enumerate(whole["messages"], 1)


def is_parsed(_text, _strings):
    return False


def content(record):
    if record.get("info", {}).get("system"):
        yield "/info/system", "text", record["info"]["system"]
    for index, part in enumerate(record.get("parts", ())):
        place = f"/parts/{index}"
        if part["type"] in ("text", "reasoning"):
            yield f"{place}/text", "text", part["text"]
        elif part["type"] == "tool":
            state = part["state"]
            yield f"{place}/state/input", "input", state.get("input")
            for name in ("output", "error"):
                if name in state:
                    yield f"{place}/state/{name}", "output", state[name]
        else:
            rest = {name: value for name, value in part.items() if name not in PLACE}
            yield from texts(rest, place)
