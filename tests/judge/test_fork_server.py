"""Children forked from one template: their own folder, streams, environment and end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pike.judge import processes
from pike.judge.child.guard import confines
from pike.judge.child.orders import BuildOrder, HelloOrder
from pike.judge.child.template import open_files
from pike.judge.child.wire import ChildReply, Command
from pike.judge.process.child import Child, ChildPlan
from pike.judge.process.fork_server import ForkedProcess, fork_server
from pike.judge.sandbox import BareProcess

PLAN = ChildPlan(BareProcess(), (), False)


@pytest.fixture
def started() -> Iterator[Callable[[], Child]]:
    made: list[Child] = []

    def start(plan: ChildPlan = PLAN) -> Child:
        made.append(Child(plan))
        return made[-1]

    yield start
    for child in made:
        child.kill()


def asked(child: Child, command: Command, body: object) -> ChildReply:
    child.send(command, body)
    return child.receive(time.monotonic() + 120).reply


def said_by(child: Child, source: str) -> list[str]:
    """What a file prints that the child imports."""
    path = child.folder / "looks.py"
    path.write_text(source)
    assert asked(child, Command.BUILD, BuildOrder(str(path), "cpu", 1)) is ChildReply.OK
    return [line for line in child.log().splitlines() if not line.startswith("---")]


def test_children_of_one_template_share_nothing_that_they_write(started: Callable[[], Child]) -> None:
    first, second = started(), started()
    (template,) = fork_server().pids
    assert {first.pid, second.pid} <= processes.children_of(os.getpid()), "the judge did not adopt them"
    source = "import os, tempfile, torch\ntorch.mark = getattr(torch, 'mark', 0) + 1\nprint(torch.mark, os.getcwd())\n"
    source += "print(os.environ['HOME'], tempfile.gettempdir(), os.getsid(0) == os.getpid())"
    for child in (first, second):
        folder = str(child.folder)
        assert said_by(child, source) == [f"1 {folder}", f"{folder} {folder}/caches/tmp True"]
    first.kill()
    assert asked(second, Command.HELLO, HelloOrder()) is ChildReply.OK
    assert fork_server().pids == {template}


def test_children_share_no_folder_of_a_compiler(started: Callable[[], Child]) -> None:
    fork_server().preload(False)
    child = started()
    looks = "import sys\nprint(sys.modules['torch._inductor.codecache']._HEADER_DIR)"
    (place,) = said_by(child, looks)
    assert Path(place).is_relative_to(child.folder)


@pytest.mark.slow  # that a child writes in its own folders only is tested in test_guard
@pytest.mark.skipif(not confines(), reason="needs Landlock of Linux 6.12, without which each child compiles its own")
def test_a_header_that_the_template_compiled_serves_every_child_and_none_can_change_it(
    started: Callable[[], Child],
) -> None:
    fork_server().preload(True)
    looks = (
        "from pathlib import Path\nfrom torch._inductor import codecache\n"
        "made = []\nbuild = codecache.CppBuilder\n"
        "codecache.CppBuilder = lambda **given: made.append(given['BuildOption']) or build(**given)\n"
        "codecache.CppPythonBindingsCodeCache.load_async('int one;')\n"
        "header = Path(made[-1].precompiled_header)\nprint(header.with_name(header.name + '.gch').exists(), header)\n"
        "try:\n    header.with_name('new').touch()\nexcept PermissionError as error:\n    print(error.strerror)\n"
    )
    first, second = said_by(started(), looks), said_by(started(), looks)
    assert first == second, "one header for both"
    assert first[0].startswith("True ") and first[1:] == ["Permission denied"]


def test_a_child_does_not_see_secrets_of_the_judge(
    started: Callable[[], Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush")
    source = "import os\nprint('hush' in open('/proc/self/environ').read(), 'SOME_API_KEY' in os.environ)"
    assert said_by(started(), source) == ["False False"]


def test_how_a_child_ended_is_known(started: Callable[[], Child]) -> None:
    child = started()
    os.kill(child.pid, signal.SIGSEGV)
    assert child.ending() == "was killed by SIGSEGV"


def test_a_template_that_died_is_replaced(started: Callable[[], Child]) -> None:
    started()
    (template,) = fork_server().pids
    os.kill(template, signal.SIGKILL)
    while processes.held(template).alive:
        time.sleep(0.01)
    assert asked(started(), Command.HELLO, HelloOrder()) is ChildReply.OK
    assert fork_server().pids != {template}


def test_a_template_sees_that_it_holds_a_device(tmp_path: Path) -> None:
    assert open_files((str(tmp_path),)) == []
    with open(tmp_path / "nvidia0", "w"):
        assert open_files((str(tmp_path),)) == [str(tmp_path / "nvidia0")]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_compilers_that_counted_gpus_do_not_keep_a_template_from_forking(started: Callable[..., Child]) -> None:
    fork_server().preload(False)
    child = started(replace(PLAN, cuda=True))
    assert "judge.child.template" in Path(f"/proc/{child.pid}/cmdline").read_text(), "it was started, not forked"
    assert asked(child, Command.HELLO, HelloOrder("cuda:0")) is ChildReply.OK


def test_waiting_for_a_child_that_runs_has_an_end() -> None:
    sleeper = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert sleeper.stdout and sleeper.stderr
    forked = ForkedProcess(sleeper.pid, sleeper.stdout, sleeper.stderr)
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.05)
    forked.kill()
    assert forked.wait() == -signal.SIGKILL
    sleeper.returncode = -signal.SIGKILL
