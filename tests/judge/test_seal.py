"""What a sealed process can still start: threads, and nothing else."""

import subprocess
import sys

import pytest

from pike.core.verdict.evaluation import Status
from pike.judge.candidate_evaluation import COMPILED_LATE
from pike.judge.process import filters

pytestmark = pytest.mark.skipif(not filters.work(), reason="this machine does not filter system calls")

SEALED = """
import ctypes, os, platform, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pike.judge.child import seccomp
seccomp.install(seccomp.from_the_start())
seccomp.install(seccomp.once_built())
{what}
"""
CLONE, CLONE3 = "56 if platform.machine() == 'x86_64' else 220", "435"


def ending(what: str) -> int:
    return subprocess.run([sys.executable, "-c", SEALED.format(what=what)], check=False).returncode


@pytest.mark.parametrize(
    "what",
    [
        "os.fork()",
        "os.posix_spawn(sys.executable, [sys.executable, '-c', ''], {})",
        f"sys.exit(ctypes.CDLL(None).syscall({CLONE}, 17, 0, 0, 0, 0) == -1)",
        f"sys.exit(ctypes.CDLL(None).syscall({CLONE}, 0x4111, 0, 0, 0, 0) == -1)",
        f"sys.exit(ctypes.CDLL(None).syscall({CLONE3}, 0, 0) == -1)",
    ],
    ids=["fork", "spawn", "clone", "vfork", "clone3"],
)
def test_a_sealed_process_starts_no_other(what: str) -> None:
    assert ending(what) == 1


def test_a_sealed_process_starts_threads() -> None:
    assert ending("with ThreadPoolExecutor(4) as pool: sys.exit(sum(pool.map(int, '123')) - 6)") == 0


def test_a_tree_that_gains_processes_is_noticed() -> None:
    looks = iter([{1, 2}, {1, 3}])
    assert "process 3" in filters.grows(lambda: next(looks))
    assert filters.grows(lambda: {1, 2}) == ""


@pytest.mark.parametrize(("when", "status"), [("== 40", Status.VALID), ("% 9 == 0", Status.RUNTIME_ERROR)])
def test_what_compiles_in_a_timed_call_is_tried_once_more_after_more_calls(verdict, rewrite, when, status) -> None:
    """The program that the candidate starts stands for a compiler; its second child sees more inputs before."""
    late = (
        f"self.calls = getattr(self, 'calls', 0) + 1; __import__('subprocess').run('true') if self.calls {when} else 0"
    )
    found = verdict(rewrite(late))
    assert (found.status, COMPILED_LATE in found.labels) == (status, True), found.reason


def test_words_alone_bring_no_second_try(verdict, rewrite) -> None:
    """Neither a refusal for another reason nor CUDA's words about a stream is a compiler that came too late."""
    spoiled = "self.calls = getattr(self, 'calls', 0) + 1; print('Operation not permitted'); y = y + (self.calls > 9)"
    found = verdict(rewrite(spoiled))
    assert (found.status, COMPILED_LATE in found.labels) == (Status.WRONG_OUTPUT, False)
    late = "self.calls = getattr(self, 'calls', 0) + 1\n        if self.calls == 9: raise RuntimeError('operation not permitted')"
    found = verdict(rewrite(late))
    assert (found.status, COMPILED_LATE in found.labels) == (Status.RUNTIME_ERROR, False)
