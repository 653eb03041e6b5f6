#!/usr/bin/env python3
"""Prints each crate that the command links with all features, its licence, and the text of that licence.

usage: linked_crates.py TARGET    as x86_64-unknown-linux-gnu; the crates must be fetched (`cargo fetch`)
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMAND = "threadseal-cli"
TEXTS = ("licen", "copying", "notice", "unlicense")


def main(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--all-features"]
    command += ["--filter-platform", target]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    edges = {node["id"]: linked_by(node) for node in found["resolve"]["nodes"]}
    start = next(id for id, package in packages.items() if package["name"] == COMMAND)
    linked = sorted((packages[id] for id in reached(start, edges)), key=lambda p: (p["name"], p["version"]))
    # Crates of this workspace have the licence of the command.
    linked = [package for package in linked if package["source"]]
    texts = {}
    for package in linked:
        print(f"{package['name']} {package['version']}: {package['license'] or 'see its text'}")
        for text in licences(package):
            texts.setdefault(text, []).append(f"{package['name']} {package['version']}")
    for text, names in texts.items():
        print(f"\n{'-' * 80}\n{', '.join(names)}\n\n{text}")
    print(f"{len(linked)} crates, {len(texts)} texts", file=sys.stderr)
    return not linked or not texts


def linked_by(node):
    """What is linked: no dependency of tests, and none of build scripts."""
    return [edge["pkg"] for edge in node["deps"] if any(kind["kind"] is None for kind in edge["dep_kinds"])]


def reached(start, edges):
    seen, open_ids = set(), [start]
    while open_ids:
        id = open_ids.pop()
        if id not in seen:
            seen.add(id)
            open_ids += edges[id]
    return seen


def licences(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.lower().startswith(TEXTS):
            yield path.read_text(encoding="utf-8", errors="replace").strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))
