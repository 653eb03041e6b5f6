#!/usr/bin/env bash
# Compares the public items of the crate `threadseal` with those of an earlier revision.
#
#   packaging/semver.sh REVISION    a tag, as v0.1.0
#
# `docs/stability.md` promises semantic versions for this crate alone. It needs the tool
# cargo-semver-checks (`cargo install --locked cargo-semver-checks`).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
revision=${1:?usage: packaging/semver.sh REVISION}

if ! cargo semver-checks --version >/dev/null 2>&1; then
    echo 'compare with a revision: cargo-semver-checks is not installed; hint: cargo install --locked cargo-semver-checks' >&2
    exit 2
fi
cd "$root"
cargo semver-checks check-release --package threadseal --all-features --baseline-rev "$revision"
