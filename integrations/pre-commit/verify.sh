#!/usr/bin/env bash
# Verifies records before they are committed, by the home of this user: it also knows which heads they had.
#
#   verify.sh [--accept VERDICT]… FILE…
#
# A file beside a record counts as the record. A log that nothing claims to protect is passed over.
set -euo pipefail

threadseal=${THREADSEAL:-threadseal}
if ! command -v "$threadseal" >/dev/null; then
    echo "cannot verify: threadseal is not installed; hint: cargo install threadseal-cli" >&2
    exit 2
fi

accepted=(verified)
while [ "${1:-}" = --accept ]; do
    if [[ ! ${2:-} =~ ^[a-z_]+$ ]]; then
        echo "cannot verify: --accept needs a verdict; hint: --accept open" >&2
        exit 2
    fi
    accepted+=("$2")
    shift 2
done

# The record that a file belongs to.
record_of() {
    local record=$1
    case $1 in
        *.seal | *.head) record=${1%.*} ;;
        *.bodies) record=${1%.bodies}.jsonl ;;
    esac
    if [ -e "$record" ]; then printf '%s' "$record"; else printf '%s' "$1"; fi
}

# Did the last commit have seals of this log?
had_seals() {
    git cat-file -e "HEAD:./$1.seal" 2>/dev/null
}

# The verdicts of a report, one a line. In a text of JSON a quote is escaped: only members look like this.
verdicts_of() {
    grep -o '"verdict":"[a-z_]*"' <<<"$1" | cut -d '"' -f 4 || true
}

# Was the file a record in the last commit, whatever its verdict?
was_record() {
    local before=$work/${1##*/}
    git cat-file --filters "HEAD:./$1" >"$before" 2>/dev/null || return 1
    verdicts_of "$("$threadseal" verify --json -- "$before" 2>/dev/null || true)" | grep -qvx unsigned
}

refuse() {
    printf '%s: %s\n' "$1" "$2" >&2
    refused=1
}

check() {
    local record=$1 report verdict all='' bad=''
    for beside in "$record.seal" "$record.head" "${record%.jsonl}.bodies"; do
        if [ "$beside" != "$record" ] && [ -e "$beside" ] && ! git --literal-pathspecs ls-files --error-unmatch -- "$beside" >/dev/null 2>&1; then
            refuse "$record" "$beside is not in the commit; hint: git add $beside"
        fi
    done
    report=$("$threadseal" verify --json -- "$record" 2>/dev/null) || true
    while IFS= read -r verdict; do
        all="$all $verdict"
        [[ " ${accepted[*]} " == *" $verdict "* ]] || bad="$bad $verdict"
    done < <(verdicts_of "$report")
    if [ "$all" = ' unsigned' ]; then
        if had_seals "$record"; then
            refuse "$record" "the last commit has its seals, and this one does not; hint: git checkout HEAD -- $record.seal"
        elif was_record "$record"; then
            refuse "$record" "the last commit has a sealed record here, and this is none; hint: git checkout HEAD -- $record, or commit what is new under another name"
        fi
    elif [ -n "$bad" ] || ! grep -q '"verdict":"' <<<"$report"; then
        refused=1
        "$threadseal" verify --color never -- "$record" >&2 || true
    fi
}

refused=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A seen=()
for file in "$@"; do
    record=$(record_of "$file")
    [ -z "${seen["$record"]:-}" ] || continue
    seen["$record"]=1
    check "$record"
done
exit "$refused"
