"""Records beside data of other programs: native records for each name, and lists of items under seals.

```text
name ─► NAME.jsonl ─► ended, or its key has ended ─► NAME.1.jsonl ─► …     each commits to the head before it
```
The digest in NAME is that of the kind, the store and the name. A record begins with an event that has the name; a crash
before that leaves a record without events, which is named again.
"""

import hashlib
import json
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ._errors import InvalidInput, NotVerified, Refused, StorageFailed, ThreadSealError
from .home import Identity, Trust
from .recorder import Recorder
from .verifying import Event, Session, open_session

MAX_OPEN = 1024
"""The most records that are held open at once."""
MAX_SUCCESSORS = 1000
"""The most records of one name."""
OWN_EVENTS = ("thread_started", "checkpoint")
"""The types of the events that a recorder writes of its own accord when it begins."""


class UnsealedItem(UserWarning):
    """Another program's data has something without a seal, which is not used."""


def path_of(folder: Path, name: str, kind: str = "langgraph", store: str = "") -> Path:
    """The record of a name: any text can be one, and no text can leave the folder."""
    text = json.dumps([kind, store, name])
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl"


def earlier_path_of(folder: Path, name: str) -> Path:
    """The record of a name as it was before its kind counted."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return folder / f"{digest[:32]}.jsonl"


def open_named(
    folder: Path, kind: str, name: str, identity: Identity, create: bool, store: str = ""
) -> tuple[Recorder, Sequence[Event]] | None:
    """The newest record of a name, verified, and the events of all of them.

    None where there is none and none is to be begun. The first event has the type `KIND_named`, or `KIND_continued` in
    a successor, and the name, so that no record takes the place of another.
    """
    base = _place(folder, kind, name, identity, store)
    events: list[Event] = []
    before: str | None = None
    for number in range(MAX_SUCCESSORS):
        path = base if number == 0 else base.with_name(f"{base.stem}.{number}.jsonl")
        first = _first_event(kind, name, store, before)
        if not path.exists():
            _refuse_missing(path, name, identity)
            if number == 0 and not create:
                return None
            path.parent.mkdir(parents=True, exist_ok=True)
            return _named(Recorder(path, f"{kind}/{path.stem}", identity=identity, at_exit="open"), first), events
        try:
            recorder = Recorder.resume(path, identity=identity, tail="set_aside", at_exit="open")
        except Refused as refused:
            verdict = None if not isinstance(refused, NotVerified) or refused.report is None else refused.report.verdict
            if verdict not in (None, "unsigned_tail"):
                raise
            # It has ended, or its key has: a person ends records before a key is replaced.
            over = _over(path, identity)
        else:
            return _opened(recorder, first, identity, events)
        events += _checked(over, path, first)
        before = over.head
    raise ThreadSealError(f"{name!r} has {MAX_SUCCESSORS} records in {folder}; hint: begin another folder")


def _first_event(kind: str, name: str, store: str, before: str | None) -> tuple[str, dict[str, Any]]:
    payload = {"name": name} if store == "" else {"name": name, "store": store}
    return (f"{kind}_named", payload) if before is None else (f"{kind}_continued", {**payload, "after": before})


def _refuse_missing(path: Path, name: str, identity: Identity) -> None:
    if identity._inner.known_at(str(path)) is not None:
        raise NotVerified(f"{path} is missing: it has the seals of {name!r}; hint: restore it")


def _opened(
    recorder: Recorder, first: tuple[str, dict[str, Any]], identity: Identity, events: list[Event]
) -> tuple[Recorder, Sequence[Event]]:
    try:
        session = open_session(recorder.path, need="vouched", trust=identity.trust)
        if all(event.type in OWN_EVENTS for event in session):
            # A crash left it before it had its name. Its thread has the name of the file, and so has this name.
            if recorder.thread != f"{first[0].rsplit('_', 1)[0]}/{recorder.path.stem}":
                raise NotVerified(f"{recorder.path} does not have the seals of {first[1]['name']!r}")
            return _named(recorder, first), events
        return recorder, events + _checked(session, recorder.path, first)
    except BaseException:
        recorder.close()
        raise


def _named(recorder: Recorder, first: tuple[str, dict[str, Any]]) -> Recorder:
    recorder.record(*first)
    recorder.seal()
    return recorder


def _checked(session: Session, path: Path, first: tuple[str, dict[str, Any]]) -> list[Event]:
    """The events of a record, after the one with its name."""
    events = [event for event in session if event.type not in OWN_EVENTS]
    named = [event for event in events if event.type in (first[0], first[0].rsplit("_", 1)[0] + "_named")]
    if [(event.type, event.payload) for event in named] != [first]:
        raise NotVerified(f"{path} does not have the seals of {first[1]['name']!r}")
    return events


def _over(path: Path, identity: Identity) -> Session:
    """A record that is not continued: at its last known seal, and of this key or of one that it replaced."""
    home = identity.home
    trust = identity.trust if home is None else Trust.of_home(home)
    session = open_session(path, need="vouched", trust=trust, home=home)
    own = set(identity._inner.own_key_ids())
    if not session.report.signers or any(signer.key not in own for signer in session.report.signers):
        raise NotVerified(f"{path} has a seal of another person", session.report)
    known = identity._inner.known_at(str(path))
    if known != session.head:
        text = f"{path} is not at the last seal that is known here, {known}; hint: restore it"
        raise NotVerified(text, session.report)
    return session


def _place(folder: Path, kind: str, name: str, identity: Identity, store: str) -> Path:
    """The first record of a name; one of before, where this name has that."""
    path, earlier = path_of(folder, name, kind, store), earlier_path_of(folder, name)
    if store or path.exists() or identity._inner.known_at(str(path)) is not None:
        return path
    known = identity._inner.known_at(str(earlier))
    if not earlier.exists():
        _refuse_missing(earlier, name, identity)
        return path
    # Another adapter may have this name: a record of its own that verifies, the one that was sealed here.
    trust = identity.trust if identity.home is None else Trust.of_home(identity.home)
    session = open_session(earlier, need="vouched", trust=trust, home=identity.home)
    if known is not None and known.split(":")[0] != session.head.split(":")[0]:
        raise NotVerified(f"{earlier} is another record than the one that was sealed there", session.report)
    threads = {event.thread for event in session}
    return earlier if threads == {f"{kind}/{earlier.stem}"} else path


def json_of(item: Any) -> Any:
    """An item as JSON, as a session keeps it; a model is its members."""

    def other(value: Any) -> Any:
        dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
        if dump is None:
            raise TypeError(f"{type(value).__name__} is no JSON")
        return dump(mode="json")

    try:
        return json.loads(json.dumps(item, default=other))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the item is no JSON: {error}") from error


def digest_of(item: Any) -> str:
    """The digest of an item; the order of members does not count. NaN has one, as sessions keep it."""
    try:
        text = json.dumps(item, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the item is no JSON: {error}") from error
    return hashlib.sha256(b"threadseal-items/1" + text.encode()).hexdigest()


class HasRecorder(Protocol):
    """What is made of a record."""

    recorder: Recorder


Made = TypeVar("Made", bound=HasRecorder)


class NamedRecords(Generic[Made]):
    """The records that are open; one that was used long ago is closed where there are many."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        identity: Identity,
        make: Callable[[Recorder, str, Sequence[Event]], Made],
        store: str = "",
    ) -> None:
        self.folder, self.kind, self.identity, self.make, self.store = folder, kind, identity, make, store
        self.lock = threading.RLock()
        self._open: dict[str, Made] = {}

    @contextmanager
    def using(self, name: str, create: bool = True) -> Generator[Made | None]:
        """What is made of the record of a name; None where it has no seal yet and none is to be begun.

        After a failed write the record is given up: the next call resumes it from its last seal.
        """
        with self.lock:
            try:
                yield self._get(name, create)
            except StorageFailed:
                if (failed := self._open.pop(name, None)) is not None:
                    failed.recorder._inner.abandon()
                raise

    def _get(self, name: str, create: bool) -> Made | None:
        if (found := self._open.pop(name, None)) is None:
            opened = open_named(self.folder, self.kind, name, self.identity, create, self.store)
            if opened is None:
                return None
            found = self.make(opened[0], name, opened[1])
        self._open[name] = found
        if len(self._open) > MAX_OPEN:
            self._open.pop(next(iter(self._open))).recorder.close()
        return found

    def release(self) -> None:
        """Gives all records up, so that another process may continue them."""
        failed: list[Exception] = []
        with self.lock:
            for name in list(self._open):
                try:
                    self._open.pop(name).recorder.close()
                except (ThreadSealError, OSError) as error:
                    failed.append(error)
        if failed:
            raise failed[0]


class SealedItems:
    """The digests of a list that another program keeps: added to, popped, cleared; and the names of lists below it."""

    def __init__(self, recorder: Recorder, name: str, events: Iterable[Event]) -> None:
        self.recorder, self.name = recorder, name
        self.digests: list[str] = []
        self.below: list[str] = []
        for event in events:
            self._apply(event.type, event.payload)

    def _apply(self, event_type: str, payload: Mapping[str, Any]) -> None:
        if event_type == "items_added":
            self.digests += payload["digests"]
        elif event_type == "items_popped":
            del self.digests[len(self.digests) - payload["count"] :]
        elif event_type == "items_cleared":
            self.digests.clear()
            self.below.clear()
        elif event_type == "list_added":
            self.below.append(payload["name"])
        elif event_type == "list_removed":
            self.below.remove(payload["name"])

    def seal(self, event_type: str, payload: Mapping[str, Any]) -> None:
        """Records a change under a seal."""
        self.recorder.record(event_type, payload)
        self.recorder.seal()
        self._apply(event_type, payload)

    def places(self, items: Sequence[Any]) -> list[int]:
        """Where the sealed ones are among these items; raises where one of them is missing or was changed."""
        found: list[int] = []
        for at, item in enumerate(items):
            if len(found) < len(self.digests) and digest_of(item) == self.digests[len(found)]:
                found.append(at)
        if len(found) < len(self.digests):
            raise NotVerified(
                f"item {len(found) + 1} of {self.name!r} was changed or removed; its seals: {self.recorder.path}; "
                "hint: where several databases have this name, give each a store"
            )
        return found

    def checked(self, items: Sequence[Any]) -> list[Any]:
        """Of these items those that are sealed."""
        kept = [items[at] for at in self.places(items)]
        if len(items) > len(kept):
            text = f"{self.name!r} has {len(items) - len(kept)} items without a seal, which are not used"
            warnings.warn(text, UnsealedItem, stacklevel=3)
        return kept


class SealedLists:
    """The lists of a store."""

    def __init__(self, folder: Path, kind: str, identity: Identity, store: str = "") -> None:
        self._records = NamedRecords(folder, kind, identity, SealedItems, store)

    def has(self, name: str) -> bool:
        """Does a list have a seal?"""
        with self._records.using(name, create=False) as found:
            return found is not None

    def digests(self, name: str) -> list[str]:
        """The digests of the items of a list, which is begun where there is none."""
        with self._records.using(name) as found:
            assert found is not None
            return list(found.digests)

    def below(self, name: str) -> list[str]:
        """The names of the lists below a list."""
        with self._records.using(name, create=False) as found:
            return [] if found is None else list(found.below)

    def seal(self, name: str, event_type: str, payload: Mapping[str, Any]) -> None:
        """Seals a change of a list."""
        with self._records.using(name) as found:
            assert found is not None
            found.seal(event_type, payload)

    def add(self, name: str, digests: Sequence[str]) -> None:
        """Seals that items were added."""
        self.seal(name, "items_added", {"digests": list(digests)})

    def clear(self, name: str) -> None:
        """Seals that all items were taken away."""
        with self._records.using(name, create=False) as found:
            if found is not None and (found.digests or found.below):
                found.seal("items_cleared", {})

    def places(self, name: str, items: Sequence[Any]) -> list[int]:
        """Where the sealed ones are among the items of a list."""
        with self._records.using(name) as found:
            assert found is not None
            return found.places(items)

    def checked(self, name: str, items: Sequence[Any]) -> list[Any]:
        """Of the items of a list those that are sealed."""
        with self._records.using(name, create=False) as found:
            if found is None and items:
                raise NotVerified(f"{name!r} has items and no seal; hint: adopt it, if you trust them")
            return [] if found is None else found.checked(items)

    def release(self) -> None:
        """Gives all records up, so that another process may continue them."""
        self._records.release()
