#!/usr/bin/env bash
# Seals databases that the real LangGraph and OpenAI Agents SDK write, and repeats the export in Python.
#
#   interop/databases/run.sh       builds the command, installs both, runs check_databases.py
#   THREADSEAL=path run.sh         uses that command instead
#   DATABASES_VENV=folder run.sh   keeps the installation there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venv=${DATABASES_VENV:-$target/interop-databases}

make_environment "$venv" python3 "-r $here/requirements.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

"$venv/bin/python" "$here/check_databases.py" --threadseal "$THREADSEAL"
