#!/usr/bin/env bash
# Compares a build with DIGEST, or writes DIGEST anew.
#
#   web/wasm/digest.sh FOLDER [--write]
#
# Another compiler makes other bytes: then nothing is compared.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(cd "$1" && pwd)
digest() {
    rustc --version
    cd "$folder"
    sha256sum threadseal_wasm_bg.wasm threadseal_wasm.js threadseal_wasm.d.ts
}
if [ "${2:-}" = --write ]; then
    digest >"$here/DIGEST"
    exit
fi
if [ ! -e "$here/DIGEST" ]; then
    echo 'skipped: web/wasm/DIGEST is of no compiler yet'
    exit
fi
if [ "$(head -n 1 "$here/DIGEST")" != "$(rustc --version)" ]; then
    echo "skipped: web/wasm/DIGEST is of $(head -n 1 "$here/DIGEST")"
    exit
fi
digest | diff "$here/DIGEST" - || {
    echo 'the build differs from web/wasm/DIGEST; hint: web/wasm/digest.sh FOLDER --write, where the sources changed'
    exit 1
}
