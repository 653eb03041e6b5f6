#!/usr/bin/env bash
# Packs a command that is built by the profile `dist`, for one target: the archive that installers unpack, and its symbols.
#
#   packaging/archive.sh TARGET COMMAND FOLDER
#
# It runs the command, for its manual pages and completions: use it on a machine of the target.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage='usage: packaging/archive.sh TARGET COMMAND FOLDER'
target=${1:?$usage}
command=$(realpath "${2:?$usage}")
mkdir -p "${3:?$usage}"
out=$(realpath "$3")
# The names by which the installers of dist look for them.
name=threadseal-cli-$target
program=$(basename "$command")

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/$name/man" "$stage/$name/completions"
cd "$stage/$name"
cp "$root"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT} .
(cd "$root" && python3 packaging/linked_crates.py "$target" 2>/dev/null) >LICENSES-LINKED
"$command" man --quiet man
for shell in bash zsh fish powershell elvish; do
    "$command" completions "$shell" >"completions/threadseal.$shell"
done

# A crash of the stripped command can be read with these (docs/operators.md, "Build").
symbols=$stage/$name-symbols
mkdir "$symbols"
cp "$command" "$program"
case $target in
    *-apple-darwin)
        dsymutil "$command" -o "$symbols/threadseal.dSYM"
        strip -S "$program"
        # A stripped program needs a signature again.
        codesign --force --sign - "$program"
        ;;
    *)
        objcopy --only-keep-debug "$program" "$symbols/threadseal.debug"
        objcopy --strip-all --add-gnu-debuglink="$symbols/threadseal.debug" "$program"
        ;;
esac

cd "$stage"
for folder in "$name" "$name-symbols"; do
    tar --create --file - "$folder" | gzip -n "-${COMPRESSION:-9}" >"$out/$folder.tar.gz"
    (cd "$out" && { sha256sum "$folder.tar.gz" 2>/dev/null || shasum -a 256 "$folder.tar.gz"; } >"$folder.tar.gz.sha256")
done
# From this, dist takes the digests that the installers and the formula check.
printf '{"dist_version":"%s","artifacts":{"%s":{"name":"%s","kind":"executable-zip","checksums":{"sha256":"%s"}}}}\n' \
    "$(sed -n 's/^cargo-dist-version = "\(.*\)"/\1/p' "$root/dist-workspace.toml")" \
    "$name.tar.gz" "$name.tar.gz" "$(cut -d ' ' -f 1 "$out/$name.tar.gz.sha256")" >"$out/$name-dist-manifest.json"
echo "$out/$name.tar.gz"
