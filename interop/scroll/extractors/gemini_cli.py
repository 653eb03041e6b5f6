"""Gemini CLI sessions."""

from .values import lines, parse, texts

FORMAT = "gemini-cli"
FILES = ("gemini-cli-json/agent*.json", "generated-here/gemini-cli-*-session.jsonl")


def records(source):
    try:
        whole = parse(source)
        messages = whole["messages"]
    except (ValueError, KeyError, TypeError):
        yield from lines(source)
        return
    yield 0, {name: value for name, value in whole.items() if name != "messages"}
    for number, record in enumerate(messages, 1):
        if isinstance(record, dict):
            yield number, record


def is_parsed(_text, _strings):
    return False


def answer(result):
    """The answer of a tool, and its place below the result."""
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], dict):
        response = result[0].get("functionResponse")
        if isinstance(response, dict) and set(response) <= {"id", "name", "response"}:
            return "/0/functionResponse/response", response.get("response")
    return "", result


def message(record, at):
    if record.get("summary"):
        yield f"{at}/summary", "text", record["summary"]
    for index, thought in enumerate(record.get("thoughts") or ()):
        yield f"{at}/thoughts/{index}/description", "text", thought["description"]
        if thought.get("subject"):
            yield f"{at}/thoughts/{index}/subject", "text", thought["subject"]
    said = record.get("content")
    if isinstance(said, str) and said:
        yield f"{at}/content", "text", said
    for index, part in enumerate(said if isinstance(said, list) else ()):
        place = f"{at}/content/{index}"
        if "text" in part:
            yield f"{place}/text", "text", part["text"]
        elif "functionResponse" in part:
            yield f"{place}/functionResponse/response", "output", part["functionResponse"].get("response")
        elif "functionCall" in part:
            yield f"{place}/functionCall/args", "input", part["functionCall"].get("args")
        else:
            yield from texts(part, place)
    for index, call in enumerate(record.get("toolCalls") or ()):
        place = f"{at}/toolCalls/{index}"
        yield f"{place}/args", "input", call.get("args")
        if call.get("result") is not None:
            below, value = answer(call["result"])
            yield f"{place}/result{below}", "output", value
        if call.get("resultDisplay") is not None:
            yield f"{place}/resultDisplay", "output", call["resultDisplay"]


def content(record):
    if "$set" in record:
        for index, inner in enumerate(record["$set"].get("messages") or ()):
            yield from message(inner, f"/$set/messages/{index}")
    else:
        yield from message(record, "")
