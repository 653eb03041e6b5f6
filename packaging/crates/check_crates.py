#!/usr/bin/env python3
"""Looks into each packed crate: what a reader needs is there, and each file that its code includes.

usage: check_crates.py FOLDER    a folder that `cargo package` wrote
"""

import json
import pathlib
import posixpath
import re
import subprocess
import sys
import tarfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What crates.io shows, and how much of it a crate may have.
FIELDS = ["description", "license", "repository", "readme", "keywords", "categories", "rust-version"]
MAX_KEYWORDS = 5
MAX_KEYWORD = 20
MAX_PACKED = 10 * 1024 * 1024
BESIDE = ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "Cargo.toml"]
INCLUDED = re.compile(r'include(?:_str|_bytes)?!\(\s*"([^"]+)"')
# A module of tests is compiled for tests alone, and these need the repository.
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(\w+\))? )?mod (\w+)( \{|;)")


def main(folder):
    faults, count = [], 0
    for name in published():
        crate = folder / f"{name}-{version()}.crate"
        if not crate.is_file():
            faults.append(f"{name}: was not packed")
            continue
        faults += [f"{name}: {fault}" for fault in look_into(crate)]
        count += 1
    for fault in faults:
        print(fault)
    print(f"{count} crates packed, {len(faults)} faults")
    return bool(faults) or count == 0


def published():
    """The crates of the workspace that `publish = false` does not keep back."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]
    listed = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return [package["name"] for package in listed["packages"] if package["publish"] != []]


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def look_into(crate):
    files = contents(crate)
    faults = [f"{name} is missing" for name in BESIDE if name not in files]
    if crate.stat().st_size > MAX_PACKED:
        faults.append(f"{crate.stat().st_size} bytes are more than a registry takes")
    faults += faults_of_manifest(tomllib.loads(files["Cargo.toml"].decode()))
    sources = {path: text.decode() for path, text in files.items() if path.endswith(".rs")}
    tests = [test for path, text in sources.items() for test in test_modules(path, text)]
    for path, text in sources.items():
        if not any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests):
            faults += missing_includes(path, text, files)
    return faults


def test_modules(path, text):
    """The files of the modules that `path` declares for tests alone, without their endings."""
    folder, name = posixpath.split(path.removesuffix(".rs"))
    within = folder if name in ("lib", "main", "mod") else f"{folder}/{name}"
    return [f"{within}/{module}" for module, end in TEST_MODULE.findall(text) if end == ";"]


def contents(crate):
    files = {}
    with tarfile.open(crate) as archive:
        for member in archive.getmembers():
            name = member.name.split("/", 1)[1]
            if not member.isfile():
                raise SystemExit(f"{crate.name}: {name} is no file")
            files[name] = archive.extractfile(member).read()
    return files


def faults_of_manifest(manifest):
    package = manifest["package"]
    faults = [f"Cargo.toml has no {field}" for field in FIELDS if not package.get(field)]
    keywords = package.get("keywords", [])
    if len(keywords) > MAX_KEYWORDS or any(len(word) > MAX_KEYWORD for word in keywords):
        faults.append("too many keywords, or one that is too long")
    is_library = "lib" in manifest
    if is_library and not package.get("metadata", {}).get("docs", {}).get("rs", {}).get("all-features"):
        faults.append("its documentation lacks features: [package.metadata.docs.rs]")
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"]:
        for name, value in manifest.get(kind, {}).items():
            if isinstance(value, dict) and not value.get("version"):
                faults.append(f"the dependency {name} has no version")
    return faults


def missing_includes(path, text, files):
    begins = [found.start() for found in TEST_MODULE.finditer(text) if found[2] == " {"]
    shipped = text[: begins[0]] if begins else text
    for included in INCLUDED.findall(shipped):
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), included))
        if wanted not in files:
            yield f"{path} includes {wanted}, which is not packed"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1])))
