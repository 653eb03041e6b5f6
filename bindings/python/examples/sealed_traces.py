"""What the examples have in common: keys, spans in records, and the record that is printed at the end."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from threadseal import Identity, open_session
from threadseal.otel import SpanProcessor


@contextmanager
def sealed_traces(folder: Path) -> Generator[TracerProvider]:
    """A provider whose spans are sealed in `folder/traces`; prints the verified events at the end."""
    me = Identity.danger_with_seed(bytes(range(32)), folder)  # a program has a home
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor(folder / "traces", identity=me))
    yield provider
    provider.shutdown()
    for path in sorted((folder / "traces").glob("*.jsonl")):
        for event in open_session(path, trust=me.trust):
            print(event.line, event.type)
