"""`HashChainedLedgerStore`, `verify_ledger_chain`, `compute_record_hash`: AbstractRuntime's, with seals.

```python
from threadseal.compat.abstractruntime import HashChainedLedgerStore, verify_ledger_chain

store = HashChainedLedgerStore(JsonlLedgerStore(folder))                 # as AbstractRuntime's
store = HashChainedLedgerStore(JsonlLedgerStore(folder), seals="seals")  # and each append under a seal
```

A hash chain alone shows no rewriting: who can write the ledger can hash it anew, or cut it. With `seals`, a native
record for each run has the head after each append. `list` then raises `NotVerified` where the ledger is not the one
that was sealed. What a crash left without a seal is left out.
"""

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, cast

from .._errors import InvalidInput, NotVerified
from .._named import open_named
from ..home import Identity, StrPath
from ..recorder import Recorder
from ..verifying import verify

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
        self._append_lock = threading.Lock()
        self._seals: _Seals | None = None
        if seals is not None:
            keys = Identity.of_home() if identity is None else identity
            self._seals = _Seals(Path(seals).resolve(), keys)

    def append(self, record: Any) -> None:
        """Appends a record after the last one that is stored."""
        with self._append_lock:
            run_id = str(record.run_id)
            if self._seals is not None:
                self._seals.check(run_id, self._inner.list(run_id))
            self._append_chained(record)
            if self._seals is not None:
                self._seals.note(run_id, self._inner.list(run_id))

    def _append_chained(self, record: Any) -> None:
        append_chained = getattr(self._inner, "append_chained", None)
        if callable(append_chained):
            append_chained(record, _hash_of)
            return
        prev = self._persisted_head(record.run_id)
        record.prev_hash = prev
        fields = _fields(record)
        record.record_hash = compute_record_hash(record=fields, prev_hash=prev)
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
        records = self._inner.list(run_id)
        return records if self._seals is None else self._seals.check(str(run_id), records)

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
        if self._seals is not None:
            self._seals.note_deleted(run)
        return int(delete(run))

    def release(self) -> None:
        """Gives the records of seals up, so that another process may continue them."""
        if self._seals is not None:
            self._seals.release()


def _hash_of(fields: Record, prev: str | None) -> str:
    return compute_record_hash(record=fields, prev_hash=prev)


def _fields(record: Any) -> Record:
    """A record as the dict that is stored."""
    to_dict = getattr(record, "to_dict", None)
    return cast(Record, to_dict() if callable(to_dict) else dataclasses.asdict(record))


class _Seals:
    """For each run a native record with the number of ledger records and the hash of the last one."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.folder, self.identity = folder, identity
        self._open: dict[str, tuple[Recorder, int, str | None]] = {}

    def _of(self, run_id: str) -> tuple[Recorder, int, str | None]:
        if (found := self._open.get(run_id)) is None:
            found = self._open[run_id] = self._opened(run_id)
        return found

    def _opened(self, run_id: str) -> tuple[Recorder, int, str | None]:
        found = open_named(self.folder, "ledger", run_id, self.identity, create=True)
        assert found is not None
        recorder, events = found
        count, head = 0, None
        for event in events:
            if event.type == "ledger_sealed":
                count, head = event.payload["count"], event.payload["head"]
        return recorder, count, head

    def check(self, run_id: str, records: Sequence[Record]) -> Any:
        """The sealed ones among the records of a run."""
        recorder, count, head = self._of(run_id)
        sealed = list(records[:count])
        last = sealed[-1].get("record_hash") if sealed else None
        answer = verify_ledger_chain(sealed)
        if len(sealed) < count or last != head or not answer["ok"]:
            raise NotVerified(
                f"the ledger of run {run_id!r} is not the one that was sealed with {count} records; "
                f"its seals are in {recorder.path}"
            )
        return sealed

    def note(self, run_id: str, records: Sequence[Record]) -> None:
        """Seals the head of a run."""
        recorder, _, _ = self._of(run_id)
        count, head = len(records), records[-1].get("record_hash")
        recorder.record("ledger_sealed", {"count": count, "head": head})
        recorder.seal()
        self._open[run_id] = (recorder, count, head)

    def note_deleted(self, run_id: str) -> None:
        """Seals that a run has no records any more."""
        recorder, _, _ = self._of(run_id)
        recorder.record("ledger_sealed", {"count": 0, "head": None})
        recorder.seal()
        self._open[run_id] = (recorder, 0, None)

    def release(self) -> None:
        for run_id in list(self._open):
            self._open.pop(run_id)[0].close()
