"""What becomes of candidates that take too much, start programs late or leave things behind, at every level."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pike.core.errors import InfraError, UserError
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Status
from pike.judge import processes
from pike.judge.client import JudgeClient
from pike.judge.process import cgroup, filters
from pike.judge.process.watch import Limits, Watch
from pike.judge.sandbox import LEVELS, Claim

OPTIONS = EvaluateOptions(max_timing_seconds=0.4, timeout_seconds=60.0, correctness_seeds=2)
FORKS = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
time.sleep(600)
class ModelNew: pass
"""
HOGS = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = b"x" * (400 << 20)
        time.sleep(600)
        os._exit(0)
time.sleep(600)
class ModelNew: pass
"""
HIDDEN_HOG = """
import os, time
files = [os.memfd_create("hidden") for _ in range(4)]
for file in files:
    for _ in range(16): os.write(file, b"x" * (64 << 20))
time.sleep(600)
class ModelNew: pass
"""


@pytest.fixture(params=[level.name for level in LEVELS])
def level(request):
    found = next(level for level in LEVELS if level.name == request.param)
    if obstacle := found.obstacle():
        pytest.skip(obstacle)
    return found


@pytest.fixture
def left_over(judge):
    """The judge's processes besides itself, the reference's child and the spare."""

    def count() -> int:
        deadline = time.monotonic() + 10
        known = {"pike.judge.child", "bwrap", "podman", "conmon", "pptainer", "appinit"}
        while time.monotonic() < deadline:
            lines = [_words(pid) for pid in processes.descendants_of(judge.pid)]
            strange = [words for words in lines if words and not any(word in words for word in known)]
            if not strange and len([words for words in lines if words]) <= 6:
                return 0
            time.sleep(0.1)
        return len(lines)

    return count


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@pytest.mark.timed
def test_a_fork_bomb_is_contained_and_gone_and_the_next_evaluation_unaffected(verdict, rewrite, level, left_over):
    found = verdict(FORKS, sandbox=level.name, max_processes=60)
    assert found.status is Status.RESOURCE_LIMIT, found.reason
    assert "processes at once, more than 60" in found.reason
    assert left_over() == 0
    assert verdict(rewrite(), sandbox=level.name).status is Status.VALID


@pytest.mark.timed
def test_memory_is_bounded_over_all_processes_together(verdict, level, left_over):
    found = verdict(HOGS, sandbox=level.name, memory_bytes=2 << 30)
    assert found.status is Status.RESOURCE_LIMIT, found.reason
    assert "of memory, more than 2.00 GiB" in found.reason
    assert left_over() == 0


@pytest.mark.timed
def test_memory_behind_descriptors_counts(verdict):
    found = verdict(HIDDEN_HOG, memory_bytes=2 << 30)
    assert found.status is Status.RESOURCE_LIMIT, found.reason


def test_what_is_written_counts_even_when_it_is_deleted(tmp_path):
    watch = Watch(lambda: {os.getpid()}, (tmp_path,), Limits(0, 0, 3 << 20))
    with open(tmp_path / "deleted", "wb") as deleted:
        deleted.write(b"x" * (2 << 20))
        deleted.flush()
        os.unlink(tmp_path / "deleted")
        assert watch.breach() == ""
        (tmp_path / "below").mkdir()
        (tmp_path / "below" / "listed").write_bytes(b"x" * (2 << 20))
        again = Watch(lambda: {os.getpid()}, (tmp_path,), Limits(0, 0, 3 << 20))
        assert "more than" in again.breach()


@pytest.mark.skipif(not filters.work(), reason="no system call filter here")
def test_no_program_starts_while_being_timed(verdict, rewrite, level):
    start = "import subprocess; subprocess.run(['sleep', '0'], check=True)"
    found = verdict(rewrite(start), sandbox=level.name)
    assert found.status is Status.RUNTIME_ERROR
    assert "PermissionError" in found.reason
    assert dict(found.seconds).keys() >= {"correct", "time"}


@pytest.mark.skipif(not filters.work(), reason="no system call filter here")
def test_a_child_that_only_says_it_is_sealed_is_a_sandbox_violation(verdict, rewrite, level):
    pretend = "import pike.judge.child.seccomp as seccomp\nseccomp.install = lambda program: None\n"
    found = verdict(rewrite(top=pretend), sandbox=level.name)
    assert found.status is Status.SANDBOX_VIOLATION
    assert "filter" in found.reason


def test_the_reference_is_not_to_be_found(verdict, rewrite, level, task, tmp_path):
    if Claim.FILES not in level.claims:
        pytest.skip("the level does not claim it")
    project = tmp_path / "project"
    project.mkdir()
    origin = project / "model.py"
    origin.write_text(task.source)
    (project / "layers.py").write_text("WORD = 'layers'")
    hunt = f"""
import layers, os, sys

def texts():
    for place in ("/tmp", {str(project)!r}, os.path.expanduser("~"), {str(Path.cwd())!r}):
        for folder, _, files in os.walk(place):
            for file in files:
                if file.endswith(".py") and "site-packages" not in folder and "/lib/" not in folder:
                    try: yield open(os.path.join(folder, file)).read()
                    except OSError: pass

read = list(texts())
if any("class " + "Model(nn.Module)" in text for text in read): raise KeyError("found it")
sys.stderr.write(f"read {{len(read)}} files, " + layers.WORD)
"""
    found = verdict(
        rewrite(top=hunt),
        task=replace(task, origin=str(origin), import_paths=(str(project),)),
        sandbox=level.name,
    )
    assert found.status is Status.VALID, found.log
    assert ", layers" in found.log


GOES_ON = """
import queue, sys, tempfile, threading, time
from pike.judge import worker
from pike.judge.process.leftovers import folder_prefix

busy = threading.Event()
busy.set()
threading.Thread(target=worker.listen, args=(sys.stdin, queue.Queue(), busy)).start()
while True:
    tempfile.mkdtemp(prefix=folder_prefix())
    print("made one", flush=True)
    time.sleep(0.001)
"""


def test_an_evaluation_that_goes_on_while_its_judge_ends_leaves_no_folder():
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", GOES_ON], stdin=pipe, stdout=pipe, text=True) as judge:
        assert judge.stdout.readline()
        assert list(Path(tempfile.gettempdir()).glob(f"pike-{judge.pid}-*"))
        judge.stdin.close()
        assert judge.wait(30) == 1
    assert list(Path(tempfile.gettempdir()).glob(f"pike-{judge.pid}-*")) == []


DEVICE_FAILED = """
import json, os, sys
from pike.core.errors import UserError
from pike.judge import worker

class Failed:
    def facts(self, device):
        raise UserError("the original does not run")
    def release(self):
        raise RuntimeError("CUDA error: device-side assert triggered")

channel = os.fdopen(os.dup(1), "w", buffering=1)
while line := sys.stdin.readline():
    worker._send(channel, worker._serve(Failed(), json.loads(line), channel))
"""


class OnAFailedDevice(JudgeClient):
    """Each of its judges finds that the device failed."""

    def _running(self):
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen([sys.executable, "-c", DEVICE_FAILED], stdin=pipe, stdout=pipe, text=True)
        return self._process


def test_a_judge_whose_device_failed_still_says_why_and_another_answers_next(capfd):
    client = OnAFailedDevice()
    for _ in range(2):
        with pytest.raises(UserError, match="the original does not run"):
            client.facts("cuda")
        assert client.pid == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("when", ["after a verdict", "in the middle"])
def test_a_judge_that_is_closed_leaves_no_file_and_no_group(task, rewrite, when):
    client, numbers = JudgeClient(), []

    def on_stage(stage: str) -> None:
        numbers.append(client.pid)
        if when == "in the middle" and stage == "load":
            client.close()

    source = rewrite("import time; time.sleep(2); raise KeyError")
    with contextlib.suppress(InfraError):  # the judge may end before it can answer
        client.evaluate(EvaluationRequest(task, source, OPTIONS), on_stage)
    client.close()
    place = cgroup.find()
    folders = [Path(tempfile.gettempdir()), *([place.folder] if place else [])]
    assert [path for folder in folders for path in folder.glob(f"pike-{numbers[0]}-*")] == []
