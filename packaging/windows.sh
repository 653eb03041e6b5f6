#!/usr/bin/env bash
# Builds the command for Windows, and tries it under Wine against the command of this machine.
#
#   packaging/windows.sh             builds both commands
#   THREADSEAL=path windows.sh       compares with that command instead
#   packaging/windows.sh --tests     also runs the unit tests of these calls under Wine
#
# On Debian it installs the linker and Wine. What Wine lacks, it does not show: access control lists, symbolic links, and
# the replacement of a file that is open (`FileRenameInfoEx`).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
target=x86_64-pc-windows-gnu
features=backup,capture,convert,view
build=${CARGO_TARGET_DIR:-$root/target}
work=$(mktemp -d)
export WINEPREFIX=$work/wine WINEDEBUG=-all
trap '[ ! -d "$WINEPREFIX" ] || "$wine" wineboot --kill >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

find_wine() {
    wine=$(command -v wine64 /usr/lib/wine/wine64 | head -n 1)
}

if ! find_wine || ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
    { apt-get -q update && apt-get -q install -y --no-install-recommends gcc-mingw-w64-x86-64 wine64; } >"$work/apt.log" 2>&1 ||
        { cat "$work/apt.log"; exit 1; }
    find_wine
fi
if ! rustup target add "$target" >"$work/rustup.log" 2>&1; then
    echo "skipped: the compiler's library for $target cannot be fetched"
    exit 0
fi

cargo build --quiet --package threadseal-cli --no-default-features --features "$features" --target "$target"
exe=$build/$target/debug/threadseal.exe
if [ -z "${THREADSEAL:-}" ]; then
    cargo build --quiet --package threadseal-cli --all-features
    THREADSEAL=$build/debug/threadseal
fi
here=$THREADSEAL

# Wine before 8.5 has no `bcryptprimitives.dll`, of which programs by Rust import one call.
make_prefix() {
    "$wine" wineboot --init >"$work/wine.log" 2>&1 </dev/null || { cat "$work/wine.log"; return 1; }
    local dll=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
    [ -f "$dll" ] || x86_64-w64-mingw32-gcc -shared -x c -o "$dll" - -ladvapi32 <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    for (; length > 0xffff; data += 0xffff, length -= 0xffff)
        if (!SystemFunction036(data, 0xffff)) return FALSE;
    return SystemFunction036(data, (ULONG)length);
}
C
}

# there CODE ARGUMENT...    the command for Windows; its standard output is in $work/out
there() {
    local expected=$1 code=0
    shift
    THREADSEAL_HOME=$home timeout 120 "$wine" "$exe" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [ "$code" -eq "$expected" ] || {
        echo "exit $code, not $expected: $*"
        cat "$work/out" "$work/err"
        return 1
    }
}

# both CODE ARGUMENT...    the same by both commands, with one home: the same exit code and the same bytes of output
both() {
    local expected=$1 code=0
    shift
    there "$expected" "$@"
    THREADSEAL_HOME=$work/lab/home "$here" "$@" >"$work/out-here" 2>"$work/err" </dev/null || code=$?
    [ "$code" -eq "$expected" ] || {
        echo "exit $code here, not $expected: $*"
        cat "$work/out-here" "$work/err"
        return 1
    }
    diff "$work/out-here" "$work/out" || { echo "the outputs differ: $*"; return 1; }
}

verdict() {
    grep -q "\"verdict\":\"$1\"" "$work/out" || { echo "not $1"; cat "$work/out"; return 1; }
}

seal_and_verify() {
    there 0 init --quiet
    there 0 seal --quiet sessions/session.jsonl
    both 0 verify --json sessions/session.jsonl
    verdict verified
    mkdir changed
    sed '1s/"/ "/' sessions/session.jsonl >changed/session.jsonl
    cp sessions/session.jsonl.seal changed/
    both 1 verify --json changed/session.jsonl
    verdict tampered
    # Each transcript of the testkit, by the rules of its own folder.
    cp -r "$root/testkit/transcripts/native" records
    both 1 verify --json records
    grep -o '"verdict"' "$work/out" | wc -l | sed 's/$/ records get the same report/'
}

prove_and_check() {
    THREADSEAL_HOME= there 0 demo
    there 0 prove threadseal-demo/records/transcript.jsonl#2 --home threadseal-demo/home --out two.turn-proof
    both 0 check-proof --json two.turn-proof --home threadseal-demo/home
    verdict verified
    sed -i 's/Three/Seven/;s/failed/passed/' two.turn-proof
    both 1 check-proof --json two.turn-proof --home threadseal-demo/home
}

capture() {
    there 0 archive add sessions/session.jsonl
    there 0 list --json
    grep -q '"state":"verified"' "$work/out"
    local id
    id=$(sed 's/.*"id":"\([^"]*\)".*/\1/' "$work/out")
    there 0 export "$id" exported
    cmp sessions/session.jsonl exported/session.jsonl
    there 0 export "$id" --html page.html
    both 0 verify --json page.html
    # A hook seals what the agent wrote since.
    echo '{"type":"system","content":"one more line"}' >>sessions/session.jsonl
    printf '{"session_id":"%s","transcript_path":"%s","hook_event_name":"Stop","cwd":"Z:/"}' "${id#claude-code:}" \
        "Z:$PWD/sessions/session.jsonl" | THREADSEAL_HOME=$home timeout 120 "$wine" "$exe" hook claude-code
    both 0 verify --json sessions/session.jsonl
    verdict verified
    echo '{"type":"system","content":"and one"}' >>sessions/session.jsonl
    there 0 watch --once sessions
    both 0 verify --json sessions/session.jsonl
    verdict verified
    there 0 home backup --out home.age --passphrase-file passphrase
}

# Two recorders: one holds the record, the other is refused and changes nothing. A reader is not kept out.
write_at_once() {
    mkfifo events
    THREADSEAL_HOME=$home timeout 120 "$wine" "$exe" record --thread demo/one record.jsonl <events >"$work/answers" 2>&1 &
    local recorder=$!
    exec 3>events
    echo '{"type":"note","payload":{"text":"one"}}' >&3
    timeout 60 sh -c "until grep -q durable '$work/answers'; do sleep 0.1; done" || { cat "$work/answers"; return 1; }
    both 3 verify --json record.jsonl
    verdict unsigned_tail
    there 2 record --resume record.jsonl
    grep -q 'another process' "$work/err" || { cat "$work/out" "$work/err"; return 1; }
    echo '{"end":"completed"}' >&3
    exec 3>&-
    wait "$recorder" || { cat "$work/answers"; return 1; }
    both 0 verify --json record.jsonl
    verdict verified
    # Many that seal documents of one home at a time all get their turn.
    local each writers=()
    for each in 1 2 3 4; do
        echo "{\"n\":$each}" >"d$each.json"
        THREADSEAL_HOME=$home timeout 120 "$wine" "$exe" seal --quiet "d$each.json" </dev/null &
        writers+=($!)
    done
    for each in "${writers[@]}"; do wait "$each"; done
    both 0 verify --json d1.json d2.json d3.json d4.json
    both 0 log fsck
}

run_unit_tests() {
    local log=$work/tests.log
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$wine cargo test --quiet --target "$target" --lib \
        --package threadseal-store sys:: >"$log" 2>&1 ||
        { cat "$log"; return 1; }
    grep '^test result: ' "$log" | awk '{ passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }'
}

# Windows gives the files of a home no permission bits; here they get those of the umask, and the command looks at them.
umask 077
make_prefix
mkdir -p "$work/lab/sessions"
cd "$work/lab"
home=Z:$work/lab/home
cp "$root/web/viewer/test/fixtures/claude-2.1.197.jsonl" sessions/session.jsonl
echo 'a long passphrase' >passphrase
for check in seal_and_verify prove_and_check capture write_at_once; do
    "$check"
    echo "$check: as on this machine"
done
cd "$root"
[ "${1:-}" != --tests ] || run_unit_tests
