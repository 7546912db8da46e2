"""One judge and one naive harness for the whole corpus."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pike.corpus import Bait, CorpusSample
from pike.judge.client import JudgeClient


@pytest.fixture(scope="session")
def bait() -> Iterator[Bait]:
    with Bait() as laid:
        yield laid


@pytest.fixture(scope="session")
def judge(bait: Bait, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeClient]:
    with pytest.MonkeyPatch.context() as changed:
        # Workers side by side have a device lock each. Samples are refused for what they do, and their times may be
        # wrong by `NOISE`, so no worker needs to wait for a quiet machine.
        if os.environ.get("PYTEST_XDIST_WORKER"):
            changed.setenv("TMPDIR", str(tmp_path_factory.mktemp("judge")))
        client = JudgeClient()
        yield client
        client.close()


@pytest.fixture(scope="session")
def naive(bait: Bait) -> Iterator[Callable[[CorpusSample], dict[str, Any]]]:
    """`naive(sample)`: what a harness in the candidate's own process makes of it."""
    program = Path(__file__).with_name("naive.py")
    process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None

    def run(sample: CorpusSample) -> dict[str, Any]:
        request = {"task": sample.task_on("cpu").source, "source": sample.source_on("cpu"), "seconds": 8.0}
        for _ in range(sample.runs):
            process.stdin.write(json.dumps(request | {"options": sample.harness}) + "\n")
            process.stdin.flush()
            found: dict[str, Any] = json.loads(process.stdout.readline())
        return found

    yield run
    process.stdin.close()
    process.wait(timeout=10)
