#!/usr/bin/env bash
# One `pike suite` for each GPU of this machine, each with its share of the tasks and of the CPUs; the results of all lie
# in FOLDER at the end: on_every_gpu.sh FOLDER TARGETS... [options of pike suite, without --out and --part]
set -uo pipefail
folder=$1
shift
cd "$(dirname "$0")/.."
gpus=$(nvidia-smi --list-gpus | wc -l)
each=$(($(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) / gpus))  # nproc believes OpenMP's variables
work=$(mktemp -d)
mkdir -p "$folder"
for ((gpu = 0; gpu < gpus; gpu++)); do
    CUDA_VISIBLE_DEVICES=$gpu PYTHONPATH=src PYTHONUNBUFFERED=1 taskset -c "$((gpu * each))-$(((gpu + 1) * each - 1))" \
        python3 -m pike suite "$@" --out "$work/$gpu" --part "$((gpu + 1))/$gpus" >"$work/$gpu.log" 2>&1 &
done
wait
for kind in results histories; do
    cat "$work"/*/"$kind"-*.jsonl >>"$folder/$kind-$(date +%Y%m%d).jsonl" 2>/dev/null
done
find "$folder" -name '*.jsonl' -empty -delete
cat "$work"/*.log | tee -a "$folder/log.txt"
