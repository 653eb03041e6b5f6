"""`verify`, `open_session`, `prove`, `check_proof`, `seal`: one call each."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import _native
from .home import Home, Identity, StrPath, Trust
from .report import RecordReport, Report

Need = Literal["whole", "sealed", "vouched"]


def verify(
    *records: StrPath | bytes,
    trust: Trust | None = None,
    home: Home | None = None,
    name: str = "record",
    profile: Literal["auto", "native", "rye", "observed", "scroll-v0.1"] = "auto",
    format: Literal["transcript", "log", "json", "text", "scroll", "ledger", "lineage"] | None = None,
    thread: str | None = None,
    expect_head: str | None = None,
    exact_head: bool = False,
    every_signature: bool = False,
    expect_length: int | None = None,
    seal: bytes | None = None,
    bodies: bytes | None = None,
    head: bytes | None = None,
) -> Report:
    """Verifies files and folders; or one file that is in memory.

    Without `trust`, that of the home counts; for bytes no key. The report has the members of
    `threadseal verify --json`. The options are those of the command.

    >>> import tempfile, threadseal
    >>> me = threadseal.Identity.danger_with_seed(bytes(range(32)), tempfile.mkdtemp())
    >>> sealed = threadseal.seal(b"# Approved", "note.md", identity=me)
    >>> verify(sealed, name="note.md", trust=me.trust).verdict
    'verified'
    >>> verify(sealed.replace(b"App", b"Imp"), name="note.md", trust=me.trust).verdict
    'tampered'

    For bytes, `name` is the name of the file, and `seal`, `bodies`, `head` are the contents of the files
    beside it.
    """
    options: _native.Options = {
        "profile": profile,
        "format": format,
        "thread": thread,
        "expect_head": expect_head,
        "exact_head": exact_head,
        "every_signature": every_signature,
        "expect_length": expect_length,
    }
    contents = [record for record in records if isinstance(record, bytes)]
    paths = [record for record in records if not isinstance(record, bytes)]
    if not records or (contents and len(records) > 1):
        raise ValueError("name files and folders, or give the bytes of one file")
    if contents:
        given = Trust.of() if trust is None else trust
        beside = (seal, bodies, head)
        text = _native.verify_bytes(contents[0], name, given._inner, options, beside)
    else:
        opened, given = _asked(home, trust)
        text = _native.verify_paths(paths, opened._inner, given._inner, options)
    return Report.from_json(text)


def _asked(home: Home | None, trust: Trust | None) -> tuple[Home, Trust]:
    opened = Home.default() if home is None else home
    return opened, Trust.of_home(opened) if trust is None else trust


@dataclass(frozen=True, slots=True)
class Event:
    """One verified event of a transcript."""

    line: int
    type: str
    time: float
    thread: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """The part of a transcript that may be trusted. Iterate over it for its events."""

    report: RecordReport
    head: str
    _lines: tuple[tuple[int, str], ...]

    def __iter__(self) -> Iterator[Event]:
        """The verified events in order, without those that the record marks as unverified."""
        for number, text in self._lines:
            line = json.loads(text)
            yield Event(number, line["event_type"], line["timestamp"], line["thread_id"], line["payload"])

    def __len__(self) -> int:
        return len(self._lines)


def open_session(
    path: StrPath, *, need: Need = "whole", trust: Trust | None = None, home: Home | None = None
) -> Session:
    """Opens a transcript if it is verified; else raises `NotVerified` with the report.

    With `need="sealed"` also a record that may still grow: then the part under its seals is opened.

    >>> import tempfile, pathlib, threadseal
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> me = threadseal.Identity.danger_with_seed(bytes(range(32)), folder)
    >>> with threadseal.Recorder(folder / "t.jsonl", "agency/scout", identity=me) as record:
    ...     record.record("note", {"text": "Three leads."})
    >>> session = open_session(folder / "t.jsonl", trust=me.trust)
    >>> [event.payload["text"] for event in session if event.type == "note"]
    ['Three leads.']
    """
    opened, given = _asked(home, trust)
    found = _native.open_session(path, opened._inner, given._inner, need)
    report = RecordReport.from_dict(json.loads(found.report))
    return Session(report, found.head, tuple(found.lines()))


def prove(path: StrPath, turn: int, *, trust: Trust | None = None, home: Home | None = None) -> bytes:
    """A proof of one turn, counted from 1, of a verified record. It shows no other turn."""
    opened, given = _asked(home, trust)
    return _native.prove(path, turn, opened._inner, given._inner)


@dataclass(frozen=True, slots=True)
class CheckedProof:
    """What a proof shows: what `threadseal check-proof --json` prints."""

    report: RecordReport
    turn: int | None
    lines: tuple[Mapping[str, Any], ...]
    as_dict: Mapping[str, Any]

    @property
    def is_verified(self) -> bool:
        """Does the proof hold?"""
        return self.report.is_verified


def check_proof(
    proof: StrPath | bytes, *, trust: Trust | None = None, name: str = "proof", thread: str | None = None
) -> CheckedProof:
    """Checks a proof. Neither the record nor a home is needed.

    >>> import tempfile, pathlib, threadseal
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> me = threadseal.Identity.danger_with_seed(bytes(range(32)), folder)
    >>> with threadseal.Recorder(folder / "t.jsonl", "agency/scout", identity=me) as record:
    ...     record.record("cognition_in", {"text": "May I deploy?"})
    ...     _ = record.seal()
    ...     record.record("cognition_in", {"text": "a secret"})
    >>> proof = threadseal.prove(folder / "t.jsonl", 1, trust=me.trust)
    >>> b"secret" in proof
    False
    >>> check_proof(proof, trust=me.trust).report.verdict
    'verified'
    """
    if isinstance(proof, bytes):
        content, named = proof, name
    else:
        content, named = Path(proof).read_bytes(), str(proof)
    given = Trust.of_home() if trust is None else trust
    value = json.loads(_native.check_proof(content, named, given._inner, thread))
    report = RecordReport.from_dict(value["result"])
    return CheckedProof(report, value["turn"], tuple(value["lines"]), value)


def seal(content: bytes, name: str, *, identity: Identity | None = None) -> bytes:
    """Seals a document (JSON, Markdown, YAML, …) and gives it with its seal.

    The kind is that of `name`, else that of the content.
    """
    keys = Identity.of_home() if identity is None else identity
    return _native.seal(content, name, keys._inner)
