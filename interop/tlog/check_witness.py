"""Witnesses of two implementations: aics-witness cosigns our log, and our witness cosigns theirs.

A temporary home with a log requests cosignatures of an aics-witness by a policy, grows, and
requests
again. Then home and mark are rolled back, and the log grows differently. The witness refuses the
second history. In the other direction, aics-witness's client sends checkpoints of an aics-tlog log
to `threadseal witness serve`: the first, a grown one, one twice, an older one, and a fork.
"""

import argparse
import contextlib
import json
import logging
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from aics_tlog import (
    Checkpoint,
    MerkleTree,
    format_vkey,
    parse_note,
    parse_vkey,
    sign_checkpoint,
    verify_checkpoint,
    vkey_from_ed25519,
)
from aics_witness.feeder import WitnessClient, WitnessConflict, WitnessRejected, merge_cosignatures
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ORIGIN = "log.example/interop"
PATIENCE = 20


class Host:
    """A home."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)
        self.environment = {"THREADSEAL_HOME": str(self.folder / "home"), "PATH": os.environ["PATH"]}
        self.run("init", "-q")

    def start(self, *arguments, expect=0):
        done = subprocess.run(
            [self.program, *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode != expect:
            sys.exit(f"{arguments}: exit {done.returncode}, not {expect}: {done.stdout}{done.stderr}")
        return done

    def run(self, *arguments, expect=0):
        return self.start(*arguments, expect=expect).stdout

    def seal(self, *names):
        for name in names:
            (self.folder / name).write_text(json.dumps({"name": name}) + "\n")
        self.run("seal", "-q", *names)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return answer.status == 200
        except OSError:
            time.sleep(0.05)
    return False


def theirs_cosigns_ours(program, bin_folder, folder):
    """An aics-witness and the log of a home."""
    host = Host(program, folder)
    made = json.loads(host.run("log", "status", "--json"))
    witness = str(bin_folder / "aics-witness")
    config = str(pathlib.Path(folder) / "witness.json")
    port = free_port()
    quiet = {"check": True, "capture_output": True, "text": True}
    subprocess.run(
        [witness, "init", "-c", config, "--name", "witness.example/w1", "--listen", f"127.0.0.1:{port}"], **quiet
    )
    subprocess.run([witness, "add-log", "-c", config, "--origin", made["origin"], "--vkey", made["vkey"]], **quiet)
    status = json.loads(subprocess.run([witness, "status", "-c", config, "--json"], **quiet).stdout)
    vkey = status["witness"]["vkey"] if isinstance(status.get("witness"), dict) else status["vkey"]
    policy = pathlib.Path(folder) / "policy.txt"
    policy.write_text(f"log {made['vkey']}\nwitness w1 {vkey} http://127.0.0.1:{port}\nquorum w1\n")
    host.run("anchor", "add", str(policy))
    with running([witness, "serve", "-c", config, "--log-level", "ERROR"]):
        assert answers(f"http://127.0.0.1:{port}/healthz"), "aics-witness does not answer"
        host.seal("a.json", "b.json")
        host.run("anchor", "check")
        backup = pathlib.Path(folder) / "backup"
        for name in ("home", "home.marks"):
            shutil.copytree(pathlib.Path(folder) / name, backup / name)
        host.seal(*[f"{number}.json" for number in range(300)])
        host.run("anchor", "check")
        # The collected cosignatures in their own reader; entry 0 is the event of the home's key.
        status = json.loads(subprocess.run([witness, "status", "-c", config, "--json"], **quiet).stdout)
        assert any(log.get("size") == 303 for log in status["logs"]), status
        # Home and mark are rolled back, and the log continues differently.
        for name in ("home", "home.marks"):
            shutil.rmtree(pathlib.Path(folder) / name)
            shutil.copytree(backup / name, pathlib.Path(folder) / name)
        host.seal("another.json")
        told = host.start("anchor", "check", expect=1)
        assert "log_rolled_back" in told.stdout + told.stderr or "forked" in told.stdout + told.stderr, told
    return 2


def ours_cosigns_theirs(program, folder):
    """Our witness and a log that aics-tlog makes."""
    host = Host(program, folder)
    key = Ed25519PrivateKey.generate()
    log = vkey_from_ed25519(ORIGIN, key.public_key())
    host.run("key", "new", "--name", "self-witness", "--usage", "witness")
    host.run("witness", "add", format_vkey(log))
    command = [program, "witness", "serve", "--listen", "127.0.0.1:0", "--name", "witness.example/ours", "--json"]
    with running(command, env=host.environment, cwd=host.folder) as process:
        serving = json.loads(process.stdout.readline())
        client = WitnessClient(serving["url"], parse_vkey(serving["vkey"]))
        messages = [f"message {number}\n".encode() for number in range(700)]
        cosigned = 0

        def submit(tree, size):
            note = sign_checkpoint(Checkpoint(ORIGIN, size, tree.root(size)), key, ORIGIN).to_bytes()
            line = client.submit(note, tree.consistency_proof)
            whole = merge_cosignatures(note, line)
            result = verify_checkpoint(parse_note(whole), log, [parse_vkey(serving["vkey"])], quorum=1)
            assert result.ok, result

        tree = MerkleTree(messages)
        for size in (1, 2, 255, 256, 257, 700, 700):
            submit(tree, size)
            cosigned += 1
        fork = MerkleTree([*messages[:600], *[b"other\n"] * 101])
        for size, expected in ((300, WitnessConflict), (700, WitnessRejected), (701, WitnessRejected)):
            try:
                submit(fork, size)
            except expected:
                continue
            sys.exit(f"our witness cosigned a fork of {size} entries")
        client.close()
    kept = list((host.folder / "home" / "witness").rglob("*.tlog-conflict"))
    assert kept, "no evidence was kept"
    return cosigned


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threadseal", required=True)
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.threadseal).resolve())
    # Their client reports each refusal that this check provokes.
    logging.disable(logging.CRITICAL)
    bin_folder = pathlib.Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        theirs = theirs_cosigns_ours(program, bin_folder, folder)
    with tempfile.TemporaryDirectory() as folder:
        ours = ours_cosigns_theirs(program, folder)
    print(f"aics-witness cosigned {theirs} checkpoints of ours, we cosigned {ours} of aics-tlog; forks were refused by both")


if __name__ == "__main__":
    main()
