#!/usr/bin/env bash
# Lets threads call real MCP servers: `mcp-server-time` over standard input and output, and a server
# made with the official library, over streamable HTTP, once with its newest version and once with the
# last one that speaks the revision 2025-11-25 alone.
#
#   interop/mcp/run.sh             builds the command, installs both, runs check_mcp.py
#   THREADSEAL=path run.sh         uses that command instead
#   MCP_VENV=folder run.sh         keeps the installation there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venv=${MCP_VENV:-$target/interop-mcp}

make_environment "$venv" python3 "--no-deps -r $here/requirements.txt"
make_environment "$venv-old" python3 "--no-deps -r $here/requirements-old.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

"$venv/bin/python" "$here/check_mcp.py" --threadseal "$THREADSEAL" --python "$venv/bin/python" \
    --old-python "$venv-old/bin/python"
