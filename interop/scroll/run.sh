#!/usr/bin/env bash
# Compares ThreadSeal with the published implementations of agent-scroll, of RFC 8785 and of ATIF.
# They also read its output.
#
#   interop/scroll/run.sh          builds the command, installs the packages, runs check_*.py
#   THREADSEAL=path XTASK=path run.sh   uses these commands instead
#   DOCUMENTS=1000000 run.sh       canonicalizes this many random documents [default: 50000]
#   SCROLL_TOOLS=folder run.sh     keeps the packages there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
tools=${SCROLL_TOOLS:-$target/interop-scroll}

# Renewed when the file that pins the packages changes.
install_node() {
    local pins
    pins=$(cksum <"$here/package-lock.json")
    [ "$(cat "$tools/node.pins" 2>/dev/null)" = "$pins" ] && return
    command -v npm >/dev/null || install_debian
    rm -rf "$tools/node"
    mkdir "$tools/node"
    cp "$here/package.json" "$here/package-lock.json" "$tools/node"
    (cd "$tools/node" && npm ci --silent --no-audit --no-fund --ignore-scripts)
    printf '%s\n' "$pins" >"$tools/node.pins"
}

install_debian() {
    local log=$tools/apt.log
    { apt-get -q update && apt-get -q install -y nodejs npm; } >"$log" 2>&1 || { cat "$log"; return 1; }
}

mkdir -p "$tools"
make_environment "$tools/python" python3 "-r $here/requirements.txt"
install_node
cargo build --quiet --locked --manifest-path "$here/peer/Cargo.toml" --target-dir "$tools/cargo"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi
if [ -z "${XTASK:-}" ]; then
    # Built as by `cargo xtask`.
    (cd "$root" && cargo build --quiet --profile chores --package xtask)
    XTASK=$target/chores/xtask
fi

python=$tools/python/bin/python
"$python" "$here/check_suite.py" --threadseal "$THREADSEAL" --peer "$tools/cargo/debug/scroll-peer"
"$python" "$here/check_anthropic.py" --threadseal "$THREADSEAL"
"$python" "$here/check_export.py" --threadseal "$THREADSEAL"
"$python" "$here/check_canonical.py" \
    --xtask "$XTASK" --node-modules "$tools/node/node_modules" \
    --documents "${DOCUMENTS:-50000}"
