"""What is particular to a container: the socket in its folder, the keeper of its monitor, the end with its judge.

Everything that it promises is tested with the other levels (`test_sandbox`).
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pike.evaluate import processes
from pike.evaluate.channel import Channel
from pike.evaluate.child.wire import Command, Reply, Up, WireClosed, receive_down, send_up
from pike.evaluate.launch import sweep
from pike.evaluate.sandbox import Container, choose, container, keeper

NONCE = b"n" * 16


@pytest.fixture
def channel(tmp_path):
    made = Channel(tmp_path, inherited=False)
    yield made
    made.close()


def test_a_command_that_is_sent_before_the_child_connects_reaches_it(channel):
    channel.send(Command.HELLO, 1, False, ())
    with socket.socket(socket.AF_UNIX) as child:
        child.connect(channel.address)
        assert receive_down(child)[:3] == (Command.HELLO, 1, False)
        send_up(child, NONCE, Up(Reply.OK, 1))
        answer = channel.receive(NONCE, 1, time.monotonic() + 20, lambda: 0.0, lambda: True)
    assert answer.reply is Reply.OK
    assert channel.peer == os.getpid()
    assert not os.path.exists(channel.address), "nobody else connects"


def test_a_child_that_ends_before_it_connects_is_gone(channel):
    channel.send(Command.HELLO, 1, False, ())
    with pytest.raises(WireClosed):
        channel.receive(NONCE, 1, time.monotonic() + 20, lambda: 0.0, lambda: False)


def kept(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-S", keeper.__file__, "/bin/sh", "-c", script])


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_a_keeper_ends_as_its_program_does(script, code):
    assert kept(script).wait(timeout=20) == code


def test_a_keeper_takes_everything_along_that_its_program_left():
    keeping = kept("setsid sleep 600 & sleep 600")
    try:
        _until(lambda: len(_named("sleep", keeping.pid)) == 2)
        detached = _named("sleep", keeping.pid)
        program = next(pid for pid in processes.children_of(keeping.pid))
        os.kill(program, signal.SIGKILL)
        _until(lambda: processes.children_of(keeping.pid) == detached)
        keeping.terminate()
        keeping.wait(timeout=20)
        assert not any(processes.held(pid).alive for pid in detached)
    finally:
        keeping.kill()


def test_without_podman_the_next_level_is_taken(monkeypatch):
    monkeypatch.setattr(container, "shutil", SimpleNamespace(which=lambda _: None))
    container._found.cache_clear()
    try:
        assert "not installed" in Container().obstacle()
        assert choose("auto").name != "container"
    finally:
        container._found.cache_clear()


def test_a_container_ends_with_its_judge_and_is_swept_by_the_next():
    if obstacle := Container().obstacle():
        pytest.skip(obstacle)
    start = """
import os, time
from pike.evaluate.child.wire import Command
from pike.evaluate.launch import Child, ChildPlan
from pike.evaluate.sandbox import Container
child = Child(ChildPlan(Container(), (), False))
child.order(Command.HELLO, False, time.monotonic() + 60, (), lambda: 0.0)
print(child.folder, flush=True)
time.sleep(60)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True, env=environment) as judge:
        folder = Path(judge.stdout.readline().strip())
        assert _mentioning(str(folder))
        judge.kill()
    _until(lambda: not _mentioning(str(folder)))
    sweep()
    names = subprocess.run(["podman", "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True).stdout
    assert f"{folder.name}-root" not in names
    assert not list(folder.parent.glob(f"{folder.name}*"))


def _named(name: str, root: int) -> set[int]:
    found = processes.descendants_of(root)
    return {pid for pid in found if _read(f"/proc/{pid}/comm").strip() == name}


def _mentioning(folder: str) -> set[str]:
    return {path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if folder in _read(str(path))}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _until(reached) -> None:
    deadline = time.monotonic() + 20
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert reached()
