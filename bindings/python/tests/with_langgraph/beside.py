# pyright: standard
"""Another process that uses a database of checkpoints and its seals: `beside.py ROLE DATABASE SEALS KEYS`.

It prints what it was refused, one line each. It ends with its standard input, but not before its work was done three
times.
"""

import os
import signal
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from graphs import Agent, thread
from langgraph.checkpoint.sqlite import SqliteSaver
from threadseal import Identity, NotVerified, StorageFailed
from threadseal.langgraph import SealedSaver


def run(saver: SealedSaver) -> None:
    """A run, which gives the thread up at its end."""
    Agent(saver).ask("Find the leads.", thread())
    saver.release()


def delete(saver: SealedSaver) -> None:
    """A deletion."""
    saver.delete_thread("1")
    saver.release()
    time.sleep(0.02)


def read(saver: SealedSaver) -> None:
    """All that a reader asks for."""
    saver.get_tuple(thread())
    list(saver.list(thread()))
    list(saver.list(None, limit=2))
    Agent(saver).graph.get_state(thread())


def again(work: Callable[[SealedSaver], None], saver: SealedSaver) -> None:
    """The same until standard input ends, and three times at least. Another writer is no refusal."""
    ended, done = threading.Event(), 0

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    while done < 3 or not ended.is_set():
        try:
            work(saver)
            done += 1
        except (StorageFailed, sqlite3.OperationalError):
            saver.release()
            time.sleep(0.01)
        except (NotVerified, Warning) as error:
            print("refused", error, flush=True)
    print("done", done, flush=True)


def dying(saver: SealedSaver, method: str, when: str) -> Any:
    """Lets this process die in a method of the database's saver."""
    real = getattr(saver.inner, method)

    def call(*arguments: Any, **options: Any) -> Any:
        if when == "after":
            real(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(saver.inner, method, call)


def main(role: str, database: str, seals: str, keys: str) -> None:
    """Plays the role."""
    warnings.simplefilter("error")
    identity = Identity.danger_with_seed(bytes(range(32)), keys)
    connection = sqlite3.connect(database, check_same_thread=False)
    saver = SealedSaver(SqliteSaver(connection), seals, identity=identity, read_only=role == "read")
    if role.startswith("die"):
        dying(saver, "delete_thread", role.removeprefix("die-"))
        saver.delete_thread("1")
    else:
        again({"run": run, "delete": delete, "read": read}[role], saver)


if __name__ == "__main__":
    main(*sys.argv[1:])
