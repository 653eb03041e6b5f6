"""`SpanExporter` and `SpanProcessor`: spans of OpenTelemetry in native records, whatever framework makes them.

```python
provider = TracerProvider()
provider.add_span_processor(SpanProcessor("traces"))
agent.instrument = InstrumentationSettings(tracer_provider=provider)     # an agent of Pydantic AI
```

Each trace has a record of its own, `FOLDER/TRACE_ID.jsonl`, with the thread `otel/TRACE_ID`. A span is an event when it
ends: `cognition_out` of a model, `tool_call_result` of a tool, `agent_ended` of an agent, by the conventions for
generative AI or those of OpenInference; else `span_ended`. Spans without a parent are sealed at once, others with them
or after each batch.

Install it with `pip install threadseal[otel]`.
"""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import export as sdk_export
from opentelemetry.trace import format_trace_id

from ._errors import ThreadSealError
from ._named import MAX_OPEN
from .home import Identity, StrPath
from .recorder import Recorder

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
        self.folder.mkdir(parents=True, exist_ok=True)
        self._identity = Identity.of_home() if identity is None else identity
        self._durable, self._max_open = durable, max_open
        self._lock = threading.Lock()
        self._open: dict[str, Recorder] = {}

    def export(self, spans: Sequence[sdk.ReadableSpan]) -> sdk_export.SpanExportResult:
        """Records spans that ended, and seals them."""
        try:
            with self._lock:
                touched = [self._record(span) for span in spans]
                for recorder in {id(recorder): recorder for recorder in touched}.values():
                    recorder.seal()
                self._end_oldest()
        except (ThreadSealError, OSError) as error:
            LOGGER.warning("cannot record spans: %s", error)
            return sdk_export.SpanExportResult.FAILURE
        return sdk_export.SpanExportResult.SUCCESS

    def _record(self, span: sdk.ReadableSpan) -> Recorder:
        context = span.get_span_context()
        trace_id = format_trace_id(0 if context is None else context.trace_id)
        recorder = self._open.pop(trace_id, None) or self._begun(trace_id)
        self._open[trace_id] = recorder
        payload: dict[str, Any] = json.loads(span.to_json())
        recorder.record(_event_type(span), payload)
        return recorder

    def _begun(self, trace_id: str) -> Recorder:
        for late in range(1000):
            name = trace_id if late == 0 else f"{trace_id}.{late}"
            path = self.folder / f"{name}.jsonl"
            if not path.exists():
                thread = f"otel/{name}"
                return Recorder(path, thread, identity=self._identity, durable=self._durable)
        raise ThreadSealError(f"trace {trace_id} has too many records in {self.folder}")

    def _end_oldest(self) -> None:
        while len(self._open) > self._max_open:
            self._open.pop(next(iter(self._open))).end("completed")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits: what was exported is sealed."""
        return True

    def shutdown(self) -> None:
        """Ends the records of all traces."""
        with self._lock:
            left, self._open = self._open, {}
        for recorder in left.values():
            try:
                recorder.end("completed")
            except (ThreadSealError, OSError) as error:
                LOGGER.warning("cannot end the record of %s: %s", recorder.thread, error)


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
