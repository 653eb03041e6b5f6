#!/usr/bin/env bash
# Compares the mappings of agents' files with independent counts.
#
#   THREADSEAL_SHARED=folder interop/counts/run.sh   counts corpus/real-runs in that folder
#   THREADSEAL=path …                                uses this command, and builds none
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ ! -d "${THREADSEAL_SHARED:-}/corpus/real-runs" ]; then
    echo "counts: skipped, no corpus (THREADSEAL_SHARED names it)"
    exit 0
fi
if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=${CARGO_TARGET_DIR:-$root/target}/debug/threadseal
fi
exec python3 "$here/count.py" --threadseal "$THREADSEAL" "$@" "$THREADSEAL_SHARED/corpus/real-runs"
