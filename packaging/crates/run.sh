#!/usr/bin/env bash
# Packs each crate that is published, as `cargo publish` does, and checks what is in it.
#
#   packaging/crates/run.sh            packs all, looks into each
#   packaging/crates/run.sh --build    also builds the two crates of the formats from what was packed
#
# `cargo publish --workspace` finds the order in which the crates depend on each other.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# What cargo has to report matters only where it fails: it names each test that is left out.
quietly() {
    "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
}

cargo fetch --quiet --locked
# These four are for this repository alone.
quietly cargo package --workspace --no-verify --allow-dirty --locked --offline \
    --exclude threadseal-testkit --exclude threadseal-vectors --exclude threadseal-wasm --exclude xtask
python3 "$here/check_crates.py" "$target/package"

if [ "${1:-}" = --build ]; then
    quietly cargo package --allow-dirty --locked --offline --package threadseal-core --package threadseal-formats
    echo 'threadseal-core and threadseal-formats build from their packages'
fi
