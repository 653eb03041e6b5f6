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
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agents.items import TResponseInputItem
from agents.memory import Session, SessionABC
from agents.tracing import Span, Trace, TracingProcessor

from ._named import MAX_OPEN, SealedLists, UnsealedItem, digest_of, json_of
from ._plain import plain
from ._traces import TraceRecords
from .home import Identity, StrPath

__all__ = ["SealedSession", "SealingProcessor", "UnsealedItem"]

Result = TypeVar("Result")

TURN_SECONDS = 0.002
"""The time between two looks at whether a session is free."""

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
    A run that continues after an approval has the trace of the first one, whose record has ended: it is in
    `FOLDER/TRACE_ID.1.jsonl`. A value that is no JSON is spelled as a text, and a long one shortened.
    The record begins, is sealed and ends while the agent works: `force_flush` and `shutdown` wait for it. A fault of
    recording is logged and does not stop the agent, unless `strict`: then the agent waits for each seal. A record that
    lacks an event names it, and ends as `error`.
    """

    def __init__(
        self, folder: StrPath, *, identity: Identity | None = None, durable: bool = False, strict: bool = False
    ) -> None:
        self.folder = Path(folder)
        keys = Identity.of_home() if identity is None else identity
        self._strict = strict
        self._records = TraceRecords(self.folder, "openai-agents", keys, durable, MAX_OPEN)
        self._lock = threading.Lock()
        self._begun: dict[str, Future[None]] = {}
        self._aside, self._process = ThreadPoolExecutor(1, "threadseal"), os.getpid()

    def path_of(self, trace_id: str) -> Path:
        """The record of a trace; what comes after its end is in `TRACE_ID.1.jsonl` and further ones."""
        return self._records.path_of(trace_id)

    def on_trace_start(self, trace: Trace) -> None:
        """Begins a record."""
        begun = self._do("begin", trace.trace_id, lambda: self._begin(trace))
        with self._lock:
            self._begun[trace.trace_id] = begun

    def on_trace_end(self, trace: Trace) -> None:
        """Ends the record."""
        with self._lock:
            self._begun.pop(trace.trace_id, None)
        ended = plain({"trace_id": trace.trace_id, "name": trace.name})
        self._do("end", trace.trace_id, lambda: self._records.end(trace.trace_id, ended))

    def on_span_start(self, span: Span[Any]) -> None:
        """Records that a tool is called; when a model is asked, all that it is asked about gets a seal."""
        kind = span.span_data.type
        if kind == "function":
            self._record(span, "tool_call_start")
        elif kind in ASKING:
            self._do("seal", span.trace_id, lambda: self._records.seal(span.trace_id))

    def on_span_end(self, span: Span[Any]) -> None:
        """Records a span."""
        self._record(span, EVENTS.get(span.span_data.type, "span_ended"))

    def _begin(self, trace: Trace) -> None:
        self._records.end_oldest()
        self._records.begin(trace.trace_id, "trace_started", lambda: dict(plain(trace.export() or {})))

    def _record(self, span: Span[Any], event_type: str) -> None:
        with self._lock:
            begun = self._begun.get(span.trace_id)
        with self._guarded("write", span.trace_id):
            if begun is not None and self._process == os.getpid():
                begun.result()
            self._records.record(span.trace_id, event_type, lambda: _payload(span), seal_late=True)

    def _do(self, act: str, trace_id: str, work: Callable[[], None]) -> "Future[None]":
        """Does something that waits for the disk: aside, in the order of the calls, unless the agent is to wait."""

        def guarded() -> None:
            with self._guarded(act, trace_id):
                work()

        if not self._strict:
            with self._lock:
                if self._process != os.getpid():
                    # A forked child has none of the threads of its parent.
                    self._aside, self._process = ThreadPoolExecutor(1, "threadseal"), os.getpid()
                return self._aside.submit(guarded)
        guarded()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _guarded(self, act: str, trace_id: str) -> "_Guard":
        return _Guard(act, trace_id, self._strict)

    def shutdown(self) -> None:
        """Seals traces that have not ended; their records stay open."""
        self._rest()
        for error in self._records.close_all():
            LOGGER.warning("cannot close the record of a trace: %s", error)

    def force_flush(self) -> None:
        """Makes all events so far durable."""
        self._rest()
        with self._guarded("flush", "of all"):
            self._records.sync()

    def _rest(self) -> None:
        """Returns when all that is done aside is done."""
        with self._lock:
            aside, self._aside = self._aside, ThreadPoolExecutor(1, "threadseal")
            is_own, self._process = self._process == os.getpid(), os.getpid()
        if is_own:
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
    made: dict[str, Any] = dict(span.export() or {})
    data = span.span_data
    if data.type == "response":
        made["response"] = getattr(data, "response", None)
        made["input"] = getattr(data, "input", None)
    payload: dict[str, Any] = plain(made)
    return payload


class SealedSession(SessionABC):
    """Any session of the SDK, with a seal on each item. Tasks and threads of one process may use it at once."""

    def __init__(self, inner: Session, folder: StrPath, *, identity: Identity | None = None, store: str = "") -> None:
        """The records with the seals are in `folder`: keep it where the writers of the session cannot write.

        Sessions of several databases that share a folder need a `store` each: any name of the database. A limit of the
        session inside counts for what this one gives, and no longer for the one inside: all items are compared.
        """
        self.inner = inner
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)
        if self.session_settings is not None:
            inner.session_settings = dataclasses.replace(self.session_settings, limit=None)
        keys = Identity.of_home() if identity is None else identity
        self._lists = SealedLists(Path(folder).resolve(), "openai-session", keys, store)
        self._turn = threading.Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, the last `limit` of them; each is the one that was sealed."""
        settings = self.session_settings
        limit = settings.limit if limit is None and settings is not None else limit
        checked = await self._alone(self._checked)
        return checked if limit is None else checked[max(0, len(checked) - limit) :]

    async def _checked(self) -> list[TResponseInputItem]:
        items = await self.inner.get_items()
        return await asyncio.to_thread(self._lists.checked, self.session_id, items)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items and seals them."""
        if not items:
            return
        kept: list[TResponseInputItem] = [json_of(item) for item in items]
        digests = [digest_of(item) for item in kept]

        async def add() -> None:
            await self._checked()
            await self.inner.add_items(kept)
            await asyncio.to_thread(self._lists.add, self.session_id, digests)

        await self._alone(add)

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the last item away, and what is after it without a seal."""

        async def pop() -> TResponseInputItem | None:
            items = await self.inner.get_items()
            if not await asyncio.to_thread(self._lists.checked, self.session_id, items):
                return None
            places = await asyncio.to_thread(self._lists.places, self.session_id, items)
            await asyncio.to_thread(self._lists.seal, self.session_id, "items_popped", {"count": 1})
            for _ in range(len(items) - places[-1]):
                await self.inner.pop_item()
            return items[places[-1]]

        return await self._alone(pop)

    async def clear_session(self) -> None:
        """Takes all items away."""

        async def clear() -> None:
            await asyncio.to_thread(self._lists.clear, self.session_id)
            await self.inner.clear_session()

        await self._alone(clear)

    async def adopt(self) -> int:
        """Seals what a session has that is older than its seals. Nothing shows what was changed before."""

        async def adopt() -> int:
            if await asyncio.to_thread(self._lists.has, self.session_id):
                return 0
            digests = [digest_of(item) for item in await self.inner.get_items()]
            await asyncio.to_thread(self._lists.add, self.session_id, digests)
            return len(digests)

        return await self._alone(adopt)

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Runs `work` while nothing else changes the session, and to its end, also where the caller is cancelled."""
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(work)))

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        # Tasks of several loops may use the session: no lock of asyncio is theirs in common.
        while not self._turn.acquire(blocking=False):
            await asyncio.sleep(TURN_SECONDS)
        try:
            return await work()
        finally:
            self._turn.release()

    def release(self) -> None:
        """Gives the record up, so that another process may continue it."""
        self._lists.release()
