#!/usr/bin/env bash
# Tests the page in Chromium, and in Firefox where it is installed.
#
#   web/viewer/run.sh             builds the page into the crate that serves it, then tests it
#   web/viewer/run.sh --check     fails where the page that is committed is another one
#
# QUICK=1 leaves out accessibility in Firefox.
# THREADSEAL names the command; without it one is built, and it serves the page that is committed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bash "$here/build.sh" "$@"
if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=${CARGO_TARGET_DIR:-$root/target}/debug/threadseal
fi
export THREADSEAL
cd "$here"
node --test --test-concurrency=2 test/*.test.mjs
