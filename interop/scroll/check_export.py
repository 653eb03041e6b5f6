"""Checks that trajectories which ThreadSeal writes are ATIF, and hold what the scrolls hold.

    python3 interop/scroll/check_export.py [--threadseal PROGRAM] [CORPUS]

Every file of CORPUS (by default `corpus/real-runs` of $THREADSEAL_SHARED) that `scroll from` knows
by itself becomes a scroll and the scroll a trajectory. The package `atif` of PyPI, written by others,
must accept it; and each call and each result of the scroll must be in it once.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from atif import Trajectory


def run(command):
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def counted(pairs):
    return collections.Counter(json.dumps(pair, sort_keys=True) for pair in pairs)


def calls_of_scroll(turns):
    for turn in turns:
        for call in turn.get("tool_calls", ()):
            args = call["args"]
            yield call["id"], call["name"], args if isinstance(args, dict) else {"input": args}


def calls_of_trajectory(steps):
    for step in steps:
        for call in step.get("tool_calls", ()):
            yield call["tool_call_id"], call["function_name"], call["arguments"]


def results_of_scroll(turns):
    for turn in turns:
        for result in turn.get("tool_results", ()):
            yield result["id"], result["status"] == "error"


def results_of_trajectory(steps):
    for step in steps:
        for result in step.get("observation", {}).get("results", ()):
            yield result["source_call_id"], result.get("extra", {}).get("status") == "error"


def check(program, path, folder):
    """What is wrong with one file; None if it is in no format that is known."""
    scroll = pathlib.Path(folder) / "scroll.json"
    try:
        scroll.write_bytes(run([program, "scroll", "from", "auto", path]))
    except RuntimeError:
        return None
    text = run([program, "scroll", "to", "atif", scroll, "--unverified"])
    trajectory = json.loads(text)
    try:
        Trajectory.model_validate(trajectory)
    except ValueError as error:
        return [f"not ATIF: {str(error)[:300]}"]
    turns, steps = json.loads(scroll.read_bytes()), trajectory["steps"]
    wrong = []
    if counted(calls_of_scroll(turns)) != counted(calls_of_trajectory(steps)):
        wrong.append("calls differ")
    if counted(results_of_scroll(turns)) != counted(results_of_trajectory(steps)):
        wrong.append("results differ")
    return wrong


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--threadseal", default="target/debug/threadseal")
    options.add_argument("corpus", nargs="?")
    options = options.parse_args()
    shared = os.environ.get("THREADSEAL_SHARED", "../shared")
    corpus = pathlib.Path(options.corpus or f"{shared}/corpus/real-runs")
    if not corpus.is_dir():
        print(f"skipped: no folder {corpus}")
        return 0
    written = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(p for p in corpus.glob("*/*") if p.suffix in (".json", ".jsonl", ".traj", ".eval")):
            wrong = check(options.threadseal, path, folder)
            written += wrong is not None
            for line in wrong or ():
                failures += 1
                print(f"  WRONG {path.parent.name}/{path.name}: {line}")
    print(f"atif: {written} trajectories, {failures} wrong")
    return 1 if failures or not written else 0


if __name__ == "__main__":
    sys.exit(main())
