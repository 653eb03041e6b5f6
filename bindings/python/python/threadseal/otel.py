"""`SpanExporter` and `SpanProcessor`: spans of OpenTelemetry in native records, whatever framework makes them.

```python
provider = TracerProvider()
provider.add_span_processor(SpanProcessor("traces"))
agent.instrument = InstrumentationSettings(tracer_provider=provider)     # an agent of Pydantic AI
```

Each trace has a record of its own, `FOLDER/TRACE_ID.jsonl`, with the thread `otel/TRACE_ID`. A span is an event when it
ends: `cognition_out` of a model, `tool_call_result` of a tool, `agent_ended` of an agent, by the conventions for
generative AI or those of OpenInference; else `span_ended`. Spans are sealed after each batch, and records end with the
exporter. A value that is no JSON is spelled as a text, and a long one shortened. A record that lacks a span names it,
and ends as `error`.

Install it with `pip install threadseal[otel]`.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import export as sdk_export
from opentelemetry.sdk.util import ns_to_iso_str
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from ._named import MAX_OPEN
from ._plain import plain
from ._traces import TraceRecords
from .home import Identity, StrPath

LOGGER = logging.getLogger("threadseal.otel")

EVENTS = {
    "chat": "cognition_out",
    "text_completion": "cognition_out",
    "generate_content": "cognition_out",
    "execute_tool": "tool_call_result",
    "invoke_agent": "agent_ended",
}
"""The type of the event for each `gen_ai.operation.name`."""

OPENINFERENCE_EVENTS = {"LLM": "cognition_out", "TOOL": "tool_call_result", "AGENT": "agent_ended"}
"""The type of the event for each `openinference.span.kind`; other spans are `span_ended`."""


class SpanExporter(sdk_export.SpanExporter):
    """Writes spans into records that are sealed after each batch. Threads may use it at once."""

    def __init__(
        self,
        folder: StrPath,
        *,
        identity: Identity | None = None,
        durable: bool = False,
        max_open: int = MAX_OPEN,
    ) -> None:
        """Of more than `max_open` traces the oldest is ended; a span that is late begins a record of its own."""
        self.folder = Path(folder)
        keys = Identity.of_home() if identity is None else identity
        self._records = TraceRecords(self.folder, "otel", keys, durable, max_open)

    def export(self, spans: Sequence[sdk.ReadableSpan]) -> sdk_export.SpanExportResult:
        """Records spans and seals them. A span that fails takes no other one with it."""
        touched: dict[str, None] = {}
        failed = False
        for span in spans:
            with _Logged("record a span") as logged:
                trace_id = _trace_id(span)
                touched[trace_id] = None
                failed |= not self._record(trace_id, span)
            failed |= logged.failed
        for trace_id in touched:
            with _Logged("seal spans") as logged:
                self._records.seal(trace_id)
            failed |= logged.failed
        with _Logged("end the record of a trace"):
            self._records.end_oldest()
        result = sdk_export.SpanExportResult
        return result.FAILURE if failed else result.SUCCESS

    def _record(self, trace_id: str, span: sdk.ReadableSpan) -> bool:
        return self._records.record(trace_id, _event_type(span), lambda: _payload(span), seal=False)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits: what was exported is sealed."""
        return True

    def shutdown(self) -> None:
        """Ends the records of all traces."""
        for error in self._records.end_all():
            LOGGER.warning("cannot end the record of a trace: %s", error)


class _Logged:
    """Logs what fails: no fault of recording may stop the program."""

    def __init__(self, act: str) -> None:
        self._act, self.failed = act, False

    def __enter__(self) -> "_Logged":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        LOGGER.warning("cannot %s: %s", self._act, error)
        return True


def _trace_id(span: sdk.ReadableSpan) -> str:
    context = span.get_span_context()
    return format_trace_id(0 if context is None else context.trace_id)


def _payload(span: sdk.ReadableSpan) -> dict[str, Any]:
    """What `ReadableSpan.to_json` has, also where a value is no JSON."""
    status: dict[str, Any] = {"status_code": span.status.status_code.name}
    if span.status.description:
        status["description"] = span.status.description
    made = {
        "name": span.name,
        "context": _context(span.get_span_context()),
        "kind": str(span.kind),
        "parent_id": f"0x{format_span_id(span.parent.span_id)}" if span.parent is not None else None,
        "start_time": _moment(span.start_time),
        "end_time": _moment(span.end_time),
        "status": status,
        "attributes": span.attributes,
        "events": [
            {"name": event.name, "timestamp": _moment(event.timestamp), "attributes": event.attributes}
            for event in span.events
        ],
        "links": [{"context": _context(link.context), "attributes": link.attributes} for link in span.links],
        "resource": {"attributes": span.resource.attributes, "schema_url": span.resource.schema_url},
    }
    payload: dict[str, Any] = plain(made)
    return payload


def _context(context: SpanContext | None) -> dict[str, str] | None:
    if context is None:
        return None
    return {
        "trace_id": f"0x{format_trace_id(context.trace_id)}",
        "span_id": f"0x{format_span_id(context.span_id)}",
        "trace_state": repr(context.trace_state),
    }


def _moment(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else ns_to_iso_str(nanoseconds)


def _event_type(span: sdk.ReadableSpan) -> str:
    attributes = span.attributes or {}
    kind, operation = attributes.get("openinference.span.kind"), attributes.get("gen_ai.operation.name")
    return EVENTS.get(str(operation)) or OPENINFERENCE_EVENTS.get(str(kind), "span_ended")


class SpanProcessor(sdk.SpanProcessor):
    """Records each span when it ends. For many spans use `BatchSpanProcessor` with a `SpanExporter`."""

    def __init__(self, folder: StrPath, *, identity: Identity | None = None, durable: bool = False) -> None:
        self.exporter = SpanExporter(folder, identity=identity, durable=durable)

    def on_start(self, span: sdk.Span, parent_context: Context | None = None) -> None:
        """Nothing: a span has its content when it ends."""

    def on_end(self, span: sdk.ReadableSpan) -> None:
        """Records and seals a span."""
        context = span.get_span_context()
        if context is not None and context.trace_flags.sampled:
            self.exporter.export([span])

    def shutdown(self) -> None:
        """Ends the records of all traces."""
        self.exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits: what was recorded is sealed."""
        return True
