"""Reports: verdicts, findings and checks, with the members that `threadseal verify --json` prints.

A report is data. A verdict other than `verified` is no exception; `Report.require` makes it one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from typing_extensions import Self

Verdict = Literal[
    "forged",
    "tampered",
    "forked",
    "rolled_back",
    "truncated",
    "foreign",
    "missing",
    "malformed",
    "unknown_signer",
    "unsigned",
    "partial",
    "consistent",
    "unsigned_tail",
    "open",
    "verified",
]
"""A verdict, worst first."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""All verdicts, worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One observed fact. `code` is stable; `message` is for people and may change."""

    code: str
    severity: Literal["error", "warning", "note"]
    line: int | None
    bytes: tuple[int, int] | None
    turn: int | None
    message: str

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Self":
        """The finding of a report in JSON."""
        place = value["bytes"]
        return cls(
            code=value["code"],
            severity=value["severity"],
            line=value["line"],
            bytes=None if place is None else (place[0], place[1]),
            turn=value["turn"],
            message=value["message"],
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One check, run or not."""

    name: str
    result: Literal["pass", "fail", "skipped"]
    why: str | None


@dataclass(frozen=True, slots=True)
class Signer:
    """A key on whose standing the verdict rests."""

    key: str
    did: str | None
    name: str | None
    status: Literal["trusted", "pinned", "other", "unknown", "revoked", "out_of_scope", "rejected"]
    sealed_by: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Self":
        """The signer of a report in JSON."""
        return cls(
            key=value["key"],
            did=value["did"],
            name=value["name"],
            status=value["status"],
            sealed_by=tuple(value.get("sealed_by", ())),
        )


@dataclass(frozen=True, slots=True)
class TrustedUntil:
    """A good signature of a trusted key covers everything before this place."""

    line: int
    byte: int
    turn: int | None


@dataclass(frozen=True, slots=True)
class Dates:
    """When the record was sealed, held and stamped: UTC, as text. No verdict depends on them."""

    sealed: str | None
    first_held: str | None
    last_held: str | None
    stamped: str | None


@dataclass(frozen=True, slots=True)
class Stats:
    """What the record has."""

    bytes: int
    events: int
    checkpoints: int


@dataclass(frozen=True, slots=True)
class RecordReport:
    """The report on one claim about one record."""

    path: str
    format: str
    profile: str
    verdict: Verdict
    completeness: Literal["final", "head", "unproved"]
    trusted_until: TrustedUntil | None
    record: str | None
    head: str | None
    dates: Dates
    signers: tuple[Signer, ...]
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    unauthenticated: tuple[str, ...]
    trust: str | None
    stats: Stats
    compat: Mapping[str, Any]
    conversion: Mapping[str, Any] | None
    as_dict: Mapping[str, Any] = field(repr=False, compare=False)
    """The report as the command prints it."""

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Self":
        """The report of `threadseal verify --json`."""
        until = value["trusted_until"]
        return cls(
            path=value["path"],
            format=value["format"],
            profile=value["profile"],
            verdict=value["verdict"],
            completeness=value["completeness"],
            trusted_until=None if until is None else TrustedUntil(**until),
            record=value["record"],
            head=value["head"],
            dates=Dates(**value["dates"]),
            signers=tuple(Signer.from_dict(signer) for signer in value["signers"]),
            findings=tuple(Finding.from_dict(finding) for finding in value["findings"]),
            checks=tuple(Check(**check) for check in value["checks"]),
            unauthenticated=tuple(value["unauthenticated"]),
            trust=value["trust"],
            stats=Stats(**value["stats"]),
            compat=value["compat"],
            conversion=value.get("conversion"),
            as_dict=value,
        )

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all findings, in their order."""
        return tuple(finding.code for finding in self.findings)

    @property
    def is_verified(self) -> bool:
        """Did every check that applies pass?"""
        return self.verdict == "verified"

    def __str__(self) -> str:
        first = next((finding.message for finding in self.findings), None)
        reason = "" if first is None else f": {first}"
        return f"{self.path or 'the record'} is {self.verdict}{reason}"


@dataclass(frozen=True, slots=True)
class PathError:
    """A path without a verdict."""

    path: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """All of one verification: what `threadseal verify --json` prints.

    >>> from threadseal import verify
    >>> report = verify(b'{"approved": true}', name="approval.json")
    >>> report.verdict, report.exit, report.is_verified
    ('unsigned', 3, False)
    """

    results: tuple[RecordReport, ...]
    errors: tuple[PathError, ...]
    passed_over: int
    summary: Mapping[str, int]
    exit: int
    code: str | None
    as_dict: Mapping[str, Any] = field(repr=False, compare=False)
    """The output as the command prints it."""

    @classmethod
    def from_json(cls, text: str) -> "Self":
        """The output of `threadseal verify --json`."""
        value: dict[str, Any] = json.loads(text)
        return cls(
            results=tuple(RecordReport.from_dict(result) for result in value["results"]),
            errors=tuple(PathError(**error) for error in value["errors"]),
            passed_over=value["passed_over"],
            summary=value["summary"],
            exit=value["exit"],
            code=value["code"],
            as_dict=value,
        )

    @property
    def worst(self) -> RecordReport | None:
        """The first of the worst reports; None where there is none."""
        return min(self.results, key=lambda result: VERDICTS.index(result.verdict), default=None)

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict; None where no record has one."""
        return None if self.worst is None else self.worst.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all reports."""
        return tuple(finding for result in self.results for finding in result.findings)

    @property
    def is_verified(self) -> bool:
        """Are there records, and is each of them verified?"""
        return self.exit == 0

    def require(self) -> "Self":
        """This report, if everything is verified; else `NotVerified` with the worst report.

        >>> from threadseal import verify
        >>> verify(b'{"approved": true}', name="approval.json").require()
        Traceback (most recent call last):
        ...
        threadseal._errors.NotVerified: approval.json is unsigned: ...
        """
        from ._errors import NotVerified

        if self.is_verified:
            return self
        if self.errors:
            raise NotVerified(self.errors[0].message, self.worst)
        text = "nothing to verify" if self.worst is None else str(self.worst)
        raise NotVerified(text, self.worst)
