#!/usr/bin/env bash
# Builds the verifier in TypeScript, and compares it with the one in Rust.
#
#   web/run.sh [COUNT]     COUNT changed files of each kind (1,000)
#   VECTORS=path …         uses this threadseal-vectors, and builds none
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}
if ! command -v npm >/dev/null; then
    apt-get -q update >/dev/null && apt-get -q install -y nodejs npm >/dev/null
fi
if [ -z "${VECTORS:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-vectors)
    VECTORS=${CARGO_TARGET_DIR:-$root/target}/debug/threadseal-vectors
fi
# Built in a place of its own: the compiler stays there, and the repository stays clean.
pins=$(cksum <"$here/verifier/package.json" | cut -d ' ' -f 1)
built=$cache/threadseal-verifier-$pins
mkdir -p "$built"
cp -r "$here/verifier/." "$built"
(
    cd "$built"
    [ -d node_modules/typescript ] || npm install --silent --no-fund --no-audit --no-package-lock
    TESTKIT=$root/testkit npm test --silent
)
answer="node $built/dist/cli/answer.js"
"$root/testkit/run" -- $answer
"$root/testkit/run" -- "$VECTORS" answer
"$root/testkit/differ" --count "${1:-1000}" "$VECTORS answer" "$answer"
