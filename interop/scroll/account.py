"""Checks that mappings into scrolls lose nothing, without any code of the mappings.

    python3 interop/scroll/account.py [--threadseal PROGRAM] [--only FORMAT] [CORPUS]

Each module of `extractors` reads one format in its own way and names its files in CORPUS. The
default
is `corpus/real-runs` of $THREADSEAL_SHARED. The program maps, seals and verifies every file. Then
two
rules must hold:

* content: the scroll has every text, tool input and tool output of the extractor exactly as often
  as the source. It may lack those that the account lists as dropped at their line and pointer. The
  scroll has no other content. An extractor with `EXACT = False` counts in its own way, and only
  requires that nothing is missing. A duplicate that was dropped must be in the scroll, or in a
  listed rendering.
* leaves: every string and number of the source is in the scroll, or the account lists it.

Exit code 0 if nothing is unlisted in any file.
"""

import argparse
import collections
import importlib
import json
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile

import extractors
from extractors.values import Number, canonical, leaves, parse
from extractors.wire import CAPTURES


class Account:
    """The account of one mapping: the listed places of the source, with their reasons."""

    def __init__(self, account):
        self.dropped = collections.defaultdict(list)
        for group in account["dropped"]:
            self.dropped[group["pointer"]].append((group["lines"], group["reason"]))
        self.unmapped = [tuple(r) for g in account["unmapped"] for r in g["lines"]]
        self.whole = account["ungrouped"] == 0
        self.figures = account

    def reason(self, line, pointer):
        """Why the part at `pointer` of `line` is not in the scroll; None if it must be."""
        if any(first <= line <= last for first, last in self.unmapped):
            return "unmapped"
        while True:
            for lines, reason in self.dropped.get(pointer, ()):
                if any(first <= line <= last for first, last in lines):
                    return reason
            if not pointer:
                return None
            pointer = pointer.rpartition("/")[0]


def scroll_content(turns):
    """Content of a scroll: (kind, canonical value) with its number of occurrences."""
    found = collections.Counter()

    def text(value):
        found["text", canonical(value)] += 1

    for turn in turns:
        for message in turn["messages"]:
            if message["role"] in ("source", "conversion"):
                continue
            content = message["content"]
            if isinstance(content, str):
                text(content)
                continue
            for item in content:
                kind = item.get("type")
                if kind == "text":
                    text(item["text"])
                elif kind == "thinking":
                    text(item["thinking"])
                    if "subject" in item:
                        text(item["subject"])
                elif kind not in ("tool_call", "tool_result"):
                    inner = item.get("part", item.get("attachment", item))
                    for _, leaf in leaves(inner):
                        if isinstance(leaf, str):
                            text(leaf)
        for call in turn.get("tool_calls", ()):
            found["input", canonical(call["args"])] += 1
        for result in turn.get("tool_results", ()):
            found["output", canonical(result["response"])] += 1
    return found


def check(source, extractor, turns, account):
    """The faults of one mapping, one per line."""
    wrong = []
    if not account.whole:
        wrong.append("the account is not whole")
    expected = collections.Counter()
    duplicates = []
    records = list(extractor.records(source))
    for line, record in records:
        for pointer, kind, value in extractor.content(record):
            reason = account.reason(line, pointer)
            if reason is None:
                expected[kind, canonical(value)] += 1
            elif reason == "duplicate":
                duplicates.append((line, pointer, value))
    carried = getattr(extractor, "scroll_content", scroll_content)(turns)
    exact = getattr(extractor, "EXACT", True)
    for key in sorted(set(expected) | set(carried)):
        if expected[key] > carried[key] or exact and expected[key] != carried[key]:
            wrong.append(f"{key[0]} {expected[key]} in the source, {carried[key]} in the scroll: {key[1][:150]}")
    strings, numbers = set(), set()
    for _, leaf in leaves(turns):
        (strings if isinstance(leaf, str) else numbers).add(leaf)
    for turn in turns:
        for part in turn.get("tool_calls", []) + turn.get("tool_results", []):
            body = part.get("args", part.get("response"))
            if isinstance(body, (dict, list)):
                strings.add(canonical(body))
    # A copy of a listed rendering is not a copy of content in the scroll.
    views = {
        leaf
        for line, record in records
        for pointer, leaf in leaves(record)
        if isinstance(leaf, str) and account.reason(line, pointer) == "view"
    }
    everything = "\0".join(strings | views)
    for line, pointer, value in duplicates:
        said = [leaf for _, leaf in leaves(value) if isinstance(leaf, str)]
        if not all(leaf in everything or extractor.is_parsed(leaf, strings) for leaf in said):
            wrong.append(f"line {line} {pointer}: dropped as a duplicate of nothing")
    for line, record in records:
        for pointer, leaf in leaves(record):
            known = strings if isinstance(leaf, str) else numbers
            if leaf in known or leaf == "" or account.reason(line, pointer):
                continue
            if isinstance(leaf, Number) and leaf.literal in strings:
                continue
            if isinstance(leaf, str) and extractor.is_parsed(leaf, strings):
                continue
            wrong.append(f"line {line} {pointer}: nowhere: {str(leaf)[:100]}")
    return wrong


def run(program, extractor, path, folder):
    """Maps, seals and verifies one file; returns turns and account."""
    scroll, account = folder / "scroll.json", folder / "account.json"
    scroll.unlink(missing_ok=True)
    account.unlink(missing_ok=True)
    make = [program, "scroll", "from", extractor.FORMAT, path, "--home", folder / "home"]
    make += ["--to", "array", "--out", scroll, "--account", account]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    verify = [program, "scroll", "verify", "--compat"]
    with open(scroll, "rb") as text:
        done = subprocess.run(verify, stdin=text, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stdout != "ok\n":
        raise RuntimeError(f"does not verify: {done.stdout} {done.stderr}")
    return parse(scroll.read_bytes()), json.loads(account.read_bytes())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--threadseal", default="target/debug/threadseal")
    options.add_argument("--only", help="one format")
    options.add_argument("corpus", nargs="?")
    options = options.parse_args()
    shared = os.environ.get("THREADSEAL_SHARED", "../shared")
    corpus = pathlib.Path(options.corpus or f"{shared}/corpus/real-runs")
    if not corpus.is_dir():
        print(f"skipped: no folder {corpus}")
        return 0
    names = [module.name for module in pkgutil.iter_modules(extractors.__path__)]
    modules = [importlib.import_module(f"extractors.{name}") for name in names]
    formats = [m for m in modules if hasattr(m, "FORMAT") and options.only in (None, m.FORMAT)]
    failures = 0
    columns = "{:<14}{:>6}{:>8}{:>7}{:>7}{:>8}{:>10}{:>10}  {}"
    heading = ("format", "turns", "records", "calls", "results", "unmapped", "in", "out", "file")
    print(columns.format(*heading))
    with tempfile.TemporaryDirectory() as folder:
        for extractor in formats:
            paths = sorted({p for pattern in extractor.FILES for p in corpus.glob(pattern)})
            for path in paths:
                try:
                    turns, account = run(options.threadseal, extractor, path, pathlib.Path(folder))
                    wrong = check(path.read_bytes(), extractor, turns, Account(account))
                except RuntimeError as error:
                    # A file of several providers: each mapping would drop the others' records.
                    mixed = path.match(CAPTURES) and "would drop them" in str(error)
                    wrong, account = [] if mixed else [str(error)], None
                if account:
                    unmapped = sum(group["count"] for group in account["unmapped"])
                    figures = (account["turns"], account["records"], account["tool_calls"])
                    tokens = (account["tokens"]["input"], account["tokens"]["output"])
                    row = (*figures, account["tool_results"], unmapped, *tokens)
                    print(columns.format(extractor.FORMAT, *row, path.name))
                for line in wrong:
                    print(f"  WRONG {path.name}: {line}")
                failures += len(wrong)
    print(f"unlisted or wrong: {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
