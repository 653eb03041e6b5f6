#!/usr/bin/env bash
# Writes the Debian package of a command that is built, and prints its path.
#
#   packaging/debian/build.sh COMMAND FOLDER
#
# The same command and commit give the same bytes. COMPRESSION=1 is quick [default: 9].
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
usage='usage: packaging/debian/build.sh COMMAND FOLDER'
command=$(realpath "${1:?$usage}")
out=$(realpath "${2:?$usage}")
revision=1

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/threadseal
share=$tree/usr/share
doc=$share/doc/threadseal
architecture=$(dpkg --print-architecture)
version=$("$command" --version | cut -d ' ' -f 2)-$revision

install -d "$tree/DEBIAN" "$doc" "$share/man/man1" "$share/bash-completion/completions" \
    "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d" "$share/lintian/overrides"

install -D "$command" "$tree/usr/bin/threadseal"
objcopy --strip-all --remove-section=.comment "$tree/usr/bin/threadseal"

"$command" man --quiet "$share/man/man1"
"$command" completions bash >"$share/bash-completion/completions/threadseal"
"$command" completions zsh >"$share/zsh/vendor-completions/_threadseal"
"$command" completions fish >"$share/fish/vendor_completions.d/threadseal.fish"
install -D -m 644 -t "$tree/usr/lib/systemd/system" "$root"/packaging/systemd/*.service

install -m 644 "$here/copyright" "$doc/copyright"
install -m 644 "$here/lintian-overrides" "$share/lintian/overrides/threadseal"
install -m 644 "$root/CHANGELOG.md" "$doc/changelog"
date=$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
sed -e "s/@VERSION@/$version/" -e "s/@DATE@/$date/" "$here/changelog" >"$doc/changelog.Debian"
target=$(rustc -vV | sed -n 's/^host: //p')
(cd "$root" && python3 packaging/linked_crates.py "$target" >"$doc/linked-crates" 2>/dev/null)
gzip -9 -n "$share"/man/man1/* "$doc/changelog" "$doc/changelog.Debian" "$doc/linked-crates"

# The libraries that the command loads, and the oldest versions with all that it calls.
mkdir "$stage/debian"
cp "$here/control" "$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O threadseal/usr/bin/threadseal 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo 'dpkg-shlibdeps found no library' >&2; exit 1; }
size=$(du -sk --apparent-size "$tree" | cut -f 1)
sed -e '/^Source:/,/^$/d' -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
    -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/$depends/" "$here/control" >"$tree/DEBIAN/control"
install -m 755 -t "$tree/DEBIAN" "$here/prerm" "$here/postinst"
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"

package=$out/threadseal_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz "-z${COMPRESSION:-9}" --build "$tree" "$package" >/dev/null
echo "$package"
