#!/usr/bin/env bash
# Builds the page into the crate that serves it, and the verification page into web/verify/dist.
#
#   web/viewer/build.sh            builds
#   web/viewer/build.sh --check    builds, and compares with what is committed
#
# THREADSEAL_WASM is the folder that web/wasm/build.sh printed. The same sources give the same bytes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
assets=$root/crates/threadseal-view/assets
if [ -z "${THREADSEAL_WASM:-}" ] && [ -x "$root/web/wasm/build.sh" ]; then
    THREADSEAL_WASM=$("$root/web/wasm/build.sh")
    export THREADSEAL_WASM
fi
cd "$here"
[ -d node_modules/esbuild ] || npm ci --silent --no-fund --no-audit >&2
npx tsc -p tsconfig.json
node build.mjs
if [ "${1:-}" = --check ]; then
    diff -r dist/assets "$assets" >&2 || { echo "the page that is committed is another one: run web/viewer/build.sh" >&2; exit 1; }
    exit
fi
mkdir -p "$assets" "$root/web/verify/dist"
# Unchanged files keep their times, so that nothing is compiled for them.
diff -r dist/assets "$assets" >/dev/null || { rm -f "$assets"/*; cp dist/assets/* "$assets/"; }
cp dist/verify/* "$root/web/verify/dist/"
