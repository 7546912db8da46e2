# One link of a chain of jobs. The next link is queued first and waits until this one has ended, however
# it ends; only a study that is over, or that cannot go on by itself, cancels it.
element=${SLURM_ARRAY_TASK_ID:-}
study=${STUDIES[${element:-0}]} folder=${FOLDERS[${element:-0}]}
this=${element:+${SLURM_ARRAY_JOB_ID}_}${element:-$SLURM_JOB_ID}
again() {
    squeue --noheader --array --me --states=PENDING --name="$SLURM_JOB_NAME" --format='%i %K' |
        awk -v element="${element:-N/A}" '$2 == element { print $1 }'
}
queue_next() {
    [ -n "$(again)" ] || sbatch --parsable ${element:+--array=$element} --dependency="afterany:$this" "$SCRIPT"
}
queue_next

# A process of an earlier job may still be ending: it holds the campaign's lock.
[ ! -e "$folder/journal.lock" ] || flock "$folder/journal.lock" true
if [ -e "$folder/plan.json" ]; then
    work=("${PIKE[@]}" campaign --resume "$folder")
else
    work=("${PIKE[@]}" campaign "$study" --out "$folder" --yes "${SETTINGS[@]}")
fi

# The study leaves its process and its exit code in files, because srun and Ray hand on neither.
marks=$(mktemp -d)
trap 'rm -rf "$marks"' EXIT
noted=(bash -c '"$@" & echo $! > "$0/process"; wait $!; echo $? > "$0/code"' "$marks" "${work[@]}")

# The first signal lets candidates in hand be judged, the second stops at once; the journal is safe.
told=
tell() { told=yes; kill -TERM "$(cat "$marks/process" 2>/dev/null || echo "$runner")" 2>/dev/null; }
trap tell TERM USR1

if [ -n "$RAY" ]; then
    address=$(hostname -I | cut -d' ' -f1)
    export RAY_ADDRESS=$address:$((20000 + SLURM_JOB_ID % 10000))
    # Others on the network may not use this cluster. Ray before tokens takes no note of them.
    export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    step=(srun --overlap --cpu-bind=none --ntasks-per-node=1)
    if ray symmetric-run --help > /dev/null 2>&1; then
        noted=("${step[@]}" ray symmetric-run --address "$RAY_ADDRESS" --min-nodes "$SLURM_JOB_NUM_NODES" -- "${noted[@]}")
    else
        "${step[@]}" --nodes=1 --nodelist="$SLURMD_NODENAME" \
            ray start --head --block --node-ip-address="$address" --port="${RAY_ADDRESS#*:}" &
        "${step[@]}" --nodes=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$SLURMD_NODENAME" \
            bash -c 'until ray start --block --address="$RAY_ADDRESS"; do sleep 3; done' &
        for ((i = 0; i < 40; i++)); do
            [ "$(ray status 2>/dev/null | grep -c ' node_')" -lt "$SLURM_JOB_NUM_NODES" ] || break
            sleep 3
        done
    fi
fi
"${noted[@]}" &
runner=$!
until [ -s "$marks/code" ] || ! kill -0 "$runner" 2>/dev/null; do sleep 1; done
for ((i = 0; i < 20; i++)); do kill -0 "$runner" 2>/dev/null && sleep 1; done # Ray stops itself
code=$(cat "$marks/code" 2>/dev/null || echo 255)

# Over: 0 and 1 are complete studies, and a study that nobody cut and that ends at once would do so again.
if [ "$code" -le 1 ] || { [ -z "$told" ] && { [ "$code" -lt 128 ] || [ "$code" = 130 ] || [ "$SECONDS" -lt 60 ]; }; }; then
    again | xargs --no-run-if-empty scancel
    [ "$code" = 0 ] && echo "The study is complete" ||
        echo "The study ended by itself with code $code. To go on, once that is mended: sbatch ${element:+--array=$element }$SCRIPT"
    exit "$code"
fi
queue_next
echo "The study was cut and goes on in job $(again)"
