"""Shared by the interop checks: both generations of Rye, the `threadseal` command, one report.

A check is a file `check_*.py` with

    from rig import Rig
    rig = Rig.from_arguments()
    rig.expect("what is checked", got, wanted)
    rig.finish()
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ORACLE = Path(__file__).with_name("oracle.py")


class Rye:
    """One installed generation of Rye, with keys of its own in a fresh user space."""

    def __init__(self, python, folder):
        self.name = Path(python).parent.parent.name
        self.user_space = folder / f"user-{self.name}"
        self.keys = self.user_space / ".ai/config/keys"
        (self.keys / "trusted").mkdir(parents=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RYE_")}
        self.process = subprocess.Popen(
            [python, ORACLE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"USER_SPACE": str(self.user_space)},
        )
        # Makes the signing key where there is none.
        self.fingerprint = self.ask(op="fingerprint")
        self.public_key = self.keys / "signing/public_key.pem"
        self.trust(self.fingerprint, self.public_key.read_text())

    def ask(self, **request):
        """Rye's answer to a request of `oracle.py`."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def trust(self, fingerprint, pem):
        """Makes Rye trust a key: an unsigned file in its folder is enough for it."""
        text = (
            f'version = "1.0.0"\ncategory = "keys/trusted"\nfingerprint = "{fingerprint}"\n'
            f'owner = "interop"\nattestation = ""\n\n[public_key]\npem = """\n{pem.strip()}\n"""\n'
        )
        (self.keys / f"trusted/{fingerprint}.toml").write_text(text)


class Rig:
    """The command with a home of its own, the Ryes, and the tally."""

    def __init__(self, command, recorder, pythons):
        self.scratch = tempfile.TemporaryDirectory(prefix="threadseal-interop-")
        self.folder = Path(self.scratch.name)
        self.command = Path(command).resolve()
        self.recorder = Path(recorder).resolve()
        self.home = self.folder / "home"
        self.passed = self.failed = 0
        self.run("init")
        self.ryes = [Rye(python, self.folder) for python in pythons]
        self.own_keys = self.export("self-rye")
        for rye in self.ryes:
            fingerprint = self.run("key", "show", "self-rye")["keys"][0]["rye_fingerprint"]
            rye.trust(fingerprint, self.own_keys.read_text())

    @classmethod
    def from_arguments(cls):
        parser = argparse.ArgumentParser()
        parser.add_argument("--threadseal", required=True)
        parser.add_argument("--record", required=True, help="the example of threadseal-store")
        parser.add_argument("--rye", action="append", required=True, help="a Python with Rye")
        arguments = parser.parse_args()
        return cls(arguments.threadseal, arguments.record, arguments.rye)

    def work(self, *names):
        """A fresh folder."""
        folder = self.folder.joinpath("work", *names)
        folder.mkdir(parents=True)
        return folder

    def run(self, *arguments):
        """Runs the command, and returns its JSON output."""
        done = subprocess.run(
            [self.command, "--home", self.home, "--json", *map(str, arguments)],
            capture_output=True,
            text=True,
        )
        try:
            return json.loads(done.stdout) | {"exit": done.returncode}
        except json.JSONDecodeError:
            sys.exit(f"{arguments}: exit {done.returncode}: {done.stderr}")

    def record(self, path, entries):
        """Records a thread with the home's keys: (type, payload), or the number of a turn to seal.
        """
        lines = [
            f"{entry}\n" if isinstance(entry, int) else f"{entry[0]} {json.dumps(entry[1], ensure_ascii=False)}\n"
            for entry in entries
        ]
        text = "".join(lines).encode()
        subprocess.run([self.recorder, self.home, path], input=text, check=True)

    def export(self, name):
        """The public half of a key of the home, as a PEM file."""
        path = self.folder / f"{name}.pem"
        self.run("key", "export", name, "--out", path)
        return path

    def verdict(self, path, *arguments):
        """Verdict and exit code of one file."""
        answer = self.run("verify", *arguments, path)
        return [result["verdict"] for result in answer["results"]], answer["exit"]

    def expect(self, what, got, wanted):
        if got == wanted:
            self.passed += 1
        else:
            self.failed += 1
            print(f"{what}:\n  got    {got}\n  wanted {wanted}")

    def finish(self):
        for rye in self.ryes:
            rye.process.stdin.close()
            rye.process.wait()
        self.scratch.cleanup()
        print(f"{Path(sys.argv[0]).stem}: {self.passed} passed, {self.failed} failed")
        sys.exit(self.failed > 0)
