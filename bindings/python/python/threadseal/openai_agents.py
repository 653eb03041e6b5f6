"""The OpenAI Agents SDK under seals: `SealingProcessor` for its traces, `SealedSession` for its sessions.

```python
from agents import Runner, SQLiteSession, add_trace_processor

add_trace_processor(SealingProcessor("traces"))
session = SealedSession(SQLiteSession("ada", "sessions.db"), "seals")
await Runner.run(agent, "Find the leads.", session=session)
```

A run resumes only from a conversation that is the one which was sealed: an item that was changed, removed or put
back raises `NotVerified` before a model is asked. Items without a seal are not used, and `UnsealedItem` warns of them.

Install it with `pip install threadseal[openai-agents]`.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agents.items import TResponseInputItem
from agents.memory import Session, SessionABC
from agents.tracing import Span, Trace, TracingProcessor

from ._named import SealedLists, UnsealedItem, digest_of, plain
from .home import Identity, StrPath
from .recorder import Recorder

__all__ = ["SealedSession", "SealingProcessor", "UnsealedItem"]

LOGGER = logging.getLogger("threadseal.openai_agents")

EVENTS = {
    "function": "tool_call_result",
    "handoff": "handoff",
    "guardrail": "guardrail",
    "generation": "cognition_out",
    "response": "cognition_out",
    "mcp_tools": "mcp_tools",
}
"""The type of the event for each kind of span; others are `span_ended`."""

ASKING = ("generation", "response")
"""Spans in which a model is asked."""


class SealingProcessor(TracingProcessor):
    """Writes each trace into a native record of its own, sealed whenever a model is asked and at its end.

    The record is `FOLDER/TRACE_ID.jsonl`, its thread `openai-agents/TRACE_ID`. A tool call begins with
    `tool_call_start` and ends with `tool_call_result`; a handoff is `handoff`; an answer of a model is `cognition_out`.
    The record begins, is sealed and ends while the agent works: `force_flush` and `shutdown` wait for it. A fault of
    recording is logged and does not stop the agent, unless `strict`: then the agent waits for each seal.
    """

    def __init__(
        self, folder: StrPath, *, identity: Identity | None = None, durable: bool = False, strict: bool = False
    ) -> None:
        self.folder = Path(folder)
        self._identity = Identity.of_home() if identity is None else identity
        self._durable, self._strict = durable, strict
        self._lock = threading.Lock()
        self._open: dict[str, Future[Recorder | None]] = {}
        self._aside = ThreadPoolExecutor(1, "threadseal")
        self.folder.mkdir(parents=True, exist_ok=True)

    def path_of(self, trace_id: str) -> Path:
        """The record of a trace."""
        return self.folder / f"{trace_id}.jsonl"

    def on_trace_start(self, trace: Trace) -> None:
        """Begins a record."""
        begun = self._do(lambda: self._begun(trace))
        with self._lock:
            self._open[trace.trace_id] = begun

    def on_trace_end(self, trace: Trace) -> None:
        """Ends the record."""
        with self._lock:
            begun = self._open.pop(trace.trace_id, None)
        if begun is not None:
            self._do(lambda: self._ended(begun, trace))

    def on_span_start(self, span: Span[Any]) -> None:
        """Records that a tool is called; when a model is asked, all that it is asked about gets a seal."""
        kind = span.span_data.type
        if kind == "function":
            self._record(span, "tool_call_start")
        elif kind in ASKING:
            with self._lock:
                begun = self._open.get(span.trace_id)
            if begun is not None:
                self._do(lambda: self._sealed(begun, span.trace_id))

    def on_span_end(self, span: Span[Any]) -> None:
        """Records a span."""
        self._record(span, EVENTS.get(span.span_data.type, "span_ended"))

    def _do(self, work: Callable[[], Recorder | None]) -> "Future[Recorder | None]":
        """Does something that waits for the disk: aside, in the order of the calls, unless the agent is to wait."""
        if not self._strict:
            return self._aside.submit(work)
        done: Future[Recorder | None] = Future()
        done.set_result(work())
        return done

    def _begun(self, trace: Trace) -> Recorder | None:
        with self._guarded("begin", trace.trace_id):
            path, thread = self.path_of(trace.trace_id), f"openai-agents/{trace.trace_id}"
            recorder = Recorder(path, thread, identity=self._identity, durable=self._durable)
            recorder.record("trace_started", plain(trace.export() or {}))
            return recorder
        return None

    def _sealed(self, begun: "Future[Recorder | None]", trace_id: str) -> None:
        if (recorder := begun.result()) is not None:
            with self._guarded("seal", trace_id):
                recorder.seal()

    def _ended(self, begun: "Future[Recorder | None]", trace: Trace) -> None:
        if (recorder := begun.result()) is not None:
            with self._guarded("end", trace.trace_id):
                recorder.end("completed", {"trace_id": trace.trace_id, "name": trace.name})

    def _record(self, span: Span[Any], event_type: str) -> None:
        with self._lock:
            begun = self._open.get(span.trace_id)
        if begun is None or (recorder := begun.result()) is None:
            return
        with self._guarded("record", span.trace_id):
            recorder.record(event_type, _payload(span))

    def _guarded(self, act: str, trace_id: str) -> "_Guard":
        return _Guard(act, trace_id, self._strict)

    def shutdown(self) -> None:
        """Seals traces that have not ended; their records stay open."""
        self._rest()
        with self._lock:
            left, self._open = self._open, {}
        for trace_id, begun in left.items():
            if (recorder := begun.result()) is not None:
                with self._guarded("close", trace_id):
                    recorder.close()

    def force_flush(self) -> None:
        """Makes all events so far durable."""
        self._rest()
        with self._lock:
            left = list(self._open.items())
        for trace_id, begun in left:
            if (recorder := begun.result()) is not None:
                with self._guarded("flush", trace_id):
                    recorder.sync()

    def _rest(self) -> None:
        """Returns when all that is done aside is done."""
        with self._lock:
            aside, self._aside = self._aside, ThreadPoolExecutor(1, "threadseal")
        aside.shutdown()


class _Guard:
    """Logs a fault of recording, unless it is to be raised."""

    def __init__(self, act: str, trace_id: str, strict: bool) -> None:
        self._act, self._trace_id, self._strict = act, trace_id, strict

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception) or self._strict:
            return False
        LOGGER.warning("cannot %s the record of trace %s: %s", self._act, self._trace_id, error)
        return True


def _payload(span: Span[Any]) -> dict[str, Any]:
    """What a span has, as JSON; of a response also the texts that the SDK does not export."""
    payload: dict[str, Any] = dict(plain(span.export() or {}))
    data = span.span_data
    if data.type == "response":
        response = getattr(data, "response", None)
        payload["response"] = None if response is None else plain(response)
        payload["input"] = plain(getattr(data, "input", None))
    return payload


class SealedSession(SessionABC):
    """Any session of the SDK, with a seal on each item."""

    def __init__(self, inner: Session, folder: StrPath, *, identity: Identity | None = None) -> None:
        """The records with the seals are in `folder`: keep it where the writers of the session cannot write."""
        self.inner = inner
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)
        keys = Identity.of_home() if identity is None else identity
        self._lists = SealedLists(Path(folder).resolve(), "openai-session", keys)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, the last `limit` of them; each is the one that was sealed."""
        items = await self.inner.get_items()
        checked = await asyncio.to_thread(self._lists.checked, self.session_id, items)
        settings = self.session_settings
        limit = settings.limit if limit is None and settings is not None else limit
        return checked if limit is None else checked[max(0, len(checked) - limit) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items and seals them."""
        if not items:
            return
        kept: list[TResponseInputItem] = [plain(item) for item in items]
        await self.get_items()
        await self.inner.add_items(kept)
        digests = [digest_of(item) for item in kept]
        await asyncio.to_thread(self._lists.add, self.session_id, digests)

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the last item away."""
        items = await self.get_items()
        if not items:
            return None
        await asyncio.to_thread(self._lists.pop, self.session_id, 1)
        # Items without a seal may be after it.
        for _ in range(len(await self.inner.get_items()) - len(items) + 1):
            await self.inner.pop_item()
        return items[-1]

    async def clear_session(self) -> None:
        """Takes all items away."""
        await asyncio.to_thread(self._lists.clear, self.session_id)
        await self.inner.clear_session()

    async def adopt(self) -> int:
        """Seals what a session has that is older than its seals. Nothing shows what was changed before."""
        if self._lists.get(self.session_id, create=False) is not None:
            return 0
        digests = [digest_of(item) for item in await self.inner.get_items()]
        await asyncio.to_thread(self._lists.add, self.session_id, digests)
        return len(digests)

    def release(self) -> None:
        """Gives the record up, so that another process may continue it."""
        self._lists.release()
