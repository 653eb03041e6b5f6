"""ATIF trajectories, also several in one file."""

from .values import parse, texts

FORMAT = "atif"
FILES = ("atif-json/*.json",)


def is_trajectory(value):
    return isinstance(value, dict) and str(value.get("schema_version", "")).startswith("ATIF-")


def trajectories(value):
    """All trajectories of a value. Nested ones follow their parent."""
    if is_trajectory(value):
        yield value
        for inner in value.get("subagent_trajectories") or ():
            yield from trajectories(inner)
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from trajectories(inner)


def without_steps(value):
    if isinstance(value, list):
        return [without_steps(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    steps = is_trajectory(value)
    kept = {name: inner for name, inner in value.items() if not (steps and name == "steps")}
    return {name: without_steps(inner) for name, inner in kept.items()}


def records(source):
    whole = parse(source)
    yield 0, without_steps(whole)
    steps = [step for one in trajectories(whole) for step in one.get("steps", ())]
    yield from enumerate(steps, 1)


def is_parsed(text, _strings):
    return text == "agent"


def said(value, place):
    if isinstance(value, str):
        if value:
            yield place, "text", value
        return
    for index, block in enumerate(value or ()):
        if block.get("type") == "text":
            yield f"{place}/{index}/text", "text", block["text"]
        else:
            yield from texts(block, f"{place}/{index}")


def content(record):
    if "source" not in record:
        return
    if record.get("reasoning_content"):
        yield "/reasoning_content", "text", record["reasoning_content"]
    yield from said(record.get("message"), "/message")
    for index, call in enumerate(record.get("tool_calls") or ()):
        yield f"/tool_calls/{index}/arguments", "input", call.get("arguments")
    results = (record.get("observation") or {}).get("results") or ()
    for index, result in enumerate(results):
        yield f"/observation/results/{index}/content", "output", result.get("content")
