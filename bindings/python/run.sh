#!/usr/bin/env bash
# Builds the wheel of the package `threadseal` and tests it in environments that get it from that wheel.
#
#   bindings/python/run.sh         builds the command and the wheel, runs all checks
#   THREADSEAL=path run.sh         puts that command into the wheel instead
#   PYTHON_VENVS=folder run.sh     keeps the environments there [default: next to cargo's output]
#   ONLY=langgraph run.sh          of the tests, runs those of this environment alone
#   CREWAI=1 run.sh                also runs the example of CrewAI, whose environment has a gigabyte
#   SDIST=1 run.sh                 also builds the source package, which compiles this workspace once more
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/interop/environment.sh"
target=${CARGO_TARGET_DIR:-$root/target}
venvs=${PYTHON_VENVS:-$target/python-venvs}
export CARGO_TARGET_DIR=$target PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"

make_environment "$venvs/tools" python3 "-r $here/requirements-tools.txt"
tools=$venvs/tools/bin

if [ -z "${THREADSEAL:-}" ]; then
    (cd "$root" && cargo build --quiet --package threadseal-cli)
    THREADSEAL=$target/debug/threadseal
fi

build_wheel() {
    cargo clippy --quiet --locked --all-targets -- -D warnings
    {
        "$tools/maturin" build --quiet --locked --profile dev --out "$work/dist" --compression-level 1
        "$tools/maturin" sdist --out "$work/dist"
    } >"$work/maturin.log" 2>&1 || { cat "$work/maturin.log"; return 1; }
    # The command is in the wheel without what only a debugger reads.
    strip -o "$work/threadseal" "$THREADSEAL"
    "$tools/python" add_command.py "$work"/dist/*.whl "$work/threadseal"
    "$tools/twine" check --strict "$work"/dist/*
    unpack_sdist
    wheel=$(echo "$work"/dist/*.whl)
}

# That the source package has all of its crates, cargo shows in a second; the whole proof compiles it.
unpack_sdist() {
    tar -xzf "$work"/dist/*.tar.gz -C "$work"
    cargo metadata --quiet --locked --format-version 1 \
        --manifest-path "$work"/threadseal-*/bindings/python/Cargo.toml >"$work/metadata.json"
    [ -n "${SDIST:-}" ] || return 0
    (cd "$work"/threadseal-*/ && "$tools/maturin" build --quiet --profile dev --out "$work/from-source")
    python3 -m venv "$work/source"
    "$work/source/bin/pip" install --quiet --disable-pip-version-check "$work"/from-source/*.whl
    (cd "$work" && source/bin/python -c 'import threadseal; assert threadseal.verify(b"{}", name="a.json").exit == 3')
}

# The oldest Python that the wheel is for, where there is one beside the user's.
oldest_python() {
    local found
    for found in python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python3.10; do
        ! "$found" --version >/dev/null 2>&1 || { command -v "$found"; return; }
    done
    return 1
}

# An environment NAME with the packages that its file of requirements pins, and the wheel that was just built.
environment() {
    local steps=("-r $here/requirements-$1.txt")
    [ ! -f "requirements-$1-alone.txt" ] || steps+=("--no-deps -r $here/requirements-$1-alone.txt")
    make_environment "$venvs/$1" "${PYTHON:-python3}" "${steps[@]}"
    "$venvs/$1/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"
}

# The tests of an environment; they find nothing of the source tree but themselves.
run_tests() {
    local name=$1
    shift
    [ "${ONLY:-$name}" = "$name" ] || return 0
    environment "$name"
    "$venvs/$name/bin/python" -m pytest -q -p no:cacheprovider "$@"
}

# The examples in the texts of these files of the installed package; with the environment `bare` those of the README.
run_doctests() {
    local name=$1 package files=()
    shift
    [ "${ONLY:-$name}" = "$name" ] || return 0
    package=$(cd / && "$venvs/$name/bin/python" -c 'import threadseal; print(threadseal.__path__[0])')
    files=("${@/#/$package/}")
    [ "$name" != bare ] || files+=("$here/README.md")
    (cd "$work" && TMPDIR=$work "$venvs/$name/bin/python" -m pytest -q -p no:cacheprovider -c "$here/pyproject.toml" \
        --doctest-modules --doctest-glob 'README.md' "${files[@]}")
}

# The sources of the originals that are published with tests.
fetch_originals() {
    local kept=$venvs/originals-sources name
    for name in agent-scroll==0.1.0 abstractruntime==0.13.0; do
        [ ! -f "$kept/$name.done" ] || continue
        mkdir -p "$kept"
        "$tools/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$work/sources" "$name"
        tar -xzf "$work"/sources/"${name%%-*}"*.tar.gz -C "$kept" 2>/dev/null ||
            tar -xzf "$work"/sources/"${name%%==*}"*.tar.gz -C "$kept"
        touch "$kept/$name.done"
    done
    export ORIGINALS=$kept
}

check_types() {
    [ -z "${ONLY:-}" ] || return 0
    environment types
    local folder
    "$venvs/types/bin/mypy" --cache-dir "$venvs/types/mypy" python/threadseal tests/*.py examples bench add_command.py
    for folder in tests/with_*; do
        # Each is a program of its own, with modules beside it and those of `tests`.
        MYPYPATH=tests "$venvs/types/bin/mypy" --cache-dir "$venvs/types/mypy" "$folder"
    done
    "$venvs/types/bin/pyright" --pythonpath "$venvs/types/bin/python"
    "$tools/ruff" check --quiet --no-cache .
    "$tools/ruff" format --quiet --no-cache --check .
}

build_wheel
# The commands and the module are those of this tree; only the packages of others are kept between runs.
run_tests bare tests/test_*.py
if oldest=$(oldest_python); then
    PYTHON=$oldest run_tests oldest tests/test_*.py
else
    echo "there is no Python 3.10 here, so the wheel is not tested with it"
fi
run_doctests bare {__init__,_errors,_gate,_plain,aio,home,recorder,report,verifying}.py compat
run_tests langgraph tests/with_langgraph
run_doctests langgraph {_checkpoints,_stored,langgraph}.py
# The program of Claude leaves files in the folder for temporary ones.
TMPDIR=$work run_tests frameworks tests/with_frameworks
for example in autogen_agent llamaindex_agent smolagents_agent ${CREWAI:+crewai_crew}; do
    EXAMPLE=$example TMPDIR=$work run_tests "${example%_*}" tests/with_openinference
done
fetch_originals
run_tests originals tests/with_originals
check_types
