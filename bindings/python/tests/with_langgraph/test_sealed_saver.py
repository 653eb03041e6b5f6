# pyright: standard
"""Sealed checkpoints: an attacker between two runs, and the honest moves that raise no alarm."""

import asyncio
import dataclasses
import hashlib
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import ormsgpack
import psycopg
import pytest
import threadseal
from databases import Database, Memory, Postgres, Sqlite
from graphs import Agent, Approval, approving, thread, with_deltas
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from threadseal import Identity, NotVerified, Recorder, StorageFailed
from threadseal._checkpoints import Lineage
from threadseal._named import path_of
from threadseal.langgraph import SealedSaver, UnsealedCheckpoint

CONVERSATION = ["Find the leads.", "I look at the leads.", "three: Bob, Cid, Dan", "There are three leads."]


@pytest.fixture(autouse=True)
def no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    """An honest run warns of nothing; a test that expects a warning catches it."""
    warnings.simplefilter("error", UnsealedCheckpoint)


def ids(saver: BaseCheckpointSaver[Any], name: str = "1") -> list[str]:
    """The ids of all checkpoints of a thread, newest first."""
    return [row.checkpoint["id"] for row in saver.list(thread(name))]


def configurable(config: RunnableConfig) -> dict[str, Any]:
    """What a configuration names."""
    return config.get("configurable", {})


def refused(saver: SealedSaver, config: Any = None) -> str:
    """The reason for which the next run is refused, before any node runs."""
    agent = Agent(saver)
    with pytest.raises(NotVerified) as error:
        agent.ask("Thank you.", config or thread())
    assert (agent.asked, agent.tool_runs) == (0, 0)
    return str(error.value)


def reopened(saver: SealedSaver, identity: Identity) -> SealedSaver:
    """The saver of the next process: it remembers nothing."""
    saver.release()
    return SealedSaver(saver.inner, saver._lineages.folder, identity=identity)


def test_a_graph_runs_and_resumes_in_another_process(
    database: Database, saver: SealedSaver, seals: Path, identity: Identity
) -> None:
    assert Agent(saver).ask("Find the leads.", thread()) == CONVERSATION
    saver.release()
    with database.next_process() as inner, SealedSaver(inner, seals, identity=identity) as second:
        agent = Agent(second)
        assert agent.ask("Thank you.", thread())[4:] == ["Thank you.", "You are welcome."]
        assert agent.tool_runs == 0
        assert len(ids(second)) == len(list(inner.list(thread())))
    record = path_of(seals, "1")
    report = threadseal.verify(record, trust=identity.trust)
    assert report.verdict == "open" and report.code == "end_unproved"
    assert "three: Bob" not in record.read_text()


def change_newest(database: Database, found: Sequence[str]) -> None:
    database.replace(b"There are three leads.", b"There are seven leads.")


def change_oldest(database: Database, found: Sequence[str]) -> None:
    database.replace(b"Find the leads.", b"Hide the leads.")


def remove_newest(database: Database, found: Sequence[str]) -> None:
    database.delete(found[0])


def remove_ancestor(database: Database, found: Sequence[str]) -> None:
    database.delete(found[2])


def skip_an_ancestor(database: Database, found: Sequence[str]) -> None:
    database.change_parent(found[0], found[2])


def cut_the_ancestors_off(database: Database, found: Sequence[str]) -> None:
    database.change_parent(found[0], None)


ATTACKS: list[Callable[[Database, Sequence[str]], None]] = [
    change_newest,
    change_oldest,
    remove_newest,
    remove_ancestor,
    skip_an_ancestor,
    cut_the_ancestors_off,
]


# T-PY-20
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_changed_or_removed_checkpoint_is_refused(
    database: Database, saver: SealedSaver, identity: Identity, attack: Callable[[Database, Sequence[str]], None]
) -> None:
    Agent(saver).ask("Find the leads.", thread())
    attack(database, ids(saver.inner))
    saver = reopened(saver, identity)
    assert "checkpoint" in refused(saver)
    with pytest.raises(NotVerified):
        list(saver.list(thread()))


# T-PY-34
def test_what_runs_next_is_sealed(database: Database, saver: SealedSaver, identity: Identity) -> None:
    Agent(saver).ask("Find the leads.", thread())
    before, newest = database.snapshot(), ids(saver.inner)[0]
    for members in ({"updated_channels": ["branch:to:tool"]}, {"of_a_later_version": True}):
        database.change_frame(newest, members)
        saver = reopened(saver, identity)
        assert "what it runs next" in refused(saver)
        saver.release()
        database.restore(before)


def making(folder: str) -> bytes:
    """MessagePack that makes a folder when the serializer reads it, as long as the answer of the script."""
    call = ormsgpack.packb(("os", "mkdir", folder))
    return b"\xc7" + bytes([len(call), 0]) + call


# T-PY-35
def test_nothing_is_decoded_before_it_is_compared(
    database: Database, saver: SealedSaver, identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Agent(saver).ask("Find the leads.", thread())
    before, newest = database.snapshot(), ids(saver.inner)[0]
    old = b"\xb6There are three leads."
    assert len(making("attacked!")) == len(old)
    database.replace(old, making("attacked!"))
    saver = reopened(saver, identity)
    refused(saver)
    with pytest.raises(NotVerified):
        list(saver.list(thread()))
    assert saver.adopt_thread("1") == 0
    saver.release()
    database.restore(before)
    config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": newest}}
    database.saver.put_writes(config, [("steps", ormsgpack.Ext(0, making("attacked!")[3:]))], "another-task")
    saver = reopened(saver, identity)
    with pytest.warns(UnsealedCheckpoint, match="1 writes without a seal"):
        assert Agent(saver).ask("Thank you.", thread())[:4] == CONVERSATION
    assert not (tmp_path / "attacked!").exists()
    database.saver.get_tuple(config)
    assert (tmp_path / "attacked!").exists(), "the bytes are those of an attack"


@dataclasses.dataclass
class Lead:
    """What a first version of a program keeps."""

    name: str


@dataclasses.dataclass
class LaterLead:
    """What the next version makes of it."""

    name: str
    score: int = 0


# T-PY-36
@pytest.mark.parametrize("pickled", [False, True])
def test_a_class_that_gained_a_member_is_no_alarm(
    seals: Path, identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pickled: bool
) -> None:
    class Leads(TypedDict, total=False):
        lead: Any
        other: Any

    builder: Any = StateGraph(Leads)
    builder.add_node("node", lambda state: {"other": range(3) if pickled else 3})
    builder.add_edge(START, "node")
    connection = sqlite3.connect(tmp_path / "checkpoints.db", check_same_thread=False)
    serializer = JsonPlusSerializer(pickle_fallback=pickled)
    savers: list[BaseCheckpointSaver[Any]] = [
        InMemorySaver(serde=serializer),
        SqliteSaver(connection, serde=serializer),
    ]
    for inner in savers:
        saver = SealedSaver(inner, seals / type(inner).__name__, identity=identity)
        builder.compile(checkpointer=saver).invoke({"lead": Lead("Bob")}, thread())
        saver = reopened(saver, identity)
        with monkeypatch.context() as later:
            later.setattr(sys.modules[__name__], "Lead", LaterLead)
            found = builder.compile(checkpointer=saver).get_state(thread()).values
        assert found["lead"].name == "Bob" and found["lead"].score == 0
        assert found["other"] == (range(3) if pickled else 3)
        saver.release()


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_checkpoint_is_sealed_by_what_was_serialized_as_long_as_that_is_whole(
    seals: Path, identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any
) -> None:
    class Counted(TypedDict, total=False):
        count: int
        other: Any

    def step(state: Counted) -> Counted:
        # A pickle comes in between: it has other bytes than the values of its channels.
        count = state.get("count", 0) + 1
        return {"count": count, "other": range(3) if count in (4, 5) else {"at": [count]}}

    builder: Any = StateGraph(Counted)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if state["count"] == 8 else "step", ["step", END])
    connection = sqlite3.connect(tmp_path / "checkpoints.db", check_same_thread=False)
    inner = SqliteSaver(connection, serde=JsonPlusSerializer(pickle_fallback=True))
    reads: list[str] = []
    saver = SealedSaver(inner, seals, identity=identity)
    read = saver.inner.get_tuple

    def counting(config: RunnableConfig) -> CheckpointTuple | None:
        reads.append("read")
        return read(config)

    monkeypatch.setattr(saver.inner, "get_tuple", counting)
    builder.compile(checkpointer=saver).invoke({"count": 0}, thread(), durability=durability)
    # The first, the two with a pickle, and those after them until one was whole again.
    assert 3 <= len(reads) <= 6, reads
    saver = reopened(saver, identity)
    rows = list(saver.list(thread()))
    assert [row.checkpoint["channel_values"].get("count") for row in rows][:8] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert builder.compile(checkpointer=saver).get_state(thread()).values["other"] == {"at": [8]}


class Cipher:
    """A cipher with another nonce each time, which notices no change."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = os.urandom(16)
        return "test", nonce + self._crypted(nonce, plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "test"
        return self._crypted(ciphertext[:16], ciphertext[16:])

    def _crypted(self, nonce: bytes, text: bytes) -> bytes:
        return bytes(one ^ other for one, other in zip(text, hashlib.shake_256(nonce).digest(len(text)), strict=True))


# T-PY-20
def test_encrypted_values_are_compared_as_they_were_encrypted(tmp_path: Path, seals: Path, identity: Identity) -> None:
    database = Sqlite(tmp_path / "checkpoints.db")
    memory = InMemorySaver()
    for saver in (memory, database.saver):
        saver.serde = EncryptedSerializer(Cipher())
        sealed = SealedSaver(saver, seals / type(saver).__name__, identity=identity)
        assert Agent(sealed).ask("Find the leads.", thread()) == CONVERSATION
        sealed = reopened(sealed, identity)
        assert Agent(sealed).ask("Thank you.", thread())[:4] == CONVERSATION
        sealed.release()
        last = ids(sealed.inner)[0]
        assert b"three: Bob" not in pickle.dumps(dict(memory.blobs))
        if saver is database.saver:
            [(stored,)] = database.execute("SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?", last)
            changed = stored[:-1] + bytes([stored[-1] ^ 1])
            database.execute("UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", changed, last)
        else:
            for place, (kind, data) in list(memory.blobs.items()):
                memory.blobs[place] = (kind, data[:-1] + bytes([data[-1] ^ 1]) if data else data)
        refused(reopened(sealed, identity))
    database.connection.close()


# T-PY-21
def test_a_database_that_went_back_is_refused(database: Database, saver: SealedSaver, identity: Identity) -> None:
    agent = Agent(saver)
    agent.ask("Find the leads.", thread())
    before = database.snapshot()
    agent.ask("Thank you.", thread())
    database.restore(before)
    assert "was removed, or the database went back" in refused(reopened(saver, identity))


# T-PY-22
def test_a_record_that_went_back_with_the_database_is_refused(
    database: Database, saver: SealedSaver, seals: Path, identity: Identity
) -> None:
    agent, record = Agent(saver), path_of(seals, "1")
    agent.ask("Find the leads.", thread())
    before, sealed = database.snapshot(), record.read_bytes()
    agent.ask("Thank you.", thread())
    saver.release()
    database.restore(before)
    record.write_bytes(sealed)
    assert "rolled_back" in refused(reopened(saver, identity))


# T-PY-45
def test_a_reader_beside_the_writer_takes_nothing_changed(
    database: Database, saver: SealedSaver, seals: Path, identity: Identity
) -> None:
    agent, record = Agent(saver), path_of(seals, "1")
    agent.ask("Find the leads.", thread())
    saver._lineages.release()
    before, sealed = database.snapshot(), record.read_bytes()
    agent.ask("Thank you.", thread())
    # The writer reads when all of it is sealed.
    assert saver.get_tuple(thread()) is not None
    reader = SealedSaver(saver.inner, seals, identity=identity, read_only=True)
    assert reader.get_tuple(thread()) is not None
    # Its last seal follows the run; a look by the writer waits for it.
    assert saver.get_tuple(thread()) is not None
    later, whole = database.snapshot(), record.read_bytes()
    database.restore(before)
    with pytest.raises(NotVerified, match="was removed"):
        reader.get_tuple(thread())
    with record.open("r+b") as file:
        file.write(sealed)
        file.truncate()
    with pytest.raises(NotVerified, match="went back"):
        reader.get_tuple(thread())
    record.write_bytes(whole)
    database.restore(later)
    assert reader.get_tuple(thread()) is not None


# T-PY-23
def test_a_thread_that_is_gone_with_its_record_is_missed(
    database: Database, saver: SealedSaver, seals: Path, identity: Identity
) -> None:
    empty = database.snapshot()
    Agent(saver).ask("Find the leads.", thread())
    saver.release()
    record = path_of(seals, "1")
    kept = record.read_bytes()
    database.restore(empty)
    record.unlink()
    assert "is missing" in refused(reopened(saver, identity))
    record.write_bytes(kept)
    assert "was removed" in refused(reopened(saver, identity))


# T-PY-24
def test_the_record_of_another_thread_is_not_taken(saver: SealedSaver, seals: Path, identity: Identity) -> None:
    agent = Agent(saver)
    agent.ask("Find the leads.", thread("1"))
    agent.ask("Hello.", thread("2"))
    saver.release()
    path_of(seals, "1").write_bytes(path_of(seals, "2").read_bytes())
    refused(reopened(saver, identity), thread("1"))


# T-PY-25
def test_a_changed_record_of_seals_is_refused(saver: SealedSaver, seals: Path, identity: Identity) -> None:
    Agent(saver).ask("Find the leads.", thread())
    saver.release()
    record = path_of(seals, "1")
    text = record.read_text()
    at = text.rindex('"frame":"') + len('"frame":"')
    record.write_text(text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :])
    assert "tampered" in refused(reopened(saver, identity))


# T-PY-26
def test_what_an_attacker_adds_is_not_used(
    database: Database, saver: SealedSaver, seals: Path, identity: Identity
) -> None:
    Agent(saver).ask("Find the leads.", thread())
    # Written without a seal: also what a crash between database and seal leaves.
    Agent(database.saver).ask("Wire the money.", thread())
    saver = reopened(saver, identity)
    with pytest.warns(UnsealedCheckpoint):
        rows = list(saver.list(thread()))
    assert all("Wire the money." not in str(row.checkpoint) for row in rows)
    [unsealed, *_] = [id for id in ids(saver.inner) if id not in {row.checkpoint["id"] for row in rows}]
    with pytest.raises(NotVerified, match="no seal"):
        saver.get_tuple({"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": unsealed}})
    assert Agent(saver).ask("Thank you.", thread()) == [*CONVERSATION, "Thank you.", "You are welcome."]


# T-PY-26
def test_a_write_that_an_attacker_adds_is_not_used(database: Database, saver: SealedSaver, identity: Identity) -> None:
    approving(saver).invoke({"plan": ""}, thread())
    newest = ids(saver.inner)[0]
    config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": newest}}
    database.saver.put_writes(config, [("done", ["approved by no one"])], "another-task")
    saver = reopened(saver, identity)
    with pytest.warns(UnsealedCheckpoint, match="1 writes without a seal"):
        row = saver.get_tuple(thread())
    assert row is not None and "approved by no one" not in str(row.pending_writes)


# T-PY-27
def test_a_changed_or_removed_write_is_refused(database: Database, saver: SealedSaver, identity: Identity) -> None:
    graph = approving(saver)
    graph.invoke({"plan": ""}, thread())
    before = database.snapshot()
    database.replace(b"delete the leads", b"delete the house", of="writes")
    saver = reopened(saver, identity)
    with pytest.raises(NotVerified, match="a write of task"):
        approving(saver).invoke(Command(resume="yes"), thread())
    database.restore(before)
    database.delete_writes("1")
    saver = reopened(saver, identity)
    with pytest.raises(NotVerified, match="a write of task"):
        approving(saver).invoke(Command(resume="yes"), thread())
    database.restore(before)
    assert approving(reopened(saver, identity)).invoke(Command(resume="yes"), thread())["done"] == [
        "c",
        "a",
        "b",
        "yes: delete the leads",
    ]


# T-PY-28
def test_time_travel_and_forks_are_no_alarm(saver: SealedSaver, identity: Identity) -> None:
    agent = Agent(saver)
    agent.ask("Find the leads.", thread())
    agent.ask("Thank you.", thread())
    history = list(agent.graph.get_state_history(thread()))
    early = next(state for state in history if len(state.values.get("messages", [])) == 2)
    again = agent.graph.invoke(None, early.config)
    assert [str(message.content) for message in again["messages"]] == CONVERSATION
    forked = agent.graph.update_state(early.config, {"steps": 40})
    assert agent.graph.get_state(forked).values["steps"] == 41
    saver = reopened(saver, identity)
    agent = Agent(saver)
    assert agent.graph.get_state(thread()).values["steps"] == 41
    assert len(list(saver.list(thread()))) == len(list(saver.inner.list(thread())))
    assert len(list(saver.list(thread(), limit=3))) == 3
    before = list(saver.list(thread(), before=early.config))
    assert before and all(row.checkpoint["id"] < configurable(early.config)["checkpoint_id"] for row in before)
    assert list(saver.list(thread(), filter={"source": "fork"})) or list(
        saver.list(thread(), filter={"source": "update"})
    )


def test_a_person_is_asked_and_answers_in_another_process(saver: SealedSaver, identity: Identity) -> None:
    approving(saver).invoke({"plan": ""}, thread())
    result = approving(reopened(saver, identity)).invoke(Command(resume="yes"), thread())
    assert result["done"] == ["c", "a", "b", "yes: delete the leads"]


def with_subgraph(saver: SealedSaver) -> Any:
    """A graph whose subgraph asks a person."""
    builder: Any = StateGraph(Approval)
    builder.add_node("inner", approving(True))
    builder.add_edge(START, "inner")
    builder.add_edge("inner", END)
    return builder.compile(checkpointer=saver)


Lister = Callable[[SealedSaver, Any, dict[str, Any]], list[Any]]


def listed(saver: SealedSaver, of: Any, options: dict[str, Any]) -> list[Any]:
    return list(saver.list(of, **options))


def alisted(saver: SealedSaver, of: Any, options: dict[str, Any]) -> list[Any]:
    async def work() -> list[Any]:
        return [row async for row in saver.alist(of, **options)]

    return asyncio.run(work())


def remove_and_list(database: Database, saver: SealedSaver, identity: Identity, by: Lister) -> None:
    """Removes the newest checkpoint of a graph with a subgraph, then all."""
    with_subgraph(saver).invoke({"plan": "x"}, thread())
    [root, *_] = [row.checkpoint["id"] for row in saver.list(thread()) if not configurable(row.config)["checkpoint_ns"]]
    older: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_id": "ffffffff"}}
    asked: list[dict[str, Any]] = [{}, {"filter": {"source": "input"}}, {"before": older}, {"limit": 9}]
    for options in asked:
        assert by(saver, thread(), options), options
    assert by(saver, None, {})
    database.delete(root)
    saver = reopened(saver, identity)
    for options in asked:
        with pytest.raises(NotVerified, match="not in the database"):
            by(saver, thread(), options)
    with pytest.raises(NotVerified, match="not in the database"):
        by(saver, None, {})
    for row in ids(saver.inner):
        database.delete(row)
    for of, options in ((None, {}), (None, {"limit": 1}), (thread(), {"filter": {"source": "nothing"}})):
        with pytest.raises(NotVerified, match="not in the database"):
            by(saver, of, options)
    saver.release()
    path_of(saver._lineages.folder, "1").unlink()
    with pytest.raises(NotVerified, match="is missing"):
        by(saver, None, {})


# T-PY-37
def test_no_list_lacks_what_was_removed(database: Database, saver: SealedSaver, identity: Identity) -> None:
    remove_and_list(database, saver, identity, listed)


# T-PY-37
def test_no_list_of_coroutines_lacks_what_was_removed(seals: Path, identity: Identity) -> None:
    memory = Memory()
    remove_and_list(memory, SealedSaver(memory.saver, seals, identity=identity), identity, alisted)


# T-PY-38
def test_a_crash_before_a_write_is_kept_or_sealed_is_no_alarm(
    database: Database, saver: SealedSaver, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(range(10))

    def node(_: Any) -> Any:
        return {"done": [str(next(answers))]}

    def graph(of: SealedSaver) -> Any:
        builder: Any = StateGraph(Approval)
        builder.add_node("node", node)
        builder.add_node("other", node)
        builder.add_edge(START, "node")
        builder.add_edge(START, "other")
        return builder.compile(checkpointer=of)

    def crash(*_: Any) -> None:
        raise Crashed

    for at, (where, name) in enumerate(((type(saver.inner), "put_writes"), (Lineage, "seal_kept"))):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, crash)
            with pytest.raises(Crashed):
                graph(saver).invoke({"plan": ""}, thread(str(at)))
        for _ in range(2):
            saver = reopened(saver, identity)
            assert len(graph(saver).invoke(None, thread(str(at)))["done"]) == 2
        saver = reopened(saver, identity)
        assert len(ids(saver, str(at))) > 1


# T-PY-39
def test_two_resumes_at_once_are_no_alarm(saver: SealedSaver, identity: Identity) -> None:
    graph = approving(saver)
    for name in map(str, range(12)):
        graph.invoke({"plan": ""}, thread(name))
        both = threading.Barrier(2)

        def resume(answer: str, name: str = name, both: threading.Barrier = both) -> None:
            both.wait()
            graph.invoke(Command(resume=answer), thread(name))

        calls = [threading.Thread(target=resume, args=(answer,)) for answer in ("yes", "no")]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
    saver = reopened(saver, identity)
    for name in map(str, range(12)):
        assert approving(saver).get_state(thread(name)).values["plan"] == "delete the leads"


# T-PY-39
def test_a_state_is_read_while_its_run_changes_it(seals: Path, identity: Identity) -> None:
    saver = SealedSaver(InMemorySaver(), seals, identity=identity)
    agent, done, failed = Agent(saver), threading.Event(), []
    agent.ask("Find the leads.", thread())

    def poll() -> None:
        while not done.is_set():
            try:
                agent.graph.get_state(thread())
                list(agent.graph.get_state_history(thread()))
            except Exception as error:
                failed.append(error)

    polling = threading.Thread(target=poll)
    polling.start()
    for _ in range(10):
        agent.ask("Thank you.", thread())
    done.set()
    polling.join()
    assert failed == []


# T-PY-47
def test_a_forked_process_reads_no_state_of_before(tmp_path: Path, seals: Path, identity: Identity) -> None:
    saver = SealedSaver(InMemorySaver(), seals, identity=identity)
    Agent(saver).ask("Find the leads.", thread())
    out = tmp_path / "child"
    child = os.fork()
    if child == 0:
        try:
            Agent(saver).ask("Thank you.", thread())
            out.write_text("written")
        except threadseal.ThreadSealError as error:
            out.write_text(str(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "writer" in out.read_text()
    assert Agent(saver).ask("Thank you.", thread())[:4] == CONVERSATION


def test_subgraphs_have_lineages_of_their_own(saver: SealedSaver, identity: Identity) -> None:
    with_subgraph(saver).invoke({"plan": "x"}, thread())
    saver = reopened(saver, identity)
    assert with_subgraph(saver).get_state(thread(), subgraphs=True).tasks[0].state.values["plan"] == "delete the leads"
    with_subgraph(saver).invoke(Command(resume="yes"), thread())
    with saver._lineages.using("1") as lineage:
        assert lineage is not None and len(lineage.namespaces()) == 2


@pytest.mark.filterwarnings("ignore::Warning:langgraph")
def test_delta_channels_resume(saver: SealedSaver, identity: Identity) -> None:
    graph = with_deltas(saver)
    for _ in range(6):
        graph.invoke({"log": ["asked"]}, thread())
    saver = reopened(saver, identity)
    result = with_deltas(saver).invoke({"log": ["asked"]}, thread())
    assert len(result["log"]) == 14 and result["log"][-1] == "note 13"


# T-PY-29
@pytest.mark.filterwarnings("ignore::Warning:langgraph")
def test_a_history_of_a_delta_channel_that_was_cut_is_refused(
    database: Database, saver: SealedSaver, identity: Identity
) -> None:
    graph = with_deltas(saver)
    for _ in range(2):
        graph.invoke({"log": ["asked"]}, thread())
    before = database.snapshot()
    config, _ = saver._pinned(thread())

    def attack(change: Callable[[], None]) -> None:
        change()
        # Without the walk of the ancestors: what a channel is rebuilt from is compared as well.
        with pytest.raises(NotVerified, match="history of channel"):
            saver.get_delta_channel_history(config=config, channels=["log"])
        with pytest.raises(NotVerified):
            with_deltas(reopened(saver, identity)).invoke({"log": ["asked"]}, thread())
        saver.release()
        database.restore(before)

    attack(lambda: database.delete_writes("1"))
    attack(lambda: database.replace(b"note 1", b"note 7", of="writes"))
    attack(lambda: database.change_parent(configurable(config)["checkpoint_id"], None))
    assert len(with_deltas(saver).invoke({"log": ["asked"]}, thread())["log"]) == 6


class Crashed(Exception):
    """The process ends here."""


def test_a_crash_between_database_and_seal_loses_one_step(
    saver: SealedSaver, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    Agent(saver).ask("Find the leads.", thread())

    def crash(*_: Any) -> None:
        raise Crashed

    with monkeypatch.context() as patch:
        patch.setattr(saver, "_seal_link", crash)
        with pytest.raises(Crashed):
            Agent(saver).ask("Thank you.", thread())
    saver = reopened(saver, identity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsealedCheckpoint)
        assert Agent(saver).ask("Thank you.", thread()) == [*CONVERSATION, "Thank you.", "You are welcome."]


def test_a_deleted_thread_begins_anew(saver: SealedSaver, identity: Identity) -> None:
    agent = Agent(saver)
    agent.ask("Find the leads.", thread())
    saver.delete_thread("1")
    assert saver.get_tuple(thread()) is None and list(saver.list(thread())) == []
    saver = reopened(saver, identity)
    assert Agent(saver).ask("Find the leads.", thread()) == CONVERSATION


# T-PY-30
def test_a_deleted_thread_does_not_come_back(database: Database, saver: SealedSaver, identity: Identity) -> None:
    Agent(saver).ask("Find the leads.", thread())
    before = database.snapshot()
    saver.delete_thread("1")
    database.restore(before)
    saver = reopened(saver, identity)
    assert saver.get_tuple(thread()) is None and list(saver.list(thread())) == []


def test_a_thread_that_is_older_than_the_saver_is_adopted(
    database: Database, saver: SealedSaver, identity: Identity
) -> None:
    Agent(database.saver).ask("Find the leads.", thread())
    assert "hint: adopt_thread" in refused(saver)
    with pytest.raises(NotVerified):
        list(saver.list(thread()))
    assert saver.adopt_thread("1") == len(ids(saver.inner))
    saver = reopened(saver, identity)
    agent = Agent(saver)
    assert agent.ask("Thank you.", thread())[:4] == CONVERSATION
    database.replace(b"There are three leads.", b"There are seven leads.")
    refused(reopened(saver, identity))


def test_a_run_stays_linear(saver: SealedSaver, identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(saver)
    agent.ask("Find the leads.", thread())
    asked = 0
    real = type(saver.inner).get_tuple

    def counted(self: Any, config: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(self, config)

    monkeypatch.setattr(type(saver.inner), "get_tuple", counted)
    costs: list[int] = []
    for _ in range(8):
        asked = 0
        agent.ask("Thank you.", thread())
        costs.append(asked)
    assert max(costs) == min(costs)
    # The first read of another process walks all ancestors, the second none.
    saver = reopened(saver, identity)
    asked = 0
    saver.get_tuple(thread())
    assert asked == len(ids(saver.inner))
    asked = 0
    saver.get_tuple(thread())
    assert asked == 1


def test_one_process_writes_a_thread_at_a_time(saver: SealedSaver, identity: Identity, seals: Path) -> None:
    Agent(saver).ask("Find the leads.", thread())
    second = SealedSaver(saver.inner, seals, identity=identity)
    refused_writer = Agent(second)
    with pytest.raises(StorageFailed, match="one writer at a time"):
        refused_writer.ask("Thank you.", thread())
    assert refused_writer.asked == 0
    reader = SealedSaver(saver.inner, seals, identity=identity, read_only=True)
    assert len(list(reader.list(thread()))) == len(ids(saver.inner))
    assert reader.get_tuple(thread()) == saver.get_tuple(thread())
    assert reader.get_tuple(thread("another")) is None
    with pytest.raises(StorageFailed, match="this saver only reads"):
        reader.delete_thread("another")
    with pytest.raises(StorageFailed, match="this saver only reads"):
        reader.prune(["1"])
    with pytest.raises(StorageFailed, match="this saver only reads"):
        Agent(reader).ask("Find the leads.", thread("another"))
    assert ids(saver.inner, "another") == []
    saver.release()
    assert second.get_tuple(thread()) is not None
    second.release()


def test_few_records_are_open_at_a_time(database: Database, seals: Path, identity: Identity) -> None:
    saver = SealedSaver(database.saver, seals, identity=identity, max_open=2)
    for name in ("a", "b", "c", "d"):
        Agent(saver).ask("Find the leads.", thread(name))
    assert len(saver._lineages._open) == 2
    for name in ("a", "b", "c", "d"):
        assert Agent(saver).ask("Thank you.", thread(name))[:4] == CONVERSATION
    assert sorted(saver.thread_ids()) == ["a", "b", "c", "d"]
    saver.release()


class Whole(InMemorySaver):
    """A saver that has all methods of the interface."""

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for name, of in self.storage.items():
            for ns, rows in of.items():
                for id, (_, metadata, _) in list(rows.items()):
                    if self.serde.loads_typed(metadata).get("run_id") in run_ids:
                        del rows[id]
                        self.writes.pop((name, ns, id), None)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for ns, rows in list(self.storage[source_thread_id].items()):
            self.storage[target_thread_id][ns].update(rows)
        for (name, ns, id), writes in list(self.writes.items()):
            if name == source_thread_id:
                self.writes[target_thread_id, ns, id].update(writes)
        for (name, ns, channel, version), blob in list(self.blobs.items()):
            if name == source_thread_id:
                self.blobs[target_thread_id, ns, channel, version] = blob

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for name in thread_ids:
            if strategy == "delete":
                self.delete_thread(name)
                continue
            for ns, rows in self.storage[name].items():
                for id in sorted(rows)[:-1]:
                    del rows[id]
                    self.writes.pop((name, ns, id), None)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


def run(saver: SealedSaver, name: str, asynchronous: bool, *arguments: Any, **options: Any) -> None:
    """Calls a method of the saver, or the one for coroutines."""
    if asynchronous:
        asyncio.run(getattr(saver, f"a{name}")(*arguments, **options))
    else:
        getattr(saver, name)(*arguments, **options)


@pytest.fixture
def whole(seals: Path, identity: Identity) -> SealedSaver:
    return SealedSaver(Whole(), seals, identity=identity)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_pruned_thread_resumes_from_its_latest(whole: SealedSaver, identity: Identity, asynchronous: bool) -> None:
    Agent(whole).ask("Find the leads.", thread())
    run(whole, "prune", asynchronous, ["1"])
    assert len(list(whole.list(thread()))) == 1
    whole = reopened(whole, identity)
    assert Agent(whole).ask("Thank you.", thread())[:4] == CONVERSATION
    run(whole, "prune", asynchronous, ["1"], strategy="delete")
    assert whole.get_tuple(thread()) is None


# T-PY-31
def test_pruning_is_no_excuse_for_the_latest(whole: SealedSaver, identity: Identity) -> None:
    Agent(whole).ask("Find the leads.", thread())
    whole.prune(["1"])
    inner: Any = whole.inner
    inner.storage["1"][""].clear()
    refused(reopened(whole, identity))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_copied_thread_is_sealed_as_its_source_was(
    whole: SealedSaver, identity: Identity, asynchronous: bool
) -> None:
    approving(whole).invoke({"plan": ""}, thread("1"))
    run(whole, "copy_thread", asynchronous, "1", "2")
    whole = reopened(whole, identity)
    for name in ("1", "2"):
        assert approving(whole).invoke(Command(resume="yes"), thread(name))["done"][-1] == "yes: delete the leads"


# T-PY-32
def test_a_thread_that_was_copied_changed_gets_no_seal(whole: SealedSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    Agent(whole).ask("Find the leads.", thread("1"))
    inner: Any = whole.inner
    real = Whole.copy_thread

    def changed(self: Any, source: str, target: str) -> None:
        real(self, source, target)
        for place, (kind, data) in list(inner.blobs.items()):
            if place[0] == target:
                inner.blobs[place] = (kind, data.replace(b"three", b"seven"))

    monkeypatch.setattr(Whole, "copy_thread", changed)
    with pytest.raises(NotVerified):
        whole.copy_thread("1", "2")
    assert whole.get_tuple(thread("1")) is not None
    assert path_of(whole._lineages.folder, "2").read_text().count("checkpoint_sealed") == 0


# T-PY-32
def test_a_copy_with_other_metadata_gets_no_seal(whole: SealedSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    Agent(whole).ask("Find the leads.", {**thread("1"), "metadata": {"approved_by": "no one"}})
    with pytest.raises(threadseal.InvalidInput, match="it has no sealed checkpoint"):
        whole.copy_thread("nothing", "2")
    inner: Any = whole.inner
    real = Whole.copy_thread

    def changed(self: Any, source: str, target: str) -> None:
        real(self, source, target)
        for rows in inner.storage[target].values():
            for id, (stored, (kind, data), parent) in list(rows.items()):
                rows[id] = (stored, (kind, data.replace(b"no one", b"a boss")), parent)

    monkeypatch.setattr(Whole, "copy_thread", changed)
    with pytest.raises(NotVerified, match="its metadata"):
        whole.copy_thread("1", "2")


# T-PY-20
def test_what_has_no_seal_in_metadata_is_not_given(whole: SealedSaver) -> None:
    Agent(whole).ask("Find the leads.", thread())
    inner: Any = whole.inner
    serializer = JsonPlusSerializer()
    for id, (stored, metadata, parent) in list(inner.storage["1"][""].items()):
        planted = {**serializer.loads_typed(metadata), "writes": {"model": "planted"}}
        inner.storage["1"][""][id] = (stored, serializer.dumps_typed(planted), parent)
    for row in whole.list(thread()):
        assert row.metadata.get("source") in ("input", "loop") and "planted" not in str(row.metadata)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_checkpoints_of_a_run_are_deleted(whole: SealedSaver, identity: Identity, asynchronous: bool) -> None:
    agent = Agent(whole)
    agent.ask("Find the leads.", {**thread(), "metadata": {"run_id": "first"}})
    agent.ask("Thank you.", {**thread(), "metadata": {"run_id": "second"}})
    run(whole, "delete_for_runs", asynchronous, ["second"])
    whole = reopened(whole, identity)
    assert Agent(whole).ask("Thank you.", thread()) == [*CONVERSATION, "Thank you.", "You are welcome."]


def test_what_the_saver_inside_lacks_is_lacking(seals: Path, identity: Identity) -> None:
    saver = SealedSaver(InMemorySaver(), seals, identity=identity)
    with pytest.raises(NotImplementedError, match="InMemorySaver has no copy_thread"):
        saver.copy_thread("1", "2")
    with pytest.raises(NotImplementedError, match="InMemorySaver has no delete_for_runs"):
        saver.delete_for_runs(["1"])
    with pytest.raises(NotImplementedError, match="InMemorySaver has no prune"):
        saver.prune(["1"])


class Loses(InMemorySaver):
    """A saver that keeps another value than it is given."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        values = {name: 0 if name == "steps" else of for name, of in checkpoint["channel_values"].items()}
        changed: Any = {**checkpoint, "channel_values": values}
        return super().put(config, changed, metadata, new_versions)


def test_a_saver_that_keeps_another_value_gets_no_seal(seals: Path, identity: Identity) -> None:
    saver = SealedSaver(Loses(), seals, identity=identity)
    with pytest.raises(threadseal.StorageFailed, match="back changed"):
        Agent(saver).ask("Find the leads.", thread())


async def asynchronous(inner: BaseCheckpointSaver[Any], attack: Any, seals: Path, identity: Identity) -> None:
    """A run of coroutines, one after a restart, and one after an attack."""
    async with SealedSaver(inner, seals, identity=identity) as saver:
        assert await Agent(saver).aask("Find the leads.", thread()) == CONVERSATION
        assert [row async for row in saver.alist(thread(), limit=2)]
    async with SealedSaver(inner, seals, identity=identity) as saver:
        assert (await Agent(saver).aask("Thank you.", thread()))[4:] == ["Thank you.", "You are welcome."]
        interrupted = approving(saver)
        await interrupted.ainvoke({"plan": ""}, thread("2"))
        result = await interrupted.ainvoke(Command(resume="yes"), thread("2"))
        assert result["done"][-1] == "yes: delete the leads"
        deltas = with_deltas(saver)
        log: list[str] = []
        for _ in range(3):
            log = (await deltas.ainvoke({"log": ["asked"]}, thread("3")))["log"]
        assert len(log) == 6
        await saver.adelete_thread("2")
        assert await saver.aget_tuple(thread("2")) is None
    await attack()
    async with SealedSaver(inner, seals, identity=identity) as saver:
        agent = Agent(saver)
        with pytest.raises(NotVerified):
            await agent.aask("And now?", thread())
        assert agent.asked == 0
        with pytest.raises(NotVerified):
            [row async for row in saver.alist(thread())]
        assert await saver.aadopt_thread("3") == 0


# T-PY-20
@pytest.mark.filterwarnings("ignore::Warning:langgraph")
def test_coroutines_are_refused_a_changed_checkpoint_in_memory(seals: Path, identity: Identity) -> None:
    memory = Memory()

    async def attack() -> None:
        memory.replace(b"There are three leads.", b"There are seven leads.")

    asyncio.run(asynchronous(memory.saver, attack, seals, identity))


# T-PY-20
@pytest.mark.filterwarnings("ignore::Warning:langgraph")
def test_coroutines_are_refused_a_changed_checkpoint_in_sqlite(tmp_path: Path, seals: Path, identity: Identity) -> None:
    path = tmp_path / "checkpoints.db"

    async def attack() -> None:
        database = Sqlite(path)
        database.replace(b"There are three leads.", b"There are seven leads.")
        database.connection.close()

    async def work() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as inner:
            await asynchronous(inner, attack, seals, identity)

    asyncio.run(work())


# T-PY-20
@pytest.mark.filterwarnings("ignore::Warning:langgraph")
def test_coroutines_are_refused_a_changed_checkpoint_in_postgres(fresh: str, seals: Path, identity: Identity) -> None:
    async def attack() -> None:
        database = Postgres(fresh)
        database.replace(b"There are three leads.", b"There are seven leads.")
        database.connection.close()

    async def work() -> None:
        async with AsyncPostgresSaver.from_conn_string(fresh) as inner:
            await inner.setup()
            await asynchronous(inner, attack, seals, identity)

    asyncio.run(work())


def test_the_order_of_sets_does_not_count(tmp_path: Path, identity: Identity) -> None:
    # A set has another order in each process: hashes of texts are random there.
    path = tmp_path / "checkpoints.db"
    program = (
        "import sqlite3, sys\n"
        "from graphs import Agent, thread\n"
        "from langgraph.checkpoint.sqlite import SqliteSaver\n"
        "import threadseal\n"
        "from threadseal.langgraph import SealedSaver\n"
        "me = threadseal.Identity.danger_with_seed(bytes(range(32)), sys.argv[2])\n"
        "inner = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))\n"
        "with SealedSaver(inner, sys.argv[2], identity=me) as saver:\n"
        "    print(len(Agent(saver).ask('More.', thread())))\n"
    )
    counts: list[int] = []
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)}
        words = [sys.executable, "-c", program, str(path), str(tmp_path / "seals")]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        counts.append(int(done.stdout))
    assert counts == [4, 6, 8]


def test_the_server_of_the_tests_is_a_real_one(fresh: str) -> None:
    with psycopg.connect(fresh) as connection:
        [version] = connection.execute("SHOW server_version").fetchall()
    assert int(str(version[0]).split(".")[0]) >= 13


@pytest.mark.parametrize("mode", ["async", "sync", "exit"])
def test_a_run_returns_when_all_of_it_is_sealed(tmp_path: Path, identity: Identity, mode: Any) -> None:
    # Calls share seals, and a seal may follow its checkpoint; never beyond the end of the run.
    class Count(TypedDict, total=False):
        count: int

    builder: Any = StateGraph(Count)
    builder.add_node("step", lambda state: {"count": state["count"] + 1})
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if state["count"] >= 50 else "step", ["step", END])
    saver = SealedSaver(InMemorySaver(), tmp_path, identity=identity)
    graph = builder.compile(checkpointer=saver)
    for name in ("1", "2", "3"):
        graph.invoke({"count": 0}, {**thread(name), "recursion_limit": 60}, durability=mode)
        record = path_of(tmp_path, name).read_bytes()
        assert threadseal.verify(path_of(tmp_path, name), trust=identity.trust).verdict == "open"
        assert record.count(b'"checkpoint_sealed"') == (1 if mode == "exit" else 52)
    assert graph.get_state(thread("2")).values == {"count": 50}


# T-PY-33
def test_after_a_failed_seal_the_record_is_read_anew(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = InMemorySaver()
    saver = SealedSaver(inner, tmp_path, identity=identity)
    Agent(saver).ask("Find the leads.", thread())
    before = ids(saver)

    def full(_: Recorder) -> str:
        raise StorageFailed("the disk is full")

    with monkeypatch.context() as during:
        during.setattr(Recorder, "seal", full)
        with pytest.raises(StorageFailed):
            Agent(saver).ask("Thank you.", thread())
    with pytest.warns(UnsealedCheckpoint):
        assert ids(saver) == before
    assert Agent(saver).ask("Thank you.", thread())[:4] == CONVERSATION
    saver.release()
    assert threadseal.verify(path_of(tmp_path, "1"), trust=identity.trust).verdict == "open"
