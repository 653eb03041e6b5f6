#!/usr/bin/env bash
# Installs our hooks for real agents, runs a session of each with a model on loopback, and uninstalls.
#
#   interop/agents/run.sh          builds the command, installs the agents, runs check_agents.py
#   THREADSEAL=path run.sh         uses that command instead
#   AGENTS_FOLDER=folder run.sh    keeps the agents there [default: the user's cache, more than 1 GB]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

if ! command -v npm >/dev/null; then
    apt-get -q update >/dev/null && apt-get -q install -y nodejs npm >/dev/null
fi

pins=$(cat "$here/package.json" "$here/package-lock.json" | cksum | cut -d ' ' -f 1)
agents=${AGENTS_FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/threadseal-agents-$pins}
if [ ! -f "$agents/complete" ]; then
    rm -rf "$agents"
    mkdir -p "$agents"
    cp "$here/package.json" "$here/package-lock.json" "$agents/"
    # Two agents put their program in place by scripts. `npm ci` would refuse: the lock file lacks packages
    # of other systems.
    (cd "$agents" && npm install --silent --no-fund --no-audit)
    touch "$agents/complete"
fi

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

python3 "$here/check_agents.py" --threadseal "$THREADSEAL" --programs "$agents/node_modules/.bin"
