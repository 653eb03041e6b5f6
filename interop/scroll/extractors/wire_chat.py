"""OpenAI Chat Completions, whole and streamed."""

from . import wire
from .values import canonical

FORMAT = "openai-chat"
FILES = ("openai-chat-sse-nock/*.json", wire.CAPTURES)
TEXTS = ("content", "refusal", "reasoning", "reasoning_content")


def assemble(chunks):
    whole, choices = {}, {}
    for chunk in chunks:
        for choice in chunk.get("choices", ()):
            index = str(choice.get("index", 0))
            kept = choices.setdefault(index, {"message": {}, "calls": {}})
            for name, value in choice.get("delta", {}).items():
                if name in TEXTS and isinstance(value, str):
                    kept["message"][name] = kept["message"].get(name, "") + value
                elif name == "tool_calls":
                    for piece in value:
                        call = kept["calls"].setdefault(str(piece["index"]), {"function": {}})
                        function = call["function"]
                        for key, text in piece.get("function", {}).items():
                            function[key] = function.get(key, "") + text
                        rest = {k: v for k, v in piece.items() if k not in ("index", "function")}
                        call.update(rest)
                else:
                    kept["message"][name] = value
            rest = {k: v for k, v in choice.items() if k != "delta" and v is not None}
            kept.update(rest)
        whole.update({k: v for k, v in chunk.items() if k not in ("choices", "object")})
    for choice in choices.values():
        calls = list(choice.pop("calls").values())
        if calls:
            choice["message"]["tool_calls"] = calls
    return {**whole, "choices": list(choices.values())}


def records(source):
    return wire.records(source, assemble)


def is_parsed(text, strings):
    return canonical(wire.spelled(text)) in strings


def message(value, at):
    if value.get("role") == "tool":
        yield f"{at}/content", "output", value.get("content")
    elif value.get("content"):
        yield from wire.said(value["content"], f"{at}/content")
    for name in ("reasoning_content", "reasoning"):
        if value.get(name):
            yield f"{at}/{name}", "text", value[name]
    if value.get("refusal"):
        yield f"{at}/refusal", "text", "refusal"
        yield f"{at}/refusal", "text", value["refusal"]
    for index, call in enumerate(value.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        yield f"{at}/tool_calls/{index}/function/arguments", "input", wire.spelled(arguments)


def content(record):
    for at, body in wire.bodies(record):
        if isinstance(body.get("messages"), list):
            yield from wire.settings(body, at, ("tools", "functions"))
            for index, value in enumerate(body["messages"]):
                yield from message(value, f"{at}/messages/{index}")
        for index, choice in enumerate(body.get("choices") or ()):
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
                yield from message(choice["message"], f"{at}/choices/{index}/message")
