#!/usr/bin/env bash
# Tests the verifier in TypeScript, and compares it with the one in Rust.
#
#   web/run.sh [COUNT]     COUNT changed files of each kind (1,000)
#   VECTORS=path …         uses this threadseal-vectors, and builds none
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
if [ -z "${VECTORS:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-vectors)
    VECTORS=${CARGO_TARGET_DIR:-$root/target}/debug/threadseal-vectors
fi
program=$(bash "$here/build.sh")
(cd "${program%/dist/cli/answer.js}" && TESTKIT=$root/testkit npm test --silent)
answer="node $program"
"$root/testkit/run" -- $answer
"$root/testkit/run" -- "$VECTORS" answer
"$root/testkit/differ" --count "${1:-1000}" "$VECTORS answer" "$answer"
