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

refuse() {
    printf '%s: %s\n' "$1" "$2" >&2
    refused=1
}

check() {
    local record=$1 report verdict bad=
    for beside in "$record.seal" "$record.head" "${record%.jsonl}.bodies"; do
        if [ "$beside" != "$record" ] && [ -e "$beside" ] && ! git --literal-pathspecs ls-files --error-unmatch -- "$beside" >/dev/null 2>&1; then
            refuse "$record" "$beside is not in the commit; hint: git add $beside"
        fi
    done
    report=$("$threadseal" verify --json -- "$record" 2>/dev/null) || true
    # In a text of JSON a quote is escaped: only members look like this.
    while IFS= read -r verdict; do
        [[ " ${accepted[*]} " == *" $verdict "* ]] || bad="$bad $verdict"
    done < <(grep -o '"verdict":"[a-z_]*"' <<<"$report" | cut -d '"' -f 4)
    if [ "$bad" = ' unsigned' ]; then
        had_seals "$record" || return 0
        refuse "$record" "the last commit has its seals, and this one does not; hint: git checkout HEAD -- $record.seal"
    elif [ -n "$bad" ] || ! grep -q '"verdict":"' <<<"$report"; then
        refused=1
        "$threadseal" verify --color never -- "$record" >&2 || true
    fi
}

refused=0
declare -A seen=()
for file in "$@"; do
    record=$(record_of "$file")
    [ -z "${seen["$record"]:-}" ] || continue
    seen["$record"]=1
    check "$record"
done
exit "$refused"
