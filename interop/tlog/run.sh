#!/usr/bin/env bash
# Lets other implementations of the C2SP documents read the log of a host, and transcripts as logs.
# They are aics-tlog, and the crates signed_note and tlog_tiles. They read notes, checkpoints, tiles
# and entries, and make proofs. Witnesses of both projects cosign the logs of the other.
#
#   interop/tlog/run.sh            builds the command and the crates' reader, installs aics-tlog and
#                                  aics-witness, runs both checks
#   THREADSEAL=path run.sh         uses that command instead
#   TLOG_PYTHON=path run.sh        a Python of 3.12 or later [default: the first one that is found]
#   TLOG_VENV=folder run.sh        keeps the installation there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venv=${TLOG_VENV:-$target/interop-tlog}

# aics-tlog requires 3.12; not every system has one by that name.
find_python() {
    local python
    for python in "${TLOG_PYTHON:-}" python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3; do
        if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    echo 'no Python of 3.12 or later is found; name one in TLOG_PYTHON' >&2
    return 1
}

python=$(find_python)
make_environment "$venv" "$python" "--no-deps -r $here/requirements.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

cargo build --quiet --locked --manifest-path "$here/peer/Cargo.toml" --target-dir "$target/interop-tlog-peer"
"$venv/bin/python" "$here/check_log.py" --threadseal "$THREADSEAL" --peer "$target/interop-tlog-peer/debug/tlog-peer"
"$venv/bin/python" "$here/check_witness.py" --threadseal "$THREADSEAL"
