"""The exceptions of this package.

```text
ThreadSealError
├── InvalidInput (ValueError)     correct the arguments and call again
├── KeyRefused                    use another key or passphrase
├── Refused                       the record does not allow this; do not retry
│   └── NotVerified               its verdict is the reason: see `report`
├── Superseded                    another writer owns the record; stop writing
├── LimitExceeded (ValueError)    the input exceeds a bound
└── StorageFailed (OSError)       a disk, database or other outside part failed; a retry may help
```
"""

import json
from typing import Any

from .report import RecordReport


class ThreadSealError(Exception):
    """Any failure of this package. Its text names the cause, and the next step where one is known."""


class InvalidInput(ThreadSealError, ValueError):
    """The arguments or the input are wrong. Correct them and call again."""


class KeyRefused(ThreadSealError):
    """The key, passphrase or key file does not fit. Use another one."""


class Refused(ThreadSealError):
    """The record does not allow this. Do not retry: verify the record and read its report."""


class NotVerified(Refused):
    """The verdict on the record is the reason.

    >>> error = NotVerified("t.jsonl is tampered")
    >>> error.report is None
    True
    """

    report: RecordReport | None
    """The report on the record; None where the reason is known without one."""

    def __init__(self, message: str, report: "str | RecordReport | None" = None) -> None:
        super().__init__(message)
        self.report = RecordReport.from_dict(_object(report)) if isinstance(report, str) else report

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.report))


class Superseded(ThreadSealError):
    """Another writer owns the record. Stop writing."""


class LimitExceeded(ThreadSealError, ValueError):
    """The input exceeds a bound, which the text names."""


class StorageFailed(ThreadSealError, OSError):
    """A disk, database or other outside part failed. A retry may help."""


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
