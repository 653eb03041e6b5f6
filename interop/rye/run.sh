#!/usr/bin/env bash
# Verifies ThreadSeal's output with the real Rye, and the real Rye's output with ThreadSeal.
#
#   interop/rye/run.sh            builds the command, installs both generations of Rye, runs check_*.py
#   THREADSEAL=path run.sh        uses that command instead
#   RYE_VENVS=folder run.sh       keeps both installations there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venvs=${RYE_VENVS:-$target/interop-rye}

install_rye() { # name, ryeos-core and ryeos to install besides the requirements
    # Bundles are data; their dependencies (a server, for one) are not needed.
    make_environment "$venvs/$1" python3 "-r $here/requirements-$1.txt" "--no-deps $2 $3"
}

install_rye python ryeos-core==0.1.29 ryeos==0.1.20
install_rye lillux ryeos-core==0.1.46 ryeos==0.1.30

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi
# Built as for the tests, so that cargo builds nothing twice.
(cd "$root" && cargo build --quiet --profile test --workspace --all-features --examples)

for check in "$here"/check_*.py; do
    "$venvs/python/bin/python" "$check" \
        --threadseal "$THREADSEAL" --record "$target/debug/examples/record" \
        --rye "$venvs/python/bin/python" --rye "$venvs/lillux/bin/python"
done
