"""What is sealed of the checkpoints of one thread of LangGraph (`spec/langgraph.md`).

```text
SealedSaver ─► Lineage ─► Recorder     one native record for each thread
                  └────► Link…         each checkpoint: its parent, and digests of all that it has
```
The record has no value of a channel, only digests. This module reads no database.
"""

import asyncio
import hashlib
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from . import _native
from ._errors import NotVerified, StorageFailed, ThreadSealError
from ._gate import Gate
from ._named import OWN_EVENTS, open_named, path_of
from .home import Identity
from .recorder import Recorder
from .verifying import Event, Session, open_session

Key = tuple[str, str]
"""The namespace and the id of a checkpoint."""

Start = Callable[[Callable[[], None]], object]
"""Calls a function in another thread."""

MAX_AHEAD = 16
"""The most calls that wait for their seal while the run that made them continues."""

SOON_SECONDS = 0.003
"""How long a seal for which no run waits is put off, so that it is shared."""

LATER_SECONDS = 0.02
"""How long the seal on kept writes waits for a checkpoint."""

MAX_PAUSES = 40
"""How often something that may get its seal now is looked at again."""

PAUSE_SECONDS = 0.05
"""The time between two looks."""

MAX_SEALING = 4
"""The most threads of a saver that seal for runs that continue."""

LATER_WINS = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
"""Channels of which a later write of a task takes the place of an earlier one, and their indexes."""


def digest_of_typed(kind: str, data: bytes) -> str:
    """The digest of a value as a serializer of LangGraph gives it.

    A tuple is a list, the order of the members of a dict and a set does not count.

    >>> import ormsgpack
    >>> one, other = ormsgpack.packb({"b": (1, 2), "a": None}), ormsgpack.packb({"a": None, "b": [1, 2]})
    >>> digest_of_typed("msgpack", one) == digest_of_typed("msgpack", other)
    True
    """
    content = _native.canonical_msgpack(data) if kind == "msgpack" else data
    name = kind.encode()
    start = b"threadseal-langgraph/1" + struct.pack(">Q", len(name)) + name
    return hashlib.sha256(start + content).hexdigest()


def digest_of(value: Any) -> str:
    """The digest of a value that JSON can hold.

    >>> digest_of({"b": (1, 2), "a": None}) == digest_of({"a": None, "b": [1, 2]})
    True
    >>> digest_of(1) == digest_of(1.0) or digest_of("1") == digest_of(1)
    False
    """
    return hashlib.sha256(b"threadseal-langgraph/1 json" + _native.canonical(value)).hexdigest()


@dataclass(frozen=True)
class Write:
    """One write of a task: its place among the others, and the channels and digests that it may have.

    Several where a process ended, or calls met, between the seal and the database.
    """

    path: str
    values: frozenset[tuple[str, str]]
    kept: bool = True
    """Is one of them in the database? Else it may be."""
    coming: int = 0
    """Calls that keep it now."""
    of_these: frozenset[tuple[str, str]] = frozenset()
    """The values of these calls, and of those that met them."""


@dataclass
class Link:
    """A checkpoint under a seal."""

    parent: str | None
    run: str | None
    frame: str
    metadata: str
    values: Mapping[str, str]
    may_be_gone: bool = False
    gone: bool = False
    ends_history: bool = False
    """Was its thread deleted as a whole? Then a history begins after it."""


@dataclass(frozen=True)
class Found:
    """What a saver gave for a checkpoint, as digests; a write is a task, a channel and a digest."""

    id: str
    parent: str | None
    frame: str
    metadata: str
    values: Mapping[str, str]
    writes: Sequence[tuple[str, str, str]]


class _Call:
    """Events of one call that wait for their seal."""

    def __init__(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self.events = [_native.event(event_type, payload) for event_type, payload in events]
        self.done = False


class Lineage:
    """The sealed checkpoints of one thread, and the record that has them. Threads may share it.

    Calls that seal at the same time share a seal: one of them makes it, the others wait.
    """

    def __init__(self, thread_id: str, path: Path, recorder: Recorder | None, start: Start, later: Start) -> None:
        self.thread_id, self.path, self.recorder = thread_id, path, recorder
        self.gate = Gate()
        """Keeps deletions apart from what is kept."""
        self.reread: Callable[[], Lineage] | None = None
        """Gives what is sealed now, where another process writes it."""
        self.users = 0
        """The calls that use it."""
        self.lock = threading.RLock()
        self.links: dict[Key, Link] = {}
        self.writes: dict[Key, dict[tuple[str, int], Write]] = {}
        """By the task and the index of each. LangGraph keeps them while their checkpoint may have no seal yet."""
        self.changes: Counter[Key] = Counter()
        """How often what is sealed of a checkpoint changed."""
        self.verified: set[Key] = set()
        """Links whose bytes, and those of all their ancestors, this process has verified."""
        self.failed: BaseException | None = None
        """Why a seal could not be made. What was recorded then is read anew from the file."""
        self._start, self._later = start, later
        self._is_soon = self._is_later = False
        self._sealed = threading.Condition(self.lock)
        self._sealing = False
        self._coming: Counter[Key] = Counter()
        self._calls: list[_Call] = []
        self._last = _Call(())
        self._last.done = True

    @classmethod
    def open(
        cls,
        folder: Path,
        thread_id: str,
        identity: Identity,
        create: bool,
        start: Start,
        later: Start,
    ) -> "Lineage | None":
        """The lineage of a thread; None where there is none and none is to be begun."""
        found = open_named(folder, "langgraph", thread_id, identity, create)
        if found is None:
            return None
        recorder, events = found
        return cls(thread_id, recorder.path, recorder, start, later)._of(events)

    @classmethod
    def reading(cls, folder: Path, thread_id: str, identity: Identity) -> "Lineage":
        """What is sealed so far, while another process may write it."""
        path = path_of(folder, thread_id)
        # Read first: the record is never older than what is known of it.
        known = _known_soon(identity, path)
        session = open_session(path, need="vouched", trust=identity.trust)
        if known is None or not _follows(session.head, known):
            raise NotVerified(f"{path} went back: it has head {session.head}, and {known} is known")
        events = tuple(event for event in session if event.type not in OWN_EVENTS)
        names = [event.payload["name"] for event in events if event.type == "langgraph_named"]
        # A record that begins has no event before its name.
        if names != [thread_id] and events:
            raise NotVerified(f"{path} does not have the seals of {thread_id!r}")
        opened = cls(thread_id, path, None, lambda _: None, lambda _: None)._of(events)
        opened.reread = lambda: cls.reading(folder, thread_id, identity)
        return opened

    def has_changed(self, ns: str, id: str, before: int) -> bool:
        """Did what is sealed of a checkpoint change since then?"""
        self.refresh()
        return self.changes[ns, id] != before

    def refresh(self) -> None:
        """What is sealed now, where another process writes it."""
        if self.reread is not None:
            now = self.reread()
            self.links, self.writes, self.changes = now.links, now.writes, now.changes

    def _of(self, events: Iterable[Event]) -> "Lineage":
        for event in events:
            self._apply(event.type, event.payload)
        return self

    def seal(self, event_type: str, payload: Mapping[str, Any]) -> None:
        """Records an event under a seal, and applies it."""
        self.seal_all([(event_type, payload)])

    def seal_all(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """The same of several, under one seal."""
        self._until(self._recorded(events))

    def seal_coming(self, event: Mapping[str, Any]) -> None:
        """Seals writes that are to be kept, with what comes soon, and the checkpoint that is being kept meanwhile.

        Coroutines do not wait so: they share few threads, and the checkpoint needs one of them.
        """
        call = self._recorded([("writes_coming", event)])
        with self.lock:
            self._sealed.wait_for(lambda: call.done, SOON_SECONDS)
            self._sealed.wait_for(lambda: call.done or not self._coming)
        self._until(call)

    @contextmanager
    def coming(self, ns: str, id: str) -> Generator[None]:
        """A block in which a checkpoint is kept, and then sealed."""
        with self.lock:
            self._coming[ns, id] += 1
        try:
            yield
        finally:
            with self.lock:
                self._coming -= Counter([(ns, id)])
                self._sealed.notify_all()

    def seal_checkpoint(self, event: Mapping[str, Any]) -> None:
        """Seals a checkpoint. If a task of it has written, its run did not wait for the seal, which then follows."""
        call = self._recorded([("checkpoint_sealed", event)])
        if (event["ns"], event["id"]) in self.writes:
            self._follow(call)
        else:
            self._until(call)

    def seal_kept(self, event: Mapping[str, Any]) -> None:
        """Seals that writes are in the database. The seal follows: until then they may be missing there."""
        self._recorded([("writes_sealed", event)])
        with self.lock:
            if self._is_later:
                return
            self._is_later = True
        self._later(self._seal_later)

    def _seal_later(self) -> None:
        # The next checkpoint, which mostly comes before, has the same seal.
        time.sleep(LATER_SECONDS)
        with self.lock:
            self._is_later = False
        self.settle()

    def _follow(self, call: _Call) -> None:
        with self.lock:
            if len(self._calls) < MAX_AHEAD:
                if not self._is_soon:
                    self._is_soon = True
                    self._start(self._seal_soon)
                return
        self._until(call)

    def _seal_soon(self) -> None:
        time.sleep(SOON_SECONDS)
        with self.lock:
            self._is_soon = False
        self.settle()

    def _recorded(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> _Call:
        listed = list(events)
        call = _Call(listed)
        with self.lock:
            self._refuse_failed()
            self._calls.append(call)
            self._last = call
            for event_type, payload in listed:
                self._apply(event_type, payload)
        return call

    def settle(self) -> None:
        """Returns when everything that was recorded is sealed."""
        with self.lock:
            last = self._last
        self._until(last)

    def _until(self, call: _Call) -> None:
        while True:
            with self.lock:
                self._sealed.wait_for(lambda: call.done or not self._sealing)
                self._refuse_failed()
                if call.done:
                    return
                self._sealing = True
            self._seal_waiting()

    def _seal_waiting(self) -> None:
        """Seals what waits, without the lock: others may record meanwhile."""
        with self.lock:
            calls, self._calls = self._calls, []
        failed: BaseException | None = None
        try:
            assert self.recorder is not None
            failures = self.recorder._inner.record_batch([event for call in calls for event in call.events])
            failed = failures[0][1] if failures else None
            if failed is None:
                self.recorder.seal()
        except BaseException as error:
            failed = error
        with self.lock:
            self.failed, self._sealing = failed, False
            for call in calls:
                call.done = True
            self._sealed.notify_all()

    def _refuse_failed(self) -> None:
        if self.failed is not None:
            raise self.failed

    def _apply(self, event_type: str, event: Mapping[str, Any]) -> None:
        if event_type == "checkpoint_sealed":
            self.links[event["ns"], event["id"]] = Link(
                event["parent"], event["run"], event["frame"], event["metadata"], event["values"]
            )
            self.changes[event["ns"], event["id"]] += 1
        elif event_type in ("writes_coming", "writes_sealed"):
            self._apply_writes(event, event_type == "writes_sealed")
            self.changes[event["ns"], event["id"]] += 1
        elif event_type in ("checkpoints_may_go", "checkpoints_gone", "checkpoints_stay"):
            for ns, id in event["ids"]:
                link = self.links[ns, id]
                link.may_be_gone = event_type == "checkpoints_may_go"
                link.gone = event_type == "checkpoints_gone"
                self.changes[ns, id] += 1
                self.verified.discard((ns, id))
            self._loosen_writes()
        elif event_type == "thread_deleted":
            for link in self.links.values():
                link.gone = link.ends_history = True
            self.changes.update({*self.links, *self.writes})
            self.verified.clear()
            self.writes.clear()

    def _loosen_writes(self) -> None:
        """A pruning may remove the writes of a checkpoint that is not there yet."""
        for key, writes in self.writes.items():
            if key not in self.links:
                self.changes[key] += 1
                writes.update({place: replace(write, kept=False) for place, write in writes.items()})

    def _apply_writes(self, event: Mapping[str, Any], kept: bool) -> None:
        writes = self.writes.setdefault((event["ns"], event["id"]), {})
        channels = [channel for _, channel, _ in event["writes"]]
        replaces = all(channel in LATER_WINS for channel in channels)
        for index, channel, digest in event["writes"]:
            place, value = (event["task"], index), (channel, digest)
            known = writes.get(place, Write(event["path"], frozenset(), kept=False))
            # Savers differ in which of two they keep, where only some channels of a call are such.
            either = not replaces and channel in LATER_WINS
            apply = _kept if kept else _coming
            writes[place] = apply(known, event["path"], value, replaces, either)

    def live(self, ns: str) -> list[str]:
        """The ids of the checkpoints of a namespace that must be there, newest first."""
        with self.lock:
            there = (id for (of, id), link in self.links.items() if of == ns and _must_be_there(link))
            return sorted(there, reverse=True)

    def namespaces(self) -> set[str]:
        """All namespaces with a checkpoint."""
        with self.lock:
            return {ns for ns, _ in self.links}

    def newest(self, ns: str, before: str | None = None) -> str | None:
        """The id of the newest checkpoint of a namespace, before another one; None where there is none."""
        with self.lock:
            there = (id for (of, id), link in self.links.items() if of == ns and not link.gone)
            return max((id for id in there if before is None or id < before), default=None)

    def is_gone(self, ns: str, id: str | None) -> bool:
        """Was this checkpoint deleted, or the whole namespace?"""
        with self.lock:
            if id is not None:
                # A run asks for each checkpoint.
                link = self.links.get((ns, id))
                return link is not None and link.gone
            chosen = [link.gone for (of, _), link in self.links.items() if of == ns]
            return bool(chosen) and all(chosen)

    def is_empty(self) -> bool:
        """Is nothing sealed that a deletion takes away?"""
        with self.lock:
            return not self.writes and all(link.gone for link in self.links.values())

    def link(self, ns: str, id: str) -> Link | None:
        """The checkpoint, if it is sealed and was not deleted."""
        with self.lock:
            link = self.links.get((ns, id))
            return None if link is None or link.gone else link

    def unverified_ancestors(self, ns: str, id: str) -> list[str]:
        """The ancestors whose bytes this process has not verified yet, nearest first."""
        found: list[str] = []
        with self.lock:
            link = self.links.get((ns, id))
            while link is not None and link.parent is not None and (ns, link.parent) not in self.verified:
                found.append(link.parent)
                link = self.links.get((ns, link.parent))
                if link is None or link.gone or link.may_be_gone:
                    found.pop()
                    break
        return found

    def may_get_seal(self, ns: str, id: str) -> bool:
        """Is this checkpoint, which has no seal, being kept? Of another process no one knows."""
        with self.lock:
            return self.links.get((ns, id)) is None and (self.recorder is None or (ns, id) in self._coming)

    def history(self, ns: str, id: str, channel: str) -> tuple[list[tuple[str, Write]], str | None]:
        """The sealed writes to a channel along the ancestors, oldest first, and the digest of their seed.

        As in LangGraph: back to the nearest ancestor with a value of the channel, its own writes included.
        """
        with self.lock:
            newest_first: list[list[tuple[str, Write]]] = []
            parent = self.links[ns, id].parent
            seed: str | None = None
            while parent is not None and seed is None and (link := self.links.get((ns, parent))) is not None:
                if link.ends_history:
                    break
                newest_first.append(
                    [pair for pair in self.ordered_writes(ns, parent) if channel in channels_of(pair[1])]
                )
                seed, parent = link.values.get(channel), link.parent
            return [pair for pairs in reversed(newest_first) for pair in pairs], seed

    def events(self, ns: str, id: str, metadata: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The events that would seal the same checkpoint in another thread."""
        with self.lock:
            link = self.links[ns, id]
            event = {
                "ns": ns,
                "id": id,
                "parent": link.parent,
                "run": link.run,
                "frame": link.frame,
                "metadata": metadata,
                "values": dict(link.values),
            }
            found: list[tuple[str, Mapping[str, Any]]] = [("checkpoint_sealed", event)]
            for (task, index), write in self.writes.get((ns, id), {}).items():
                place = {"ns": ns, "id": id, "task": task, "path": write.path}
                each = [{**place, "writes": [[index, *value]]} for value in sorted(write.values)]
                found += [("writes_coming", one) for one in each]
                found += [("writes_sealed", one) for one in each if write.kept]
            return found

    def note_verified(self, ns: str, ids: Iterable[str]) -> None:
        """Remembers links that were verified together with all their ancestors."""
        with self.lock:
            self.verified.update((ns, id) for id in ids)

    def check(self, ns: str, id: str, found: Found | None) -> list[int]:
        """Compares what a saver gave with what is sealed; gives the places of the sealed writes in `found`.

        The places are in the order in which LangGraph applies the writes.
        """
        with self.lock:
            link = self.links[ns, id]
            if found is None:
                self.refuse(ns, id, "is not in the database any more: it was removed, or the database went back")
            if found.id != id:
                self.refuse(ns, id, f"is another one in the database: {found.id!r}")
            if found.parent != link.parent and not (found.parent is None and self._has_lost_parent(ns, link)):
                self.refuse(ns, id, "has another parent than it was sealed with")
            if found.frame != link.frame:
                self.refuse(ns, id, "was changed: its versions, its time, or what it runs next")
            if found.metadata != link.metadata:
                self.refuse(ns, id, "was changed: its metadata")
            differ = {name for name in {*found.values, *link.values} if found.values.get(name) != link.values.get(name)}
            if differ:
                self.refuse(ns, id, f"was changed: channel {', '.join(sorted(differ))}")
            return self._places_of_writes(ns, id, found)

    def _has_lost_parent(self, ns: str, link: Link) -> bool:
        """Was its parent deleted? Some savers note it so."""
        parent = None if link.parent is None else self.links.get((ns, link.parent))
        return parent is not None and not _must_be_there(parent)

    def ordered_writes(self, ns: str, id: str) -> list[tuple[str, Write]]:
        """The task and the write of each, in the order in which LangGraph applies them."""
        writes = self.writes.get((ns, id), {})
        found = sorted(writes.items(), key=lambda item: (item[1].path, *item[0]))
        return [(task, write) for (task, _), write in found]

    def _places_of_writes(self, ns: str, id: str, found: Found) -> list[int]:
        places: list[int] = []
        left = dict(enumerate(found.writes))
        for task, write in self.ordered_writes(ns, id):
            fitting = (at for at, (of, channel, digest) in left.items() if fits(task, write, of, channel, digest))
            place = next(fitting, None)
            if place is None and not write.kept:
                continue
            if place is None:
                channels = ", ".join(sorted(channels_of(write)))
                self.refuse(ns, id, f"was changed: a write of task {task} to channel {channels}")
            places.append(place)
            del left[place]
        return places

    def refuse(self, ns: str, id: str, why: str) -> NoReturn:
        """Raises `NotVerified` for a checkpoint."""
        where = f" of namespace {ns!r}" if ns else ""
        raise NotVerified(f"checkpoint {id!r}{where} of thread {self.thread_id!r} {why}; its seals are in {self.path}")

    def close(self) -> None:
        """Gives the record up."""
        if self.recorder is None:
            return
        if self.failed is None:
            self.settle()
            self.recorder.close()
        else:
            self.recorder._inner.abandon()


def fits(task: str, write: Write, of: str, channel: str, digest: str) -> bool:
    """Is this the sealed write?"""
    return of == task and (channel, digest) in write.values


def channels_of(write: Write) -> set[str]:
    """The channels that it may be of."""
    return {channel for channel, _ in write.values}


def _coming(known: Write, path: str, value: tuple[str, str], replaces: bool, either: bool) -> Write:
    """A write after the seal on what is to be kept: what was there before is possible, too."""
    if known.kept and not (replaces or either):
        return known
    of_these = known.of_these | {value} if known.coming else frozenset([value])
    return Write(path, known.values | {value}, known.kept, known.coming + 1, of_these)


def _kept(known: Write, path: str, value: tuple[str, str], replaces: bool, either: bool) -> Write:
    """A write after it was kept. Calls that met may have been kept in another order than they were sealed."""
    if known.coming:
        values = known.of_these if replaces and known.coming == 1 else known.values
        return Write(path, values, True, known.coming - 1, known.of_these)
    if either:
        return Write(path, known.values | {value})
    return known if known.kept and not replaces else Write(path, frozenset([value]))


def _follows(head: str, known: str) -> bool:
    """Is a head of a record, which is signed, the known one or a later one?"""
    (of, turn, *_), (of_known, known_turn, *_) = head.split(":"), known.split(":")
    return head == known or (of == of_known and int(turn) > int(known_turn))


def _known_soon(identity: Identity, path: Path) -> str | None:
    """The known head of a record. One that begins has its file first."""
    for _ in range(MAX_PAUSES):
        if (known := identity._inner.known_at(str(path))) is not None:
            return str(known)
        time.sleep(PAUSE_SECONDS)
    return None


def _must_be_there(link: Link) -> bool:
    return not link.gone and not link.may_be_gone


class Lineages:
    """The lineages that are open, each once; of those that no call uses, the oldest is closed first."""

    def __init__(self, folder: Path, identity: Identity, most: int, read_only: bool) -> None:
        self.folder, self.identity, self.most, self.read_only = folder, identity, most, read_only
        self._begin()

    def _begin(self) -> None:
        self._open: dict[str, Lineage] = {}
        self.gate = Gate()
        """Keeps deletions in all threads apart from what is kept."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(MAX_SEALING, "threadseal")
        self._later = ThreadPoolExecutor(1, "threadseal-later")
        self._process = os.getpid()

    def _of_this_process(self) -> "Lineages":
        """A process that was forked knows nothing: its parent has the records, and continues them."""
        if os.getpid() != self._process:
            self._begin()
        return self

    def enter(self, thread_id: str, create: bool = False) -> Lineage | None:
        """The lineage of a thread, opened and verified. It stays open until `leave`.

        A reader, which begins none, gets it when all that was recorded is sealed.
        """
        with self._of_this_process()._lock:
            found, failed = self._open.pop(thread_id, None), None
            if found is not None and found.failed is not None:
                found.close()
                found, failed = None, found
            if found is None:
                found = self._opened(thread_id, create)
                if found is not None and failed is not None:
                    # Calls that began before it failed may not have ended.
                    found.gate = failed.gate
            if found is not None:
                found.users += 1
            if found is not None and found.recorder is not None:
                self._open[thread_id] = found
                self._close_unused()
        if found is not None and found.recorder is not None and not create:
            try:
                found.settle()
            except BaseException:
                self.leave(found)
                raise
        return found

    def _opened(self, thread_id: str, create: bool) -> Lineage | None:
        if not self.read_only:
            return Lineage.open(self.folder, thread_id, self.identity, create, self._pool.submit, self._later.submit)
        if create:
            self.refuse_reader(f"thread {thread_id!r}")
        if not path_of(self.folder, thread_id).exists():
            # Without a record no lock is taken.
            return Lineage.open(self.folder, thread_id, self.identity, False, self._pool.submit, self._later.submit)
        return Lineage.reading(self.folder, thread_id, self.identity)

    def refuse_reader(self, what: str) -> None:
        """Raises where nothing is to be written."""
        if self.read_only:
            raise StorageFailed(f"cannot write {what}: this saver only reads; hint: read_only=False")

    def leave(self, lineage: Lineage) -> None:
        """A call does not use it any more."""
        with self._of_this_process()._lock:
            lineage.users -= 1

    @contextmanager
    def using(self, thread_id: str, create: bool = False) -> Generator[Lineage | None]:
        """The lineage of a thread for one block."""
        lineage = self.enter(thread_id, create)
        try:
            yield lineage
        finally:
            if lineage is not None:
                self.leave(lineage)

    @contextmanager
    def keeping(self, thread_id: str) -> Generator[Lineage]:
        """The lineage of a thread, which is begun, for a block that keeps something."""
        with self.gate.keeping(), self.using(thread_id, create=True) as lineage:
            assert lineage is not None
            with lineage.gate.keeping():
                yield lineage

    @asynccontextmanager
    async def akeeping(self, thread_id: str) -> AsyncGenerator[Lineage]:
        """As `keeping`."""
        async with self.gate.akeeping():
            lineage = await asyncio.to_thread(self.enter, thread_id, True)
            assert lineage is not None
            try:
                async with lineage.gate.akeeping():
                    yield lineage
            finally:
                self.leave(lineage)

    @contextmanager
    def alone(self, thread_ids: Iterable[str]) -> Generator[list[Lineage]]:
        """The lineages of threads, for a block that deletes. No process keeps anything in them meanwhile."""
        with ExitStack() as stack:
            stack.enter_context(self.gate.keeping())
            lineages: list[Lineage] = []
            # In one order, so that two such calls do not wait for each other.
            for thread_id in sorted(set(thread_ids)):
                lineage = stack.enter_context(self.using(thread_id, create=True))
                assert lineage is not None
                stack.enter_context(lineage.gate.alone())
                lineages.append(lineage)
            yield lineages

    @asynccontextmanager
    async def aalone(self, thread_ids: Iterable[str]) -> AsyncGenerator[list[Lineage]]:
        """As `alone`."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.gate.akeeping())
            lineages: list[Lineage] = []
            for thread_id in sorted(set(thread_ids)):
                lineage = await asyncio.to_thread(self.enter, thread_id, True)
                assert lineage is not None
                stack.callback(self.leave, lineage)
                await stack.enter_async_context(lineage.gate.aalone())
                lineages.append(lineage)
            yield lineages

    def has(self, thread_id: str) -> bool:
        """Does a thread have a record?"""
        with self.using(thread_id) as lineage:
            return lineage is not None

    def thread_ids(self) -> list[str]:
        """The threads that have a record in the folder."""
        found: list[str] = []
        known = {path for path, thread in self.identity._inner.known_in(self.folder) if thread.startswith("langgraph/")}
        for path in sorted({*self.folder.glob("*.jsonl"), *known}):
            if not path.exists():
                raise NotVerified(f"{path} is missing: it has the seals of a thread; hint: restore it")
            session = self._session(path)
            named = (event.payload["name"] for event in session if event.type == "langgraph_named")
            found += [str(thread_id) for thread_id in named]
        return found

    def _session(self, path: Path) -> Session:
        try:
            return open_session(path, need="vouched", trust=self.identity.trust)
        except ThreadSealError:
            # One that another process begins has no seal yet.
            if self.identity._inner.known_at(str(path)) is None and _known_soon(self.identity, path) is None:
                raise
            return open_session(path, need="vouched", trust=self.identity.trust)

    def _close_unused(self) -> None:
        unused = [name for name, lineage in self._open.items() if lineage.users == 0]
        for name in unused[: max(0, len(self._open) - self.most)]:
            self._open.pop(name).close()

    def release(self) -> None:
        """Gives all records up that no call uses, so that another process may continue them."""
        with self._of_this_process()._lock:
            for name in [name for name, lineage in self._open.items() if lineage.users == 0]:
                self._open.pop(name).close()
