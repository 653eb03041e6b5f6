# pyright: standard
"""Databases of checkpoints, each with its saver, and the hands of an attacker in it."""

import copy
import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row

Saver = BaseCheckpointSaver[Any]


def changed_frame(stored: tuple[str, bytes], members: dict[str, Any]) -> tuple[str, bytes]:
    """A checkpoint as it is stored, with other members."""
    serializer = JsonPlusSerializer()
    return serializer.dumps_typed({**serializer.loads_typed(stored), **members})


class Database:
    """A database of checkpoints. `saver` is the saver of one process."""

    saver: Saver

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Runs a statement as an attacker; `?` takes values."""
        raise NotImplementedError

    def replace(self, old: bytes, new: bytes, *, of: str = "checkpoints") -> None:
        """Replaces bytes in all stored values, of checkpoints or of writes."""
        raise NotImplementedError

    def delete(self, id: str) -> None:
        """Removes a checkpoint."""
        self.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", id)

    def delete_writes(self, thread_id: str) -> None:
        """Removes the writes of a thread."""
        self.execute("DELETE FROM {writes} WHERE thread_id = ?", thread_id)

    def change_parent(self, id: str, parent: str | None) -> None:
        """Gives a checkpoint another parent."""
        self.execute("UPDATE checkpoints SET parent_checkpoint_id = ? WHERE checkpoint_id = ?", parent, id)

    def change_frame(self, id: str, members: dict[str, Any]) -> None:
        """Changes members of a checkpoint, or adds them."""
        raise NotImplementedError

    def snapshot(self) -> Any:
        """All that the database has."""
        raise NotImplementedError

    def restore(self, kept: Any) -> None:
        """Puts it back."""
        raise NotImplementedError

    @contextmanager
    def next_process(self) -> Generator[Saver]:
        """The saver of another process that opens the database."""
        yield self.saver


class Memory(Database):
    """Not a database of its own: an attacker in the process's memory shows what the seals notice."""

    def __init__(self) -> None:
        self.memory = InMemorySaver()
        self.saver = self.memory

    def replace(self, old: bytes, new: bytes, *, of: str = "checkpoints") -> None:
        changed = 0
        if of == "writes":
            for writes in self.memory.writes.values():
                for place, (task, channel, (kind, data), path) in list(writes.items()):
                    changed += data.count(old)
                    writes[place] = (task, channel, (kind, data.replace(old, new)), path)
        else:
            for blob, (kind, data) in list(self.memory.blobs.items()):
                changed += data.count(old)
                self.memory.blobs[blob] = (kind, data.replace(old, new))
        assert changed

    def delete(self, id: str) -> None:
        assert any(rows.pop(id, None) for thread in self.memory.storage.values() for rows in thread.values())

    def delete_writes(self, thread_id: str) -> None:
        for place in [place for place in self.memory.writes if place[0] == thread_id]:
            del self.memory.writes[place]

    def change_parent(self, id: str, parent: str | None) -> None:
        for thread in self.memory.storage.values():
            for rows in thread.values():
                if id in rows:
                    rows[id] = (*rows[id][:2], parent)

    def change_frame(self, id: str, members: dict[str, Any]) -> None:
        for rows in [rows for thread in self.memory.storage.values() for rows in thread.values() if id in rows]:
            rows[id] = (changed_frame(rows[id][0], members), *rows[id][1:])

    def snapshot(self) -> Any:
        plain = {thread: {ns: dict(rows) for ns, rows in of.items()} for thread, of in self.memory.storage.items()}
        return plain, copy.deepcopy(dict(self.memory.writes)), dict(self.memory.blobs)

    def restore(self, kept: Any) -> None:
        storage, writes, blobs = kept
        self.memory.storage.clear()
        for thread, of in storage.items():
            for ns, rows in of.items():
                self.memory.storage[thread][ns].update(rows)
        self.memory.writes.clear()
        self.memory.writes.update(copy.deepcopy(writes))
        self.memory.blobs.clear()
        self.memory.blobs.update(blobs)


class Sqlite(Database):
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.saver = SqliteSaver(self.connection)
        self.saver.setup()

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        done = self.connection.execute(statement.replace("{writes}", "writes"), values)
        rows = done.fetchall()
        assert done.rowcount != 0 or rows or statement.startswith("SELECT")
        self.connection.commit()
        return rows

    def replace(self, old: bytes, new: bytes, *, of: str = "checkpoints") -> None:
        column = "checkpoint" if of == "checkpoints" else "value"
        rows = self.execute(f"SELECT rowid, {column} FROM {of} WHERE instr({column}, ?) > 0", old)
        assert rows
        for row, data in rows:
            self.execute(f"UPDATE {of} SET {column} = ? WHERE rowid = ?", data.replace(old, new), row)

    def change_frame(self, id: str, members: dict[str, Any]) -> None:
        [stored] = self.execute("SELECT type, checkpoint FROM checkpoints WHERE checkpoint_id = ?", id)
        data = changed_frame((stored[0], stored[1]), members)[1]
        self.execute("UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", data, id)

    def snapshot(self) -> Any:
        return "\n".join(self.connection.iterdump())

    def restore(self, kept: Any) -> None:
        for table in ("checkpoints", "writes"):
            self.connection.execute(f"DROP TABLE {table}")
        self.connection.executescript(kept)
        self.connection.commit()

    @contextmanager
    def next_process(self) -> Generator[Saver]:
        connection = sqlite3.connect(self.path, check_same_thread=False)
        yield SqliteSaver(connection)
        connection.close()


class Postgres(Database):
    """A database of a cluster that lives as long as the tests."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection = self._connected()
        self.saver = PostgresSaver(self.connection)
        self.saver.setup()

    def _connected(self) -> "psycopg.Connection[Any]":
        rows: Any = dict_row
        return psycopg.connect(self.address, autocommit=True, prepare_threshold=0, row_factory=rows)

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        text = statement.replace("?", "%s").replace("{writes}", "checkpoint_writes")
        done = self.connection.execute(text.encode(), values)
        if done.description is None:
            assert done.rowcount
            return []
        return [tuple(row.values()) for row in done.fetchall()]

    def replace(self, old: bytes, new: bytes, *, of: str = "checkpoints") -> None:
        table = "checkpoint_blobs" if of == "checkpoints" else "checkpoint_writes"
        rows = self.execute(f"SELECT ctid::text, blob FROM {table} WHERE position(? in blob) > 0", old)
        assert rows
        for row, data in rows:
            self.execute(f"UPDATE {table} SET blob = ? WHERE ctid = ?::tid", bytes(data).replace(old, new), row)

    def change_frame(self, id: str, members: dict[str, Any]) -> None:
        statement = "UPDATE checkpoints SET checkpoint = checkpoint || ?::jsonb WHERE checkpoint_id = ?"
        self.execute(statement, json.dumps(members), id)

    def snapshot(self) -> Any:
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        return {table: self.execute(f"SELECT row_to_json(t)::text FROM {table} t") for table in tables}

    def restore(self, kept: Any) -> None:
        for table, rows in kept.items():
            self.connection.execute(f"TRUNCATE {table}".encode())
            for (row,) in rows:
                self.execute(f"INSERT INTO {table} SELECT * FROM json_populate_record(null::{table}, ?::json)", row)

    @contextmanager
    def next_process(self) -> Generator[Saver]:
        with self._connected() as connection:
            yield PostgresSaver(connection)
