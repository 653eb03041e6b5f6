#!/usr/bin/env bash
# Lets another implementation of the age format open a backup of a home, and make one that the
# command restores. It is pyrage.
#
#   interop/age/run.sh             builds the command, installs pyrage, runs the check
#   THREADSEAL=path run.sh         uses that command instead
#   AGE_VENV=folder run.sh         keeps the installation there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venv=${AGE_VENV:-$target/interop-age}

make_environment "$venv" python3 "--no-deps -r $here/requirements.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

"$venv/bin/python" "$here/check_backup.py" --threadseal "$THREADSEAL"
