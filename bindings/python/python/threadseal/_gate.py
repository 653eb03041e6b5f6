"""`Gate`: the calls that change a thread in a database. Many may keep at once; one that deletes is alone.

```text
put, put_writes ─► keeping ─┐
                            ├─► the database and the seals, together
delete, prune, … ─► alone ──┘
```
So no deletion comes between a checkpoint and its seal. Coroutines ask again instead of holding a thread.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import NoReturn

from ._errors import StorageFailed

MAX_WAIT_SECONDS = 60.0
"""The longest that a call waits for the others. A call that holds up the loop of coroutines would wait for ever."""
POLL_SECONDS = 0.002
"""How often a coroutine asks."""


class Gate:
    """Keeps those apart that keep and those that delete.

    >>> gate = Gate()
    >>> with gate.keeping(), gate.keeping():
    ...     gate._try_alone()
    False
    >>> with gate.alone():
    ...     gate._try_keep()
    False
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keeping = 0
        self._is_alone = False
        self._asking = 0
        """Those that want to be alone: no other call begins to keep before them."""

    @contextmanager
    def keeping(self) -> Generator[None]:
        """A block that keeps something."""
        self._wait(self._try_keep)
        try:
            yield
        finally:
            self._end_keeping()

    @asynccontextmanager
    async def akeeping(self) -> AsyncGenerator[None]:
        """As `keeping`."""
        await self._await(self._try_keep)
        try:
            yield
        finally:
            self._end_keeping()

    @contextmanager
    def alone(self) -> Generator[None]:
        """A block that deletes."""
        with self._asked():
            self._wait(self._try_alone)
        try:
            yield
        finally:
            self._end_alone()

    @asynccontextmanager
    async def aalone(self) -> AsyncGenerator[None]:
        """As `alone`."""
        with self._asked():
            await self._await(self._try_alone)
        try:
            yield
        finally:
            self._end_alone()

    def _try_keep(self) -> bool:
        with self._changed:
            if self._is_alone or self._asking:
                return False
            self._keeping += 1
            return True

    def _try_alone(self) -> bool:
        with self._changed:
            if self._is_alone or self._keeping:
                return False
            self._is_alone = True
            return True

    def _end_keeping(self) -> None:
        with self._changed:
            self._keeping -= 1
            self._changed.notify_all()

    def _end_alone(self) -> None:
        with self._changed:
            self._is_alone = False
            self._changed.notify_all()

    @contextmanager
    def _asked(self) -> Generator[None]:
        with self._changed:
            self._asking += 1
        try:
            yield
        finally:
            with self._changed:
                self._asking -= 1
                self._changed.notify_all()

    def _wait(self, enter: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(enter, MAX_WAIT_SECONDS):
                _refuse_waiting()

    async def _await(self, enter: Callable[[], bool]) -> None:
        last = time.monotonic() + MAX_WAIT_SECONDS
        while not enter():
            if time.monotonic() > last:
                _refuse_waiting()
            await asyncio.sleep(POLL_SECONDS)


def _refuse_waiting() -> NoReturn:
    raise StorageFailed(
        f"other calls kept a thread busy for {MAX_WAIT_SECONDS:.0f} seconds; hint: call the `a…` methods in coroutines"
    )
