"""Runs the conformance suite of `testkit/scroll` on the published implementations of agent-scroll.

    python check_suite.py --threadseal PATH --peer PATH

PY is the package of PyPI, RS the crate. The check runs in both directions. They produce the
canonical
text, hash and signature in `turns.json`, and accept the chains that the command seals. The command
accepts the chains that they seal.

A row of the table shows each case in which one of them differs from the suite: a chain, an attack
or
the mutations. The rows must equal those of `deviations.txt`. Where both give one answer on an
array,
failure by failure, `--compat` must give it too, with the key and without.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
SUITE = HERE.parent.parent / "testkit/scroll"
# Verdicts with which a program may act on a chain without a second check.
ACCEPTED = {"verified", "consistent"}


NO_ANSWER = "no answer"


def told(answer):
    """At most two of its failures, for a table."""
    failures = re.findall(r"[0-9]+:[A-Za-z]+", answer)
    return " ".join(failures[:2] + ["…"] * (len(failures) > 2)) or answer


class Peer:
    """A published implementation behind `peer.py`'s requests."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def verdict(self, file, key=None):
        """`ok`, or the reasons turn by turn, or a note that it gave no answer."""
        answer = self.ask(op="verify", file=str(file), key=key)
        if "failures" in answer:
            return " ".join(f"{turn}:{reason}" for turn, reason in answer["failures"])
        return "ok" if answer.get("ok") else NO_ANSWER


class Command:
    """The `threadseal` command with an empty home."""

    def __init__(self, path, home):
        self.path, self.home = Path(path).resolve(), home

    def run(self, *arguments, stdin=b""):
        command = [self.path, "--home", self.home, *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True)

    def verdict(self, file, trust, *flags):
        done = self.run("--json", "verify", "--trust", trust, *flags, file)
        try:
            return json.loads(done.stdout)["results"][0]["verdict"]
        except (json.JSONDecodeError, LookupError):
            return f"exit {done.returncode}"

    def compat(self, file, key):
        flags = ["--key", key] if key else []
        done = self.run("scroll", "verify", "--compat", *flags, file)
        lines = done.stderr.decode().splitlines()
        reasons = [line.split(" (")[0] for line in lines if line.startswith("turn ")]
        failures = " ".join(line.removeprefix("turn ").replace(": ", ":") for line in reasons)
        if done.returncode == 0:
            return "ok"
        return failures or (NO_ANSWER if done.returncode == 1 else f"exit {done.returncode}")


class Check:
    def __init__(self, command, peers, folder):
        self.command, self.peers = command, peers
        # The command takes no trust from the folder of the file that it verifies.
        self.folder = folder / "files"
        self.folder.mkdir()
        self.expected = tomllib.loads((SUITE / "expect.toml").read_text())
        self.key = self.expected["trusted_key"]
        self.trust = folder / "trusted.hex"
        self.trust.write_text(self.key + "\n")
        self.passed, self.faults, self.rows = 0, [], []

    def expect(self, what, got, wanted):
        if got == wanted:
            self.passed += 1
        else:
            self.faults.append(f"{what}:\n  got    {got}\n  wanted {wanted}")

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def row(self, case, ours, answers):
        """Notes a case on which a peer differs from the suite."""
        wanted = ours in ACCEPTED
        if any((answer == "ok") != wanted for answer in answers):
            self.rows.append([case, ours, *map(told, answers)])
        else:
            self.passed += 1

    def turns(self):
        """C1 and C3: text, hash and signature of each turn, made by each peer and by the command."""
        suite = json.loads((SUITE / "turns.json").read_text())
        for entry in suite["turns"]:
            if json.loads(entry["turn"]).get("enc") == "cbor":
                continue
            wanted = {"canonical": entry["canonical"], "hash": entry["hash"], "sig": entry["sig"]}
            path = self.write("turn.json", entry["turn"])
            chain = self.write("chain.json", f"[{entry['turn']}]")
            answers = [self.made(peer, path, chain, suite["seed"]) == wanted for peer in self.peers]
            if not all(answers):
                same = ["same" if answer else "other bytes" for answer in answers]
                self.rows.append([f"turns.json {entry['name']}", "same", *same])
            done = self.command.run("scroll", "seal", "--key", suite["seed"], chain)
            if "prev_hash" in json.loads(entry["turn"]):
                continue
            self.expect(f"seal {entry['name']}", hash_and_sig(done.stdout), (wanted["hash"], wanted["sig"]))

    def made(self, peer, path, chain, seed):
        out = self.folder / "peer.json"
        canonical = peer.ask(op="canon", file=str(path)).get("hex", "")
        peer.ask(op="seal", file=str(chain), out=str(out), key=seed)
        digest, sig = hash_and_sig(out.read_bytes()) if out.exists() else ("", "")
        out.unlink(missing_ok=True)
        return {"canonical": bytes.fromhex(canonical).decode(), "hash": digest, "sig": sig}

    def both_ways(self):
        """A chain of plain turns, sealed by each and verified by all others, signed and unsigned.
        """
        chain = json.loads((SUITE / "chains/signed.json").read_text())
        plain = [{k: v for k, v in turn.items() if k not in ("hash", "sig", "prev_hash")} for turn in chain]
        turns = self.write("plain.json", json.dumps(plain))
        seed = json.loads((SUITE / "turns.json").read_text())["seed"]
        for key, public, verdict in [(None, None, "consistent"), (seed, self.key, "verified")]:
            flags = ["--key", key] if key else []
            sealed = self.command.run("scroll", "seal", *flags, turns).stdout
            ours = self.write("ours.json", sealed)
            for peer in self.peers:
                self.expect(f"{peer.name} verifies ours", peer.verdict(ours, public), "ok")
                theirs = self.folder / f"{peer.name}.json"
                peer.ask(op="seal", file=str(turns), out=str(theirs), key=key)
                self.expect(f"ours verifies {peer.name}", self.command.verdict(theirs, self.trust), verdict)
                self.expect(f"--compat on {peer.name}", self.command.compat(theirs, self.key), "ok")
                for other in self.peers:
                    self.expect(f"{other.name} verifies {peer.name}", other.verdict(theirs, public), "ok")

    def files(self):
        """Chains and attacks that are JSON arrays, the only form that v0.1 reads."""
        for vector in self.expected["vector"]:
            path = SUITE / vector["file"]
            ours = self.command.verdict(path, self.trust, *vector.get("flags", []))
            self.expect(vector["file"], ours, vector["verdict"])
            if path.suffix == ".json":
                self.row(vector["file"], ours, self.answers(path, self.key))
                self.answers(path, None)

    def answers(self, path, key):
        """The answers of `--compat` and of both peers. They must agree where the peers do."""
        compat = self.command.compat(path, key)
        answers = [peer.verdict(path, key) for peer in self.peers]
        if len(set(answers)) == 1:
            self.expect(f"--compat on {path.name} with key {key}", compat, answers[0])
        return [compat, *answers]

    def mutations(self):
        """C2 on the samples: how many changed bytes each implementation accepts."""
        suite = json.loads((SUITE / "mutations.json").read_text())
        turn = suite["turn"].encode()
        members = {}
        for mutation in suite["mutations"]:
            changed = bytearray(turn)
            changed[mutation["at"]] = mutation["byte"]
            path = self.write("mutant.json", b"[" + suite["first"].encode() + b"," + bytes(changed) + b"]")
            counts = members.setdefault(mutation["member"], [0] * (1 + len(self.peers)))
            for index, answer in enumerate(self.answers(path, self.key)):
                counts[index] += answer == "ok"
        for member, counts in members.items():
            if any(counts):
                accepted = [f"{count} accepted" for count in counts]
                self.rows.append([f"mutations of {member}", "refused", *accepted])


def hash_and_sig(text):
    """Hash and signature of the first turn of a sealed chain."""
    try:
        turn = json.loads(text)[0]
        return turn["hash"], turn["sig"]["sig"]
    except (ValueError, LookupError, TypeError):
        return "", ""


def table(rows):
    head = ["case", "ours", "--compat", "PY", "RS"]
    rows = [head] + [row if len(row) == 5 else [*row[:2], "", *row[2:]] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
    return "".join(line + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threadseal", required=True)
    parser.add_argument("--peer", required=True, help="the built scroll-peer")
    parser.add_argument("--write", action="store_true", help="make what is seen the expectation")
    arguments = parser.parse_args()
    peers = [Peer("PY", [sys.executable, HERE / "peer.py"]), Peer("RS", [arguments.peer])]
    with tempfile.TemporaryDirectory(prefix="threadseal-scroll-") as scratch:
        folder = Path(scratch)
        check = Check(Command(arguments.threadseal, folder / "home"), peers, folder)
        check.turns()
        check.both_ways()
        check.files()
        check.mutations()
    for peer in peers:
        peer.process.stdin.close()
        peer.process.wait()
    seen, known = table(check.rows), HERE / "deviations.txt"
    if arguments.write:
        known.write_text(seen)
    print(seen, end="")
    check.expect("deviations.txt", seen, known.read_text())
    for fault in check.faults:
        print(fault)
    print(f"check_suite: {check.passed} as expected, {len(check.rows)} deviations, {len(check.faults)} failed")
    sys.exit(bool(check.faults))


if __name__ == "__main__":
    main()
