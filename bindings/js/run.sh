#!/usr/bin/env bash
# Builds the package for JavaScript, checks it, and tests it from its tarball in Node, Deno, Bun and Chromium. Then it tests
# the integrations, which use it.
#
#   bindings/js/run.sh [FILE…]     FILE: only these tests, as test/verify.test.mjs
#
#   THREADSEAL        the command; without it one is built
#   THREADSEAL_WASM   the folder that web/wasm/build.sh printed; without it the module is built
#   VERIFIER          the program that web/build.sh printed; without it the second verifier is built
#
# It is built in the user's cache, as the second verifier is: the repository stays clean.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}
if ! command -v npm >/dev/null; then
    apt-get -q update >/dev/null && apt-get -q install -y nodejs npm >/dev/null
fi
if ! command -v chromium >/dev/null; then
    apt-get -q update >/dev/null && apt-get -q install -y chromium >/dev/null
fi
if [ -z "${THREADSEAL_WASM:-}" ]; then
    target=wasm32-unknown-unknown
    if ! rustup target add "$target" >/dev/null 2>&1; then
        echo "skipped: the compiler's library for $target cannot be fetched"
        exit
    fi
    THREADSEAL_WASM=$(bash "$root/web/wasm/build.sh")
fi
if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=${CARGO_TARGET_DIR:-$root/target}/debug/threadseal
fi
VERIFIER=${VERIFIER:-$(bash "$root/web/build.sh")}
export THREADSEAL THREADSEAL_WASM
export VERIFIER_DIST=${VERIFIER%/cli/answer.js}
export OPENCODE=$root/crates/threadseal-capture/src/settings/plugin/opencode.js

precommit=4.7.0
tools=$cache/threadseal-pre-commit-$precommit
if [ "$(cat "$tools/complete" 2>/dev/null)" != "$tools" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet "pre-commit==$precommit"
    printf '%s\n' "$tools" >"$tools/complete"
fi
export PRE_COMMIT=$tools/bin/pre-commit

pins=$(cksum <"$here/package-lock.json" | cut -d ' ' -f 1)
built=$cache/threadseal-js-$pins
mkdir -p "$built"
if [ ! -f "$built/complete" ]; then
    cp "$here/package.json" "$here/package-lock.json" "$built/"
    # Deno and Bun put their program in place by scripts, and the lock file lacks packages of other systems.
    (cd "$built" && npm install --silent --no-fund --no-audit >&2)
    touch "$built/complete"
fi
rm -rf "$built/src" "$built/test" "$built"/*.tgz
cp -r "$here/." "$built"
cp "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$built/"
cd "$built"
node build.mjs

npm pack --silent >/dev/null
npx publint --strict
npx attw --profile esm-only --exclude-entrypoints threadseal.wasm --format table-flipped ./threadseal-*.tgz >attw.log || { cat attw.log; exit 1; }

# A program that depends on the tarball; frameworks are found above it, as in a workspace.
rm -rf app
mkdir app
printf '{ "name": "app", "private": true, "type": "module" }\n' >app/package.json
(cd app && npm install --silent --no-fund --no-audit ../threadseal-*.tgz)
cp -r test app/test
npx tsc -p app/test/tsconfig.json
# A page has no types of Node, and checks those of its libraries.
npx tsc -p app/test/page.tsconfig.json
cd app
export ROOT=$root THREADSEAL_PACKAGE=$PWD/node_modules/threadseal
node --test --test-timeout=120000 --test-concurrency=2 ${@:-test/*.test.mjs "$root"/integrations/*/*.test.mjs}
