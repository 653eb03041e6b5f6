"""Codex rollouts of all three generations."""

from .values import canonical, lines, parse, texts

FORMAT = "codex"
FILES = ("codex-rollout-jsonl/*.jsonl", "generated-here/codex-*-rollout-*.jsonl")
records = lines
ENVELOPES = {
    "session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state",
    "token_usage_record",
}  # fmt: skip


def spelled(arguments):
    """The object in a string of arguments, else the string."""
    try:
        value = parse(arguments)
    except (ValueError, TypeError):
        return arguments
    return value if isinstance(value, dict) else arguments


def is_parsed(text, strings):
    return canonical(spelled(text)) in strings


def parts(items, at, keys=("text",)):
    for index, part in enumerate(items or ()):
        place = f"{at}/{index}"
        if isinstance(part, str):
            yield place, "text", part
            continue
        name = next((key for key in keys if isinstance(part.get(key), str)), None)
        if name:
            yield f"{place}/{name}", "text", part[name]
        else:
            yield from texts(part, place)


def item(value, at):
    kind = value.get("type", "message" if "role" in value else None)
    if kind == "message":
        said = value.get("content")
        if isinstance(said, str):
            yield f"{at}/content", "text", said
        else:
            yield from parts(said, f"{at}/content")
    elif kind == "reasoning":
        yield from parts(value.get("summary"), f"{at}/summary")
        yield from parts(value.get("content"), f"{at}/content")
        if value.get("encrypted_content"):
            # A scroll has this as data beside the text of other items.
            yield f"{at}/encrypted_content", "text", "redacted_thinking"
            yield f"{at}/encrypted_content", "text", value["encrypted_content"]
    elif kind == "function_call":
        yield f"{at}/arguments", "input", spelled(value.get("arguments"))
    elif kind == "custom_tool_call":
        yield f"{at}/input", "input", value.get("input")
    elif kind in ("local_shell_call", "web_search_call"):
        yield f"{at}/action", "input", value.get("action")
    elif kind and kind.endswith("_output"):
        yield f"{at}/output", "output", value.get("output")
    else:
        yield from texts(value, at)


def event(value, at):
    kind = value.get("type")
    if kind in ("user_message", "agent_message"):
        yield f"{at}/message", "text", value["message"]
        yield from parts(value.get("images"), f"{at}/images")
    elif kind in ("agent_reasoning", "agent_reasoning_raw_content"):
        yield f"{at}/text", "text", value["text"]
    elif kind in ("task_complete", "turn_complete"):
        if value.get("last_agent_message"):
            yield f"{at}/last_agent_message", "text", value["last_agent_message"]
    elif kind == "item_completed":
        shown = value["item"]
        if shown["type"] in ("UserMessage", "AgentMessage"):
            yield from parts(shown.get("content"), f"{at}/item/content")
        elif shown["type"] == "Reasoning":
            yield from parts(shown.get("summary_text"), f"{at}/item/summary_text")
            yield from parts(shown.get("raw_content"), f"{at}/item/raw_content")
        else:
            yield from texts(value, at)
    elif kind not in ("task_started", "turn_aborted", "token_count"):
        yield from texts(value, at)


def meta(value, at):
    if value.get("instructions"):
        yield f"{at}/instructions", "text", value["instructions"]
    base = value.get("base_instructions")
    if isinstance(base, dict):
        yield f"{at}/base_instructions/text", "text", base["text"]


def content(record):
    kind, payload, at = record.get("type"), record.get("payload"), "/payload"
    if kind not in ENVELOPES:
        payload, at = record, ""
        kind = "response_item" if kind or "role" in record else "session_meta"
        if "record_type" in record:
            return
    if kind == "session_meta":
        yield from meta(payload, at)
    elif kind == "response_item":
        yield from item(payload, at)
    elif kind == "event_msg":
        yield from event(payload, at)
    elif kind == "compacted":
        if payload.get("message"):
            yield f"{at}/message", "text", payload["message"]
        for index, replaced in enumerate(payload.get("replacement_history") or ()):
            yield from texts(replaced, f"{at}/replacement_history/{index}")
    elif kind in ("turn_context", "world_state"):
        yield from texts(payload, at)
