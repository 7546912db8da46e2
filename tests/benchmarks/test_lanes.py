"""Many names over a machine's GPUs: what each left, how it ended, and that nothing runs on after the time."""

import os
import subprocess
import tarfile
import time
from pathlib import Path

LANES = Path(__file__).parents[2] / "benchmarks" / "lanes.sh"


def test_each_name_leaves_its_file_and_what_is_too_slow_is_ended(tmp_path: Path) -> None:
    late = "(sleep 3; touch late; sleep 1)"  # by a child of the command
    command = f'cd {tmp_path}; echo "$NAME on $DEVICE" $(env -u OMP_NUM_THREADS nproc) >$FILE; [ $NAME = zoo/bad ] && exit 7; '
    command += f"[[ $NAME = slow* ]] && {late}; :"
    result = tmp_path / "result.tar.xz"
    lanes = ["bash", str(LANES), "2", str(result), "2", command, "one", "zoo/bad", "slow", "two", "slow2", "never"]
    subprocess.run(lanes, check=True, capture_output=True, timeout=60)
    time.sleep(1.5)  # until after what is slow would have ended
    with tarfile.open(result) as packed:
        packed.extractall(tmp_path / "out", filter="data")
    out = tmp_path / "out"
    begun = {"one.jsonl", "zoo-bad.jsonl", "slow.jsonl", "two.jsonl", "slow2.jsonl"}
    assert {path.name for path in out.glob("*.jsonl")} == begun
    said = (out / "one.jsonl").read_text()
    cpus = len(os.sched_getaffinity(0))
    assert said.startswith("one on cuda:") and int(said.split()[-1]) == max(1, cpus // 2)
    ends = [line.split(" after ")[0] for line in (out / "ends").read_text().splitlines()]
    assert sorted(ends) == ["one ended with 0", "two ended with 0", "zoo/bad ended with 7"]
    assert not (tmp_path / "late").exists(), "what was slow went on"
