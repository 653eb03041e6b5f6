#!/usr/bin/env bash
# Makes what a release has for this machine, and installs it from loopback, by the shell installer and by npm.
#
#   packaging/installers/run.sh    builds the command, installs dist, packs, installs
#   THREADSEAL=path run.sh         packs that command instead
#   INSTALLERS_VENV=folder run.sh  keeps the tools there [default: next to cargo's output]
#
# It checks the pipeline that dist wrote and the Containerfile, too. The formula is made and not installed: Homebrew would
# fetch itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
build=${CARGO_TARGET_DIR:-$root/target}
venv=${INSTALLERS_VENV:-$build/packaging-installers}
make_environment "$venv" python3 "-r $here/requirements.txt"

command -v npm >/dev/null || { apt-get -q update && apt-get -q install -y npm; } >/dev/null
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

# The package for npm, told where the archive is; a call fetches it where npm runs no scripts.
tar --extract --file "$distrib/threadseal-cli-npm-package.tar.gz" --directory "$work"
grep -q '"https://github.com/threadseal/[^"]*"$' "$work/package/package.json"
sed -i "s|\"https://github.com/threadseal/[^\"]*\"\$|\"http://127.0.0.1:$port\"|" "$work/package/package.json"
npm install --silent --no-fund --no-audit --install-links --prefix "$work/npm" "$work/package" >"$work/npm.log" 2>&1 ||
    { cat "$work/npm.log"; exit 1; }
"$work/npm/node_modules/.bin/threadseal" --version >"$work/npm.log" 2>&1 || { cat "$work/npm.log"; exit 1; }
grep -q '^threadseal ' "$work/npm.log"
[ "$(grep -c '"GET /threadseal-cli-.* 200' "$work/server.log")" -eq 2 ]

# Another archive at the same address.
printf x >>"$distrib/$archive"
if install_to "$work/changed" || [ -e "$work/changed/bin/threadseal" ]; then
    echo 'the installer takes an archive that was changed'
    exit 1
fi
grep -q 'checksum mismatch' "$work/install.log" || { cat "$work/install.log"; exit 1; }
echo 'installed by the installer and by npm; the installer refuses a changed archive'
