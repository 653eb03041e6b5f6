"""`SealedSaver`: checkpoints of LangGraph, sealed, whatever saver keeps them (`spec/langgraph.md`).

```python
saver = SealedSaver(SqliteSaver(connection), "seals")
graph = builder.compile(checkpointer=saver)
```

Each checkpoint is a link of a lineage: its seal covers its state, its parent and the writes of its tasks. A
graph resumes only from a state that is the one which was sealed, newest, with all its ancestors. A checkpoint
that was changed, removed or put back raises `NotVerified`. Time travel and forks of honest users are links like
others.

What the database has without a seal is not used: a crash between the two leaves such a row, and so does an
attacker. `UnsealedCheckpoint` warns of it.

Install it with `pip install threadseal[langgraph]`.
"""

import asyncio
import copy
import time
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_metadata,
)

from ._checkpoints import MAX_PAUSES, PAUSE_SECONDS, Found, Key, Lineage, Lineages, Link, digest_of, fits
from ._errors import InvalidInput, NotVerified, Refused, StorageFailed
from ._stored import Opaque, Undecoded
from .home import Identity, StrPath

if TYPE_CHECKING:
    from typing_extensions import Self

# In the class, `list` is a method.
Writes = list[PendingWrite]
Listed = list["CheckpointTuple | Place"]
Places = list["Place"]
Names = list[str]
Events = list[tuple[str, Mapping[str, Any]]]

MAX_READS = 20
"""The most times that a checkpoint is read while a run changes it."""

MAX_UNREAD = 100
"""The most checkpoints in a row that are not read back from a saver that serializes each as a whole."""

MAX_OPEN = 1024
"""The most threads whose records a saver holds open, unless it is given another number."""


class UnsealedCheckpoint(UserWarning):
    """The database has a checkpoint or a write without a seal, which is not used."""


@dataclass(frozen=True)
class Place:
    """Where a checkpoint is."""

    thread_id: str
    ns: str
    id: str

    def config(self) -> RunnableConfig:
        """The configuration that names it."""
        return _at(_config(self.thread_id), self.ns, self.id, None)


class SealedSaver(BaseCheckpointSaver[Any]):
    """Any saver of checkpoints, with a seal on each checkpoint.

    >>> import tempfile, threadseal
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> me = threadseal.Identity.danger_with_seed(bytes(range(32)), tempfile.mkdtemp())
    >>> saver = SealedSaver(InMemorySaver(), tempfile.mkdtemp(), identity=me)
    >>> saver.get_tuple({"configurable": {"thread_id": "1"}}) is None
    True

    One process writes a thread at a time: `release` gives the records up to others. Of the methods of a saver,
    those that the saver inside lacks are lacking here too.
    """

    inner: BaseCheckpointSaver[Any]
    """The saver that keeps the checkpoints. It gives values as they are stored: only a sealed one is decoded."""

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any],
        folder: StrPath,
        *,
        identity: Identity | None = None,
        max_open: int = MAX_OPEN,
        read_only: bool = False,
    ) -> None:
        """The records with the seals are in `folder`: keep it where the database's writers cannot write.

        `inner` is copied: what is set on it later does not count. With `read_only` it reads beside the process that
        writes: each call verifies the record of its thread as a whole.
        """
        self._keep_in(inner)
        super().__init__(serde=self._stored.real)
        keys = Identity.of_home() if identity is None else identity
        self._lineages = Lineages(Path(folder).resolve(), keys, max_open, read_only)

    def _keep_in(self, inner: BaseCheckpointSaver[Any]) -> None:
        self._stored = Undecoded(inner.serde)
        self.inner = copy.copy(inner)
        self.inner.serde = self._stored
        self._unread = 0

    # What does not depend on seals.

    @property
    def config_specs(self) -> Any:
        """The options of the saver inside."""
        inner: Any = self.inner
        return inner.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The next version of a channel, as the saver inside counts."""
        return self.inner.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "SealedSaver":
        """A copy whose saver inside reads these classes too."""
        clone, inner = copy.copy(self), copy.copy(self.inner)
        inner.serde = self._stored.real
        clone._keep_in(inner.with_allowlist(extra_allowlist))
        clone.serde = clone._stored.real
        return clone

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the newest of its thread; verified with all its ancestors."""
        thread_id, ns, asked = _named(config)
        for left in reversed(range(MAX_PAUSES)):
            with self._lineages.using(thread_id) as lineage:
                id = None if lineage is None else asked or lineage.newest(ns)
                if lineage is not None and id is not None and lineage.link(ns, id) is not None:
                    return self._with_ancestors(lineage, ns, id, config, asked)
                stored = self.inner.get_tuple(config)
                coming = self._is_coming(thread_id, ns, lineage, stored)
                if coming is None or left == 0:
                    self._unsealed(thread_id, ns, asked, lineage, stored)
                if not coming:
                    return None
            time.sleep(PAUSE_SECONDS)
        return None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        thread_id, ns, asked = _named(config)
        for left in reversed(range(MAX_PAUSES)):
            lineage = await asyncio.to_thread(self._lineages.enter, thread_id)
            try:
                id = None if lineage is None else asked or lineage.newest(ns)
                if lineage is not None and id is not None and lineage.link(ns, id) is not None:
                    return await self._awith_ancestors(lineage, ns, id, config, asked)
                stored = await self.inner.aget_tuple(config)
                coming = self._is_coming(thread_id, ns, lineage, stored)
                if coming is None or left == 0:
                    self._unsealed(thread_id, ns, asked, lineage, stored)
                if not coming:
                    return None
            finally:
                if lineage is not None:
                    self._lineages.leave(lineage)
            await asyncio.sleep(PAUSE_SECONDS)
        return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The sealed checkpoints of a thread, newest first. One that was removed is an error, not a gap."""
        wanted, asked = self._wanted(config, before), limit
        while True:
            stored = list(self.inner.list(config, filter=filter, before=before, limit=asked))
            found = self._listed(stored)
            if asked is None or len(stored) < asked or len(found) >= (limit or 0):
                break
            # Rows without a seal took the places of others.
            asked += len(stored) - len(found)
        rows = found[:limit]
        for place in _unlisted(wanted, rows, limit):
            self._refuse_gap(place, self._again(place), filter, limit)
        for row in rows:
            if (checked := self._again(row) if isinstance(row, Place) else row) is not None:
                yield checked

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        wanted, asked = await asyncio.to_thread(self._wanted, config, before), limit
        while True:
            given = self.inner.alist(config, filter=filter, before=before, limit=asked)
            stored = [row async for row in given]
            found = await asyncio.to_thread(self._listed, stored)
            if asked is None or len(stored) < asked or len(found) >= (limit or 0):
                break
            asked += len(stored) - len(found)
        rows = found[:limit]
        for place in _unlisted(wanted, rows, limit):
            self._refuse_gap(place, await self._aagain(place), filter, limit)
        for row in rows:
            if (checked := await self._aagain(row) if isinstance(row, Place) else row) is not None:
                yield checked

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes of channels along the ancestors; compared with the sealed ones, also where none is left."""
        for left in reversed(range(MAX_READS)):
            pinned, before = self._pinned(config)
            found = self.inner.get_delta_channel_history(config=pinned, channels=channels)
            if (checked := self._checked_history(pinned, channels, found, before, left)) is not None:
                return checked
        raise AssertionError("the last read gives a history or raises")

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        for left in reversed(range(MAX_READS)):
            pinned, before = await asyncio.to_thread(self._pinned, config)
            found = await self.inner.aget_delta_channel_history(config=pinned, channels=channels)
            checked = await asyncio.to_thread(self._checked_history, pinned, channels, found, before, left)
            if checked is not None:
                return checked
        raise AssertionError("the last read gives a history or raises")

    # Writing: of a checkpoint the database first, then the seal; what a crash leaves between them is not used. Of
    # writes the seal first: after a crash the task writes again, and its database keeps the first ones.

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keeps a checkpoint and seals it."""
        thread_id, ns, parent = _named(config)
        with self._lineages.keeping(thread_id) as lineage, lineage.coming(ns, checkpoint["id"]):
            if (sealed := self._not_read_back(config, metadata)) is not None:
                versions = _versions(lineage, ns, parent, checkpoint, new_versions)
                with self._stored.watching(checkpoint) as typed:
                    kept = self.inner.put(config, checkpoint, metadata, versions)
                if self._seal_serialized(lineage, config, checkpoint, sealed, typed):
                    return kept
            taken, given = self._given(config, checkpoint, metadata)
            versions = _versions(lineage, ns, parent, taken, new_versions)
            with self._stored.watching(taken) as typed:
                kept = self.inner.put(config, taken, metadata, versions)
            stored = self.inner.get_tuple(_at(config, ns, checkpoint["id"], None))
            self._seal_put(lineage, ns, parent, taken, given, stored)
            self._learn(config, metadata, stored, typed)
            return kept

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        thread_id, ns, parent = _named(config)
        async with self._lineages.akeeping(thread_id) as lineage:
            with lineage.coming(ns, checkpoint["id"]):
                if (sealed := self._not_read_back(config, metadata)) is not None:
                    versions = _versions(lineage, ns, parent, checkpoint, new_versions)
                    with self._stored.watching(checkpoint) as typed:
                        kept = await self.inner.aput(config, checkpoint, metadata, versions)
                    if await asyncio.to_thread(self._seal_serialized, lineage, config, checkpoint, sealed, typed):
                        return kept
                taken, given = await asyncio.to_thread(self._given, config, checkpoint, metadata)
                versions = _versions(lineage, ns, parent, taken, new_versions)
                with self._stored.watching(taken) as typed:
                    kept = await self.inner.aput(config, taken, metadata, versions)
                stored = await self.inner.aget_tuple(_at(config, ns, checkpoint["id"], None))
                await asyncio.to_thread(self._seal_put, lineage, ns, parent, taken, given, stored)
                self._learn(config, metadata, stored, typed)
            return kept

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keeps the writes of a task and seals them."""
        with self._lineages.keeping(_named(config)[0]) as lineage:
            taken, event = self._writes_event(config, writes, task_id, task_path)
            lineage.seal_coming(event)
            self.inner.put_writes(config, taken, task_id, task_path)
            lineage.seal_kept(event)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        async with self._lineages.akeeping(_named(config)[0]) as lineage:
            taken, event = await asyncio.to_thread(self._writes_event, config, writes, task_id, task_path)
            await asyncio.to_thread(lineage.seal, "writes_coming", event)
            await self.inner.aput_writes(config, taken, task_id, task_path)
            await asyncio.to_thread(lineage.seal_kept, event)

    # Deleting: the seal first. What a crash leaves in the database has no seal then. No call keeps anything meanwhile.

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread. Its record stays and shows that it was deleted."""
        name = str(thread_id)
        self._lineages.refuse_reader(f"thread {name!r}")
        if self._lineages.has(name) or self._has_rows(name):
            with self._lineages.alone([name]) as lineages:
                self._seal_deleted(lineages)
                self.inner.delete_thread(name)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        name = str(thread_id)
        self._lineages.refuse_reader(f"thread {name!r}")
        if await asyncio.to_thread(self._lineages.has, name) or await self._ahas_rows(name):
            async with self._lineages.aalone([name]) as lineages:
                await asyncio.to_thread(self._seal_deleted, lineages)
                await self.inner.adelete_thread(name)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of runs, in all threads that have a record here.

        No other process may continue one of these runs meanwhile.
        """
        self._refuse_lacking("delete_for_runs")
        with self._lineages.gate.alone(), ExitStack() as held:
            self._seal_runs_gone(run_ids, held)
            self.inner.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        self._refuse_lacking("adelete_for_runs")
        async with self._lineages.gate.aalone():
            with ExitStack() as held:
                await asyncio.to_thread(self._seal_runs_gone, run_ids, held)
                await self.inner.adelete_for_runs(run_ids)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all checkpoints of threads, or all but those that the newest needs."""
        self._refuse_lacking("prune")
        asked = list(dict.fromkeys(map(str, thread_ids)))
        names = [name for name in asked if self._is_pruned(name, strategy, self._has_rows(name))]
        with self._lineages.alone(names) as lineages:
            for lineage in lineages:
                newest = [self.inner.get_tuple(_in(lineage.thread_id, ns)) for ns in lineage.namespaces()]
                self._seal_prune(lineage, strategy, newest)
            self.inner.prune(names, strategy=strategy)
            for lineage in lineages:
                self._seal_pruned(lineage, list(self.inner.list(_config(lineage.thread_id))))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        self._refuse_lacking("aprune")
        names: Names = []
        for name in dict.fromkeys(map(str, thread_ids)):
            if await asyncio.to_thread(self._is_pruned, name, strategy, await self._ahas_rows(name)):
                names.append(name)
        async with self._lineages.aalone(names) as lineages:
            for lineage in lineages:
                newest = [await self.inner.aget_tuple(_in(lineage.thread_id, ns)) for ns in lineage.namespaces()]
                await asyncio.to_thread(self._seal_prune, lineage, strategy, newest)
            await self.inner.aprune(names, strategy=strategy)
            for lineage in lineages:
                left = [row async for row in self.inner.alist(_config(lineage.thread_id))]
                await asyncio.to_thread(self._seal_pruned, lineage, left)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread. The copies must be what was sealed of the source; then they are sealed too."""
        self._refuse_lacking("copy_thread")
        of, to = self._copied_names(source_thread_id, target_thread_id)
        # The record of the target is there before its rows are: what a crash leaves of them has no seal.
        with self._lineages.alone([of, to]):
            source = self._whole(of, list(self.list(_config(of))))
            self.inner.copy_thread(of, to)
            copies = list(self.inner.list(_config(to)))
            self._seal_copies(of, to, source, copies)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        self._refuse_lacking("acopy_thread")
        of, to = await asyncio.to_thread(self._copied_names, source_thread_id, target_thread_id)
        async with self._lineages.aalone([of, to]):
            source = self._whole(of, [row async for row in self.alist(_config(of))])
            await self.inner.acopy_thread(of, to)
            copies = [row async for row in self.inner.alist(_config(to))]
            await asyncio.to_thread(self._seal_copies, of, to, source, copies)

    # What a saver has besides.

    def adopt_thread(self, thread_id: str) -> int:
        """Seals what the database has of a thread that is older than this saver. Gives the number of checkpoints.

        Nothing shows what was changed before; look at it first.
        """
        with self._lineages.alone([str(thread_id)]) as lineages:
            return self._adopt(lineages[0], list(self.inner.list(_config(thread_id))))

    async def aadopt_thread(self, thread_id: str) -> int:
        """As `adopt_thread`."""
        async with self._lineages.aalone([str(thread_id)]) as lineages:
            rows = [row async for row in self.inner.alist(_config(thread_id))]
            return await asyncio.to_thread(self._adopt, lineages[0], rows)

    def release(self) -> None:
        """Gives the records of all threads up, so that another process may continue them."""
        self._lineages.release()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.release()

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.release)

    # Digests.

    def _found(self, row: CheckpointTuple) -> Found:
        _, _, parent = _named(row.parent_config) if row.parent_config else ("", "", None)
        digest = self._stored.digest
        return Found(
            id=_id(row),
            parent=parent,
            frame=digest(row.checkpoint) if isinstance(row.checkpoint, Opaque) else _frame(row.checkpoint),
            metadata=self._metadata(row.metadata),
            values={name: digest(value) for name, value in _values(row).items()},
            writes=[(task, channel, digest(value)) for task, channel, value in row.pending_writes or ()],
        )

    def _decoded(self, row: CheckpointTuple, writes: Iterable[int]) -> CheckpointTuple:
        """A checkpoint that was compared, with these of its writes."""
        decoded = self._stored.decoded
        found: Any = row.checkpoint
        if isinstance(found, Opaque):
            found = decoded(found)
        else:
            found = {**found, "channel_values": {name: decoded(value) for name, value in _values(row).items()}}
        there: Writes = row.pending_writes or []
        kept = [(there[at][0], there[at][1], decoded(there[at][2])) for at in writes]
        pending = None if row.pending_writes is None else kept
        return row._replace(checkpoint=found, metadata=decoded(_sealed(row.metadata)), pending_writes=pending)

    def _metadata(self, metadata: Mapping[str, Any]) -> str:
        kept = _sealed(metadata)
        try:
            return digest_of(kept)
        except TypeError:
            return self._stored.digest(kept)

    def _given(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> tuple[Checkpoint, dict[str, Any]]:
        """A copy of a checkpoint that is to be kept, and its event without what the saver adds.

        A graph that runs may change its values meanwhile: what is kept is what the seal is of.
        """
        kept = {name: self._stored.kept(value) for name, value in checkpoint["channel_values"].items()}
        taken: Checkpoint = {**checkpoint, "channel_values": {name: value for name, (value, _) in kept.items()}}
        return taken, {
            "id": checkpoint["id"],
            "run": cast(dict[str, Any], get_checkpoint_metadata(config, metadata)).get("run_id"),
            "frame": _frame(checkpoint),
            "values": {name: digest for name, (_, digest) in kept.items()},
        }

    # Comparing.

    def _with_ancestors(
        self, lineage: Lineage, ns: str, first: str, config: RunnableConfig, asked: str | None
    ) -> CheckpointTuple | None:
        """The checkpoint, or where the newest was deleted meanwhile the one before it, with all its ancestors."""
        id: str | None = first
        found: CheckpointTuple | None = None
        while id is not None and found is None:
            if (found := self._verified(lineage, ns, id, _at(config, ns, id, asked))) is not None:
                ancestors = lineage.unverified_ancestors(ns, id)
                for ancestor in ancestors:
                    self._verified(lineage, ns, ancestor, _at(config, ns, ancestor, None))
                lineage.note_verified(ns, [id, *ancestors])
            id = None if asked else lineage.newest(ns, before=id)
        return found

    async def _awith_ancestors(
        self, lineage: Lineage, ns: str, first: str, config: RunnableConfig, asked: str | None
    ) -> CheckpointTuple | None:
        id: str | None = first
        found: CheckpointTuple | None = None
        while id is not None and found is None:
            if (found := await self._averified(lineage, ns, id, _at(config, ns, id, asked))) is not None:
                ancestors = lineage.unverified_ancestors(ns, id)
                for ancestor in ancestors:
                    await self._averified(lineage, ns, ancestor, _at(config, ns, ancestor, None))
                lineage.note_verified(ns, [id, *ancestors])
            id = None if asked else lineage.newest(ns, before=id)
        return found

    def _verified(self, lineage: Lineage, ns: str, id: str, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint, compared; None where it was deleted meanwhile. Where its seals change, it is read again."""
        for _ in range(MAX_READS):
            before = lineage.changes[ns, id]
            if (link := lineage.link(ns, id)) is None:
                return None
            try:
                stored = self._read(lineage, ns, id, config)
                if stored is None and link.may_be_gone:
                    return None
                found, unsealed = self._checked(lineage, ns, id, stored)
            except NotVerified:
                if not lineage.has_changed(ns, id, before):
                    raise
            else:
                if not unsealed or not lineage.has_changed(ns, id, before):
                    _warn_of_writes(id, unsealed)
                    return found
        lineage.refuse(ns, id, "changes while it is read")

    async def _averified(self, lineage: Lineage, ns: str, id: str, config: RunnableConfig) -> CheckpointTuple | None:
        for _ in range(MAX_READS):
            before = lineage.changes[ns, id]
            if (link := lineage.link(ns, id)) is None:
                return None
            try:
                stored = await self._aread(lineage, ns, id, config)
                if stored is None and link.may_be_gone:
                    return None
                found, unsealed = await asyncio.to_thread(self._checked, lineage, ns, id, stored)
            except NotVerified:
                if not await asyncio.to_thread(lineage.has_changed, ns, id, before):
                    raise
            else:
                if not unsealed or not await asyncio.to_thread(lineage.has_changed, ns, id, before):
                    _warn_of_writes(id, unsealed)
                    return found
        lineage.refuse(ns, id, "changes while it is read")

    def _read(self, lineage: Lineage, ns: str, id: str, config: RunnableConfig) -> CheckpointTuple | None:
        try:
            return self.inner.get_tuple(config)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self._refuse_unreadable(lineage, ns, id, error)

    async def _aread(self, lineage: Lineage, ns: str, id: str, config: RunnableConfig) -> CheckpointTuple | None:
        try:
            return await self.inner.aget_tuple(config)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self._refuse_unreadable(lineage, ns, id, error)

    def _refuse_unreadable(self, lineage: Lineage, ns: str, id: str, error: Exception) -> NoReturn:
        lineage.refuse(ns, id, f"cannot be read: {type(error).__name__}: {error}")

    def _checked(self, lineage: Lineage, ns: str, id: str, row: CheckpointTuple | None) -> tuple[CheckpointTuple, int]:
        """The checkpoint if it is the sealed one, with its sealed writes alone, and how many others it has."""
        try:
            found = None if row is None else self._found(row)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self._refuse_unreadable(lineage, ns, id, error)
        places = lineage.check(ns, id, found)
        assert row is not None
        return self._decoded(row, places), len(row.pending_writes or ()) - len(places)

    def _is_coming(self, thread_id: str, ns: str, lineage: Lineage | None, row: CheckpointTuple | None) -> bool | None:
        """Is its seal coming? True: look again; False: this process keeps it now; None: no seal is on its way."""
        if row is None:
            return None
        if lineage is None:
            # Its thread may have begun meanwhile.
            return self._lineages.has(thread_id) or None
        if not lineage.may_get_seal(ns, _id(row)):
            return None
        return lineage.recorder is None

    def _unsealed(
        self, thread_id: str, ns: str, asked: str | None, lineage: Lineage | None, row: CheckpointTuple | None
    ) -> None:
        """What becomes of a checkpoint without a seal: it is refused where it was asked for, else not used."""
        if row is None:
            return
        if lineage is None:
            _refuse_without_seals(thread_id)
        id = _id(row)
        gone = lineage.links.get((ns, id))
        if gone is not None and gone.gone:
            return
        if asked is not None:
            lineage.refuse(ns, id, "has no seal")
        _warn(f"checkpoint {id!r} of thread {thread_id!r} has no seal and is not used")

    def _listed(self, rows: Iterable[CheckpointTuple]) -> Listed:
        """Of these checkpoints the sealed ones, checked; of one that differs the place, to read it again."""
        found: Listed = []
        last = time.monotonic() + MAX_PAUSES * PAUSE_SECONDS
        with ExitStack() as stack:
            lineages: dict[str, Lineage | None] = {}
            for row in rows:
                thread_id, ns, id = _named(row.config)
                id = id or _id(row)
                if thread_id not in lineages:
                    lineages[thread_id] = stack.enter_context(self._lineages.using(thread_id))
                lineage = lineages[thread_id]
                while (coming := self._is_coming(thread_id, ns, lineage, row)) and time.monotonic() < last:
                    time.sleep(PAUSE_SECONDS)
                    if lineage is not None:
                        lineage.refresh()
                if coming is False:
                    continue
                if lineage is None or lineage.link(ns, id) is None:
                    self._unsealed(thread_id, ns, None, lineage, row)
                    continue
                try:
                    checked, unsealed = self._checked(lineage, ns, id, row)
                except NotVerified:
                    found.append(Place(thread_id, ns, id))
                else:
                    # Beside another process, a write may have got its seal since.
                    found.append(Place(thread_id, ns, id) if unsealed and lineage.reread is not None else checked)
                    if found[-1] is checked:
                        _warn_of_writes(id, unsealed)
        return found

    def _wanted(self, config: RunnableConfig | None, before: RunnableConfig | None) -> "Sequence[Place]":
        """The sealed checkpoints that a list must give."""
        named: Mapping[str, Any] = {} if config is None else config.get("configurable", {})
        asked, only = named.get("checkpoint_ns"), named.get("checkpoint_id")
        last = None if before is None else _named(before)[2]
        found: Places = []
        for thread_id in self.thread_ids() if config is None else [str(named["thread_id"])]:
            with self._lineages.using(thread_id) as lineage:
                if lineage is None:
                    continue
                for ns in lineage.namespaces() if asked is None else [str(asked)]:
                    ids = (id for id in lineage.live(ns) if only is None or id == str(only))
                    found += [Place(thread_id, ns, id) for id in ids if last is None or id < last]
        return found

    def _again(self, place: "Place") -> CheckpointTuple | None:
        """A checkpoint by its id, compared; None where it was deleted meanwhile."""
        with self._lineages.using(place.thread_id) as lineage:
            return None if lineage is None else self._verified(lineage, place.ns, place.id, place.config())

    async def _aagain(self, place: "Place") -> CheckpointTuple | None:
        lineage = await asyncio.to_thread(self._lineages.enter, place.thread_id)
        if lineage is None:
            return None
        try:
            return await self._averified(lineage, place.ns, place.id, place.config())
        finally:
            self._lineages.leave(lineage)

    def _refuse_gap(
        self, place: "Place", row: CheckpointTuple | None, filter: Mapping[str, Any] | None, limit: int | None
    ) -> None:
        """Refuses a list without a checkpoint that the database has, unless a filter or a limit left it out."""
        if row is not None and not filter and limit is None:
            raise NotVerified(f"the list of thread {place.thread_id!r} lacks checkpoint {place.id!r}")

    def _pinned(self, config: RunnableConfig) -> tuple[RunnableConfig, int]:
        """`config` with the id of the newest sealed checkpoint, where it has none; and how often its seals changed."""
        thread_id, ns, asked = _named(config)
        with self._lineages.using(thread_id) as lineage:
            if lineage is None:
                return config, 0
            id = asked or lineage.newest(ns)
            return config if id is None else _at(config, ns, id, asked), lineage.changes.total()

    def _checked_history(
        self,
        config: RunnableConfig,
        channels: Sequence[str],
        found: Mapping[str, DeltaChannelHistory],
        before: int,
        left: int,
    ) -> Mapping[str, DeltaChannelHistory] | None:
        """The history, compared; None where seals changed since `before`, so that it is to be read again."""
        thread_id, ns, id = _named(config)
        with self._lineages.using(thread_id) as lineage:
            if lineage is None or id is None or lineage.link(ns, id) is None:
                if lineage is not None and lineage.is_gone(ns, id):
                    raise StorageFailed(f"thread {thread_id!r} was deleted while it was read; hint: read it again")
                raise NotVerified(f"thread {thread_id!r} has no sealed checkpoint {id!r}")
            try:
                return {name: self._history(lineage, ns, id, name, found[name]) for name in channels}
            except NotVerified:
                if left == 0 or lineage.changes.total() == before:
                    raise
                return None

    def _history(
        self, lineage: Lineage, ns: str, id: str, channel: str, found: DeltaChannelHistory
    ) -> DeltaChannelHistory:
        """The history of one channel, if it is the one that the seals along the ancestors give."""
        wanted, seed = lineage.history(ns, id, channel)
        given = self._stored.digest(found["seed"]) if "seed" in found else None
        if given != seed:
            lineage.refuse(ns, id, f"has another history of channel {channel}: its seed differs")
        writes = [(write, self._stored.digest(write[2])) for write in found["writes"]]
        kept: Writes = []
        for task, write in wanted:
            fitting = (n for n, (of, digest) in enumerate(writes) if fits(task, write, of[0], of[1], digest))
            place = next(fitting, None)
            if place is None and not write.kept:
                continue
            if place is None:
                lineage.refuse(ns, id, f"has another history of channel {channel}: a write of {task} is gone")
            of, name, value = writes.pop(place)[0]
            kept.append((of, name, self._stored.decoded(value)))
        if writes:
            _warn(f"channel {channel!r} has {len(writes)} writes without a seal, which are not used")
        history: DeltaChannelHistory = {"writes": kept}
        if "seed" in found:
            history["seed"] = self._stored.decoded(found["seed"])
        return history

    # Sealing.

    def _not_read_back(self, config: RunnableConfig, metadata: CheckpointMetadata) -> dict[str, Any] | None:
        """The metadata of a checkpoint that is sealed by what the saver serializes; None where it is read back."""
        if self._unread == 0:
            return None
        kept = cast(dict[str, Any], get_checkpoint_metadata(config, metadata))
        if not _is_plain(kept):
            return None
        self._unread -= 1
        return kept

    def _learn(
        self,
        config: RunnableConfig,
        metadata: CheckpointMetadata,
        stored: CheckpointTuple | None,
        typed: Sequence[tuple[str, bytes]],
    ) -> None:
        """Does the saver serialize a checkpoint as a whole, and keep metadata as they are?"""
        kept, found = get_checkpoint_metadata(config, metadata), None if stored is None else self._found(stored)
        same = stored is not None and _is_plain(kept) and _sealed(stored.metadata) == _sealed(kept)
        whole = found is not None and self._stored.digests(typed) == (found.frame, found.values)
        self._unread = MAX_UNREAD if same and whole else 0

    def _seal_serialized(
        self,
        lineage: Lineage,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        typed: Sequence[tuple[str, bytes]],
    ) -> bool:
        """Seals a checkpoint by the bytes that the saver keeps; False where they are not of one piece."""
        digests = self._stored.digests(typed)
        if digests is None:
            self._unread = 0
            return False
        frame, values = digests
        _, ns, parent = _named(config)
        event = {
            "ns": ns,
            "parent": parent,
            "metadata": self._metadata(metadata),
            "id": checkpoint["id"],
            "run": metadata.get("run_id"),
            "frame": frame,
            "values": values,
        }
        self._seal_link(lineage, event)
        return True

    def _seal_put(
        self,
        lineage: Lineage,
        ns: str,
        parent: str | None,
        taken: Checkpoint,
        given: Mapping[str, Any],
        stored: CheckpointTuple | None,
    ) -> None:
        id = given["id"]
        if stored is not None and isinstance(stored.checkpoint, Opaque):
            given = {**given, "frame": self._stored.digest(self._stored.stored(taken)), "values": {}}
        found = None if stored is None else self._found(stored)
        if found is None or (found.id, found.parent) != (id, parent):
            raise StorageFailed(f"the saver did not keep checkpoint {id!r}; it has no seal")
        before = None if parent is None else lineage.link(ns, parent)
        # Of a channel that did not change, some savers give the value that its version had before.
        kept_before: Mapping[str, str] = {} if before is None else before.values
        wanted: dict[str, str | None] = {**{name: kept_before.get(name) for name in found.values}, **given["values"]}
        if (found.frame, dict(found.values)) != (given["frame"], wanted):
            raise StorageFailed(f"the saver gives checkpoint {id!r} back changed; it has no seal")
        event = {"ns": ns, "parent": parent, "metadata": found.metadata, **given, "values": dict(found.values)}
        self._seal_link(lineage, event)

    def _seal_link(self, lineage: Lineage, event: Mapping[str, Any]) -> None:
        ns, parent = event["ns"], event["parent"]
        known = parent is None or (ns, parent) in lineage.verified
        lineage.seal_checkpoint(event)
        if known:
            lineage.note_verified(ns, [event["id"]])

    def _writes_event(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[Sequence[tuple[str, Any]], dict[str, Any]]:
        """A copy of writes that are to be kept, and their event."""
        _, ns, id = _named(config)
        kept = [(channel, *self._stored.kept(value)) for channel, value in writes]
        listed = [[WRITES_IDX_MAP.get(channel, at), channel, digest] for at, (channel, _, digest) in enumerate(kept)]
        taken = [(channel, value) for channel, value, _ in kept]
        return taken, {"ns": ns, "id": id, "task": task_id, "path": task_path, "writes": listed}

    def _refuse_lacking(self, name: str) -> None:
        self._lineages.refuse_reader("a thread")
        if getattr(type(self.inner), name) is getattr(BaseCheckpointSaver, name):
            raise NotImplementedError(f"{type(self.inner).__name__} has no {name}")

    def _has_rows(self, thread_id: str) -> bool:
        return next(iter(self.inner.list(_config(thread_id), limit=1)), None) is not None

    async def _ahas_rows(self, thread_id: str) -> bool:
        return [row async for row in self.inner.alist(_config(thread_id), limit=1)] != []

    def _seal_deleted(self, lineages: Iterable[Lineage]) -> None:
        for lineage in lineages:
            if not lineage.is_empty():
                lineage.seal("thread_deleted", {})

    def _seal_chosen(self, lineage: Lineage, event_type: str, chosen: Callable[[Key, Link], bool]) -> bool:
        """Seals an event of those checkpoints that are not gone and are chosen. Is there one?"""
        ids = [[*key] for key, link in lineage.links.items() if not link.gone and chosen(key, link)]
        if ids:
            lineage.seal(event_type, {"ids": ids})
        return bool(ids)

    def _seal_runs_gone(self, run_ids: Sequence[str], held: ExitStack) -> None:
        """Seals that the checkpoints of runs go. The records of their threads stay open with `held`."""
        runs = {str(run) for run in run_ids}
        for thread_id in self.thread_ids():
            with ExitStack() as stack:
                lineage = stack.enter_context(self._lineages.using(thread_id))
                if lineage is not None and self._seal_chosen(
                    lineage, "checkpoints_gone", lambda _, link: link.run in runs
                ):
                    held.push(stack.pop_all())

    def thread_ids(self) -> Sequence[str]:
        """The threads that have a record here."""
        return self._lineages.thread_ids()

    def _is_pruned(self, thread_id: str, strategy: str, has_rows: bool) -> bool:
        """Is there something of a thread to prune? What a thread without seals has is nothing to choose from."""
        if self._lineages.has(thread_id) or not has_rows:
            return has_rows
        if strategy != "delete":
            _refuse_without_seals(thread_id)
        return True

    def _seal_prune(self, lineage: Lineage, strategy: str, newest: Iterable[CheckpointTuple | None]) -> None:
        """Seals what a pruning may remove. A saver keeps the newest that it has: that must be the sealed one."""
        if strategy == "delete":
            self._seal_deleted([lineage])
            return
        for row in newest:
            sealed = None if row is None else lineage.newest(_named(row.config)[1])
            if row is not None and sealed is not None and _id(row) != sealed:
                # A crash leaves such a row, and so does an attacker.
                raise Refused(
                    f"cannot prune thread {lineage.thread_id!r}: its newest checkpoint {_id(row)!r} has no seal; "
                    "hint: resume the thread"
                )
        kept = ("", lineage.newest(""))
        self._seal_chosen(lineage, "checkpoints_may_go", lambda key, _: key != kept)

    def _seal_pruned(self, lineage: Lineage, left: Sequence[CheckpointTuple]) -> None:
        there = {(_named(row.config)[1], _id(row)) for row in left}
        self._seal_chosen(lineage, "checkpoints_gone", lambda key, link: link.may_be_gone and key not in there)
        self._seal_chosen(lineage, "checkpoints_stay", lambda _, link: link.may_be_gone)

    def _copied_names(self, source_thread_id: str, target_thread_id: str) -> tuple[str, str]:
        of, to = str(source_thread_id), str(target_thread_id)
        if not self._lineages.has(of):
            self._refuse_copy(of)
        return of, to

    def _refuse_copy(self, thread_id: str) -> NoReturn:
        raise InvalidInput(f"cannot copy thread {thread_id!r}: it has no sealed checkpoint")

    def _whole(self, thread_id: str, rows: Sequence[CheckpointTuple]) -> Sequence[CheckpointTuple]:
        return rows or self._refuse_copy(thread_id)

    def _seal_copies(
        self,
        source_id: str,
        target_id: str,
        source: Sequence[CheckpointTuple],
        copies: Sequence[CheckpointTuple],
    ) -> None:
        with self._lineages.using(str(target_id), create=True) as lineage:
            assert lineage is not None
            by_key = {(_named(row.config)[1], _id(row)): row for row in copies}
            events: Events = [("thread_copied", {"from": str(source_id)})]
            with self._lineages.using(str(source_id)) as of:
                assert of is not None
                for row in reversed(source):
                    ns, id = _named(row.config)[1], _id(row)
                    copied = by_key.get((ns, id))
                    if copied is None:
                        of.refuse(ns, id, f"was not copied to thread {target_id!r}")
                    of.check(ns, id, self._found(_as_of(source_id, target_id, row, copied)))
                    events += of.events(ns, id, self._metadata(copied.metadata))
            lineage.seal_all(events)

    def _adopt(self, lineage: Lineage, rows: Sequence[CheckpointTuple]) -> int:
        events: Events = [("thread_adopted", {"checkpoints": len(rows)})]
        for row in reversed(rows):
            ns = _named(row.config)[1]
            if lineage.link(ns, _id(row)) is None:
                events += self._events_of(ns, row)
        if len(events) > 1:
            lineage.seal_all(events)
        return sum(name == "checkpoint_sealed" for name, _ in events)

    def _events_of(self, ns: str, row: CheckpointTuple) -> Events:
        """The events that seal a checkpoint as it is. Of its writes only the order is known, not the places."""
        found, id = self._found(row), _id(row)
        event = {
            "ns": ns,
            "id": id,
            "parent": found.parent,
            "run": cast(dict[str, Any], row.metadata).get("run_id"),
            "frame": found.frame,
            "metadata": found.metadata,
            "values": dict(found.values),
        }
        events: Events = [("checkpoint_sealed", event)]
        for at, (task, channel, digest) in enumerate(found.writes):
            one = {"ns": ns, "id": id, "task": task, "path": f"{at:08}", "writes": [[at, channel, digest]]}
            events.append(("writes_sealed", one))
        return events


def _refuse_without_seals(thread_id: str) -> NoReturn:
    raise NotVerified(f"thread {thread_id!r} has checkpoints and no seal; hint: adopt_thread, if you trust them")


def _warn_of_writes(id: str, count: int) -> None:
    if count:
        _warn(f"checkpoint {id!r} has {count} writes without a seal, which are not used")


def _warn(text: str) -> None:
    warnings.warn(text, UnsealedCheckpoint, stacklevel=4)


def _named(config: RunnableConfig) -> tuple[str, str, str | None]:
    """The thread, the namespace and the id of the checkpoint that a configuration names."""
    named: Mapping[str, Any] = config.get("configurable", {})
    id = named.get("checkpoint_id")
    return str(named["thread_id"]), str(named.get("checkpoint_ns") or ""), None if id is None else str(id)


def _id(row: CheckpointTuple) -> str:
    """The id of a checkpoint, which names itself unless its bytes are opaque."""
    return str(_named(row.config)[2] if isinstance(row.checkpoint, Opaque) else row.checkpoint["id"])


def _sealed(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that has a seal: some savers leave `writes` out, which other members repeat."""
    return {name: value for name, value in metadata.items() if name != "writes"}


def _is_plain(value: Any) -> bool:
    """Does any saver keep it as it is: names and texts, whole numbers, and lists and maps of such?"""
    kind = value.__class__
    if kind is str:
        return bool(value.isprintable())
    if kind is int:
        return bool(abs(value) < 2**53)
    if kind is list:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(type(name) is str and name.isprintable() and _is_plain(member) for name, member in value.items())
    return value is None or kind is bool


def _as_of(source_id: str, target_id: str, row: CheckpointTuple, copied: CheckpointTuple) -> CheckpointTuple:
    """A copy as its source is: a saver may give the copy its own `thread_id` in the metadata."""
    metadata: Any = dict(copied.metadata)
    if metadata.get("thread_id") == target_id and row.metadata.get("thread_id") == source_id:
        metadata["thread_id"] = source_id
    return copied._replace(metadata=metadata)


def _versions(
    lineage: Lineage, ns: str, parent: str | None, checkpoint: Checkpoint, new: ChannelVersions
) -> ChannelVersions:
    """The versions of channels that are to be kept: all of them where the parent was deleted with its values."""
    if parent is None or not lineage.is_gone(ns, parent):
        return new
    return {**{name: checkpoint["channel_versions"][name] for name in checkpoint["channel_values"]}, **new}


def _values(row: CheckpointTuple) -> Mapping[str, Any]:
    return {} if isinstance(row.checkpoint, Opaque) else row.checkpoint["channel_values"]


def _unlisted(wanted: Sequence[Place], rows: Sequence[CheckpointTuple | Place], limit: int | None) -> Places:
    """What a list lacks; of one that a limit ended only what is newer than its oldest."""
    there = {row if isinstance(row, Place) else Place(*_named(row.config)[:2], _id(row)) for row in rows}
    oldest = ""
    if limit is not None and len(rows) >= limit:
        oldest = min((place.id for place in there), default="~")
    return [place for place in wanted if place.id > oldest and place not in there]


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def _in(thread_id: str, ns: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


def _at(config: RunnableConfig, ns: str, id: str, asked: str | None) -> RunnableConfig:
    """The configuration of one checkpoint: what was asked, where it was asked for by its id."""
    named: Mapping[str, Any] = config.get("configurable", {})
    if asked is not None:
        return {**config, "configurable": {**named, "checkpoint_ns": ns, "checkpoint_id": id}}
    return {"configurable": {"thread_id": named["thread_id"], "checkpoint_ns": ns, "checkpoint_id": id}}


def _frame(checkpoint: Checkpoint) -> str:
    """The digest of all of a checkpoint but the values of its channels: each member may choose what runs next."""
    members = cast(dict[str, Any], checkpoint)
    return digest_of({name: member for name, member in members.items() if name != "channel_values"})
