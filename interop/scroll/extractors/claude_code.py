"""Claude Code sessions."""

from .values import lines, parse, texts

FORMAT = "claude-code"
FILES = (
    "claude-code-jsonl/*.jsonl",
    "claude-code-fragments/*.json*",
    "claude-code-synthetic/*.jsonl",
    "generated-here/claude-code-*-session-*.jsonl",
)


def records(source):
    try:
        whole = parse(source)
        loglines = whole["loglines"]
    except (ValueError, KeyError, TypeError):
        yield from lines(source)
        return
    for number, record in enumerate(loglines, 1):
        if isinstance(record, dict):
            yield number, record


def is_parsed(_text, _strings):
    return False


def block(value, at):
    if isinstance(value, str):
        yield at, "text", value
        return
    kind = value.get("type") if isinstance(value, dict) else None
    kind = kind if isinstance(kind, str) else ""
    if kind == "text":
        yield f"{at}/text", "text", value["text"]
    elif kind == "thinking":
        yield f"{at}/thinking", "text", value["thinking"]
    elif kind.endswith("tool_use"):
        yield f"{at}/input", "input", value.get("input")
    elif kind.endswith("tool_result"):
        yield f"{at}/content", "output", value.get("content")
    else:
        yield from texts(value, at)


def content(record, at=""):
    message = record.get("message")
    if isinstance(message, dict):
        said = message.get("content")
        if isinstance(said, str) and said:
            yield f"{at}/message/content", "text", said
        elif isinstance(said, list):
            for index, value in enumerate(said):
                yield from block(value, f"{at}/message/content/{index}")
        elif isinstance(said, dict):
            yield from block(said, f"{at}/message/content")
    if record.get("toolUseResult") is not None:
        yield f"{at}/toolUseResult", "output", record["toolUseResult"]
    for name in ("planContent", "summary", "lastPrompt"):
        if record.get(name):
            yield f"{at}/{name}", "text", record[name]
    if record.get("type") in ("system", "queue-operation"):
        said = record.get("content")
        if isinstance(said, str) and said:
            yield f"{at}/content", "text", said
        elif isinstance(said, list):
            for index, value in enumerate(said):
                yield from block(value, f"{at}/content/{index}")
    if record.get("type") == "attachment":
        yield from texts(record.get("attachment"), f"{at}/attachment")
    if record.get("type") == "progress" and isinstance(record.get("data"), dict):
        data = record["data"]
        for name in ("prompt", "fullOutput"):
            if data.get(name):
                yield f"{at}/data/{name}", "text", data[name]
        if isinstance(data.get("message"), dict):
            yield from content(data["message"], f"{at}/data/message")
