#!/usr/bin/env bash
# Judges several bundles beside each other on a machine that is lent for a short time.
# bash benchmarks/gallery/judge.sh MINUTES RESULT BUNDLE=JUDGES [BUNDLE=JUDGES ...]
# RESULT is one archive with all verdicts and logs, renewed every half minute, so that nothing is lost with the machine.
# It needs no installation. The same command goes on from the archive's verdicts where they lie beside the bundles.
set -uo pipefail
minutes=$1 result=$2
shift 2
export PYTHONPATH="$(cd "$(dirname "$0")/../.." && pwd)/src" PYTHONUNBUFFERED=1
work=$(mktemp -d) deadline=$((SECONDS + minutes * 60 + 60))
keep() { tar cJf "$result.new" -C "$work" . && mv "$result.new" "$result"; }
for one in "$@"; do
    bundle=${one%=*} name=$(basename "${one%=*}")
    [ -f "$bundle.verdicts.jsonl" ] && cp "$bundle.verdicts.jsonl" "$work/$name.verdicts.jsonl"
    python3 -m pike judge "$bundle" --out "$work/$name.verdicts.jsonl" --devices all --judges "${one##*=}" --max-minutes "$minutes" \
        >"$work/$name.log" 2>&1 &
done
while [ -n "$(jobs -r)" ] && [ $SECONDS -lt $deadline ]; do
    sleep 1
    [ $((SECONDS % 30)) -eq 0 ] && keep
done
kill $(jobs -rp) 2>/dev/null
wait
keep
tail -n 2 "$work"/*.log
wc -l "$work"/*.jsonl
