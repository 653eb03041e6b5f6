"""Checks that ThreadSeal's trajectories are ATIF, and contain the content of their scrolls.

    python3 interop/scroll/check_export.py [--threadseal PROGRAM] [CORPUS]

Its input is every chain of `testkit/scroll`, and every scroll that `scroll from` makes of a file of
CORPUS. The default is `corpus/real-runs` of $THREADSEAL_SHARED. Each becomes a trajectory. The
independent package `atif` of PyPI must accept it, and it must contain each call and each result of
the scroll once.
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

SUITE = pathlib.Path(__file__).parent.parent.parent / "testkit/scroll"
# The message of `scroll from auto` on a file without a mapping.
UNKNOWN = "unknown source format"
# A mapping refuses a file of which it knows less than half.
REFUSED = "would drop them"


class Unknown(Exception):
    """The format of the file is unknown."""


def run(command, fine=(0,)):
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode not in fine:
        said = done.stderr.decode(errors="replace").strip()
        raise Unknown if UNKNOWN in said or REFUSED in said else RuntimeError(said)
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


def check(program, scroll):
    """The faults in the trajectory of one scroll."""
    trajectory = json.loads(run([program, "scroll", "to", "atif", scroll, "--anyway"], (0, 3)))
    try:
        Trajectory.model_validate(trajectory)
    except ValueError as error:
        yield f"not ATIF: {str(error)[:300]}"
        return
    turns, steps = json.loads(scroll.read_bytes()), trajectory["steps"]
    if counted(calls_of_scroll(turns)) != counted(calls_of_trajectory(steps)):
        yield "calls differ"
    if counted(results_of_scroll(turns)) != counted(results_of_trajectory(steps)):
        yield "results differ"


def check_source(program, path, folder):
    """The faults in the trajectory of the scroll of one file."""
    scroll = pathlib.Path(folder) / "scroll.json"
    scroll.write_bytes(run([program, "scroll", "from", "auto", path]))
    yield from check(program, scroll)


def sources(corpus):
    if not corpus.is_dir():
        print(f"skipped: no folder {corpus}")
        return []
    return sorted(path for path in corpus.glob("*/*") if path.suffix in (".json", ".jsonl", ".traj", ".eval"))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--threadseal", default="target/debug/threadseal")
    options.add_argument("corpus", nargs="?")
    options = options.parse_args()
    shared = os.environ.get("THREADSEAL_SHARED", "../shared")
    corpus = pathlib.Path(options.corpus or f"{shared}/corpus/real-runs")
    written = unknown = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        chains = sorted((SUITE / "chains").glob("*.json"))
        checks = [(path, check(options.threadseal, path)) for path in chains]
        checks += [(path, check_source(options.threadseal, path, folder)) for path in sources(corpus)]
        for path, wrongs in checks:
            try:
                wrongs = list(wrongs)
            except Unknown:
                unknown += 1
                continue
            except RuntimeError as error:
                wrongs = [str(error)]
            written += 1
            for wrong in wrongs:
                failures += 1
                print(f"  WRONG {path.parent.name}/{path.name}: {wrong}")
    print(f"atif: {written} trajectories, {failures} wrong; {unknown} files in no format that is known")
    return 1 if failures or not written else 0


if __name__ == "__main__":
    sys.exit(main())
