"""`SealedSessionStore`: any session store of the Claude Agent SDK, with a seal on each entry.

```python
options = ClaudeAgentOptions(session_store=SealedSessionStore(store, "seals"), resume=session_id)
```

`load` gives a session only where it is the one that was sealed: an entry that was changed, removed or put back raises
`NotVerified` before the agent starts, and so does the log of a subagent that is missing. Entries without a seal are not
used, and `UnsealedItem` warns of them.

Install it with `pip install threadseal[claude-agent]`.
"""

import asyncio
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from ._errors import NotVerified
from ._named import SealedLists, UnsealedItem, digest_of
from .home import Identity, StrPath

__all__ = ["SealedSessionStore", "UnsealedItem"]


class SealedSessionStore(SessionStore):
    """Any session store, with a seal on each entry. One process writes a session at a time."""

    def __init__(
        self, inner: SessionStore, folder: StrPath, *, identity: Identity | None = None, store: str = ""
    ) -> None:
        """The records with the seals are in `folder`: keep it where the writers of the store cannot write.

        Several stores that share a folder need a name in `store` each.
        """
        self.inner = inner
        keys = Identity.of_home() if identity is None else identity
        self._lists = SealedLists(Path(folder).resolve(), "claude-session", keys, store)
        self._appending = asyncio.Lock()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keeps entries and seals those that the store did not have before."""
        async with self._appending:
            name = _name(key)
            known = set(await asyncio.to_thread(self._lists.digests, name))
            await self.inner.append(key, entries)
            fresh: list[str] = []
            for entry in entries:
                digest = digest_of(entry)
                # With a uuid an entry is kept once, however often a batch is repeated.
                if "uuid" not in entry or digest not in known:
                    fresh.append(digest)
                    known.add(digest)
            if fresh:
                await asyncio.to_thread(self._lists.add, name, fresh)
            await self._note_below(key)

    async def _note_below(self, key: SessionKey) -> None:
        """Seals in the record of a session that it has this log of a subagent."""
        if (subpath := key.get("subpath")) is None:
            return
        session = _name({"project_key": key["project_key"], "session_id": key["session_id"]})
        if subpath not in await asyncio.to_thread(self._lists.below, session):
            await asyncio.to_thread(self._lists.seal, session, "list_added", {"name": subpath})

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries of a session, each of them the one that was sealed; None where there is no session."""
        entries = await self.inner.load(key)
        if "subpath" not in key:
            await self._check_below(key, await self._listed(key))
        checked = await asyncio.to_thread(self._lists.checked, _name(key), entries or [])
        return None if entries is None and not checked else checked

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, as the store inside has them: only names and times."""
        return await self.inner.list_sessions(project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Lacking: a summary has no seal. The SDK loads the sessions instead."""
        raise NotImplementedError

    async def delete(self, key: SessionKey) -> None:
        """Deletes a session and its subkeys. The record stays and shows it."""
        async with self._appending:
            session: SessionListSubkeysKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
            below = await asyncio.to_thread(self._lists.below, _name(session))
            if (subpath := key.get("subpath")) is not None:
                if subpath in below:
                    await asyncio.to_thread(self._lists.seal, _name(session), "list_removed", {"name": subpath})
                below = []
            for name in {*below, *(await self._listed(session) if subpath is None else [])}:
                await asyncio.to_thread(self._lists.clear, _name({**session, "subpath": name}))
            await asyncio.to_thread(self._lists.clear, _name(key))
            await self.inner.delete(key)

    async def _listed(self, session: SessionKey | SessionListSubkeysKey) -> list[str]:
        """The logs of subagents that the store has; where it cannot list them, those among the sealed ones."""
        of: SessionListSubkeysKey = {"project_key": session["project_key"], "session_id": session["session_id"]}
        try:
            return await self.inner.list_subkeys(of)
        except NotImplementedError:
            sealed = await asyncio.to_thread(self._lists.below, _name(of))
            return [name for name in sealed if await self.inner.load({**of, "subpath": name}) is not None]

    async def _check_below(self, session: SessionKey | SessionListSubkeysKey, listed: list[str]) -> None:
        name = _name({"project_key": session["project_key"], "session_id": session["session_id"]})
        for subpath in await asyncio.to_thread(self._lists.below, name):
            if subpath not in listed:
                raise NotVerified(
                    f"the log {subpath!r} of session {name!r} was removed; hint: restore it, or delete it"
                )

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The names of the logs of subagents; raises where one that was sealed is missing."""
        listed = await self.inner.list_subkeys(key)
        await self._check_below(key, listed)
        return listed

    async def adopt(self, key: SessionKey) -> int:
        """Seals a session that is older than its seals. Nothing shows what was changed before."""
        name = _name(key)
        if await asyncio.to_thread(self._lists.has, name):
            return 0
        entries: list[Any] = list(await self.inner.load(key) or [])
        if not entries:
            raise NotVerified(f"there is no session {name!r}")
        await asyncio.to_thread(self._lists.add, name, [digest_of(entry) for entry in entries])
        await self._note_below(key)
        return len(entries)

    def release(self) -> None:
        """Gives the records up, so that another process may continue them."""
        self._lists.release()


def _name(key: SessionKey | SessionListSubkeysKey) -> str:
    parts = [key["project_key"], key["session_id"]]
    if subpath := key.get("subpath"):
        parts.append(str(subpath))
    # No text of a part can end in another one.
    return "/".join(f"{len(part)}:{part}" for part in parts)
