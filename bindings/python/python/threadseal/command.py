"""Where the command `threadseal` of this package is."""

import os
import sys
import sysconfig
from pathlib import Path


def find_command() -> Path:
    """The command that the wheel brought along.

    A wheel built from source has no command: `cargo install threadseal-cli` makes it.
    """
    name = "threadseal.exe" if sys.platform == "win32" else "threadseal"
    schemes = [None, sysconfig.get_preferred_scheme("user")]
    for scheme in schemes:
        scripts = sysconfig.get_path("scripts") if scheme is None else sysconfig.get_path("scripts", scheme=scheme)
        if (found := Path(scripts) / name).is_file():
            return found
    # `pip install --target` puts it beside the package.
    beside = Path(__file__).parent.parent / "bin" / name
    if beside.is_file():
        return beside
    raise FileNotFoundError(f"no command in {sysconfig.get_path('scripts')}; hint: cargo install threadseal-cli")


def main() -> None:
    """Runs the command with the arguments of this process: `python -m threadseal`."""
    command = str(find_command())
    if sys.platform == "win32":
        import subprocess

        raise SystemExit(subprocess.run([command, *sys.argv[1:]]).returncode)
    os.execv(command, [command, *sys.argv[1:]])
