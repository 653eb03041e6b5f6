#!/usr/bin/env bash
# The documentation site: `THREADSEAL=PROGRAM book/build.sh FOLDER` writes it into FOLDER/html.
#
# The pages are those of the repository, in the same places, so that their links hold. The reference
# is made of what the program prints and of the schemas. A link that leads nowhere ends the build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
site=$1
mkdir -p "$site"
rm -rf "$site/pages" "$site/html"
python3 "$here/pages.py" stage "$here/.." "$site/pages" "$THREADSEAL"
cp "$here/book.toml" "$site/book.toml"
sed -i 's|^\[build\]|src = "pages"\n\n[build]|' "$site/book.toml"
mdbook build --dest-dir "$site/html" "$site"
python3 "$here/pages.py" check "$site/html"
