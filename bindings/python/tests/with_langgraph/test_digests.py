# pyright: standard
"""Digests of values, beside a spelling that follows the specification word for word."""

import hashlib
import struct
from collections import deque
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send
from threadseal import _native
from threadseal._checkpoints import digest_of, digest_of_typed
from threadseal._stored import Undecoded

LENGTHS = (0, 15, 16, 31, 32, 255, 256, 65535, 65536)
VALUES: list[Any] = [
    *(None, True, False, 0, 127, 128, -1, -32, -33, -129, 2**31, -(2**63), 2**64 - 1),
    *(
        0.0,
        -0.0,
        1.5,
        float("inf"),
        float("nan"),
        "é",
        "x",
        datetime(2026, 1, 1, tzinfo=timezone.utc),
        UUID(int=7),
        Decimal("1.5"),
    ),
    *("x" * length for length in LENGTHS),
    *(b"x" * length for length in LENGTHS),
    *([None] * length for length in LENGTHS),
    *({f"{number}": number for number in range(length)} for length in (0, 15, 16, 40)),
    {1: "a", ("b", 2): [b"c", {"d": (1, 2)}], 2.5: {}},
    *({"one", "two", 3}, frozenset(["a", ("b", 1)]), {"in": [{"set"}]}, deque([1, 2]), Send("node", {"of": {1, 2}})),
    *(HumanMessage("Find the leads."), AIMessage("", tool_calls=[{"name": "leads", "args": {"of": "Ada"}, "id": "1"}])),
]


class Extension(NamedTuple):
    """What LangGraph writes as an extension."""

    code: int
    data: bytes


def spelled(value: Any) -> bytes:
    """The bytes of a value, as the table of the specification has them."""
    if value is None or isinstance(value, bool):
        return {None: b"n", True: b"t", False: b"f"}[value]
    if isinstance(value, int):
        return with_length(b"i", str(value).encode())
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if isinstance(value, str):
        return with_length(b"s", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return with_length(b"b", value)
    if isinstance(value, dict):
        return counted(b"m", sorted(spelled(name) + spelled(of) for name, of in value.items()))
    if not isinstance(value, Extension):
        return counted(b"l", [spelled(item) for item in value])
    content = unpacked(value.data)
    if isinstance(content, list) and content[:2] in (["builtins", "set"], ["builtins", "frozenset"]):
        inside = spelled(content[:2]) + counted(b"u", sorted(spelled(item) for item in content[2]))
    else:
        inside = spelled(content)
    return b"x" + bytes([value.code]) + inside


def with_length(letter: bytes, content: bytes) -> bytes:
    return letter + struct.pack(">Q", len(content)) + content


def counted(letter: bytes, parts: list[bytes]) -> bytes:
    return letter + struct.pack(">Q", len(parts)) + b"".join(parts)


def unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=Extension, option=ormsgpack.OPT_NON_STR_KEYS)


def test_digests_are_those_of_the_specification() -> None:
    serializer = JsonPlusSerializer()
    for value in VALUES:
        kind, data = serializer.dumps_typed(value)
        content = spelled(unpacked(data)) if kind == "msgpack" else data
        start = b"threadseal-langgraph/1" + struct.pack(">Q", len(kind)) + kind.encode()
        assert digest_of_typed(kind, data) == hashlib.sha256(start + content).hexdigest(), value


def test_digests_of_metadata_are_those_of_the_specification() -> None:
    values = [None, True, 10**30, -5, 1.5, "a\ud800é", b"x", [1, (2, "b")], {"b": {}, "a": [None], 3: 4}]
    for value in [*values, values]:
        assert digest_of(value) == hashlib.sha256(b"threadseal-langgraph/1 json" + spelled(value)).hexdigest()
    for other in ({1}, object(), [object()]):
        with pytest.raises(TypeError):
            digest_of(other)


def test_bytes_that_langgraph_never_writes_are_refused() -> None:
    deep = b"\x91" * 2000 + b"\xc0"
    bad = (b"", b"\xc1", b"\x92\x01", b"\xc0\xc0", b"\xa2\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc7\x05\x00\x01", deep)
    for data in bad:
        with pytest.raises(ValueError):
            _native.canonical_msgpack(data)


@pytest.mark.parametrize("value", VALUES)
def test_a_whole_checkpoint_has_the_digests_of_its_parts(value: Any) -> None:
    stored = Undecoded(JsonPlusSerializer())
    frame = {"v": 4, "id": "1", "channel_versions": {"b": 1, "a": "2.x"}, "versions_seen": {"n": {"a": 1.5}}}
    typed = stored.dumps_typed({**frame, "channel_values": {"one": value, "two": [value]}})
    values = {name: stored.kept(part)[1] for name, part in {"one": value, "two": [value]}.items()}
    assert stored.digests([typed]) == (digest_of(frame), values)
    # What is no value of JSON in a frame is left to the saver.
    typed = stored.dumps_typed({**frame, "of": {1, 2}, "channel_values": {}})
    assert stored.digests([typed]) is None and stored.digests([typed, typed]) is None
