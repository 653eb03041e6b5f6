"""Langfuse traces."""

from . import traces
from .values import parse

FORMAT = "langfuse"
FILES = ("langfuse-otel-trace-json/*.json",)
EXACT = False
scroll_content = traces.scroll_content
is_parsed = traces.is_parsed


def records(source):
    whole = parse(source)
    yield 0, {name: value for name, value in whole.items() if name != "observations"}
    yield from enumerate(whole["observations"], 1)


def content(record):
    for place, text in traces.opened(record):
        yield place, "text", text
