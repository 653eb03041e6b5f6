#!/usr/bin/env python3
"""Gives the files of a clone the times at which the same bytes were last built, so that cargo builds them once.

    source-times.py TARGET        before building: restores times of unchanged files, and notes all
    source-times.py TARGET built  after building: from now on, TARGET is what was built here

Cargo compares times, and a clone gives every file a new one. What was built of another checkout counts as fresh
where its files are younger, with that one's paths and bytes: so the times are restored only where the same folder was
built last, and nothing else was built in TARGET since. In every other case all files are new.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parent.parent
target = pathlib.Path(sys.argv[1])
notes = target / "source-times.json"
stamp = target / "source-times.built"


def tracked():
    """Path and digest of each tracked file that is there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True).stdout
    paths = [path for path in listed.decode().split("\0") if path and (root / path).is_file()]
    asked = "\n".join(paths) + "\n"
    hashed = subprocess.run(
        ["git", "hash-object", "--no-filters", "--stdin-paths"], cwd=root, input=asked, text=True, check=True, capture_output=True
    )
    return zip(paths, hashed.stdout.split(), strict=True)


def is_ours():
    """Did this folder build last in TARGET?"""
    if not (notes.exists() and stamp.exists()):
        return False
    built = stamp.stat().st_mtime
    fingerprints = target.glob("*/.fingerprint/*threadseal*")
    more = target.glob("*/*/.fingerprint/*threadseal*")
    own = (file for folder in (*fingerprints, *more) for file in folder.iterdir())
    return not any(file.stat().st_mtime > built for file in own)


def restore():
    known = json.loads(notes.read_text()) if is_ours() else {}
    files = known["files"] if known.get("root") == str(root) else {}
    now, kept, times = time.time_ns(), 0, {}
    for path, digest in tracked():
        before = files.get(path)
        same = before is not None and before[0] == digest
        times[path] = [digest, before[1] if same else now]
        kept += same
        os.utime(root / path, ns=(times[path][1], times[path][1]))
    target.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    notes.write_text(json.dumps({"root": str(root), "files": times}))
    print(f"{kept} of {len(times)} files are as they were last built here")


if sys.argv[2:] == ["built"]:
    stamp.touch()
else:
    restore()
