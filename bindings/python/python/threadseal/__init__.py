"""Record, seal, verify and prove what AI agents did.

An agent's transcript is a file that anyone can edit. This package seals it while it grows, and gives its
content only to programs that verified it.

* You run an agent: `Recorder`, `AsyncRecorder`, and `Recorder.resume` after a restart.
* You have files or bytes: `verify`, and `open_session` for the events of a verified transcript.
* You have a document: `seal`.
* You show one turn to another person: `prove` and `check_proof`.
* Your agent runs in a framework: `threadseal.langgraph` and its neighbours.

>>> import pathlib, tempfile, threadseal
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> me = threadseal.Identity.danger_with_seed(bytes(range(32)), folder)  # a program has a home
>>> with threadseal.Recorder(folder / "t.jsonl", "agency/scout", identity=me) as record:
...     record.record("cognition_in", {"text": "Find the leads."})
>>> path = folder / "t.jsonl"
>>> _ = path.write_bytes(path.read_bytes().replace(b"Find", b"Hide"))
>>> threadseal.verify(path, trust=me.trust).verdict
'tampered'
"""

from ._errors import (
    InvalidInput,
    KeyRefused,
    LimitExceeded,
    NotVerified,
    Refused,
    StorageFailed,
    Superseded,
    ThreadSealError,
)
from ._native import VERSION as __version__
from .aio import AsyncRecorder
from .home import Home, Identity, Trust, default_home
from .recorder import Recorder
from .report import Check, Finding, RecordReport, Report, Signer, Verdict
from .verifying import CheckedProof, Event, Session, check_proof, open_session, prove, seal, verify

__all__ = [
    "AsyncRecorder",
    "Check",
    "CheckedProof",
    "Event",
    "Finding",
    "Home",
    "Identity",
    "InvalidInput",
    "KeyRefused",
    "LimitExceeded",
    "NotVerified",
    "RecordReport",
    "Recorder",
    "Refused",
    "Report",
    "Session",
    "Signer",
    "StorageFailed",
    "Superseded",
    "ThreadSealError",
    "Trust",
    "Verdict",
    "__version__",
    "check_proof",
    "default_home",
    "open_session",
    "prove",
    "seal",
    "verify",
]
