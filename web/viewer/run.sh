#!/usr/bin/env bash
# Tests the page in Chromium, and in Firefox where it is installed.
#
#   THREADSEAL=path web/viewer/run.sh     uses this command, and builds none
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=${CARGO_TARGET_DIR:-$root/target}/debug/threadseal
fi
export THREADSEAL
cd "$here"
[ -d node_modules/esbuild ] || npm ci --silent --no-fund --no-audit >&2
npx tsc -p tsconfig.json
node build.mjs
node --test --test-concurrency=1 test/
