"""Records of traces: one for each trace, and further ones for what comes after its end.

```text
trace ─► ID.jsonl ─► ended, or not writable ─► ID.1.jsonl ─► …     each later one begins with `trace_continued`
```
Nothing is lost in silence. An event that a record does not take is in it as `event_left_out`; after a failed write the
next event finds the record resumed, with `recording_failed`. Such a record never ends as `completed`.
"""

import hashlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ._errors import InvalidInput, LimitExceeded, Refused, StorageFailed, Superseded, ThreadSealError
from ._plain import plain
from .home import Identity
from .recorder import Recorder

MAX_RECORDS = 1000
"""The most records of one trace in a folder."""

Make = Callable[[], Mapping[str, Any]]
"""Makes the payload of an event; it may fail, as code of the program runs in it."""


class _Trace:
    """A trace that is open in this process."""

    def __init__(self, trace_id: str) -> None:
        self.trace_id = trace_id
        self.lock = threading.RLock()
        self.recorder: Recorder | None = None
        self.path: Path | None = None
        self.users = 0
        self.left_out = 0
        """Events that no record has."""
        self.failure = ""
        """Why the last write failed, until a record has it."""
        self.is_over = False


class TraceRecords:
    """The records of traces in a folder. Threads may use it at once, and other processes the same folder."""

    def __init__(self, folder: Path, program: str, identity: Identity, durable: bool, max_open: int) -> None:
        """The thread of a record is `PROGRAM/NAME`. Of more than `max_open` traces the oldest is ended."""
        self.folder, self.program = folder, program
        self.identity, self.durable, self.max_open = identity, durable, max_open
        self._lock = threading.Lock()
        self._open: dict[str, _Trace] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if hasattr(os, "register_at_fork"):
            alive = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _forked(alive()))

    def forget(self) -> None:
        """Begins anew in a forked process: the open records, and locks that were held, are its parent's."""
        self._lock, self._open = threading.Lock(), {}

    def path_of(self, trace_id: str, number: int = 0) -> Path:
        """A record of a trace, the first one by default. An id that is no name of a file is hashed."""
        name = trace_id
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", name):
            name = f"trace_{hashlib.sha256(name.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"
        return self.folder / (f"{name}.{number}.jsonl" if number else f"{name}.jsonl")

    def begin(self, trace_id: str, event_type: str, make: Make) -> None:
        """Records the first event of a trace. A trace that is begun twice ends with its second end."""
        with self._using(trace_id) as trace:
            trace.users += 1
            self._record(trace, event_type, make)

    def record(self, trace_id: str, event_type: str, make: Make, seal: bool = False, seal_late: bool = False) -> bool:
        """Records an event; is it in the record? Raises where nothing can be written.

        With `seal` it is sealed, with `seal_late` where the trace did not begin here: its end may not be named either.
        """
        with self._using(trace_id) as trace:
            taken = self._record(trace, event_type, make)
            if seal or (seal_late and trace.users == 0):
                self._written(trace, lambda recorder: recorder.seal())
            return taken

    def seal(self, trace_id: str) -> None:
        """Seals what a trace has."""
        if (trace := self._open.get(trace_id)) is not None:
            with trace.lock:
                if not trace.is_over and trace.recorder is not None:
                    self._written(trace, lambda recorder: recorder.seal())

    def sync(self) -> None:
        """Makes all events so far durable."""
        for trace in list(self._open.values()):
            with trace.lock:
                if not trace.is_over and trace.recorder is not None:
                    self._written(trace, lambda recorder: recorder.sync())

    def end(self, trace_id: str, payload: Mapping[str, Any]) -> None:
        """Ends the record of a trace: `completed`, or `error` where it lacks an event."""
        if (trace := self._open.get(trace_id)) is None:
            return
        with trace.lock:
            trace.users -= 1
            if trace.users > 0 or trace.is_over:
                return
            with self._lock:
                self._open.pop(trace_id, None)
            self._end(trace, payload)

    def end_all(self) -> list[ThreadSealError | OSError]:
        """Ends all records; what failed."""
        return self._all(lambda trace: self._end(trace, {}))

    def close_all(self) -> list[ThreadSealError | OSError]:
        """Seals all records and leaves them open; what failed."""
        return self._all(self._close)

    def _all(self, work: Callable[[_Trace], None]) -> list[ThreadSealError | OSError]:
        with self._lock:
            left, self._open = list(self._open.values()), {}
        failed: list[ThreadSealError | OSError] = []
        for trace in left:
            try:
                with trace.lock:
                    work(trace)
            except (ThreadSealError, OSError) as error:
                failed.append(error)
        return failed

    def end_oldest(self) -> None:
        """Ends the oldest of too many traces."""
        while True:
            with self._lock:
                if len(self._open) <= self.max_open:
                    return
                oldest = self._open.pop(next(iter(self._open)))
            with oldest.lock:
                self._end(oldest, {})

    def _using(self, trace_id: str) -> "_Use":
        return _Use(self, trace_id)

    def enter(self, trace_id: str) -> _Trace:
        """The trace, locked and with a record."""
        while True:
            with self._lock:
                trace = self._open.pop(trace_id, None) or _Trace(trace_id)
                self._open[trace_id] = trace
            trace.lock.acquire()
            if not trace.is_over:
                return trace
            trace.lock.release()

    def _recorder(self, trace: _Trace) -> Recorder:
        if trace.recorder is None:
            trace.recorder = self._resumed(trace) or self._begun(trace)
            trace.path = trace.recorder.path
            if trace.failure:
                trace.recorder.record("recording_failed", {"left_out": trace.left_out, "error": trace.failure})
                trace.failure = ""
        return trace.recorder

    def _resumed(self, trace: _Trace) -> Recorder | None:
        """The record whose write failed: what it has without a seal is kept, and marked."""
        if trace.path is None or not trace.path.exists():
            return None
        try:
            return Recorder.resume(trace.path, identity=self.identity, tail="adopt", durable=self.durable)
        except (Refused, Superseded, InvalidInput):
            return None

    def _begun(self, trace: _Trace) -> Recorder:
        for number in range(MAX_RECORDS):
            path = self.path_of(trace.trace_id, number)
            if path.exists():
                continue
            try:
                recorder = Recorder(path, f"{self.program}/{path.stem}", identity=self.identity, durable=self.durable)
            except ThreadSealError:
                # A record is there with its first line, or not at all: another process has begun it meanwhile.
                if path.exists():
                    continue
                raise
            if number:
                after = self.path_of(trace.trace_id, number - 1).name
                recorder.record("trace_continued", {"trace_id": plain(trace.trace_id), "after": after})
            return recorder
        raise ThreadSealError(f"a trace has {MAX_RECORDS} records in {self.folder}; hint: begin another folder")

    def _record(self, trace: _Trace, event_type: str, make: Make) -> bool:
        try:
            payload = make()
        except Exception as error:
            return self._left_out(trace, event_type, error)
        try:
            self._written(trace, lambda recorder: recorder.record(event_type, payload))
        except (InvalidInput, LimitExceeded) as error:
            return self._left_out(trace, event_type, error)
        return True

    def _left_out(self, trace: _Trace, event_type: str, error: Exception) -> bool:
        trace.left_out += 1
        payload = {"type": event_type, "error": plain(f"{type(error).__name__}: {error}")}
        self._written(trace, lambda recorder: recorder.record("event_left_out", payload))
        return False

    def _written(self, trace: _Trace, work: Callable[[Recorder], object]) -> None:
        """Runs `work` on the record. After a failed write the record is resumed by the next event."""
        try:
            recorder = self._recorder(trace)
        except (ThreadSealError, OSError) as error:
            self._failed(trace, error)
            raise StorageFailed(str(error)) from error
        try:
            work(recorder)
        except (InvalidInput, LimitExceeded):
            raise
        except (ThreadSealError, OSError) as error:
            self._failed(trace, error)
            raise

    def _failed(self, trace: _Trace, error: Exception) -> None:
        trace.left_out += 1
        trace.failure = str(error)
        if trace.recorder is not None:
            trace.recorder._inner.abandon()
            trace.recorder = None

    def _end(self, trace: _Trace, payload: Mapping[str, Any]) -> None:
        trace.is_over = True
        if trace.recorder is None and not trace.failure:
            return
        if trace.left_out:
            failed = {**payload, "left_out": trace.left_out}
            self._written(trace, lambda recorder: recorder.end("error", failed))
        else:
            self._written(trace, lambda recorder: recorder.end("completed", payload))

    def _close(self, trace: _Trace) -> None:
        trace.is_over = True
        if trace.recorder is not None:
            self._written(trace, lambda recorder: recorder.close())


def _forked(records: TraceRecords | None) -> None:
    if records is not None:
        records.forget()


class _Use:
    """A trace that one call uses."""

    def __init__(self, records: TraceRecords, trace_id: str) -> None:
        self._records, self._trace_id = records, trace_id

    def __enter__(self) -> _Trace:
        self._trace = self._records.enter(self._trace_id)
        return self._trace

    def __exit__(self, *_: object) -> None:
        self._trace.lock.release()
