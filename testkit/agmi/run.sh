#!/usr/bin/env bash
# Lets agent-memory-integrity edit our stores in its nine ways. Fails unless every edit is refused
# where the store is read.
#
#   testkit/agmi/run.sh            builds the commands, installs agent-memory-integrity, runs agmi-check
#   THREADSEAL=path run.sh         uses that command instead
#   AGMI_VENV=folder run.sh        keeps the installation there [default: next to cargo's output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venv=${AGMI_VENV:-$target/testkit-agmi}

make_environment "$venv" python3 "--no-deps -r $here/requirements.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi
(cd "$root" && cargo build --quiet --profile test --workspace --all-features --examples)
export THREADSEAL RECORD=$target/debug/examples/record PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The suite does not remove its copies of stores.
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
for adapter in transcripts:Transcripts ledgers:Ledgers; do
    "$venv/bin/agmi-check" --adapter "threadseal_agmi.$adapter" --json "$work/${adapter#*:}.json"
    echo
done
"$venv/bin/agmi-check" --adapter threadseal_agmi.ledgers:Unverified --fail-on none --json "$work/control.json"
echo
python3 "$here/check_cells.py" REJECTED "$work/Transcripts.json" "$work/Ledgers.json"
python3 "$here/check_cells.py" ACCEPTED "$work/control.json"
