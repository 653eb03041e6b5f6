"""Records beside data of other programs: one native record for each name, and lists of items under seals."""

import hashlib
import json
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._errors import InvalidInput, NotVerified
from .home import Identity
from .recorder import Recorder
from .verifying import Event, open_session

MAX_OPEN = 1024
"""The most records that are held open at once."""


class UnsealedItem(UserWarning):
    """Another program's data has something without a seal, which is not used."""


def path_of(folder: Path, name: str) -> Path:
    """The record of a name: any text can be one, and no text can leave the folder."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return folder / f"{digest[:32]}.jsonl"


def open_named(
    folder: Path, kind: str, name: str, identity: Identity, create: bool
) -> tuple[Recorder, Sequence[Event]] | None:
    """The record of a name, verified, and its events; None where there is none and none is to be begun.

    Its first event has the type `KIND_named` and the name, so that no record takes the place of another.
    """
    path = path_of(folder, name)
    if not path.exists():
        if identity._inner.known_at(str(path)) is not None:
            raise NotVerified(f"{path} is missing: it has the seals of {name!r}; hint: restore it")
        if not create:
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        recorder = Recorder(path, f"{kind}/{path.stem}", identity=identity, at_exit="open")
        recorder.record(f"{kind}_named", {"name": name})
        recorder.seal()
        return recorder, ()
    recorder = Recorder.resume(path, identity=identity, tail="set_aside", at_exit="open")
    try:
        events = tuple(open_session(path, need="vouched", trust=identity.trust))
        named = [event.payload["name"] for event in events if event.type == f"{kind}_named"]
        if named != [name]:
            raise NotVerified(f"{path} does not have the seals of {name!r}")
    except BaseException:
        recorder.close()
        raise
    return recorder, events


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


class SealedItems:
    """The digests of a list that another program keeps: added to, popped, cleared."""

    def __init__(self, recorder: Recorder, name: str, events: Iterable[Event]) -> None:
        self.recorder, self.name = recorder, name
        self.digests: list[str] = []
        for event in events:
            self._apply(event.type, event.payload)

    def _apply(self, event_type: str, payload: Mapping[str, Any]) -> None:
        if event_type == "items_added":
            self.digests += payload["digests"]
        elif event_type == "items_popped":
            del self.digests[len(self.digests) - payload["count"] :]
        elif event_type == "items_cleared":
            self.digests.clear()

    def seal(self, event_type: str, payload: Mapping[str, Any]) -> None:
        """Records a change under a seal."""
        self.recorder.record(event_type, payload)
        self.recorder.seal()
        self._apply(event_type, payload)

    def checked(self, items: Sequence[Any]) -> list[Any]:
        """Of these items those that are sealed; raises where one of them is missing or was changed."""
        kept: list[Any] = []
        for item in items:
            if len(kept) < len(self.digests) and digest_of(item) == self.digests[len(kept)]:
                kept.append(item)
        if len(kept) < len(self.digests):
            raise NotVerified(
                f"item {len(kept) + 1} of {self.name!r} was changed or removed; its seals are in {self.recorder.path}"
            )
        if len(items) > len(kept):
            text = f"{self.name!r} has {len(items) - len(kept)} items without a seal, which are not used"
            warnings.warn(text, UnsealedItem, stacklevel=3)
        return kept


class SealedLists:
    """The lists that are open; a list that was used long ago is closed where there are many."""

    def __init__(self, folder: Path, kind: str, identity: Identity) -> None:
        self.folder, self.kind, self.identity = folder, kind, identity
        self.lock = threading.RLock()
        self._open: dict[str, SealedItems] = {}

    def get(self, name: str, create: bool = True) -> SealedItems | None:
        """The list of a name; None where it has no seal yet and none is to be begun."""
        with self.lock:
            if (found := self._open.pop(name, None)) is None:
                opened = open_named(self.folder, self.kind, name, self.identity, create)
                if opened is None:
                    return None
                found = SealedItems(opened[0], name, opened[1])
            self._open[name] = found
            if len(self._open) > MAX_OPEN:
                self._open.pop(next(iter(self._open))).recorder.close()
            return found

    def add(self, name: str, digests: Sequence[str]) -> None:
        """Seals that items were added."""
        with self.lock:
            found = self.get(name)
            assert found is not None
            found.seal("items_added", {"digests": list(digests)})

    def pop(self, name: str, count: int) -> None:
        """Seals that the last items were taken away."""
        with self.lock:
            found = self.get(name)
            assert found is not None
            found.seal("items_popped", {"count": count})

    def clear(self, name: str) -> None:
        """Seals that all items were taken away."""
        with self.lock:
            if (found := self.get(name, create=False)) is not None and found.digests:
                found.seal("items_cleared", {})

    def checked(self, name: str, items: Sequence[Any]) -> list[Any]:
        """Of the items of a list those that are sealed."""
        with self.lock:
            found = self.get(name, create=False)
            if found is None:
                if items:
                    raise NotVerified(f"{name!r} has items and no seal; hint: adopt it, if you trust them")
                return []
            return found.checked(items)

    def release(self) -> None:
        """Gives all records up, so that another process may continue them."""
        with self.lock:
            for name in list(self._open):
                self._open.pop(name).recorder.close()
