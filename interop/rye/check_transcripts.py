"""Transcripts in both directions: acceptance, answers on edited copies, and resumption.

The command seals in both profiles, and both generations of Rye write theirs. The answer of the
earlier
Rye is in `compat.rye`, word for word, for every edited file.
"""

import json
import random
import re
import shutil
from pathlib import Path

from rig import Rig

THREAD = "interop/thread-1"
TURNS = 12
# Rye's verifier hashes the file again for each checkpoint, so files stay small.
MANY_TURNS = 450
EDITS = 240

TEXTS = [
    "plain",
    "é 日本 🦀 \U0001f469\u200d\U0001f680 \uffff",
    "\u2028\u2029\x85\x0b\x0c\x1c\x7f\x00 control",
    'quotes " and \\ and \b\f\n\r\t and </script>',
    "",
    "```\nfence\n```\r\n",
]
NUMBERS = [1e16, 1e-7, 0.1, -0.0, 5e-324, 1.0, 123456789.123, 2**70, -1, 0, 1.7976931348623157e308]


def turn_events(turn, dice):
    """The events of one turn of an agent."""
    text = dice.choice(TEXTS)
    call = f"call-{turn}"
    yield "cognition_in", {"text": f"{text} {turn}", "role": "user"}
    yield "cognition_reasoning", {"text": dice.choice(TEXTS)}
    yield "cognition_out", {"text": dice.choice(TEXTS), "model": "m"}
    if turn % 2:
        arguments = {"path": text, "é": dice.sample(NUMBERS, 4), "n": {"a": None, "b": [True, {}]}}
        yield "tool_call_start", {"tool": "bash", "call_id": call, "input": arguments}
        result = {"call_id": call, "output": str({"x": text}), "duration_ms": dice.choice(NUMBERS)}
        yield "tool_call_result", result | ({"error": "failed"} if turn % 3 == 0 else {})
        yield "cognition_in", {"text": "result", "role": "tool"}


def entries(seed, turns):
    """The events of a thread, each turn followed by its number."""
    dice = random.Random(seed)
    for turn in range(1, turns + 1):
        yield from turn_events(turn, dice)
        yield turn


def line(event_type, payload, ascii_only=True):
    event = {
        "timestamp": 1771356405.25,
        "thread_id": THREAD,
        "event_type": event_type,
        "payload": payload,
    }
    # Any writer may do this: Rye signs bytes in any spelling.
    separators = None if ascii_only else (",", ":")
    return (json.dumps(event, ensure_ascii=ascii_only, separators=separators) + "\n").encode()


def ours_as_rye(rig, name, turns, ascii_only):
    """A transcript that the command sealed after each turn, as Rye does."""
    path = rig.work(name) / "transcript.jsonl"
    for entry in entries(name, turns):
        if isinstance(entry, int):
            sealed = rig.run("seal", "--profile", "rye", "--turn", entry, path)
            rig.expect(f"{name}: seal of turn {entry}", sealed["exit"], 0)
            continue
        with open(path, "ab") as file:
            file.write(line(*entry, ascii_only))
    return path


def ours_natively(rig, turns):
    """A native record."""
    path = rig.work("native", str(turns)) / "transcript.jsonl"
    rig.record(path, entries("native", turns))
    return path


def theirs(rig, rye, turns):
    """A transcript that Rye wrote and signed after each turn."""
    folder = rig.work("theirs", rye.name, str(turns))
    path = rye.ask(op="write_transcript", folder=str(folder), thread=THREAD, entries=list(entries(rye.name, turns)))
    assert isinstance(path, str), path
    return Path(path)


def trust_everywhere(rig, name, fingerprint, pem):
    """Makes the command and both Ryes trust a key."""
    for rye in rig.ryes:
        rye.trust(fingerprint, pem.read_text())
    added = rig.run("trust", "add", "--name", name, "--usage", "rye", "--", pem)
    rig.expect(f"trust {name}", added["exit"], 0)


def only_whole(rig, path, what):
    """The command verifies only the complete record, even where Rye's verifier accepts an edited
    one.
    """
    genuine = path.read_bytes()
    copies = write_edits(rig, what, genuine)
    answer = rig.run("verify", *copies)
    rig.expect(f"{what}: errors", answer["errors"], [])
    for result in answer["results"]:
        is_genuine = copies.pop(result["path"]).read_bytes() == genuine
        rig.expect(f"{result['path']} is verified", result["verdict"] == "verified", is_genuine)
    rig.expect(f"{what}: every copy was looked at", sorted(copies), [])


def accepted(rig, path, what, ryes, checkpoints):
    """Every Rye reports the whole file as valid, and resumes the same conversation as the command.
    """
    wanted = {"valid": True, "checkpoints": checkpoints}
    for rye in ryes:
        answer = rye.ask(op="verify_transcript", path=str(path))
        rig.expect(f"{rye.name} reads {what}", answer, {"strict": wanted, "lenient": wanted})
        ours = rig.run("messages", path)["messages"]
        rig.expect(f"{what} resumed as {rye.name} does", ours, rye.ask(op="messages", path=str(path)))


def same_answers(rig, path, what):
    """Edited copies: Rye's two answers, word for word."""
    copies = write_edits(rig, what, path.read_bytes())
    answer = rig.run("verify", "--format", "transcript", *copies)
    rig.expect(f"{what}: errors", answer["errors"], [])
    # The report gives the answers of the Rye that signs in Python.
    original = next(rye for rye in rig.ryes if rye.name == "python")
    for result in answer["results"]:
        copy = copies.pop(result["path"])
        theirs = original.ask(op="verify_transcript", path=str(copy))
        rig.expect(f"{what}, {copy.name}", result["compat"].get("rye"), theirs)
    rig.expect(f"{what}: every copy was looked at", sorted(copies), [])


def write_edits(rig, what, genuine):
    """Edited copies, by their path in a report."""
    folder = rig.work("edited", what)
    copies = {}
    for name, data in [*named_edits(genuine), *chance_edits(genuine, random.Random(what))]:
        copy = folder / f"{name}.jsonl"
        copy.write_bytes(data)
        copies[str(copy)] = copy
    return copies


def named_edits(data):
    """Edits that an attacker on transcripts would try."""
    lines = data.splitlines(keepends=True)
    seals = [index for index, text in enumerate(lines) if b'"byte_offset"' in text]
    middle, last = seals[len(seals) // 2], seals[-1]
    event = line("cognition_in", {"text": "Yes, deploy.", "role": "user"})

    def rewritten(index, pattern, new):
        return b"".join([*lines[:index], re.sub(pattern, new, lines[index], count=1), *lines[index + 1 :]])

    yield "genuine", data
    yield "empty", b""
    yield "cut-at-a-seal", b"".join(lines[: middle + 1])
    yield "cut-before-the-last-seal", b"".join(lines[:last])
    yield "cut-inside-a-line", data[: len(data) - 40]
    yield "torn-of-its-last-newline", data[:-1]
    yield "one-seal-stripped", b"".join(lines[:middle] + lines[middle + 1 :])
    yield "every-seal-stripped", b"".join(t for i, t in enumerate(lines) if i not in seals)
    yield "line-appended", data + event
    yield "garbage-appended", data + b"not JSON\n"
    yield "half-a-line-appended", data + event[:30]
    yield "bytes-that-are-no-text-appended", data + b"\xff\xfe\n"
    yield "array-appended", data + b"[1]\n"
    yield "line-inserted", b"".join([*lines[:middle], event, *lines[middle:]])
    yield "lines-swapped", b"".join([*lines[:2], lines[3], lines[2], *lines[4:]])
    yield "seals-swapped", b"".join(
        lines[{middle: last, last: middle}.get(index, index)] for index in range(len(lines))
    )
    yield "last-seal-twice", data + lines[last]
    yield "smuggled-before-a-seal", b"".join([*lines[:last], event[:-1] + b"\r", lines[last]])
    yield "smuggled-after-a-seal", data[:-1] + b"\r" + event
    yield "carriage-returns", data.replace(b"\n", b"\r\n")
    yield "byte-order-mark", b"\xef\xbb\xbf" + data
    yield "renumbered-turn", rewritten(last, rb'"turn": ?\d+', b'"turn":99')
    yield "turn-misnamed", rewritten(middle, rb'("hash": ?")..', rb'\1zz').replace(b'"turn"', b'"turm"')
    yield "offset-moved", rewritten(middle, rb'("byte_offset": ?)\d+', rb"\g<1>10")
    yield "offset-from-the-end", rewritten(last, rb'("byte_offset": ?)\d+', rb"\g<1>-5")
    yield "offset-is-text", rewritten(middle, rb'("byte_offset": ?)\d+', rb'\1"7"')
    yield "hash-is-missing", rewritten(middle, rb'"hash"', b'"hush"')
    yield "signature-of-another", rewritten(last, rb'("sig": ?")[^"]*', rb"\1" + b"A" * 86 + b"==")
    yield "signature-without-padding", rewritten(middle, rb'==(",? ?"fp")', rb"\1")
    yield "key-of-nobody", rewritten(last, rb'("fp": ?")[0-9a-f]*', rb"\g<1>0123456789abcdef")
    yield "seal-of-no-payload", rewritten(middle, rb'"payload"', b'"paylord"')


def chance_edits(data, dice):
    for number in range(EDITS):
        at = dice.randrange(len(data))
        lines = data.splitlines(keepends=True)
        where = dice.randrange(len(lines))
        match number % 6:
            case 0:
                edited = data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]
            case 1:
                edited = data[:at]
            case 2:
                edited = data[:at] + data[at + 1 :]
            case 3:
                edited = data[:at] + dice.choice([b"\n", b"\r", b"\x0b", b"\xc2\x85", b" ", b"0"]) + data[at:]
            case 4:
                edited = b"".join(lines[:where] + lines[where + 1 :])
            case _:
                lines.insert(where, dice.choice(lines))
                edited = b"".join(lines)
        yield f"chance-{number:02}", edited


def main():
    rig = Rig.from_arguments()
    for rye in rig.ryes:
        trust_everywhere(rig, f"rye-{rye.name}", rye.fingerprint, rye.public_key)
    python, lillux = rig.ryes

    native, grown = ours_natively(rig, TURNS), ours_natively(rig, MANY_TURNS)
    # Two more than there are turns: the first seal and the final one.
    accepted(rig, native, "ours", rig.ryes, TURNS + 2)
    accepted(rig, grown, "ours of many turns", [python], MANY_TURNS + 2)
    only_whole(rig, native, "native")
    spaced = ours_as_rye(rig, "ours-as-rye", TURNS, ascii_only=True)
    accepted(rig, spaced, "ours as Rye's", rig.ryes, TURNS)
    compact = ours_as_rye(rig, "ours-in-unicode", TURNS, ascii_only=False)
    own, long = theirs(rig, python, TURNS), theirs(rig, python, MANY_TURNS)
    accepted(rig, own, "python's", rig.ryes, TURNS)
    accepted(rig, long, "python's of many turns", [python], MANY_TURNS)
    later = theirs(rig, lillux, TURNS)
    accepted(rig, later, "lillux's", [lillux], TURNS)
    for path in (own, long, later, spaced, compact):
        rig.expect(f"{path} verifies", rig.verdict(path, "--profile", "rye"), (["verified"], 0))

    for what, path in [
        ("spaced", spaced),
        ("compact", compact),
        ("python", own),
        ("lillux", later),
    ]:
        same_answers(rig, path, what)
    rig.finish()


if __name__ == "__main__":
    main()
