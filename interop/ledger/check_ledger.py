"""Compares ThreadSeal's answers on step ledgers with those of the real abstractruntime.

Each also reads the ledgers that the other wrote.

    check_ledger.py --threadseal COMMAND --python PYTHON --example COMMAND [--seeds N]

PYTHON has abstractruntime; see `oracle.py` for its requests. The example is that of the library,
`run`.
"""

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

GENESIS = "threadseal.genesis"


class Original:
    """The real package, in a process of its own."""

    def __init__(self, python):
        oracle = Path(__file__).with_name("oracle.py")
        self.process = subprocess.Popen([python, oracle], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Check:
    """The command with a home of its own, the real package, and the tally."""

    def __init__(self, command, python, folder):
        self.command, self.folder = Path(command).resolve(), folder
        self.original = Original(python)
        self.passed = self.failed = 0
        self.run("init")

    def run(self, *arguments, text=None):
        """The JSON output of the command, and its exit code."""
        home = self.folder / "home"
        command = [self.command, "--home", home, "--json", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, input=text)
        answer = json.loads(done.stdout) if done.stdout.strip() else {"stderr": done.stderr}
        return answer | {"exit": done.returncode}

    def verify(self, place, *arguments):
        """The only result for a place."""
        answer = self.run("ledger", "verify", place, *arguments)
        results = answer.get("results", [])
        return results[0] if len(results) == 1 else {"verdict": answer.get("stderr", f"{len(results)} results")}

    def expect(self, what, got, wanted):
        if got == wanted:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED {what}\n  got    {json.dumps(got)[:400]}\n  wanted {json.dumps(wanted)[:400]}")

    def agree(self, what, place, run, verdicts):
        """Both give the same report, and ours has one of `verdicts`."""
        ours = self.verify(place, "--run", run)
        theirs = self.original.ask(op="verify", place=str(place).removeprefix("sqlite:"), run=run)
        self.expect(f"{what}: the original's report", ours.get("compat", {}).get("abstractruntime"), theirs)
        self.expect(f"{what}: {ours['verdict']} is one of {verdicts}", ours["verdict"] in verdicts, True)
        return ours


def places(check, name):
    """A folder of lines and a database, each with the names of both sides."""
    folder = check.folder / name
    folder.mkdir()
    yield "lines", str(folder), str(folder)
    yield "database", f"sqlite:{folder}.db", f"{folder}.db"


def theirs_is_verified(check, seeds):
    """Output of their runtime: consistent without a head, verified against one; bundles too."""
    for form, ours, theirs in places(check, "theirs"):
        for seed in range(seeds):
            run = check.original.ask(op="run", place=theirs, seed=seed)["run"]
            check.original.ask(op="append", place=theirs, run=run, count=seed % 4, seed=seed)
            what = f"their {form}, seed {seed}"
            check.agree(what, ours, run, ["consistent"])
            head = check.original.ask(op="verify", place=theirs, run=run)["head_hash"]
            held = check.verify(ours, "--run", run, "--expect-head", head, "--exact-head")
            check.expect(f"{what}: with its head", held["verdict"], "verified")
            bundles(check, what, theirs, run)


def bundles(check, what, place, run):
    """A full bundle holds. A window or a projection is reported as a part, not as a forgery."""
    path = check.folder / "bundle.json"
    for mode, detail, most, verdicts in [
        ("full", "full", 2000, ["consistent"]),
        ("tail", "full", 2, ["partial", "consistent"]),
        ("full", "replay", 2000, ["partial", "consistent"]),
    ]:
        bundle = check.original.ask(op="bundle", place=place, run=run, mode=mode, detail=detail, max=most)
        path.write_text(json.dumps(bundle, ensure_ascii=False), encoding="utf-8")
        ours = check.run("ledger", "verify", path)
        theirs = check.original.ask(op="verify_bundle", path=str(path))
        reports = [result["compat"]["abstractruntime"] for result in ours.get("results", [])]
        check.expect(f"{what}, bundle {mode} {detail}: their reports", reports, list(theirs.values()))
        seen = {result["verdict"] for result in ours.get("results", [])}
        check.expect(f"{what}, bundle {mode} {detail}: {seen}", seen <= set(verdicts), True)


def parts(rng, count):
    """Steps as an agent reports them to `ledger append`."""
    for number in range(count):
        effect = {"type": "tool_calls", "payload": {"n": number, "x": rng.random(), "text": "é🙂\u2028"}}
        step = {"step_id": f"step-{number}", "node": "act", "effect": effect}
        yield step | {"status": "started"}
        yield step | {"status": "completed", "result": {"ok": True, "big": rng.randrange(10**25)}}


def ours_is_accepted(check, seeds):
    """Our ledger, chained, signed, with a genesis record: their verifier accepts it, and they
    continue it.
    """
    for form, ours, theirs in places(check, "ours"):
        for seed in range(seeds):
            rng, run = random.Random(seed), f"run-{form}-{seed}"
            lines = "".join(json.dumps(part) + "\n" for part in parts(rng, 1 + seed % 5))
            signed = ["--sign", "--workflow", "interop"] if seed % 2 else []
            done = check.run("ledger", "append", ours, "--run", run, *signed, text=lines)
            what = f"our {form}, seed {seed}"
            check.expect(f"{what}: appended", done["exit"], 0)
            check.agree(what, ours, run, ["verified", "open", "consistent"])
            report = check.original.ask(op="verify", place=theirs, run=run)
            check.expect(f"{what}: their verifier", (report.get("ok"), report.get("errors")), (True, []))
            check.expect(f"{what}: their count", report.get("count"), 2 * (1 + seed % 5) + len(signed[:1]))
            check.original.ask(op="append", place=theirs, run=run, count=2, seed=seed)
            continued = check.agree(f"{what}, continued by them", ours, run, ["consistent", "forged", "unsigned_tail", "partial", "open", "verified", "tampered", "unknown_signer"])
            check.expect(f"{what}, continued by them: unbroken", continued["compat"]["abstractruntime"]["ok"], True)
            if signed:
                check.expect(f"{what}: unsigned records are not verified", continued["verdict"] != "verified", True)


def both_go_on_in_turn(check):
    """One database, one run: each appends after the other's records, and both find one chain."""
    for begun_by in ["ours", "theirs"]:
        path, run = check.folder / f"turns-{begun_by}.db", f"turns-{begun_by}"
        store, count = f"sqlite:{path}", 0
        for turn in range(6):
            if (turn % 2 == 0) == (begun_by == "ours"):
                step = json.dumps({"node": "act", "effect": {"type": "tool_calls", "payload": {"turn": turn}}})
                done = check.run("ledger", "append", store, "--run", run, text=step + "\n")
                check.expect(f"{begun_by}, turn {turn}: we append", done["exit"], 0)
                count += 1
            else:
                check.original.ask(op="append", place=str(path), run=run, count=1, seed=turn)
                count += 2
            report = check.original.ask(op="verify", place=str(path), run=run)
            check.expect(f"{begun_by}, turn {turn}: their verifier", (report["ok"], report["count"]), (True, count))
            check.agree(f"{begun_by}, turn {turn}", store, run, ["consistent", "verified", "unsigned_tail"])


def changed_rows_are_answered_alike(check, seeds):
    """One random change of a database: both find the same records, and we verify no changed record.
    """
    path = check.folder / "rows.db"
    run = check.original.ask(op="run", place=str(path), seed=2)["run"]
    check.original.ask(op="append", place=str(path), run=run, count=4, seed=2)
    ours = check.folder / "our-rows.db"
    lines = "".join(json.dumps(part) + "\n" for part in parts(random.Random(1), 5))
    check.run("ledger", "append", f"sqlite:{ours}", "--run", "r", "--sign", text=lines)
    for seed in range(seeds):
        rng, (whole, name) = random.Random(seed), [(path, run), (ours, "r")][seed % 2]
        head = check.original.ask(op="verify", place=str(whole), run=name)["head_hash"]
        changed = check.folder / f"changed-{seed}.db"
        with sqlite3.connect(whole) as source, sqlite3.connect(changed) as copy:
            source.backup(copy)
        source.close(), copy.close()
        what = f"rows {seed}, {change_rows(rng, changed, name)}"
        theirs = check.original.ask(op="verify", place=str(changed), run=name)
        answer = check.verify(f"sqlite:{changed}", "--run", name, "--expect-head", head, "--exact-head")
        report = (answer.get("compat") or {}).get("abstractruntime")
        if "exception" in theirs:
            raised = (report or {}).get("exception", {})
            check.expect(f"{what}: their exception", (raised.get("type"), raised.get("message", "")[:200]),
                         (theirs["exception"], theirs["text"]))
        elif report is None:
            # Where readers disagree on the rows of a run, the report has no answer for them.
            check.expect(f"{what}: it is told", "store_refuses" in {found["code"] for found in answer["findings"]}, True)
        else:
            check.expect(f"{what}: the original's report", report, theirs)
        whole_report = check.original.ask(op="verify", place=str(whole), run=name)
        if answer["verdict"] == "verified":
            check.expect(f"{what}: verified, and the same to them", theirs, whole_report)
        changed.unlink()


def change_rows(rng, path, run):
    """Changes a part of a run in a database, as its owner can. Returns the name of the change."""
    database = sqlite3.connect(path, isolation_level=None)
    for trigger in ["threadseal_no_rewriting", "threadseal_no_revival", "threadseal_deletion"]:
        database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    (last,) = database.execute("SELECT MAX(seq) FROM ledger WHERE run_id = ?", (run,)).fetchone()
    seq = rng.randrange(1, last + 1)
    (text,) = database.execute("SELECT record_json FROM ledger WHERE run_id = ? AND seq = ?", (run, seq)).fetchone()
    at = rng.randrange(len(text))
    other = json.dumps(json.loads(text) | {"result": {"other": 1}})

    def put(value, number=seq):
        database.execute("UPDATE ledger SET record_json = ? WHERE run_id = ? AND seq = ?", (value, run, number))

    def add(number, value):
        database.execute("INSERT INTO ledger (run_id, seq, record_json) VALUES (?, ?, ?)", (run, number, value))

    changes = {
        "a bit": lambda: put(text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]),
        "a character more": lambda: put(text[:at] + rng.choice([" ", "0", '"', "}", "\n", "\ufeff", "\0"]) + text[at:]),
        "a character less": lambda: put(text[:at] + text[at + 1 :]),
        "blanks": lambda: put(f" \n{text}\t "),
        "a mark in front": lambda: put("\ufeff" + text),
        "twice": lambda: put(text + text),
        "hidden by a NUL": lambda: put(text + "\0" + text),
        "in a list": lambda: put(f"[{text}]"),
        "bytes": lambda: put(text.encode()),
        "no bytes": lambda: put(b""),
        "no text": lambda: put(""),
        "a number": lambda: put(rng.choice([5, 1.5])),
        "nought": lambda: put(0),
        "not UTF-8": lambda: database.execute(
            "UPDATE ledger SET record_json = CAST(? AS TEXT) WHERE run_id = ? AND seq = ?",
            (text[:at].encode() + b"\xff" + text[at:].encode(), run, seq),
        ),
        "a row less": lambda: database.execute("DELETE FROM ledger WHERE run_id = ? AND seq = ?", (run, seq)),
        "a row moved behind": lambda: database.execute(
            "UPDATE ledger SET seq = ? WHERE run_id = ? AND seq = ?", (last + 1, run, seq)
        ),
        "the last row again": lambda: add(last + 1, text),
        "a row at 0": lambda: add(0, other),
        "a row before 0": lambda: add(-3, "{}"),
        "a row between": lambda: add(seq + 0.5, other),
        "a row at a text": lambda: add("x", other),
        "another run's": lambda: database.execute(
            "UPDATE ledger SET run_id = 'other' WHERE run_id = ? AND seq = ?", (run, seq)
        ),
        "another count": lambda: database.execute("UPDATE ledger_heads SET last_seq = ?", (rng.choice([0, last + 5]),)),
    }
    name = rng.choice(list(changes))
    changes[name]()
    database.close()
    return name


def what_a_program_records_is_accepted(check, example):
    """The example of the library: its signed ledger is verified here, and their verifier accepts
    it.
    """
    folder = check.folder / "example"
    steps = 'plan llm_call {"prompt": "é"}\nact tool_calls {"n": 0.5}\n'
    done = subprocess.run([example, check.folder / "home", folder, "example"], input=steps, text=True, check=False)
    check.expect("the example ends well", done.returncode, 0)
    check.agree("the example", folder, "example", ["verified"])
    report = check.original.ask(op="verify", place=str(folder), run="example")
    check.expect("the example: their verifier", (report.get("ok"), report.get("count")), (True, 5))


def exports_are_accepted(check):
    """A run that they wrote passes through our store, and out again in both forms."""
    place = check.folder / "theirs-again"
    run = check.original.ask(op="run", place=str(place), seed=0)["run"]
    store = f"sqlite:{check.folder}/taken.db"
    check.expect("import", check.run("ledger", "import", place, store)["exit"], 0)
    bundle = check.folder / "exported.json"
    state = place / f"run_{run}.json"
    done = check.run("ledger", "export", store, "--run", run, "--to", "bundle", "--state", state, "--out", bundle)
    check.expect("export as a bundle", done["exit"], 0)
    report = check.original.ask(op="verify", place=str(place), run=run)
    check.expect("their report of our bundle", check.original.ask(op="verify_bundle", path=str(bundle)), {run: report})
    lines = check.folder / "again" / f"ledger_{run}.jsonl"
    lines.parent.mkdir()
    check.run("ledger", "export", store, "--run", run, "--out", lines)
    same = lines.read_bytes() == (place / lines.name).read_bytes()
    check.expect("lines come out byte for byte", same, True)


def changes_are_answered_alike(check, seeds):
    """One random edit of their file: both give the same answer, and we never verify it."""
    source = check.folder / "edits"
    run = check.original.ask(op="run", place=str(source), seed=0)["run"]
    whole = (source / f"ledger_{run}.jsonl").read_bytes()
    head = check.original.ask(op="verify", place=str(source), run=run)["head_hash"]
    edited = check.folder / "edited"
    for seed in range(seeds):
        rng = random.Random(seed)
        shutil.rmtree(edited, ignore_errors=True)
        edited.mkdir()
        (edited / f"ledger_{run}.jsonl").write_bytes(edit(rng, whole))
        theirs = check.original.ask(op="verify", place=str(edited), run=run)
        answer = check.verify(edited, "--run", run, "--expect-head", head, "--exact-head")
        ours = (answer.get("compat") or {}).get("abstractruntime", {})
        what = f"edit {seed}"
        if "exception" in theirs:
            check.expect(f"{what}: {theirs['exception']}", "ok" in ours, False)
        else:
            check.expect(what, ours, theirs)
        # White space between records and in them is not hashed.
        if answer["verdict"] == "verified":
            check.expect(f"{what} changes nothing", records(edited / f"ledger_{run}.jsonl"), records_of(whole))
        elif theirs.get("ok") and theirs["head_hash"] == head:
            check.expect(f"{what}: {answer['verdict']} says why", bool(answer["findings"]), True)


def records(path):
    return records_of(path.read_bytes())


def records_of(text):
    """The values in a text, which consists of consecutive values."""
    text, decoder, found = text.decode("utf-8").strip(), json.JSONDecoder(), []
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    return found


def edit(rng, whole):
    """A byte flipped, inserted or removed; a line doubled, dropped, moved, truncated or joined."""
    lines, at = whole.splitlines(keepends=True), rng.randrange(len(whole))
    number = rng.randrange(len(lines))
    match rng.randrange(9):
        case 0:
            return whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :]
        case 1:
            return whole[:at] + rng.choice([b" ", b"0", b'"', b"\n", b"\r", b"}", b"\xff", b"x"]) + whole[at:]
        case 2:
            return whole[:at] + whole[at + 1 :]
        case 3:
            lines.insert(number, lines[number])
        case 4:
            del lines[number]
        case 5:
            lines.insert(0, lines.pop(number))
        case 6:
            return whole[:at]
        case 7:
            lines[number] = lines[number].rstrip(b"\n")
        case _:
            lines.insert(number, rng.choice([b"\n", b"null\n", b"[]\n", b"{}\n", b"garbage\n", b"{\n"]))
    return b"".join(lines)


def actors_are_alike(check):
    """Their fingerprint of an actor that we declare equals the id in our records."""
    store = check.folder / "actors"
    store.mkdir()
    line = json.dumps({"node": "n", "effect": {"type": "ask_user", "payload": {}}, "status": "started"}) + "\n"
    check.run("ledger", "append", store, "--run", "a", "--sign", "--actor-name", "Ünï", text=line)
    first, second = map(json.loads, (store / "ledger_a.jsonl").read_text().splitlines())
    check.expect("the first record is genesis", first["effect"]["type"], GENESIS)
    for actor, declared in first["effect"]["payload"]["actors"].items():
        fingerprint = check.original.ask(
            op="actor", kind=declared["kind"], display_name=declared["display_name"], metadata=declared["metadata"]
        )
        check.expect("the id of an actor", fingerprint, actor)
        check.expect("the actor of a record", second["actor_id"], actor)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threadseal", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--example", required=True)
    parser.add_argument("--seeds", type=int, default=12)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="threadseal-interop-") as folder:
        check = Check(arguments.threadseal, arguments.python, Path(folder))
        theirs_is_verified(check, arguments.seeds)
        ours_is_accepted(check, arguments.seeds)
        both_go_on_in_turn(check)
        changed_rows_are_answered_alike(check, 20 * arguments.seeds)
        what_a_program_records_is_accepted(check, arguments.example)
        exports_are_accepted(check)
        changes_are_answered_alike(check, 20 * arguments.seeds)
        actors_are_alike(check)
        print(f"abstractruntime: {check.passed} passed, {check.failed} failed")
    sys.exit(check.failed > 0 or check.passed == 0)


main()
