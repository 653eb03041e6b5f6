#!/usr/bin/env bash
# Builds the Debian package, installs it in a clean Debian, tries it there, and removes it.
#
#   packaging/debian/run.sh        builds the command and the package
#   THREADSEAL=path run.sh         packs that command instead
#   DEBIAN_ROOT=file run.sh        keeps the clean Debian there, as a tar file [default: the user's cache, 300 MB]
#
# It needs root, for chroot and mounts. Services are not started: a chroot has no systemd that runs. Their files are checked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
# A package links the libraries of the system that built it.
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo bookworm)
# The shells and the reader of manuals that the package serves; systemd checks its units.
packages=bash-completion,fish,init-system-helpers,man-db,systemd,zsh

install_debian() {
    { apt-get -q update && apt-get -q install -y "$@"; } >/dev/null
}

if [ "$(id -u)" -ne 0 ]; then
    echo 'try the package: only root can use chroot' >&2
    exit 1
fi
if ! command -v lintian >/dev/null || ! command -v dpkg-shlibdeps >/dev/null; then
    install_debian lintian dpkg-dev
fi

pin=$(printf '%s %s' "$suite" "$packages" | cksum | cut -d ' ' -f 1)
clean=${DEBIAN_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/threadseal-debian-$pin.tar}
if [ ! -f "$clean" ]; then
    command -v mmdebstrap >/dev/null || install_debian mmdebstrap
    mkdir -p "$(dirname "$clean")"
    # A name of its own until it is complete.
    mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$clean.part.tar"
    mv "$clean.part.tar" "$clean"
fi

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli --all-features)
    THREADSEAL=$target/debug/threadseal
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$(COMPRESSION=${COMPRESSION:-0} bash "$here/build.sh" "$THREADSEAL" "$work")
lintian --allow-root --fail-on error "$package" >"$work/lintian.log" 2>&1 || { cat "$work/lintian.log"; exit 1; }
echo "lintian: no error, $(grep -c '^W: ' "$work/lintian.log" || true) warnings"

mkdir "$work/debian"
tar --extract --file "$clean" --directory "$work/debian" --exclude './dev/*'
cp "$package" "$work/debian/package.deb"
cp "$here/try_package.sh" "$work/debian/try_package.sh"
# Processes and mounts of its own: what a try leaves ends with it.
unshare --mount --pid --fork --kill-child env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb \
    sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" bash /try_package.sh' sh "$work/debian"
