"""Values as a saver of LangGraph stored them (`spec/langgraph.md`).

```text
database ─► Undecoded ─► what was stored ─► compared with its seals ─► decoded ─► LangGraph
```
The serializer of a saver calls what the stored bytes name, also code. So nothing is decoded before it was compared.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from . import _native
from ._checkpoints import digest_of_typed

UNCHANGING = (str, int, float, bool, bytes)
"""Values that no graph can change, and that a saver gives back as they are."""


@dataclass(frozen=True)
class Opaque:
    """Stored bytes that only their serializer reads, as a pickle is."""

    kind: str
    data: bytes


class Undecoded(SerializerProtocol):
    """The serializer of a saver, which gives values as they are stored: lists, maps, and extensions as bytes.

    >>> from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    >>> serializer = Undecoded(JsonPlusSerializer())
    >>> stored = serializer.loads_typed(serializer.dumps_typed({"at": {1, 2}}))
    >>> type(stored["at"]).__name__, serializer.decoded(stored)
    ('Ext', {'at': {1, 2}})
    """

    def __init__(self, real: SerializerProtocol) -> None:
        self.real: SerializerProtocol = real.real if isinstance(real, Undecoded) else real
        self._watched: dict[int, list[tuple[str, bytes]]] = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value as the serializer stores it, or as it was stored."""
        typed = (obj.kind, obj.data) if isinstance(obj, Opaque) else self.real.dumps_typed(obj)
        watched = self._watched.get(id(obj))
        if watched is not None:
            watched.append(typed)
        return typed

    @contextmanager
    def watching(self, obj: Any) -> Generator[list[tuple[str, bytes]]]:
        """What a saver has serialized of this very object, as a whole, by the end of the block."""
        typed = self._watched[id(obj)] = []
        try:
            yield typed
        finally:
            del self._watched[id(obj)]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What was stored. No class is built from it and no function is called for it."""
        kind, content = self._plain(data)
        if kind == "null":
            return None
        if kind == "bytes":
            return content
        if kind == "msgpack":
            return ormsgpack.unpackb(content, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)
        return Opaque(kind, content)

    def digests(self, typed: Sequence[tuple[str, bytes]]) -> tuple[str, dict[str, str]] | None:
        """The digests of frame and values of a checkpoint that was serialized as a whole; else None."""
        if len(typed) != 1:
            return None
        kind, content = self._plain(typed[0])
        return _native.checkpoint_digests(content) if kind == "msgpack" else None

    def _plain(self, data: tuple[str, bytes]) -> tuple[str, bytes]:
        """A type and bytes before they were encrypted."""
        kind, content = data
        if isinstance(self.real, EncryptedSerializer) and "+" in kind:
            kind, cipher = kind.split("+", 1)
            content = self.real.cipher.decrypt(cipher, content)
        return kind, content

    def decoded(self, stored: Any) -> Any:
        """The value that was stored. Only for what was compared with its seal."""
        if stored is None or type(stored) in UNCHANGING:
            return stored
        return self.real.loads_typed(_typed(stored))

    def digest(self, stored: Any) -> str:
        """The digest of what was stored."""
        return digest_of_typed(*_typed(stored))

    def kept(self, value: Any) -> tuple[Any, str]:
        """A value as the saver gives it back, and the digest of what it stores of it."""
        if value is None or type(value) in UNCHANGING:
            return value, self.digest(value)
        typed = self.real.dumps_typed(value)
        kept = self.real.loads_typed(typed)
        stored = self.loads_typed(typed)
        # The pickle of a copy may have other bytes.
        return kept, self.digest(self.stored(kept) if isinstance(stored, Opaque) else stored)

    def stored(self, value: Any) -> Any:
        """A value as it will be stored."""
        return self.loads_typed(self.real.dumps_typed(value))


def _extension(code: int, data: bytes) -> Any:
    return ormsgpack.Ext(code, data)


def _typed(stored: Any) -> tuple[str, bytes]:
    if isinstance(stored, Opaque):
        return stored.kind, stored.data
    if stored is None:
        return "null", b""
    if type(stored) is bytes:
        return "bytes", stored
    return "msgpack", ormsgpack.packb(stored, option=ormsgpack.OPT_NON_STR_KEYS)
