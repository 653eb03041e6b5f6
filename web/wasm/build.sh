#!/usr/bin/env bash
# Builds ThreadSeal for browsers, and prints the folder that has it.
#
#   web/wasm/build.sh [FOLDER]     FOLDER gets threadseal_wasm.js, .d.ts and _bg.wasm
#
# The bytes depend on the sources, Cargo.lock, the compiler and the options below, and on no path: two
# builds in two folders are equal. DIGEST has the digests of one compiler (`web/wasm/digest.sh`).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
target=wasm32-unknown-unknown
cache=${XDG_CACHE_HOME:-$HOME/.cache}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
out=${1:-$CARGO_TARGET_DIR/web-wasm}

version=$(sed -n '/^name = "wasm-bindgen"$/{n;s/^version = "\(.*\)"$/\1/p}' "$root/Cargo.lock")
bindgen=wasm-bindgen
if [ "$("$bindgen" --version 2>/dev/null)" != "wasm-bindgen $version" ]; then
    tools=$cache/threadseal-wasm-bindgen-$version
    bindgen=$tools/bin/wasm-bindgen
    # A registry may lack a version that was locked.
    for locked in --locked ''; do
        [ -x "$bindgen" ] || CARGO_TARGET_DIR=$tools/target cargo install --quiet $locked --root "$tools" \
            --bin wasm-bindgen wasm-bindgen-cli --version "$version" >&2 || true
    done
fi

# Vectors of 128 bits are in every browser since 2023; SHA-256 and the search for bytes need them.
flags=(-C target-feature=+simd128)
# No path of this machine is in the bytes.
flags+=("--remap-path-prefix=$root=/threadseal")
flags+=("--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rust")
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
    flags+=("--remap-path-prefix=${registry%/}=/crates")
done
encoded=$(printf '%s\x1f' "${flags[@]}")
export CARGO_ENCODED_RUSTFLAGS=${encoded%$'\x1f'}
export CARGO_INCREMENTAL=0
cd "$root"
cargo build --quiet --locked --profile wasm --package threadseal-wasm --target "$target" >&2
mkdir -p "$out"
"$bindgen" --target web --out-dir "$out" --remove-name-section --remove-producers-section \
    "$CARGO_TARGET_DIR/$target/wasm/threadseal_wasm.wasm" >&2
printf '%s\n' "$out"
