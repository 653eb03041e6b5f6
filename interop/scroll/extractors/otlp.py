"""OTLP-JSON."""

from . import traces
from .values import Number, parse

FORMAT = "otlp"
FILES = (
    "otlp-traces-json/*openai_agents*",
    "otlp-traces-json/*test-traces*",
    "generated-here/*-otlp-http-json.jsonl",
)
EXACT = False
LEVELS = (
    ("resourceSpans", "scopeSpans", "spans"),
    ("resourceLogs", "scopeLogs", "logRecords"),
)
scroll_content = traces.scroll_content


def records(source):
    try:
        documents = [parse(source)]
    except ValueError:
        documents = [parse(line) for line in source.split(b"\n") if line.strip()]
    found = []
    for document in documents:
        for outer, middle, inner in LEVELS:
            for resource in document.get(outer, ()):
                for scope in resource.get(middle, ()):
                    found += scope.pop(inner, [])
        yield 0, document
    for number, record in enumerate(found, 1):
        yield number, without_names(record)


def without_names(record):
    """The record with its attributes as members, which is their form in a scroll."""
    if isinstance(record, dict):
        kept = {name: without_names(value) for name, value in record.items()}
        if set(kept) == {"key", "value"}:
            name = kept.pop("key")
            if traces.SHAPE.search(name) and isinstance(kept["value"].get("stringValue"), str):
                kept["value"] = {"stringValue": traces.Shape(kept["value"]["stringValue"])}
        if isinstance(kept.get("intValue"), str):
            kept["intValue"] = Number(kept["intValue"])
        return kept
    if isinstance(record, list):
        return [without_names(value) for value in record]
    return record


def is_parsed(text, strings):
    return traces.is_parsed(text, strings)


def content(record):
    for place, text in traces.opened(record):
        yield place, "text", text
