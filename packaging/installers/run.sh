#!/usr/bin/env bash
# Makes what a release has for this machine, and installs it from loopback, by the shell installer.
#
#   packaging/installers/run.sh    builds the command, installs dist, packs, installs
#   THREADSEAL=path run.sh         packs that command instead
#   INSTALLERS_VENV=folder run.sh  keeps the tools there [default: next to cargo's output]
#
# It checks the pipeline that dist wrote and the Containerfile, too. The formula and the npm package are made and not
# installed: they fetch from the release alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
build=${CARGO_TARGET_DIR:-$root/target}
venv=${INSTALLERS_VENV:-$build/packaging-installers}
make_environment "$venv" python3 "-r $here/requirements.txt"

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli --all-features)
    THREADSEAL=$build/debug/threadseal
fi

work=$(mktemp -d)
server=
# The place where dist keeps what it makes.
distrib=$root/target/distrib
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work" "$distrib"' EXIT
cd "$root"

"$venv/bin/hadolint" packaging/Containerfile
"$venv/bin/dist" generate --check >"$work/dist.log" 2>&1 || { cat "$work/dist.log"; exit 1; }
echo 'the pipeline is the one that dist writes; the container file has no fault'

host=$(rustc -vV | sed -n 's/^host: //p')
rm -rf "$distrib"
COMPRESSION=1 bash packaging/archive.sh "$host" "$THREADSEAL" "$distrib" >/dev/null
"$venv/bin/dist" build --artifacts=global >"$work/dist.log" 2>&1 || { cat "$work/dist.log"; exit 1; }
archive=threadseal-cli-$host.tar.gz
digest=$(sha256sum "$distrib/$archive" | cut -d ' ' -f 1)
for file in threadseal-cli-installer.sh threadseal.rb sha256.sum; do
    grep -q "$digest" "$distrib/$file" || { echo "$file does not check the archive"; exit 1; }
done

python3 -u -m http.server --bind 127.0.0.1 --directory "$distrib" 0 >"$work/server.log" 2>&1 &
server=$!
timeout 20 sh -c "until grep -q ' port [0-9]' '$work/server.log'; do sleep 0.1; done"
port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/server.log")

install_to() {
    mkdir -p "$work/home"
    env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work" THREADSEAL_CLI_NO_MODIFY_PATH=1 THREADSEAL_CLI_INSTALL_DIR="$1" \
        THREADSEAL_CLI_DOWNLOAD_URL="http://127.0.0.1:$port" sh "$distrib/threadseal-cli-installer.sh" >"$work/install.log" 2>&1
}

install_to "$work/there" || { cat "$work/install.log"; exit 1; }
"$work/there/bin/threadseal" --version
(cd "$work" && "$work/there/bin/threadseal" demo >demo.txt) || { cat "$work/demo.txt"; exit 1; }

# Another archive at the same address.
printf x >>"$distrib/$archive"
if install_to "$work/changed" || [ -e "$work/changed/bin/threadseal" ]; then
    echo 'the installer takes an archive that was changed'
    exit 1
fi
grep -q 'checksum mismatch' "$work/install.log" || { cat "$work/install.log"; exit 1; }
echo 'installed from an archive; a changed one is refused'
