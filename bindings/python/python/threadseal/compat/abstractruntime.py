"""`HashChainedLedgerStore`, `verify_ledger_chain`, `compute_record_hash`: AbstractRuntime's, with seals.

```python
from threadseal.compat.abstractruntime import HashChainedLedgerStore, verify_ledger_chain

store = HashChainedLedgerStore(JsonlLedgerStore(folder))                 # as AbstractRuntime's
store = HashChainedLedgerStore(JsonlLedgerStore(folder), seals="seals")  # and each append under a seal
```

A hash chain alone shows no rewriting: who can write the ledger can hash it anew, or cut it. With `seals`, a native
record for each run has the head after each append. `list` then raises `NotVerified` where the ledger is not the one
that was sealed. Records without a seal are left out, and `append` is refused while they are there. The hash of a record
is sealed before it is stored: so a record that a crash left without a seal is known, and counts.
"""

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, cast

from .._errors import InvalidInput, NotVerified
from .._named import NamedRecords
from ..home import Identity, StrPath
from ..recorder import Recorder
from ..verifying import Event, verify

Record = dict[str, Any]


def _plain(value: Any) -> Any:
    """A dataclass or an enumeration within a record, as AbstractRuntime writes it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def compute_record_hash(*, record: Mapping[str, Any], prev_hash: str | None) -> str:
    """The hash of a record after the one with `prev_hash`.

    >>> compute_record_hash(record={"run_id": "r"}, prev_hash=None)[:16]
    'c8b6dad20a0add35'
    """
    left_out = ("record_hash", "signature")
    clean = {name: value for name, value in record.items() if name not in left_out}
    clean["prev_hash"] = prev_hash
    text = json.dumps(clean, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def verify_ledger_chain(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """AbstractRuntime's report on the records of a run.

    >>> verify_ledger_chain([])["ok"]
    True
    """
    if not records:
        return {
            "ok": True,
            "count": 0,
            "errors": [],
            "first_bad_index": None,
            "head_hash": None,
            "computed_head_hash": None,
        }
    lines = [json.dumps(dict(record), ensure_ascii=False, default=_plain) + "\n" for record in records]
    content = "".join(lines).encode("utf-8")
    report = verify(content, name="ledger.jsonl", format="ledger")
    answer = next((result.compat.get("abstractruntime") for result in report.results), None)
    if not isinstance(answer, dict) or "unknown" in answer:
        raise InvalidInput("the records have no answer of AbstractRuntime; hint: threadseal.verify")
    found = cast(dict[str, Any], answer)
    if raised := found.get("exception"):
        raise InvalidInput(f"AbstractRuntime raises {raised['type']}: {raised['message']}")
    return found


class HashChainedLedgerStore:
    """Any ledger store, with a hash chain through the records of each run, and seals where they are asked for."""

    def __init__(self, inner: Any, *, seals: StrPath | None = None, identity: Identity | None = None) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._seals: _Seals | None = None
        if seals is not None:
            keys = Identity.of_home() if identity is None else identity
            self._seals = _Seals(Path(seals).resolve(), keys)

    def append(self, record: Any) -> None:
        """Appends a record after the last one that is stored; with seals that is the last one that is sealed."""
        with self._lock:
            if self._seals is None:
                self._append_chained(record, _hash_of)
                return
            run_id, seals = str(record.run_id), self._seals
            seals.check_all(run_id, self._inner.list(run_id))
            self._append_chained(record, lambda fields, prev: seals.intend(run_id, fields, prev))
            # Of what is read back only the record that was given gets a seal.
            seals.check_all(run_id, self._inner.list(run_id))

    def _append_chained(self, record: Any, hash_of: Callable[[Record, str | None], str]) -> None:
        append_chained = getattr(self._inner, "append_chained", None)
        if callable(append_chained):
            append_chained(record, hash_of)
            return
        prev = self._persisted_head(record.run_id)
        record.prev_hash = prev
        record.record_hash = hash_of(_fields(record), prev)
        self._inner.append(record)

    def _persisted_head(self, run_id: str) -> str | None:
        last_record = getattr(self._inner, "last_record", None)
        if callable(last_record):
            tail = last_record(run_id)
            return cast(Record, tail).get("record_hash") if isinstance(tail, dict) else None
        records = self._inner.list(run_id)
        return records[-1].get("record_hash") if records else None

    def list(self, run_id: str) -> Any:
        """The records of a run; with seals only those that are what was sealed."""
        if self._seals is None:
            return self._inner.list(run_id)
        with self._lock:
            return self._seals.check(str(run_id), self._inner.list(run_id))

    def find_completed_result(self, run_id: str, idempotency_key: str) -> Any:
        """The result of a step that completed, by its key."""
        if self._seals is None and callable(found := getattr(self._inner, "find_completed_result", None)):
            return found(run_id, idempotency_key)
        for record in self.list(run_id):
            if record.get("status") == "completed" and record.get("idempotency_key") == idempotency_key:
                return record.get("result")
        return None

    def delete(self, run_id: str) -> int:
        """Deletes the ledger of a run; its record of seals stays and shows it."""
        delete: Callable[[str], int] | None = getattr(self._inner, "delete", None)
        if delete is None:
            raise NotImplementedError("Inner LedgerStore does not support delete")
        run = str(run_id or "").strip()
        with self._lock:
            if self._seals is not None:
                self._seals.note_deleted(run)
            return int(delete(run))

    def adopt(self, run_id: str) -> int:
        """Seals the records of a run that have no seal, and gives their number. Look at them first."""
        with self._lock:
            return 0 if self._seals is None else self._seals.adopt(str(run_id), self._inner.list(run_id))

    def release(self) -> None:
        """Gives the records of seals up, so that another process may continue them."""
        if self._seals is not None:
            with self._lock:
                self._seals.release()


def _hash_of(fields: Record, prev: str | None) -> str:
    return compute_record_hash(record=fields, prev_hash=prev)


def _fields(record: Any) -> Record:
    """A record as the dict that is stored."""
    to_dict = getattr(record, "to_dict", None)
    return cast(Record, to_dict() if callable(to_dict) else dataclasses.asdict(record))


class _Run:
    """What is sealed of a run: the number of its records, the hash of the last one, and of one that may follow."""

    def __init__(self, recorder: Recorder, name: str, events: Iterable[Event]) -> None:
        self.recorder, self.name = recorder, name
        self.count = 0
        self.head: str | None = None
        self.intended: str | None = None
        for event in events:
            self.apply(event.type, event.payload)

    def apply(self, event_type: str, payload: Mapping[str, Any]) -> None:
        if event_type == "ledger_sealed":
            self.count, self.head, self.intended = payload["count"], payload["head"], None
        elif event_type == "ledger_intended":
            self.intended = payload["head"]

    def seal(self, event_type: str, payload: Mapping[str, Any]) -> None:
        self.recorder.record(event_type, payload)
        self.recorder.seal()
        self.apply(event_type, payload)


class _Seals:
    """For each run a native record with the number of ledger records and the hash of the last one."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self._runs = NamedRecords(folder, "ledger", identity, _Run)

    @contextmanager
    def _run(self, run_id: str) -> Generator[_Run]:
        with self._runs.using(run_id) as run:
            assert run is not None
            yield run

    def check(self, run_id: str, records: Sequence[Record]) -> Any:
        """The sealed ones among the records of a run. One that was to follow is sealed now, if it did."""
        with self._run(run_id) as run:
            sealed = list(records[: run.count + 1])
            follows = len(sealed) > run.count and run.intended is not None and _head_of(sealed) == run.intended
            if follows and verify_ledger_chain(sealed)["ok"]:
                run.seal("ledger_sealed", {"count": run.count + 1, "head": run.intended})
                return sealed
            del sealed[run.count :]
            if len(sealed) < run.count or _head_of(sealed) != run.head or not verify_ledger_chain(sealed)["ok"]:
                raise NotVerified(
                    f"the ledger of run {run_id!r} is not the one that was sealed with {run.count} records; "
                    f"its seals are in {run.recorder.path}"
                )
            return sealed

    def check_all(self, run_id: str, records: Sequence[Record]) -> None:
        """Raises where one of these records has no seal: what follows it would make it look sealed."""
        if more := len(records) - len(self.check(run_id, records)):
            raise NotVerified(
                f"the ledger of run {run_id!r} has {more} records without a seal; "
                "hint: remove them, or adopt them, if you trust them"
            )

    def intend(self, run_id: str, fields: Record, prev: str | None) -> str:
        """Seals the hash of the record that is stored next, and gives it."""
        with self._run(run_id) as run:
            if prev != run.head:
                raise NotVerified(f"the ledger of run {run_id!r} has a record without a seal; nothing was appended")
            head = _hash_of(fields, prev)
            run.seal("ledger_intended", {"head": head})
            return head

    def adopt(self, run_id: str, records: Sequence[Record]) -> int:
        """Seals the records without a seal, if their hashes fit."""
        fresh = len(records) - len(self.check(run_id, records))
        if not verify_ledger_chain(records)["ok"]:
            raise NotVerified(f"the hashes of the ledger of run {run_id!r} do not fit; hint: threadseal verify")
        if fresh:
            with self._run(run_id) as run:
                run.seal("ledger_sealed", {"count": len(records), "head": _head_of(records)})
        return fresh

    def note_deleted(self, run_id: str) -> None:
        """Seals that a run has no records any more."""
        with self._run(run_id) as run:
            run.seal("ledger_sealed", {"count": 0, "head": None})

    def release(self) -> None:
        self._runs.release()


def _head_of(records: Sequence[Record]) -> str | None:
    return records[-1].get("record_hash") if records else None
