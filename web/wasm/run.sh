#!/usr/bin/env bash
# Builds ThreadSeal for browsers, compares it with DIGEST, and tests it in Node.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v node >/dev/null; then
    apt-get -q update >/dev/null && apt-get -q install -y nodejs >/dev/null
fi
THREADSEAL_WASM=$(bash "$here/build.sh")
export THREADSEAL_WASM
bash "$here/digest.sh" "$THREADSEAL_WASM"
size=$(wc -c <"$THREADSEAL_WASM/threadseal_wasm_bg.wasm")
packed=$(gzip -9 <"$THREADSEAL_WASM/threadseal_wasm_bg.wasm" | wc -c)
echo "$size bytes, $packed compressed"
node --test "$here"/test/
