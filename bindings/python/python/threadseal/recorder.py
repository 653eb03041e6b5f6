"""`Recorder`: writes what an agent does into a native record, sealed while it grows."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from .home import Identity, StrPath

if TYPE_CHECKING:
    from typing_extensions import Self

Payload = Mapping[str, Any]
Ending = Literal["completed", "error", "cancelled", "suspended"]
AtExit = Literal["completed", "suspended", "open"]
Tail = Literal["refuse", "set_aside", "adopt"]

SEAL_EVERY = 1000
"""Lines without a seal after which a recorder seals of its own accord."""


class Recorder:
    """The one writer of a record. Any number of threads may use it at once.

    >>> import tempfile, pathlib, threadseal
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> me = threadseal.Identity.danger_with_seed(bytes(range(32)), folder)
    >>> with threadseal.Recorder(folder / "t.jsonl", "agency/scout", identity=me) as record:
    ...     record.record("cognition_in", {"role": "user", "text": "Find the leads."})
    ...     head = record.seal()
    >>> threadseal.verify(folder / "t.jsonl", trust=me.trust).verdict
    'verified'

    When `record` returns, the event survives the process. With `durable=True` it also survives the power:
    threads that record at the same time share one fsync. `seal` ends a turn; its bytes are then durable and
    cannot change unnoticed. `seal_every` lines without a seal are sealed too.

    At the end of a `with` block the record is `completed`; after an exception `error` or `cancelled`. With
    `at_exit="open"` it stays open and can be resumed.
    """

    __slots__ = ("_at_exit", "_inner")

    _at_exit: AtExit
    _inner: _native.Recorder

    def __init__(
        self,
        path: StrPath,
        thread: str,
        *,
        identity: Identity | None = None,
        durable: bool = False,
        seal_every: int = SEAL_EVERY,
        model: str | None = None,
        directive: str | None = None,
        detached: bool = False,
        at_exit: AtExit = "completed",
    ) -> None:
        """Begins a record at `path`, which must not exist. Its first line is durable and sealed.

        With `detached`, long texts are beside the record, so that `threadseal redact` can drop them.
        """
        keys = Identity.of_home() if identity is None else identity
        self._at_exit = at_exit
        self._inner = _native.Recorder.create(
            keys._inner, path, thread, model, directive, detached, durable, seal_every
        )

    @classmethod
    def resume(
        cls,
        path: StrPath,
        *,
        identity: Identity | None = None,
        tail: Tail = "refuse",
        durable: bool = False,
        seal_every: int = SEAL_EVERY,
        at_exit: AtExit = "completed",
    ) -> "Self":
        """Continues a record, after it verified; else raises `NotVerified`.

        After a crash there may be lines without a seal. They are refused; or with `set_aside` moved into a
        file beside the record, and with `adopt` kept and marked as unverified for ever.
        """
        keys = Identity.of_home() if identity is None else identity
        made = cls.__new__(cls)
        made._at_exit = at_exit
        made._inner = _native.Recorder.resume(keys._inner, path, tail, durable, seal_every)
        return made

    def record(self, event_type: str, payload: Payload) -> None:
        """Records one event. The payload is a dict of JSON values."""
        self._inner.record(event_type, payload)

    def record_many(self, events: Iterable[tuple[str, Payload]]) -> None:
        """Records events together: they are written with one call, and with `durable` one fsync.

        All are checked before the first is written.
        """
        failed = self._inner.record_batch([_native.event(name, payload) for name, payload in events])
        if failed:
            raise failed[0][1]

    def sync(self) -> None:
        """Makes all events so far durable."""
        self._inner.sync()

    def seal(self) -> str:
        """Ends a turn: seals all events so far, durably. Gives the head."""
        return self._inner.seal(False)

    def end(self, ending: Ending = "completed", payload: Payload | None = None) -> str:
        """Ends the record with a terminal event and a final seal. Gives the head."""
        return self._inner.end(ending, {} if payload is None else payload)

    def close(self) -> None:
        """Seals what has no seal and gives the record up. It can be resumed."""
        self._inner.close()

    @property
    def path(self) -> Path:
        """The file."""
        return self._inner.path

    @property
    def thread(self) -> str:
        """The id of the thread."""
        return self._inner.thread

    @property
    def record_id(self) -> str:
        """The id of the record: 64 hex digits."""
        return self._inner.record_id

    @property
    def head(self) -> str | None:
        """The last seal; None after the end."""
        return self._inner.head

    @property
    def set_aside(self) -> Path | None:
        """The file with the lines that `resume` set aside, if it did."""
        return self._inner.set_aside

    @property
    def closed(self) -> bool:
        """Is the record given up or ended?"""
        return self._inner.closed

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self.closed:
            leave(self._inner, self._at_exit, error)

    def __repr__(self) -> str:
        return f"<Recorder of {self.thread!r} at {str(self.path)!r}>"


def leave(inner: _native.Recorder, at_exit: AtExit, error: BaseException | None) -> None:
    """Ends or closes a record at the end of its block."""
    if error is not None:
        name = type(error).__name__
        cancelled = name in ("CancelledError", "KeyboardInterrupt", "GeneratorExit")
        inner.end("cancelled" if cancelled else "error", {"error": name})
    elif at_exit == "open":
        inner.close()
    else:
        inner.end(at_exit, {})
