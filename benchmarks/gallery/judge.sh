#!/usr/bin/env bash
# Judges several bundles beside each other on a machine that is lent for a short time.
# bash benchmarks/gallery/judge.sh MINUTES RESULT JUDGES BUNDLE ...
# RESULT is one archive with all verdicts and the log, renewed every 10 s, so that nothing is lost with the
# machine. It needs no installation. The same command goes on from the archive's verdicts where they lie beside the
# bundles.
set -uo pipefail
minutes=$1 result=$2 judges=$3
shift 3
export PYTHONPATH="$(cd "$(dirname "$0")/../.." && pwd)/src" PYTHONUNBUFFERED=1
work=$(mktemp -d)
keep() {
    tar cJf "$result.new" --exclude='*.bundle' -C "$work" .
    [ $? -le 1 ] && mv "$result.new" "$result" # 1: a file grew meanwhile
}
cp "$@" "$work" || exit
for one in "$@"; do cp "$one.verdicts.jsonl" "$work" 2>/dev/null; done
(cd "$work" && exec python3 -m pike judge "${@##*/}" --devices all --judges "$judges" --max-minutes "$minutes") >"$work/log" 2>&1 &
deadline=$((SECONDS + minutes * 60 + 60))
while [ -n "$(jobs -r)" ] && [ $SECONDS -lt $deadline ]; do
    sleep 1
    [ $((SECONDS % 10)) -eq 0 ] && keep
done
kill $(jobs -rp) 2>/dev/null
wait
keep
tail -n 3 "$work/log"
wc -l "$work"/*.jsonl
