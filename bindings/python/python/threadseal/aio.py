"""`AsyncRecorder`: the recorder for coroutines. Events of many tasks share one write."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native
from .home import Identity, StrPath
from .recorder import SEAL_EVERY, AtExit, Ending, Payload, Recorder, Tail, leave

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_BATCH = 4096
"""The most events that one write takes."""


class AsyncRecorder:
    """A recorder whose calls are awaited. The event loop never waits for a disk.

    >>> import asyncio, tempfile, pathlib, threadseal
    >>> async def agent(folder, me):
    ...     path = folder / "t.jsonl"
    ...     async with threadseal.AsyncRecorder(path, "agency/scout", identity=me) as record:
    ...         await record.record("cognition_in", {"role": "user", "text": "Find the leads."})
    ...         await record.seal()
    ...     return threadseal.verify(path, trust=me.trust).verdict
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> asyncio.run(agent(folder, threadseal.Identity.danger_with_seed(bytes(range(32)), folder)))
    'verified'

    The arguments are those of `Recorder`. A payload is taken when `record` is called: later changes of the
    dict change nothing.
    """

    def __init__(
        self,
        path: StrPath,
        thread: str | None = None,
        *,
        identity: Identity | None = None,
        resume: bool = False,
        tail: Tail = "refuse",
        durable: bool = False,
        seal_every: int = SEAL_EVERY,
        model: str | None = None,
        at_exit: AtExit = "completed",
    ) -> None:
        """Nothing is opened before `async with`. With `resume`, an existing record is continued."""
        if resume == (thread is not None):
            raise ValueError("give a thread for a new record, and none to resume one")
        self._open: dict[str, Any] = {"identity": identity, "durable": durable, "seal_every": seal_every}
        self._begin: dict[str, Any] = {"tail": tail} if thread is None else {"thread": thread, "model": model}
        self._path, self._resume = path, resume
        self._at_exit: AtExit = at_exit
        self._recorder: Recorder | None = None
        self._waiting: list[tuple[_native.Event, asyncio.Future[None]]] = []
        self._idle: asyncio.Future[None] | None = None
        """Is done when nothing waits; None where nothing does."""

    async def __aenter__(self) -> "Self":
        self._recorder = await asyncio.to_thread(self._opened)
        return self

    def _opened(self) -> Recorder:
        if self._resume:
            return Recorder.resume(self._path, **self._begin, **self._open)
        return Recorder(self._path, **self._begin, **self._open)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self._drained()
        if not self.recorder.closed:
            await asyncio.to_thread(leave, self.recorder._inner, self._at_exit, error)

    @property
    def recorder(self) -> Recorder:
        """The recorder underneath."""
        if self._recorder is None:
            raise RuntimeError("the record is not open; hint: async with")
        return self._recorder

    async def record(self, event_type: str, payload: Payload) -> None:
        """Records one event; returns when it is written, with `durable` when it survives the power."""
        done = self._put(_native.event(event_type, payload))
        await done

    def _put(self, event: _native.Event) -> "asyncio.Future[None]":
        self.recorder  # noqa: B018 - raises before the block begins
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((event, done))
        if self._idle is None:
            self._idle = loop.create_future()
            # What other tasks record before the loop is here again is in the same write.
            loop.call_soon(self._write)
        return done

    # The writes are no task: a program that ends cancels all of these, and still records its last events.
    def _write(self) -> None:
        batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        loop, events = asyncio.get_running_loop(), [event for event, _ in batch]
        try:
            writing = loop.run_in_executor(None, self.recorder._inner.record_batch, events)
        except RuntimeError as error:
            # The loop has no threads any more.
            self._written(batch, dict.fromkeys(range(len(batch)), error))
            return
        writing.add_done_callback(lambda done: self._written(batch, _failed(done, len(batch))))

    def _written(self, batch: "list[tuple[_native.Event, asyncio.Future[None]]]", failed: dict[int, Exception]) -> None:
        for at, (_, done) in enumerate(batch):
            if done.done():
                continue
            if at in failed:
                done.set_exception(failed[at])
            else:
                done.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        elif self._idle is not None:
            idle, self._idle = self._idle, None
            idle.set_result(None)

    async def _drained(self) -> None:
        while self._idle is not None:
            await asyncio.shield(self._idle)

    async def seal(self) -> str:
        """Ends a turn: seals all events so far, durably. Gives the head."""
        await self._drained()
        return await asyncio.to_thread(self.recorder.seal)

    async def end(self, ending: Ending = "completed", payload: Payload | None = None) -> str:
        """Ends the record with a terminal event and a final seal. Gives the head."""
        await self._drained()
        return await asyncio.to_thread(self.recorder.end, ending, payload)

    async def close(self) -> None:
        """Seals what has no seal and gives the record up. It can be resumed."""
        await self._drained()
        await asyncio.to_thread(self.recorder.close)


def _failed(done: "asyncio.Future[list[tuple[int, Exception]]]", count: int) -> dict[int, Exception]:
    """The events of a batch that were not written, and why."""
    if done.cancelled():
        return dict.fromkeys(range(count), RuntimeError("the loop ended before the event was written"))
    if (error := done.exception()) is not None:
        return dict.fromkeys(range(count), error if isinstance(error, Exception) else RuntimeError(str(error)))
    return dict(done.result())
