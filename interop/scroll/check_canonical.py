"""Random documents in three implementations of RFC 8785: ours, PyPI `rfc8785`, npm `canonicalize`.

    python check_canonical.py --xtask PATH --node-modules FOLDER [--documents N] [--seed N]

Each implementation is one process with the same input lines. All must write the same bytes.
"""

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

from random_json import documents

HERE = Path(__file__).parent


class Canonicaliser:
    """A process that answers each line with its canonical form."""

    def __init__(self, name, command, environment=None):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | (environment or {})
        )

    def feed(self, lines):
        """Writes from a thread of its own, because a pipe cannot hold everything."""
        for line in lines:
            self.process.stdin.write(line)
        self.process.stdin.close()


def batches(seed, count, size=5000):
    batch = []
    for text in documents(seed, count):
        batch.append(text)
        if len(batch) == size:
            yield "\n".join(batch).encode() + b"\n"
            batch = []
    if batch:
        yield "\n".join(batch).encode() + b"\n"


def compare(canonicalisers, seed, count):
    """The numbers of the documents with different answers, and these answers."""
    source = Fanout(batches(seed, count), len(canonicalisers))
    for index, one in enumerate(canonicalisers):
        threading.Thread(target=one.feed, args=(source.lines(index),), daemon=True).start()
    for number in range(count):
        answers = [one.process.stdout.readline() for one in canonicalisers]
        if len(set(answers)) > 1 or not answers[0].endswith(b"\n"):
            yield number, answers


class Fanout:
    """One source, several readers, each batch held until the slowest has it."""

    def __init__(self, source, readers):
        self.source = source
        self.queues = [[] for _ in range(readers)]
        self.lock = threading.Lock()

    def lines(self, reader):
        while True:
            with self.lock:
                if not self.queues[reader]:
                    batch = next(self.source, None)
                    if batch is None:
                        return
                    for queue in self.queues:
                        queue.append(batch)
                batch = self.queues[reader].pop(0)
            yield batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xtask", required=True, help="the built xtask")
    parser.add_argument("--node-modules", required=True, help="where `canonicalize` is installed")
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    canonicalisers = [
        Canonicaliser("ours", [arguments.xtask, "canon"]),
        Canonicaliser("rfc8785", [sys.executable, HERE / "canonicalize.py"]),
        Canonicaliser("canonicalize", ["node", HERE / "canonicalize.cjs"], {"NODE_PATH": arguments.node_modules}),
    ]
    differing = 0
    for number, answers in compare(canonicalisers, arguments.seed, arguments.documents):
        differing += 1
        if differing > 10:
            continue
        print(f"document {number} of seed {arguments.seed}:")
        for one, answer in zip(canonicalisers, answers):
            print(f"  {one.name}: {answer.decode(errors='replace').rstrip()}")
    exits = [one.process.wait() for one in canonicalisers]
    print(f"check_canonical: {arguments.documents} documents, {differing} differ, exit codes {exits}")
    sys.exit(differing > 0 or any(exits))


if __name__ == "__main__":
    main()
