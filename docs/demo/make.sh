#!/usr/bin/env bash
# Makes the files of this folder anew: THREADSEAL=PROGRAM docs/demo/make.sh
#
# The home with the private keys is made for them and removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
threadseal() { "${THREADSEAL:-threadseal}" --home "$home/home" "$@"; }

rm -f record.jsonl turn-2.turn-proof author.id
threadseal init --quiet
threadseal record --quiet --thread demo/leads -- record.jsonl >"$home/answers" <<'EVENTS'
{"type":"cognition_in","payload":{"role":"user","text":"How many leads has Ada?"}}
{"type":"tool_call_start","payload":{"tool":"leads","call_id":"c1","input":{"of":"Ada"}}}
{"type":"tool_call_result","payload":{"call_id":"c1","output":"three: Bob, Cid, Dan"}}
{"type":"cognition_out","payload":{"text":"Ada has three leads."}}
{"seal":true}
{"type":"cognition_in","payload":{"role":"user","text":"Pay Bob 10 euro."}}
{"type":"tool_call_start","payload":{"tool":"pay","call_id":"c2","input":{"to":"Bob","euro":10}}}
{"type":"tool_call_result","payload":{"call_id":"c2","output":"paid 10 euro to Bob"}}
{"type":"cognition_out","payload":{"text":"Bob has 10 euro."}}
{"seal":true}
{"type":"cognition_in","payload":{"role":"user","text":"Thank you."}}
{"type":"cognition_out","payload":{"text":"You are welcome."}}
{"end":"completed"}
EVENTS
chmod 644 record.jsonl
threadseal prove --quiet record.jsonl#2 --out turn-2.turn-proof
threadseal id export --quiet -o author.id
head=$(threadseal verify --json record.jsonl | sed 's/.*"head":"\([0-9a-f:]*\)".*/\1/')
key=$(sed 's/.*"key":"\([0-9a-f]*\)","proof":[^,]*,"until":null,"usage":"native".*/\1/' author.id)
# The page publishes both.
sed -i "s/^head: .*/head: $head/; s/^key:  .*/key:  $key/; s/--expect-head [0-9a-f:]*/--expect-head $head/" README.md
