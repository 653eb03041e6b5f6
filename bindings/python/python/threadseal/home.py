"""Homes, keys and trust: `Home`, `Identity`, `Trust`."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import _native
from ._errors import KeyRefused

if TYPE_CHECKING:
    from typing_extensions import Self

StrPath = str | os.PathLike[str]


class Home:
    """The folder with keys, trust, known heads and log of one user: `$THREADSEAL_HOME`.

    `threadseal init` makes it. Without a path it is where the command looks for it.
    """

    __slots__ = ("_inner", "path")

    path: Path | None
    """Where it is; None for no home."""
    _inner: _native.Home

    def __init__(self, path: StrPath | None = None) -> None:
        named = path is not None or bool(os.environ.get("THREADSEAL_HOME"))
        self.path = default_home() if path is None else Path(path)
        if not self.path.is_dir():
            raise KeyRefused(f"there is no home at {self.path}; hint: threadseal init")
        self._inner = _native.Home(self.path, _marks(self.path, named))

    @classmethod
    def none(cls) -> "Self":
        """No home: no head is known and no key trusted.

        >>> Home.none().path is None
        True
        """
        made = cls.__new__(cls)
        made.path, made._inner = None, _native.Home.none()
        return made

    @classmethod
    def default(cls) -> "Self":
        """The home of this user if there is one, else none."""
        try:
            path = default_home()
        except ValueError:
            return cls.none()
        return cls() if path.is_dir() and any(path.iterdir()) else cls.none()

    def __repr__(self) -> str:
        return f"Home({str(self.path)!r})" if self.path else "Home.none()"


def default_home() -> Path:
    """Where the home of this user is by default, whether it exists or not."""
    names = ("THREADSEAL_HOME", "XDG_DATA_HOME", "HOME")
    own, data, user = (os.environ.get(name) for name in names)
    return _native.default_home(own, data, user)


def _marks(path: Path, named: bool) -> list[Path]:
    """The folders where a home may have the second place of its log, the default one first."""
    real = path.resolve()
    beside = real.with_name(f"{real.name}.marks")
    state, user = os.environ.get("XDG_STATE_HOME"), os.environ.get("HOME")
    if state is None or not Path(state).is_absolute():
        state = None if user is None else str(Path(user) / ".local/state")
    if state is None:
        return [beside]
    among_state = Path(state) / "threadseal/marks"
    return [beside, among_state] if named else [among_state, beside]


class Identity:
    """The keys of a person or machine, which seal records and documents.

    >>> import tempfile
    >>> me = Identity.danger_with_seed(bytes(range(32)), tempfile.mkdtemp())
    >>> me.did.startswith("did:key:z6Mk")
    True
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: _native.Identity) -> None:
        self._inner = inner

    @classmethod
    def of_home(
        cls, home: "Home | StrPath | None" = None, *, name: str | None = None, passphrase: str | None = None
    ) -> "Self":
        """The key `name` of a home; by default the one that `threadseal init` made."""
        opened = home if isinstance(home, Home) else Home(home)
        return cls(_native.Identity.of_home(opened._inner, name, passphrase))

    @classmethod
    def of_keys(cls, native: str, rye: str, *, heads: StrPath) -> "Self":
        """Two private keys as PEM texts. Heads of their records are kept in the folder `heads`."""
        return cls(_native.Identity.of_keys(native, rye, heads))

    @classmethod
    def danger_with_seed(cls, seed: bytes, folder: StrPath) -> "Self":
        """Keys of a seed, for examples and tests: anyone who has the seed has the keys."""
        return cls(_native.Identity.danger_with_seed(seed, folder))

    @property
    def public_key(self) -> str:
        """The key that seals: 64 hex digits."""
        return self._inner.public_key

    @property
    def did(self) -> str:
        """The same as did:key."""
        return self._inner.did

    @property
    def key_id(self) -> str:
        """The id of that key: 64 hex digits."""
        return self._inner.key_id

    @property
    def home(self) -> Home | None:
        """The home whose keys these are; None for other keys."""
        if (inner := self._inner.home) is None:
            return None
        made = Home.__new__(Home)
        made.path, made._inner = None, inner
        return made

    @property
    def trust(self) -> "Trust":
        """Trust in this key alone."""
        return Trust(self._inner.trust)

    def __repr__(self) -> str:
        return f"Identity({self.did})"


class Trust:
    """Whose signatures count.

    >>> nobody = Trust.of()
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: _native.Trust) -> None:
        self._inner = inner

    @classmethod
    def of_home(
        cls, home: "Home | None" = None, *, sources: Iterable[StrPath] = (), keys: Iterable[str] = ()
    ) -> "Self":
        """The trust of a home. `sources` replace it, as `--trust` does; `keys` count alone, as `--key`."""
        opened = Home.default() if home is None else home
        return cls(_native.Trust.of_home(opened._inner, list(sources), list(keys)))

    @classmethod
    def of(
        cls,
        *keys: str | bytes,
        files: Mapping[str, bytes] | None = None,
        for_usage: Iterable[tuple[str, str]] = (),
        only: Iterable[str | bytes] = (),
    ) -> "Self":
        """Trust in these keys alone; no home is asked.

        A key is PEM, did:key, 64 hex digits, or the content of an identity file. `files` are identities,
        trust stores and trusted keys of Rye, by name. `for_usage` has a use and a key each, for example
        `("scroll", "did:key:…")`. Of `only`, as `--key`, one must have signed.
        """
        given = [("", _bytes(key)) for key in keys] + list((files or {}).items())
        return cls(_native.Trust.of_bytes(given, list(for_usage), [_bytes(key) for key in only]))


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
