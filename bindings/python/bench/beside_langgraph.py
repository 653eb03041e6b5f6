# pyright: standard
"""What `SealedSaver` adds to a run of LangGraph: `python beside_langgraph.py [FOLDER]`, with a release build.

Each round runs one graph with `SqliteSaver` alone and with seals, in turns; the median of the ratios counts. The
databases and the records are in FOLDER, which belongs on a disk: there both sides wait for it.
"""

import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from threadseal import Identity, verify
from threadseal.langgraph import SealedSaver

STEPS = 1000
ROUNDS = 5
MODES: tuple[Literal["async", "sync"], ...] = ("async", "sync")
MAX_RATIO = 1.3
"""In the mode `async`, which is LangGraph's own choice: its run does not wait for the saver."""


class State(TypedDict, total=False):
    """What a step changes."""

    count: int
    note: str


def step(state: State) -> State:
    """One step: a note of a thousand letters."""
    return {"count": state.get("count", 0) + 1, "note": "x" * 1000}


def after(state: State) -> str:
    """The next step, or the end."""
    return END if state.get("count", 0) >= STEPS else "step"


def seconds(saver: BaseCheckpointSaver[Any], mode: Literal["async", "sync"]) -> float:
    """The time of one run."""
    builder: Any = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", after, ["step", END])
    graph = builder.compile(checkpointer=saver)
    begin = time.perf_counter()
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": STEPS + 10}
    ended = graph.invoke({"count": 0}, config, durability=mode)
    taken = time.perf_counter() - begin
    assert ended["count"] == STEPS
    return taken


def pair(folder: Path, identity: Identity, mode: Literal["async", "sync"]) -> tuple[float, float]:
    """The times of one round: alone, and sealed."""
    connection = sqlite3.connect(folder / "alone.db", check_same_thread=False)
    alone = seconds(SqliteSaver(connection), mode)
    connection.close()
    connection = sqlite3.connect(folder / "sealed.db", check_same_thread=False)
    with SealedSaver(SqliteSaver(connection), folder / "seals", identity=identity) as saver:
        sealed = seconds(saver, mode)
    connection.close()
    [record] = (folder / "seals").glob("*.jsonl")
    assert verify(record, trust=identity.trust).verdict == "open"
    assert sum(b'"checkpoint_sealed"' in line for line in record.read_bytes().splitlines()) == STEPS + 2
    return alone, sealed


def main(folder: Path) -> int:
    """Prints the ratios; the exit code."""
    identity = Identity.danger_with_seed(bytes(range(32)), folder / "keys")
    ratios: dict[str, float] = {}
    for mode in MODES:
        pairs: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                pairs.append(pair(Path(scratch), identity, mode))
        ratios[mode] = statistics.median(sealed / alone for alone, sealed in pairs)
        steps = [statistics.median(times) / STEPS * 1e3 for times in zip(*pairs, strict=True)]
        limit = f"limit {MAX_RATIO}" if mode == "async" else ""
        print(
            f"{mode:6} a step {steps[0]:7.2f} ms alone {steps[1]:7.2f} ms sealed   ratio {ratios[mode]:.2f}   {limit}"
        )
    return int(ratios["async"] > MAX_RATIO)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(main(Path(scratch)))
