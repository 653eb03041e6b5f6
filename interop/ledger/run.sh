#!/usr/bin/env bash
# Verifies ThreadSeal's ledgers with the real abstractruntime, and its runtime's ledgers with
# ThreadSeal.
#
#   interop/ledger/run.sh          builds the command, installs abstractruntime, runs check_ledger.py
#   THREADSEAL=path run.sh         uses that command instead
#   SEEDS=100 run.sh               this many runs of each kind [default: 12]
#   LEDGER_VENV=folder run.sh      keeps the installation there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venv=${LEDGER_VENV:-$target/interop-ledger}

make_environment "$venv" python3 "--no-deps -r $here/requirements.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

(cd "$root" && cargo build --quiet --profile test --workspace --all-features --examples)

"$venv/bin/python" "$here/check_ledger.py" --example "$target/debug/examples/run" \
    --threadseal "$THREADSEAL" --python "$venv/bin/python" --seeds "${SEEDS:-12}"
