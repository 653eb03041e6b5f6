"""Counts what files of agents contain, without any code of the mappings, and compares the mappings.

    python3 interop/counts/count.py [--threadseal PROGRAM] [--all] [--json] [CORPUS]

For each file of CORPUS that a reader below knows: messages of users and of models, calls of tools,
results, tokens in and out. `threadseal scroll from auto` maps the same file. Its turns of role
`user` and `assistant` and its account must have the same numbers. Each line of the table has the
numbers of both, "=" where they are equal. A difference that a file of `explained.txt` names is
shown and passes. The default CORPUS is `corpus/real-runs` of $THREADSEAL_SHARED; without it the
step is skipped.

Exit code 0 if all numbers are equal or explained.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import readers

FIGURES = ("user", "assistant", "calls", "results", "in", "out")
HERE = pathlib.Path(__file__).parent


def options():
    shared = os.environ.get("THREADSEAL_SHARED", "")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", type=pathlib.Path, default=shared and pathlib.Path(shared, "corpus/real-runs"))
    parser.add_argument("--threadseal", default=os.environ.get("THREADSEAL", "threadseal"))
    parser.add_argument("--all", action="store_true", help="show lines without a difference, too")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser.parse_args()


def explained():
    """Known differences: `PATTERN FIGURES reason`, one a line."""
    known = []
    for line in (HERE / "explained.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, figures, reason = line.split(None, 2)
            known.append((pattern, figures.split(","), reason))
    return known


def mapped(program, path):
    """Format and figures of the mapping of a file; without turns if it has none."""
    with tempfile.TemporaryDirectory() as home:
        account = pathlib.Path(home, "account")
        environment = {**os.environ, "THREADSEAL_HOME": home}
        command = [program, "-q", "scroll", "from", "auto", str(path), "--to", "lines", "--account", str(account)]
        done = subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False)
        if not account.exists():
            message = done.stderr.decode(errors="replace").strip().splitlines()
            return None, (message or ["no account"])[-1]
        figures = json.loads(account.read_text())
    roles = [json.loads(line)["role"] for line in done.stdout.splitlines() if line.strip()]
    tokens = figures["tokens"]
    return figures["format"], {
        "user": roles.count("user"),
        "assistant": roles.count("assistant"),
        "calls": figures["tool_calls"],
        "results": figures["tool_results"],
        "in": int(tokens["input"]),
        "out": int(tokens["output"]),
    }


def compare(program, path, name, known):
    """One line of the table, or None if no reader knows the file."""
    counted = readers.count(path)
    if counted is None:
        return None
    format_name, own = counted
    theirs, figures = mapped(program, path)
    row = {"file": name, "format": format_name, "mapped_as": theirs, "counted": own, "mapped": figures, "faults": []}
    if format_name != theirs:
        row["faults"].append("format")
    if theirs is not None:
        wrong = [f for f in FIGURES if own.get(f) is not None and own[f] != figures[f]]
        row["faults"].extend(wrong)
    reasons = []
    for pattern, of, reason in known:
        if fnmatch.fnmatch(name, pattern):
            hit = [f for f in row["faults"] if f in of]
            if hit:
                reasons.append(f"{','.join(hit)}: {reason}")
                row["faults"] = [f for f in row["faults"] if f not in of]
    row["explained"] = reasons
    return row


def show(row):
    cells = []
    for figure in FIGURES:
        own = row["counted"].get(figure)
        theirs = row["mapped"][figure] if isinstance(row["mapped"], dict) else "-"
        cells.append("." if own is None else f"{own}" if own == theirs else f"{own}!={theirs}")
    formats = row["format"] if row["format"] == row["mapped_as"] else f"{row['format']}!={row['mapped_as']}"
    print(f"{formats:<30}" + "".join(f"{cell:>18}" for cell in cells) + f"  {row['file']}")
    for reason in row["explained"]:
        print(f"    explained: {reason}")
    if isinstance(row["mapped"], str):
        print(f"    {row['mapped']}")


def main():
    chosen = options()
    if not chosen.corpus or not chosen.corpus.is_dir():
        print("counts: skipped, no corpus (THREADSEAL_SHARED or an argument names it)")
        return 0
    known = explained()
    files = sorted(path for path in chosen.corpus.rglob("*") if path.is_file() and path.name != "index.json")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        job = lambda path: compare(chosen.threadseal, path, str(path.relative_to(chosen.corpus)), known)
        rows = [row for row in pool.map(job, files) if row]
    wrong = [row for row in rows if row["faults"]]
    if chosen.json:
        json.dump({"rows": rows, "files": len(rows), "wrong": len(wrong)}, sys.stdout, ensure_ascii=False)
        print()
        return 1 if wrong else 0
    print(f"{'format':<30}" + "".join(f"{figure:>18}" for figure in FIGURES) + "  file")
    for row in rows if chosen.all else [r for r in rows if r["faults"] or r["explained"]]:
        show(row)
    equal = len([r for r in rows if not r["faults"] and not r["explained"]])
    print(f"{len(rows)} files: {equal} equal, {len(rows) - equal - len(wrong)} explained, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
