"""Every status, reached by real candidates in real child processes."""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pike.core.codec import encode
from pike.core.verdict.evaluation import (
    Effort,
    EvaluateOptions,
    EvaluationRequest,
    Precision,
    Status,
    Tolerance,
    Weights,
)
from pike.judge.candidate_file import OWN_NAME
from pike.judge.client import JudgeClient


@pytest.mark.timed
def test_the_reference_again_is_valid_at_its_own_speed(verdict, rewrite):
    found = verdict(rewrite())
    assert found.status is Status.VALID
    assert found.weights is Weights.STATE_DICT
    assert 0.4 < found.timing.speedup < 2.5
    assert found.error.max_abs <= found.error.budget_max_abs
    seconds = dict(found.seconds)
    stages = {"parse", "build", "load", "correct", "time", "recheck"}
    assert stages | {"set-up", "lock-wait", "first-call"} == set(seconds)
    assert seconds["set-up"] > 0.0
    assert found.own_seconds == pytest.approx(sum(seconds[name] for name in stages))


@pytest.mark.timed
def test_slow_is_valid_and_slow(verdict, rewrite):
    found = verdict(rewrite("__import__('time').sleep(0.01)", top="KEPT = __import__('torch').ones(16 << 20)\n"))
    assert found.status is Status.VALID
    assert found.timing.candidate_ms > 10
    assert found.timing.speedup < 0.5
    assert 64 << 20 < found.held_bytes < 80 << 20
    assert found.cold_start_seconds > 0.01


def test_a_file_that_names_its_class_model_is_judged_and_labelled(verdict, rewrite):
    found = verdict(rewrite().replace("ModelNew", "Model"))
    assert (found.status, OWN_NAME in found.labels) == (Status.VALID, True)
    assert OWN_NAME not in verdict(rewrite()).labels


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("def broken(:", Status.PARSE_ERROR, "not valid Python"),
        ("x = 1", Status.PARSE_ERROR, "no class ModelNew"),
        ("", Status.PARSE_ERROR, "no code"),
        ("import no_such_package\nclass ModelNew: pass", Status.BUILD_ERROR, "no_such_package"),
        ("raise SystemExit(0)\nclass ModelNew: pass", Status.BUILD_ERROR, "SystemExit"),
        ("class ModelNew:\n    def __init__(self, w): raise ValueError('no width')", Status.LOAD_ERROR, "no width"),
    ],
)
def test_a_candidate_is_refused_at_the_stage_that_fails(verdict, source, status, words):
    found = verdict(source)
    assert found.status is status
    assert words in found.reason + found.log
    assert found.timing is None


@pytest.mark.parametrize(
    ("before", "result", "status", "words"),
    [
        ("raise KeyError('lost')", "y", Status.RUNTIME_ERROR, "lost"),
        ("import os; os._exit(0)", "y", Status.RUNTIME_ERROR, "exited with code 0"),
        ("import ctypes; ctypes.string_at(0)", "y", Status.RUNTIME_ERROR, "SIGSEGV"),
        ("pass", "y[:1]", Status.BAD_CONTRACT, "shape [1, 96]"),
        ("pass", "y.double()", Status.BAD_CONTRACT, "float64"),
        ("pass", "(y,)", Status.BAD_CONTRACT, "tuple(T)"),
        ("pass", "nn.Parameter(y)", Status.BAD_CONTRACT, "Parameter"),
        ("x.copy_(y)", "x", Status.BAD_CONTRACT, "shares memory with an input"),
        ("x.add_(1)", "y", Status.BAD_CONTRACT, "modified its inputs"),
        ("pass", "y * 1.001", Status.WRONG_OUTPUT, "allowed"),
        ("pass", "torch.zeros_like(y)", Status.WRONG_OUTPUT, "allowed"),
        ("pass", "y + float('nan')", Status.WRONG_OUTPUT, "NaN"),
        ("torch.empty(1 << 44)", "y", Status.RESOURCE_LIMIT, "allocate"),
        ("raise RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED')", "y", Status.RESOURCE_LIMIT, "CUBLAS"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "y", Status.RESOURCE_LIMIT, "SIGKILL"),
    ],
)
def test_a_running_candidate_is_refused_for_what_it_does(verdict, rewrite, before, result, status, words):
    found = verdict(rewrite(before, result))
    assert found.status is status
    assert words in found.reason


@pytest.mark.timed
def test_a_hanging_candidate_is_stopped_and_its_words_are_kept(verdict):
    started = time.monotonic()
    found = verdict(
        "import time\nprint('so far', flush=True)\ntime.sleep(600)\nclass ModelNew: pass", timeout_seconds=4.0
    )
    assert found.status is Status.TIMEOUT
    assert "so far" in found.log
    assert time.monotonic() - started < 30


def test_work_left_to_a_thread_misses_the_snapshot(verdict, rewrite):
    late = "import threading, time\n        late = torch.full_like(y, float('nan'))\n        "
    late += "threading.Thread(target=lambda: (time.sleep(0.02), late.copy_(y))).start()"
    assert verdict(rewrite(late, "late")).status is Status.WRONG_OUTPUT


def test_a_forged_message_is_a_sandbox_violation(verdict, rewrite):
    forge = (
        "import os\n"
        "        for fd in range(3, 64):\n"
        "            try:\n"
        "                if 'socket' in os.readlink(f'/proc/self/fd/{fd}'): os.write(fd, b'x' * 48)\n"
        "            except OSError: pass"
    )
    assert verdict(rewrite(forge)).status is Status.SANDBOX_VIOLATION


@pytest.mark.timed
def test_a_lying_clock_gains_nothing(verdict, rewrite):
    lie = "import time\ntime.perf_counter = time.time = lambda: 0.0\ntime.perf_counter_ns = lambda: 0\n"
    found = verdict(rewrite("__import__('time').sleep(0.01)", top=lie))
    assert found.status in (Status.VALID, Status.UNTRUSTED_TIMING)
    if found.status is Status.VALID:
        assert found.timing.speedup < 0.5


def test_an_answer_remembered_from_earlier_calls_is_wrong_while_timed(verdict, rewrite):
    remember = "self.n = getattr(self, 'n', 0) + 1\n        if self.n > 6: return self.y.clone()\n        self.y = y"
    found = verdict(rewrite(remember))
    assert found.status is Status.WRONG_OUTPUT
    assert "while being timed" in found.reason


def test_no_secret_and_no_cache_of_the_user_reaches_the_child(verdict, rewrite, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-marker")
    found = verdict(rewrite("import os, sys; sys.stderr.write(repr(dict(os.environ)))\n        raise KeyError"))
    assert "PYTHONSAFEPATH" in found.log
    assert "sk-marker" not in found.log


def test_nothing_survives_a_candidate_that_forks(verdict, rewrite):
    marker = "31536001"
    fork = f"import subprocess; subprocess.Popen(['sleep', '{marker}'], start_new_session=True)"
    verdict(rewrite(fork + "\n        raise KeyError"), sandbox="process")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _running(marker):
        time.sleep(0.1)
    assert not _running(marker)


def _running(marker: str) -> bool:
    return marker in subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True).stdout


def test_half_precision_inside_needs_to_be_declared(verdict, rewrite):
    source = rewrite(result="(self.second(torch.relu(self.first(x).bfloat16().float())) * self.gain)")
    assert verdict(source).status is Status.WRONG_OUTPUT
    assert verdict(source, precision=Precision.HALF).status is Status.VALID


def test_paper_tolerance_accepts_what_was_published(verdict, rewrite):
    source = rewrite(result="y + 0.005")
    assert verdict(source).status is Status.WRONG_OUTPUT
    found = verdict(source, tolerance=Tolerance.PAPER)
    assert found.status is Status.VALID
    assert not found.error.vacuous


def test_a_new_judge_sweeps_the_folders_of_a_dead_one(judge, tmp_path):
    left = tmp_path / "pike-999999999-abc"
    left.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "pike.judge.worker"],
        input="", text=True, check=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0
    assert not left.exists()


def test_a_judge_whose_client_dies_leaves_no_process(task, tmp_path):
    marker = "31536002"
    hang = f"import subprocess\nsubprocess.run(['sleep', '{marker}'])\nclass ModelNew: pass"
    program = (
        "import sys, json\n"
        "from pike.core.codec import decode\n"
        "from pike.core.verdict.evaluation import EvaluationRequest\n"
        "from pike.judge.client import JudgeClient\n"
        "JudgeClient().evaluate(decode(EvaluationRequest, json.load(open(sys.argv[1]))))\n"
    )
    request = tmp_path / "request.json"
    request.write_text(json.dumps(encode(EvaluationRequest(task, hang))))
    client = subprocess.Popen([sys.executable, "-c", program, str(request)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _running(marker):
        time.sleep(0.2)
    assert _running(marker)
    client.kill()
    client.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _running(marker):
        time.sleep(0.1)
    assert not _running(marker)


@pytest.mark.timed
def test_a_long_compilation_does_not_keep_others_from_being_timed(judge, task, rewrite):
    """It stands still while they are, and that is not its own time."""
    once = "import time\n        if not hasattr(self, 'warm'): time.sleep(10); self.warm = True"
    options = EvaluateOptions(device="cpu", timeout_seconds=60.0, max_timing_seconds=1.0, threads=1)
    slow = JudgeClient()
    again = EvaluationRequest(task, rewrite(), options)
    judge.evaluate(again)
    reached = threading.Event()
    with ThreadPoolExecutor() as pool:
        request = EvaluationRequest(task, rewrite(once), options)
        late = pool.submit(slow.evaluate, request, lambda stage: reached.set() if stage == "correct" else None)
        assert reached.wait(120)
        first = judge.evaluate(again)
    slow.close()
    assert (first.status, late.result().status) == (Status.VALID, Status.VALID), late.result().reason
    assert dict(first.seconds)["lock-wait"] < 5
    assert dict(late.result().seconds)["lock-wait"] > 0.5


def test_an_answer_that_is_wrong_only_among_several_released_together_is_found(verdict, rewrite):
    stale = (  # right for the two that are released together before timing
        "self.seen = list(dict.fromkeys([*getattr(self, 'seen', []), x.data_ptr()]))\n"
        "        if self.seen.index(x.data_ptr()) > 1: return self.y\n"
        "        self.y = y"
    )
    found = verdict(rewrite(stale), effort=Effort.FINAL)
    assert found.status is Status.WRONG_OUTPUT
    assert "while being timed" in found.reason
    again = verdict(rewrite(), effort=Effort.FINAL)
    assert again.status is Status.VALID
    assert again.timing.throughput.inputs > 1


def test_a_judge_keeps_no_descriptor_of_a_child_that_is_gone(judge, verdict):
    def descriptors() -> int:
        verdict("import os\nos._exit(3)\nclass ModelNew: pass")
        return len(os.listdir(f"/proc/{judge.pid}/fd"))

    first = [descriptors() for _ in range(2)][-1]  # the spare child has its own from the first one on
    assert [descriptors() for _ in range(3)] == [first] * 3


COUNTING = "CALLS = iter(range(1, 1 << 30))\n"


@pytest.mark.slow
def test_a_timed_call_that_hangs_is_refused_long_before_the_limit_of_the_candidate(verdict, rewrite):
    started = time.monotonic()
    found = verdict(rewrite("__import__('time').sleep(900 * (next(CALLS) == 8))", top=COUNTING), timeout_seconds=600.0)
    assert (found.status, "for a call that is timed" in found.reason) == (Status.TIMEOUT, True)
    assert time.monotonic() - started < 120.0


@pytest.mark.slow
def test_what_compiles_again_once_it_is_sealed_does_not_wait_for_compilers_that_have_ended(monkeypatch, task, rewrite):
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "2")
    again = "next(CALLS) == 8 and AsyncCompile.use_process_pool() and AsyncCompile.process_pool().submit(int).result()"
    top = "from torch._inductor.async_compile import AsyncCompile\nAsyncCompile.wait_pool_ready()\n" + COUNTING
    options = EvaluateOptions(timeout_seconds=60.0, max_timing_seconds=0.4, correctness_seeds=2, threads=1)
    judge = JudgeClient()
    try:
        found = judge.evaluate(EvaluationRequest(task, rewrite(again, top=top), options, Effort.SEARCH))
    finally:
        judge.close()
    assert found.status is Status.VALID


def test_a_build_error_says_what_the_compiler_said_and_not_how_it_was_called(verdict):
    message = "Error building extension 'mine': [1/2] nvcc -c mine.cu\\nmine.cu(3): warning\\nptxas fatal   : (C7602) Insufficient registers\\nninja: stopped"
    found = verdict(f"raise RuntimeError({message!r}.replace('\\\\n', chr(10)))\nclass ModelNew: pass")
    assert found.status is Status.BUILD_ERROR
    assert "extension 'mine'" in found.reason and "Insufficient registers" in found.reason
    found = verdict(
        "print('mine.cu(3): error: x is undefined')\nraise RuntimeError(\"Error building extension 'mine'\")\n"
        "class ModelNew: pass"
    )
    assert found.reason == "RuntimeError: Error building extension 'mine' ... mine.cu(3): error: x is undefined"
