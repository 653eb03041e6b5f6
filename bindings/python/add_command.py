"""Puts the command into a wheel as a script: `add_command.py WHEEL COMMAND`.

The source package builds the module alone. A wheel for a machine gets the command that was built for it, as a script of
the wheel (binary distribution format, `NAME.data/scripts`), which an installer puts beside the interpreter.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

EXECUTABLE = 0o100755 << 16


def add(wheel: Path, command: Path) -> None:
    """Writes the wheel anew with the command and its line of RECORD."""
    name = "-".join(wheel.name.split("-")[:2])
    script, record = f"{name}.data/scripts/{command.name}", f"{name}.dist-info/RECORD"
    content = command.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    written = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        if script in old.namelist():
            raise SystemExit(f"{wheel} has {script} already")
        for entry in old.infolist():
            if entry.filename != record:
                new.writestr(entry, old.read(entry))
        at = zipfile.ZipInfo(script)
        at.external_attr, at.compress_type = EXECUTABLE, zipfile.ZIP_DEFLATED
        new.writestr(at, content)
        lines = old.read(record).decode() + f"{script},sha256={digest},{len(content)}\n"
        new.writestr(old.getinfo(record), lines)
    written.replace(wheel)


if __name__ == "__main__":
    add(Path(sys.argv[1]), Path(sys.argv[2]))
