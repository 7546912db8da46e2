#!/usr/bin/env bash
# Runs one command for each of many names, several at once, on a machine that is lent for a short time.
# bash benchmarks/lanes.sh SECONDS RESULT LANES COMMAND NAME ...
# COMMAND finds $NAME, $DEVICE (cuda:N, the lanes spread over all GPUs) and $FILE (FILE.jsonl for this name) in its
# environment, and its lane's share of the CPUs, because each command starts threads for all that it finds. RESULT is
# one archive of these files, what was printed and when each ended. It is renewed every 20 s, so that nothing is lost
# with the machine; what runs after SECONDS is killed. It needs no installation. For example:
#   bash benchmarks/lanes.sh 560 v.tar.xz 4 'python3 benchmarks/gallery/verify.py $FILE $NAME --device $DEVICE' s4d lenet5
set -uo pipefail
set -m # a lane is a process group
seconds=$1 result=$2 lanes=$3 command=$4
shift 4
export PYTHONPATH="$(cd "$(dirname "$0")/.." && pwd)/src" PYTHONUNBUFFERED=1
work=$(mktemp -d)
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
nvidia-smi -L 2>/dev/null | cut -d'(' -f1 >"$work/gpus"
keep() {
    tar cJf "$result.new" -C "$work" .
    [ $? -le 1 ] && mv "$result.new" "$result" # 1: a file grew meanwhile
}
[ $# -gt 0 ] && printf '%s\n' "$@" >"$work/names" || : >"$work/names"
exec 8<"$work/names"
cpus=($(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))'))
share=$((${#cpus[@]} / lanes))
lane() {
    local mine=("${cpus[@]:$(($1 * share)):share}")
    [ "$share" -gt 0 ] && taskset -cp "$(IFS=,; echo "${mine[*]}")" "$BASHPID" >/dev/null
    exec 9<"$work/names" # a lock between the lanes, which read the next name from one place
    export DEVICE=cuda:$(($1 % (gpus > 0 ? gpus : 1)))
    while flock 9 && read -r NAME <&8; do
        flock -u 9
        export NAME FILE="$work/${NAME//\//-}.jsonl"
        bash -c "$command" >"${FILE%.jsonl}.log" 2>&1 8<&- 9<&-
        echo "$NAME ended with $? after $SECONDS s" >>"$work/ends"
    done
    flock -u 9
}
SECONDS=0
for ((one = 0; one < lanes; one++)); do lane "$one" & done
while [ -n "$(jobs -r)" ] && [ $SECONDS -lt "$seconds" ]; do
    sleep 1
    [ $((SECONDS % 20)) -eq 0 ] && keep
done
for signal in TERM KILL; do
    for pid in $(jobs -rp); do kill -$signal -- "-$pid"; done
    [ -n "$(jobs -r)" ] && sleep 1
done
wait 2>/dev/null
keep
cat "$work/gpus" "$work/ends"
