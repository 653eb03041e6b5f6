# pyright: standard
"""Deletions beside runs and readers: none of them is refused for what the others do, and an attacker still is."""

import asyncio
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from databases import Database, Postgres, Sqlite
from graphs import Agent, approving, thread
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from test_sealed_saver import CONVERSATION, Whole, ids, reopened, run, with_subgraph
from threadseal import Identity, NotVerified, Refused
from threadseal.langgraph import SealedSaver, UnsealedCheckpoint

STEPS = ("put", "put_writes", "get_tuple")
"""What a run calls of the saver inside."""
PATIENCE = 0.03
"""How long a step waits for a call that may have to wait for this step."""


class Steps:
    """Lets a call begin in another thread before or after the call NUMBER of the saver inside."""

    def __init__(self, inner: Any, names: Sequence[str], number: int, begin: Callable[[], None]) -> None:
        self.inner, self.names = inner, names
        self.left, self.begin = number, begin
        self.lock = threading.Lock()
        self.failed: list[BaseException] = []
        self.other: threading.Thread | None = None

    def __enter__(self) -> "Steps":
        for name in self.names:
            setattr(self.inner, name, self._stopping(getattr(self.inner, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            delattr(self.inner, name)
        if self.other is not None:
            self.other.join()

    def _stopping(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._step()
            found = real(*arguments, **options)
            self._step()
            return found

        return call

    def _step(self) -> None:
        with self.lock:
            self.left -= 1
            if self.left != 0:
                return
            self.other = threading.Thread(target=self._work)
        self.other.start()
        self.other.join(PATIENCE)

    def _work(self) -> None:
        try:
            self.begin()
        except BaseException as error:
            self.failed.append(error)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """What a deletion and a run leave has a seal, or no one is given it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsealedCheckpoint)
        yield


def continues(saver: SealedSaver, identity: Identity) -> SealedSaver:
    """The next process reads all of the thread, and continues it."""
    saver = reopened(saver, identity)
    assert len(list(saver.list(thread()))) == len(ids(saver))
    saver.get_tuple(thread())
    assert Agent(saver).ask("Thank you.", thread())
    return reopened(saver, identity)


def run_beside(saver: SealedSaver, number: int, delete: Callable[[], None]) -> bool:
    """A run, and a deletion that begins at one of its steps. Has the run so many?"""
    with Steps(saver.inner, STEPS, number, delete) as steps:
        assert Agent(saver).ask("Find the leads.", thread()) == CONVERSATION
    assert steps.failed == []
    return steps.other is not None


# T-PY-48
def test_a_thread_that_is_deleted_during_its_run_is_never_refused(
    database: Database, saver: SealedSaver, identity: Identity
) -> None:
    number = 1
    while run_beside(saver, number, partial(saver.delete_thread, "1")):
        saver = continues(saver, identity)
        saver.delete_thread("1")
        number += 1
    assert number > 20


# T-PY-48
@pytest.mark.parametrize("number", [1, 2])
def test_a_run_that_begins_during_a_deletion_is_never_refused(
    database: Database, saver: SealedSaver, identity: Identity, number: int
) -> None:
    Agent(saver).ask("Find the leads.", thread())
    with Steps(saver.inner, ["delete_thread"], number, partial(run_one, saver)) as steps:
        saver.delete_thread("1")
    assert steps.failed == []
    saver = continues(saver, identity)
    assert Agent(saver).ask("Thank you.", thread())[:4] == CONVERSATION


def run_one(saver: SealedSaver) -> None:
    Agent(saver).ask("Find the leads.", thread())


# T-PY-48
@pytest.mark.parametrize("how", ["prune", "delete_for_runs", "copy_thread"])
def test_a_run_beside_each_other_deletion_is_never_refused(tmp_path: Path, identity: Identity, how: str) -> None:
    def change(saver: SealedSaver) -> None:
        if how == "prune":
            saver.prune(["1"])
        elif how == "delete_for_runs":
            saver.delete_for_runs(["second"])
        else:
            saver.copy_thread("1", "2")

    def config(run_id: str) -> Any:
        return {**thread(), "metadata": {"run_id": run_id}}

    number, runs = 0, True
    while runs:
        number += 1
        saver = SealedSaver(Whole(), tmp_path / str(number), identity=identity)
        Agent(saver).ask("Find the leads.", config("first"))
        with Steps(saver.inner, STEPS, number, partial(change, saver)) as steps:
            Agent(saver).ask("Thank you.", config("second"))
        assert steps.failed == []
        runs = steps.other is not None
        saver = continues(saver, identity)
        if how == "copy_thread" and runs:
            assert Agent(saver).ask("Thank you.", thread("2"))[:4] == CONVERSATION
        for step in (1, 2):
            with Steps(saver.inner, [how], step, partial(run_one, saver)) as steps:
                change(saver)
            assert steps.failed == []
            saver = continues(saver, identity)
    assert number > 10


# T-PY-48
def test_coroutines_that_run_and_delete_at_once_are_never_refused(seals: Path, identity: Identity) -> None:
    saver = SealedSaver(InMemorySaver(), seals, identity=identity)

    async def both(after: int) -> None:
        async def delete() -> None:
            for _ in range(after):
                await asyncio.sleep(0)
            await saver.adelete_thread("1")

        found = await asyncio.gather(Agent(saver).aask("Find the leads.", thread()), delete(), return_exceptions=True)
        assert [*found] == [CONVERSATION, None]

    for after in range(0, 400, 10):
        asyncio.run(both(after))
        saver = continues(saver, identity)
        saver.delete_thread("1")


# T-PY-48
def test_an_attacker_uses_no_deletion(database: Database, saver: SealedSaver, identity: Identity) -> None:
    run_beside(saver, 5, lambda: saver.delete_thread("1"))
    saver = continues(saver, identity)
    Agent(saver).ask("Thank you.", thread())
    whole = database.snapshot()
    for id in ids(saver.inner)[:3]:
        database.delete(id)
        with pytest.raises(NotVerified, match="not in the database"):
            list(reopened(saver, identity).list(thread()))
        saver.release()
        database.restore(whole)
    assert Agent(reopened(saver, identity)).ask("Thank you.", thread())


def beside(role: str, database: Path, seals: Path, keys: Path) -> "subprocess.Popen[str]":
    """Another process in this role."""
    words = [sys.executable, str(Path(__file__).with_name("beside.py")), role, str(database), str(seals), str(keys)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# T-PY-48 T-PY-46
def test_processes_that_run_delete_and_read_at_once_are_never_refused(
    tmp_path: Path, seals: Path, identity: Identity
) -> None:
    made = Sqlite(tmp_path / "checkpoints.db")
    roles = ("run", "delete", "read", "read")
    processes = [beside(role, made.path, seals, tmp_path / "keys") for role in roles]
    time.sleep(6)
    for role, process in zip(roles, processes, strict=True):
        out, _ = process.communicate(timeout=120)
        *refused, last = out.splitlines()
        assert refused == [], role
        assert last.startswith("done"), role
    continues(SealedSaver(made.saver, seals, identity=identity), identity)


# T-PY-48
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_in_a_deletion_leaves_a_thread_that_begins_anew(
    tmp_path: Path, seals: Path, identity: Identity, when: str
) -> None:
    made = Sqlite(tmp_path / "checkpoints.db")
    saver = SealedSaver(made.saver, seals, identity=identity)
    Agent(saver).ask("Find the leads.", thread())
    saver.release()
    process = beside(f"die-{when}", made.path, seals, tmp_path / "keys")
    process.communicate()
    assert process.returncode == -9
    assert (ids(made.saver) == []) == (when == "after")
    for reader in (saver, SealedSaver(made.saver, seals, identity=identity, read_only=True)):
        assert reader.get_tuple(thread()) is None and list(reader.list(thread())) == []
    assert Agent(saver).ask("Find the leads.", thread()) == CONVERSATION
    saver.delete_thread("1")
    assert ids(made.saver) == []
    continues(saver, identity)


# T-PY-48
def test_what_a_killed_deletion_left_is_pruned(seals: Path, identity: Identity) -> None:
    saver = SealedSaver(Whole(), seals, identity=identity)
    Agent(saver).ask("Find the leads.", thread())
    inner: Any = saver.inner
    inner.delete_thread = lambda _: None
    saver.delete_thread("1")
    del inner.delete_thread
    saver = reopened(saver, identity)
    saver.prune(["1"])
    assert saver.get_tuple(thread()) is None
    continues(saver, identity)


class Stopped(Exception):
    """The process ends here."""


# T-PY-48
@pytest.mark.parametrize("how", ["prune", "copy_thread"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_in_a_pruning_or_a_copy_leaves_threads_that_continue(
    seals: Path, identity: Identity, how: str, when: str
) -> None:
    saver = SealedSaver(Whole(), seals, identity=identity)
    with_subgraph(saver).invoke({"plan": "x"}, thread())
    inner: Any = saver.inner
    real = getattr(inner, how)

    def crash(*arguments: Any, **options: Any) -> None:
        if when == "after":
            real(*arguments, **options)
        raise Stopped

    setattr(inner, how, crash)
    arguments: Any = (["1"],) if how == "prune" else ("1", "2")
    with pytest.raises(Stopped):
        getattr(saver, how)(*arguments)
    setattr(inner, how, real)
    saver = reopened(saver, identity)
    if how == "copy_thread":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsealedCheckpoint)
            assert saver.get_tuple(thread("2")) is None
    for _ in range(2):
        getattr(saver, how)(*arguments)
        saver = reopened(saver, identity)
    for name in ("1", "2") if how == "copy_thread" else ("1",):
        assert list(saver.list(thread(name)))
        with_subgraph(saver).invoke(Command(resume="yes"), thread(name))


# T-PY-31
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_thread_that_postgres_prunes_resumes(fresh: str, seals: Path, identity: Identity, asynchronous: bool) -> None:
    # It leaves what is kept without a parent, and takes subgraphs away.
    made = Postgres(fresh)
    saver = SealedSaver(made.saver, seals, identity=identity)
    for _ in range(2):
        approving(saver).invoke({"plan": ""}, thread("1"))
        with_subgraph(saver).invoke({"plan": "x"}, thread("2"))
    if asynchronous:
        asyncio.run(prune_by_coroutine(fresh, saver, identity))
    else:
        saver.prune(["1", "2", "nothing"])
    saver = reopened(saver, identity)
    assert len(ids(saver, "1")) == 1 and not (seals / "nothing").exists()
    assert approving(saver).invoke(Command(resume="yes"), thread("1"))["done"][-1] == "yes: delete the leads"
    with_subgraph(saver).invoke(Command(resume="yes"), thread("2"))
    made.delete(ids(made.saver, "1")[0])
    with pytest.raises(NotVerified):
        approving(reopened(saver, identity)).get_state(thread("1"))
    made.connection.close()


async def prune_by_coroutine(address: str, saver: SealedSaver, identity: Identity) -> None:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    saver.release()
    async with AsyncPostgresSaver.from_conn_string(address) as inner:
        async with SealedSaver(inner, saver._lineages.folder, identity=identity) as pruning:
            await pruning.aprune(["1", "2", "nothing"])


def test_what_a_crash_left_newest_is_not_what_a_pruning_keeps(
    seals: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = SealedSaver(Whole(), seals, identity=identity)
    Agent(saver).ask("Find the leads.", thread())

    def crash(*_: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(saver, "_seal_put", crash)
        with pytest.raises(Stopped):
            Agent(saver).ask("Thank you.", thread())
    saver = reopened(saver, identity)
    with pytest.raises(Refused, match="has no seal; hint: resume the thread") as refused:
        saver.prune(["1"])
    assert not isinstance(refused.value, NotVerified)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsealedCheckpoint)
        assert Agent(saver).ask("Thank you.", thread())[:4] == CONVERSATION
    run(saver, "prune", False, ["1"])
    continues(saver, identity)


# T-PY-46
def test_a_reader_that_meets_a_write_that_is_replaced_reads_again(
    database: Database, saver: SealedSaver, seals: Path, identity: Identity
) -> None:
    def reading(meanwhile: Callable[[], object]) -> Any:
        """The state that a reader gets, with something done between its look at the seals and the database."""
        reader = SealedSaver(saver.inner, seals, identity=identity, read_only=True)
        inner: Any = reader.inner
        real, left = inner.get_tuple, [meanwhile]

        def get_tuple(config: Any) -> Any:
            if left:
                left.pop()()
            return real(config)

        inner.get_tuple = get_tuple
        return reader.get_tuple({**thread(), "configurable": {**waiting.config["configurable"]}})

    graph = approving(saver)
    graph.invoke({"plan": ""}, thread())
    waiting: Any = saver.get_tuple(thread())
    answered = reading(lambda: graph.invoke(Command(resume="yes"), thread()))
    assert ("__resume__", ["yes"]) in [(channel, value) for _, channel, value in answered.pending_writes]
    before = database.snapshot()
    reading(lambda: saver.delete_thread("1"))
    database.restore(before)

    # An attacker's change is refused, also where a run seals something else at that time.
    graph.invoke({"plan": ""}, thread())
    waiting = saver.get_tuple(thread())

    def attack() -> None:
        Agent(saver).ask("Find the leads.", thread("2"))
        graph.update_state(thread(), {"plan": "another"})
        database.replace(b"delete the leads", b"DELETE THE LEADS", of="writes")

    with pytest.raises(NotVerified):
        reading(attack)
