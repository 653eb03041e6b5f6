"""`plain`: any value of a program as JSON that a record takes.

What a tool or a model gives is content of others. So nothing here raises: a value that JSON lacks becomes a text, one
that is too long is shortened and keeps its digest, and one that is too deep or within itself is named.
"""

import base64
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import Any, cast

MAX_DEPTH = 64
"""The most values within each other; deeper ones are a text."""
MAX_VALUES = 1 << 17
"""The most values of one event; others are counted."""
MAX_TEXT_BYTES = 4 << 20
"""The longest text, as JSON in ASCII; a longer one is shortened."""
MAX_EVENT_BYTES = 6 << 20
"""The most that an event has, as JSON; a record takes 8 MiB. Later texts are shortened, later values counted."""
VALUE_BYTES = 26
"""What a value is charged for besides its text: a number and its comma."""
MAX_INT_BITS = 8192
"""The longest number; a longer one is a text of hex digits."""
MAX_NAME_CHARS = 1024
"""The longest name of a member."""
SHORT_CHARS = 256
"""What is left of a text that is shortened."""


def plain(value: Any) -> Any:
    """A value as JSON.

    >>> plain({1: float("nan"), "b": b"\\xff", "c": (1, {2})})
    {'1': 'NaN', 'b': {'base64': '/w=='}, 'c': [1, [2]]}
    """
    return _Spelling().of(value, 0)


def plain_text(text: str) -> str:
    """A text without halves of surrogate pairs: these are spelled `\\ud83d`."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Spelling:
    """What is left of the bounds of one event."""

    def __init__(self) -> None:
        self.bytes, self.values = MAX_EVENT_BYTES, MAX_VALUES
        self.within: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        self.values -= 1
        self.bytes -= VALUE_BYTES
        try:
            return self._of(value, depth)
        except Exception as error:
            # A class of the program failed to show its value.
            return f"[{_class_of(value)}: {_class_of(error)}]"

    def _of(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.of(value.value, depth + 1) if depth < MAX_DEPTH else self.text(repr(value))
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            if value.bit_length() > MAX_INT_BITS:
                return self.text(hex(value))
            # A digit has more than three bits.
            self.bytes -= value.bit_length() // 3
            return int(value)
        if isinstance(value, float):
            return _float(float(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"base64": self.text(base64.b64encode(bytes(cast(bytes, value))).decode())}
        if id(value) in self.within:
            return "[a value within itself]"
        if depth >= MAX_DEPTH:
            return f"[{_class_of(value)}: more than {MAX_DEPTH} values within each other]"
        self.within.add(id(value))
        try:
            return self._parts(value, depth)
        finally:
            self.within.discard(id(value))

    def _parts(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._members(value, depth)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, (Sequence, Set)):
            items = list(cast(Sequence[Any], value))
            kept: list[Any] = []
            for item in items:
                if self._is_spent():
                    return [*kept, {"left_out": len(items) - len(kept)}]
                kept.append(self.of(item, depth + 1))
            return kept
        if (dumped := _dumped(value)) is not None:
            return self.of(dumped, depth + 1)
        return self.text(str(value))

    def _members(self, members: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        left_out = 0
        for name, value in members.items():
            if self._is_spent():
                left_out += 1
                continue
            text = self._name(name)
            while text in kept:
                text += "'"
            kept[text] = self.of(value, depth + 1)
        return {**kept, "left_out": left_out} if left_out else kept

    def _name(self, name: Any) -> str:
        text = plain_text(name if isinstance(name, str) else str(name))
        if len(text) > MAX_NAME_CHARS:
            text = f"{text[:SHORT_CHARS]}… {hashlib.sha256(text.encode()).hexdigest()}"
        self.bytes -= _length(text)
        return text

    def _is_spent(self) -> bool:
        return self.values <= 0 or self.bytes <= 0

    def text(self, text: str) -> Any:
        """A text; one that does not fit is an object with its beginning, length and digest."""
        text = plain_text(text)
        length = _length(text)
        if length <= SHORT_CHARS or length <= min(MAX_TEXT_BYTES, self.bytes):
            self.bytes -= length
            return text
        content = text.encode()
        self.bytes -= _length(text[:SHORT_CHARS])
        return {"shortened": text[:SHORT_CHARS], "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _length(text: str) -> int:
    return len(json.dumps(text))


def _class_of(value: Any) -> str:
    """The name of a class, which may give another one, or none."""
    return plain_text(str(type.__dict__["__name__"].__get__(type(value))))[:SHORT_CHARS]


def _float(value: float) -> float | str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _dumped(value: Any) -> Any:
    """The members of a model or a dataclass; None for another value."""
    if callable(dump := getattr(value, "model_dump", None)):
        try:
            return dump(mode="json")
        except Exception:
            # Pydantic has no JSON for some texts, and still their values.
            return dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None
