# Sourced by the scripts that need Python packages.
#
#   make_environment FOLDER PYTHON STEP...
#
# Makes the virtual environment FOLDER with PYTHON and lets `pip install` take each STEP, a line of
# arguments. It is made anew when these lines, a file they name, or its place changed: the programs
# of an environment name the place where it was made, and none of them starts at another.
make_environment() {
    local venv=$1 python=$2 step word made
    shift 2
    made=$({
        printf '%s\n' "$venv" "$@"
        for step in "$@"; do
            for word in $step; do [ ! -f "$word" ] || cat "$word"; done
        done
    } | cksum)
    [ "$(cat "$venv/made" 2>/dev/null)" = "$made" ] && return
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    "$python" -m venv "$venv"
    for step in "$@"; do
        # shellcheck disable=SC2086 # a step is several arguments
        "$venv/bin/pip" install --quiet --disable-pip-version-check $step
    done
    printf '%s\n' "$made" >"$venv/made"
}
