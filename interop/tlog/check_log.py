"""Reads the log of a host, and a transcript as a log, with other implementations.

These are aics-tlog, and the crates signed_note and tlog_tiles.

A temporary home seals documents until its log has certain sizes. At these sizes tiles are empty,
partly filled, full, or filled on the level above. At each size aics-tlog reads the checkpoint with
the
log's key, computes the root from the tiles, and proves every entry. It also proves that the log
grew
out of each earlier size. Its results are compared with the command's output. The crates do the same
over the same files. A recorded thread is written as a log three times while it grows, and is read
in
the same way.
"""

import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from aics_tlog import checkpoint, hashing, note, tiles, tree

# The journal is folded at 256 entries: one, two and more tiles, and a full one without a next.
SIZES = [0, 1, 2, 255, 256, 257, 600]


class Host:
    """A home with a log."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)
        self.sealed = 0
        self.environment = {"THREADSEAL_HOME": str(self.folder / "home"), "PATH": os.environ["PATH"]}
        # A log that a home gets later begins empty.
        self.run("init", "-q", "--no-log")
        made = json.loads(self.run("log", "init", "--json"))
        self.origin, self.vkey = made["origin"], made["vkey"]
        self.log = self.folder / "home" / "log" / self.origin.split("/")[1]

    def run(self, *arguments):
        done = subprocess.run(
            [self.program, *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{arguments}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def grow(self, size):
        """Adds a key event, and seals documents until the log has this size. Then writes its files.
        """
        if size and not self.sealed:
            self.run("key", "new", "--name", "other")
            self.sealed = 1
        names = []
        for number in range(self.sealed, size):
            name = f"{number}.json"
            (self.folder / name).write_text(json.dumps({"number": number}) + "\n")
            names.append(name)
        if names:
            self.run("seal", "-q", *names)
        self.sealed = size
        return self.run("log", "head", "--write")

    def entries(self):
        """The entries in the output of the command."""
        told = json.loads(self.run("log", "entries", "--json", "--from", "0", "--limit", "1000000"))
        entries = told["entries"]
        assert [entry["index"] for entry in entries] == list(range(told["size"]))
        # For texts and whole numbers this is the form of RFC 8785, the form of entries.
        form = {"separators": (",", ":"), "sort_keys": True, "ensure_ascii": False}
        return [json.dumps(entry["entry"], **form).encode() for entry in entries]


def check(host, size, earlier):
    text = host.grow(size)
    assert (host.log / "checkpoint").read_text() == text
    check_tree(host.log, host.origin, host.vkey, host.entries(), earlier)


def check_tree(folder, origin, vkey, entries, earlier):
    """A tree on the disk with known entries and known earlier sizes."""
    text, size = (folder / "checkpoint").read_text(), len(entries)
    key = note.parse_vkey(vkey)
    result = checkpoint.verify_checkpoint(note.parse_note(text), key, [], quorum=0)
    assert result.ok, result
    head = checkpoint.checkpoint_from_note(text)[0]
    assert (head.origin, head.size) == (origin, size), head
    reader = tiles.FileSystemTileReader(folder)
    root = tiles.tree_root_from_tiles(reader, size) if size else hashing.sha256(b"")
    assert root == head.root, size
    for index, entry in enumerate(entries):
        assert tiles.read_entry(reader, index, size) == entry, index
        if index % 37 == 0 or index == size - 1:
            proof = tiles.inclusion_proof_from_tiles(reader, index, size)
            assert tree.verify_leaf_inclusion(entry, index, size, proof, root), index
            # A proof of every entry would prove nothing.
            assert not tree.verify_leaf_inclusion(entry + b" ", index, size, proof, root)
    for size_before, root_before in earlier:
        proof = tiles.consistency_proof_from_tiles(reader, size_before, size)
        assert tree.verify_consistency(size_before, size, root_before, root, proof), size_before
    # A changed checkpoint is refused.
    lines = text.split("\n")
    lines[1] = str(size + 1)
    forged = checkpoint.verify_checkpoint(note.parse_note("\n".join(lines)), key, [], quorum=0)
    assert not forged.ok
    earlier.append((size, root))


def ask_crates(peer, folder, vkey, earlier):
    """The crates prove every entry of the same files, and that the tree extends each earlier one.
    """
    before = [(size, root) for size, root in earlier[:-1] if size]
    arguments = [text for size, root in before for text in (str(size), base64.b64encode(root).decode())]
    done = subprocess.run([peer, folder, vkey, *arguments], capture_output=True, text=True)
    held = f"{earlier[-1][0] + len(before)} proofs held\n"
    if done.returncode != 0 or done.stdout != held:
        sys.exit(f"tlog-peer: exit {done.returncode}: {done.stdout}{done.stderr}")


def check_record(host, peer):
    """The transcript of a thread as a log. It extends the tree that each of its seals signed."""
    host.run("init", "-q", "--project", "tour")
    host.run("run", "tour/report", "--project", "tour", "--input", "file=text.txt")
    records = sorted((host.folder / "tour" / ".ai" / "agent" / "threads").rglob("transcript.jsonl"))
    assert len(records) == 2, records
    for number, record in enumerate(records):
        folder = host.folder / f"as-log-{number}"
        made = json.loads(host.run("transcript", "export", str(record), "--as-log", str(folder), "--json"))
        lines = record.read_bytes().split(b"\n")
        events = [json.loads(line) for line in lines if line]
        seals = [event["payload"]["seal"] for event in events if event["event_type"] == "checkpoint"]
        assert seals[-1]["lines"] == made["size"] == len(events) - 1
        earlier = [(seal["lines"], bytes.fromhex(seal["root"])) for seal in seals[:-1]]
        check_tree(folder, made["origin"], made["vkey"], lines[: made["size"]], earlier)
        assert earlier[-1] == (made["size"], bytes.fromhex(seals[-1]["root"]))
        ask_crates(peer, folder, made["vkey"], earlier)
    return len(records)


def check_proofs(host):
    """The log in proofs of turns: each ends in a C2SP tlog-proof, which needs no other data."""
    key, records = note.parse_vkey(host.vkey), (host.folder / "tour" / ".ai" / "agent" / "threads").rglob("transcript.jsonl")
    count = 0
    for record in records:
        text = host.run("prove", f"{record}#1")
        entry, file = text.split("\nentry ", 1)[1].split("\n", 1)
        head, signed = file.split("\n\n", 1)
        first, index, *hashes = head.split("\n")
        assert first == "c2sp.org/tlog-proof@v1" and index.startswith("index "), head
        assert checkpoint.verify_checkpoint(note.parse_note(signed), key, [], quorum=0).ok
        place, proof = int(index[len("index ") :]), [base64.b64decode(line) for line in hashes]
        top = checkpoint.checkpoint_from_note(signed)[0]
        assert top.origin == host.origin and json.loads(entry)["type"] == "head/transcript"
        assert tree.verify_leaf_inclusion(entry.encode(), place, top.size, proof, top.root), place
        assert not tree.verify_leaf_inclusion(entry.encode() + b" ", place, top.size, proof, top.root)
        count += 1
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threadseal", required=True)
    parser.add_argument("--peer", required=True, help="tlog-peer, which asks the crates")
    arguments = parser.parse_args()
    program, peer = (str(pathlib.Path(path).resolve()) for path in (arguments.threadseal, arguments.peer))
    with tempfile.TemporaryDirectory() as folder:
        host = Host(program, folder)
        earlier = []
        for size in SIZES:
            check(host, size, earlier)
            if size:
                ask_crates(peer, host.log, host.vkey, earlier)
        status = json.loads(host.run("log", "status", "--json"))
        assert base64.b64decode(status["root"]) == earlier[-1][1]
        records = check_record(host, peer)
        proofs = check_proofs(host)
    print(f"aics-tlog and tlog_tiles read {len(SIZES)} checkpoints of one log, {SIZES[-1]} entries, {records} transcripts as logs, and the log's word in {proofs} proofs of turns")


if __name__ == "__main__":
    main()
