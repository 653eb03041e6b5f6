"""`seal`, `seal_chain`, `verify`, `canonical`, …: the package `agent_scroll`, over this library.

```python
from threadseal.compat import agent_scroll
```

Hashes, seals and answers are those of agent-scroll 0.1. They are weaker than a verdict: a chain without signatures,
or one that was cut, is `ok`. For more, use `threadseal.verify`. Two differences: a turn that breaks the schema is not
sealed, and a chain with a number that JSON does not have, such as Infinity, has one `SchemaViolation`.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from .. import _native
from .._errors import InvalidInput, ThreadSealError
from ..home import Trust
from ..verifying import verify as verdict_of

Turn = Mapping[str, Any]


@dataclass
class SignOpts:
    """An Ed25519 key: 32 bytes of the seed and 32 of the public key."""

    privkey: bytes
    pubkey: bytes


@dataclass
class VerifyFailure:
    """What is wrong with a turn: `BadHash`, `BrokenChain`, `BadSignature` or `SchemaViolation`."""

    turn: int
    reason: str
    detail: str | None = None


@dataclass
class VerifyResult:
    """The answer on a chain."""

    ok: bool
    failures: list[VerifyFailure] = field(default_factory=list[VerifyFailure])


def canonical(value: Any) -> bytes:
    """The RFC 8785 text of a value.

    >>> canonical({"b": 1.0, "a": "é"})
    b'{"a":"\\xc3\\xa9","b":1}'
    """
    return _native.jcs_text(_json(value))


def hash_canonical(value: Any) -> str:
    """The hash of that text: `sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(canonical(value)).hexdigest()}"


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the value is no JSON: {error}") from error


def seal(turn: Turn, sign: SignOpts | None = None) -> dict[str, Any]:
    """A turn with its hash, and with a signature if there is a key."""
    return _sealed(turn, None, sign)


def seal_chain(turns: Sequence[Turn], sign: SignOpts | None = None) -> list[dict[str, Any]]:
    """The turns sealed, each with the hash of the one before.

    >>> turn = {"version": "scroll/0.1", "turn": 0, "role": "user", "model": {"vendor": "v", "id": "m"},
    ...         "params": {"temperature": 0, "top_p": 1}, "messages": [{"role": "user", "content": "Hello"}],
    ...         "timestamp_ns": 1}
    >>> chain = seal_chain([turn, {**turn, "turn": 1}])
    >>> verify(chain).ok, [failure.reason for failure in verify(chain[1:] + chain[:1]).failures]
    (True, ['BrokenChain'])
    """
    chain: list[dict[str, Any]] = []
    for turn in turns:
        prev = chain[-1]["hash"] if chain and "prev_hash" not in turn else None
        chain.append(_sealed(turn, prev, sign))
    return chain


def _sealed(turn: Turn, prev: str | None, sign: SignOpts | None) -> dict[str, Any]:
    if sign is not None and _native.public_of_seed(sign.privkey) != sign.pubkey.hex():
        raise InvalidInput("the public key belongs to another private key")
    linked = {**turn, "prev_hash": prev} if prev is not None else dict(turn)
    sealed = json.loads(_native.scroll_seal(_json(linked), prev, None if sign is None else sign.privkey))
    added = {name: sealed[name] for name in ("hash", "sig") if name in sealed}
    return {**linked, **added}


def verify(chain: Sequence[Any], pubkey: bytes | None = None) -> VerifyResult:
    """Checks hashes and links, and with a public key the signatures that are there."""
    if not chain:
        return VerifyResult(ok=True)
    try:
        lines = [json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n" for item in chain]
    except (TypeError, ValueError) as error:
        return VerifyResult(False, [VerifyFailure(0, "SchemaViolation", f"not JSON: {error}")])
    trust = Trust.of() if pubkey is None else Trust.of(only=[pubkey.hex()])
    report = verdict_of("".join(lines).encode(), name="chain.scroll", format="scroll", trust=trust)
    answer = next((result.compat["agent_scroll"] for result in report.results if result.compat), None)
    if not isinstance(answer, dict):
        raise InvalidInput("the chain has no answer of agent-scroll; hint: threadseal.verify")
    found = cast(dict[str, Any], answer)
    failures = [
        VerifyFailure(failure["turn"], failure["reason"], failure.get("detail"))
        for failure in found.get("failures", ())
        # Without a key, agent-scroll checks no signature.
        if pubkey is not None or failure["reason"] != "BadSignature"
    ]
    if "error" in found:
        failures.append(VerifyFailure(0, "SchemaViolation", found["error"]))
    return VerifyResult(ok=not failures, failures=failures)


def serialize(value: Any) -> bytes:
    """The RFC 8785 text of a turn."""
    return canonical(value)


def deserialize(data: bytes) -> Any:
    """A turn, sealed or not, from its text; else raises `ValueError`."""
    value: Any = json.loads(data.decode("utf-8"))
    if validate_sealed_turn(value)[0]:
        return value
    fits, why = validate_turn(value)
    if fits:
        return value
    raise InvalidInput(f"deserialize: it is no turn: {why}")


def validate_turn(value: Any) -> tuple[bool, str | None]:
    """Has a value the schema of a turn? If not, also why."""
    try:
        members = cast(dict[str, Any], value)
        _native.scroll_seal(_json(members), members.get("prev_hash"), None)
    except (ThreadSealError, AttributeError) as error:
        return False, str(error)
    return True, None


def validate_sealed_turn(value: Any) -> tuple[bool, str | None]:
    """Has a value the schema of a sealed turn? If not, also why."""
    for failure in verify([value]).failures:
        if failure.reason == "SchemaViolation":
            return False, failure.detail
    return True, None


def public_key(signature: Mapping[str, str]) -> bytes:
    """The public key in the member `sig` of a turn; nothing vouches for it."""
    return base64.b64decode(signature["pubkey"], validate=True)
