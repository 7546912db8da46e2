"""What is particular to containers: the socket in their folder, the subreaper, the engines' own words, their ends.

Everything that it promises is tested with the other levels (`test_sandbox`).
"""

import csv
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from pike.judge import processes
from pike.judge.child.orders import HelloOrder
from pike.judge.child.wire import ChildMessage, ChildReply, Command, WireClosed, receive_down, send_up
from pike.judge.process.channel import Channel
from pike.judge.process.child import Child, ChildPlan
from pike.judge.process.leftovers import sweep
from pike.judge.sandbox import CONTAINERS, BareProcess, Bubblewrap, Container, SandboxSpec, choose, subreaper
from pike.judge.sandbox.docker import Docker, links_image, mount_option
from pike.judge.sandbox.filesystem import Mount, MountMode

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
        send_up(child, NONCE, ChildMessage(ChildReply.OK, 1))
        answer = channel.receive(NONCE, 1, time.monotonic() + 20, lambda: 0.0, lambda: True)
    assert answer.reply is ChildReply.OK
    assert channel.peer == os.getpid()
    assert not os.path.exists(channel.address), "nobody else connects"


def test_a_child_that_ends_before_it_connects_is_gone(channel):
    channel.send(Command.HELLO, 1, False, ())
    with pytest.raises(WireClosed):
        channel.receive(NONCE, 1, time.monotonic() + 20, lambda: 0.0, lambda: False)


def kept(script: str, *cleanup: str) -> subprocess.Popen[bytes]:
    words = (str(len(cleanup)), *cleanup, "/bin/sh", "-c", script)
    return subprocess.Popen([sys.executable, "-I", "-S", subreaper.__file__, *words])


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_a_subreaper_ends_as_its_program_does(script, code):
    assert kept(script).wait(timeout=20) == code


def test_a_subreaper_takes_everything_along_that_its_program_left():
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


def test_a_subreaper_runs_the_cleanup_when_its_parent_dies_and_only_then(tmp_path):
    said = tmp_path / "cleaned"
    assert kept("true", "touch", str(said)).wait(timeout=20) == 0
    assert not said.exists()
    keeping = kept("sleep 600", "touch", str(said))
    _until(lambda: _named("sleep", keeping.pid))
    keeping.terminate()
    keeping.wait(timeout=20)
    assert said.exists()


def test_the_first_process_of_a_namespace_is_found_from_any_other():
    if obstacle := Bubblewrap().obstacle():
        pytest.skip(obstacle)
    isolated = ["bwrap", "--unshare-pid", "--die-with-parent", "--bind", "/", "/", "--proc", "/proc"]
    with subprocess.Popen([*isolated, "sh", "-c", "sleep 600; true"]) as root:
        _until(lambda: _named("sleep", root.pid))
        (inner,) = _named("sleep", root.pid)
        first = processes.first_beside(inner)
        assert processes.held(first).numbers[-1] == 1
        assert first in processes.descendants_of(root.pid)
        assert processes.started(first)
        root.kill()
    _until(lambda: processes.started(first) == "")
    assert processes.first_beside(inner) == 0


def test_without_an_engine_the_next_level_is_taken(monkeypatch):
    monkeypatch.setenv("PATH", "")
    found = [type(level)() for level in CONTAINERS]
    assert all("not installed" in level.obstacle() for level in found)
    assert choose("auto", levels=(*found, BareProcess())).name == "process"


def test_the_image_holds_links_only_and_is_named_after_them():
    name, content = links_image(SandboxSpec("/", (), False))
    assert (name, content) == links_image(SandboxSpec("/elsewhere", (), False))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        entries = {f"/{entry.name}": entry.linkname for entry in archive.getmembers()}
    assert entries == {path: os.readlink(path) for path in entries}


def test_a_path_with_separators_is_still_one_path():
    _, written = mount_option(Mount("/a,b", MountMode.READ, '/a,"b'), "")
    assert next(csv.reader([written])) == ["type=bind", 'source=/a,"b', "destination=/a,b", "readonly"]


@pytest.fixture(params=[container.name for container in CONTAINERS])
def level(request):
    found = choose_or_skip(request.param)
    yield found
    assert not [name for name in _containers(found.name) if name.startswith(f"pike-{os.getpid()}-")]


def choose_or_skip(name: str) -> Container:
    found = next(container for container in CONTAINERS if container.name == name)
    if obstacle := found.obstacle():
        pytest.skip(obstacle)
    return found


def run_in(level: Container, folder: Path, script: str) -> str:
    """What a shell in a container says."""
    for part in ("tmp", "shm"):
        (folder / "caches" / part).mkdir(parents=True)
    spec = SandboxSpec(str(folder), (), False)
    try:
        argv = level.command(spec, ["/bin/sh", "-c", script])
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    finally:
        level.end(spec)


def test_no_proxy_and_no_password_reaches_the_first_process(level, tmp_path, monkeypatch):
    secret = "http://user:sk-contract@192.0.2.1"
    for name in ("HTTP_PROXY", "https_proxy"):
        monkeypatch.setenv(name, secret)
    if level.name == "docker":
        settings = {"proxies": {"default": {"httpProxy": secret, "httpsProxy": secret, "allProxy": secret}}}
        (tmp_path / "config.json").write_text(json.dumps(settings))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    said = run_in(level, tmp_path / "own", "cat /proc/1/environ | tr '\\0' '\\n'; echo read $?")
    assert "PATH=" in said
    assert "read 0" in said
    assert "sk-contract" not in said


def test_a_hidden_file_stays_unreadable_whoever_owns_it(level, tmp_path):
    script = "for file in /etc/hostname /etc/hosts /etc/resolv.conf; do chmod 666 $file; cat $file && echo open; done; echo end"
    assert run_in(level, tmp_path / "own", script) == "end\n"


def test_what_is_written_to_dev_counts_as_memory(level):
    child = Child(ChildPlan(level, (), False, memory_bytes=1 << 30))
    try:
        child.send(Command.HELLO, HelloOrder())
        child.receive(time.monotonic() + 60)
        Path(f"/proc/{child.speaker()}/root/dev/big").write_bytes(b"x" * (40 << 20))
        (child.folder / "caches" / "shm" / "file").write_bytes(b"x" * (20 << 20))
        _until(lambda: child.watch.breach() == "" and 40 << 20 <= child.watch.unmapped_bytes < 41 << 20)
    finally:
        child.kill()


def test_groups_and_sys_cannot_be_written_to(level, tmp_path):
    script = "find /sys -type d -writable -exec mkdir {}/pike-contract ';' -print -quit; echo end"
    assert run_in(level, tmp_path / "own", script) == "end\n"


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_a_child_that_is_killed_at_once_leaves_no_container(level, seconds):
    child = Child(ChildPlan(level, (), False))
    time.sleep(seconds)
    child.kill()
    assert not [name for name in _containers(level.name) if name.startswith(child.folder.name)]
    assert not list(child.folder.parent.glob(f"{child.folder.name}*"))


def test_a_container_ends_with_its_judge_and_is_swept_by_the_next(level):
    start = f"""
import os, time
from pike.judge.child.orders import HelloOrder
from pike.judge.child.wire import Command
from pike.judge.process.child import Child, ChildPlan
from pike.judge.sandbox import choose
child = Child(ChildPlan(choose({level.name!r}), (), False))
child.send(Command.HELLO, HelloOrder()); child.receive(time.monotonic() + 60)
os.kill(child.speaker(), 19)  # one that does not notice
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
    assert not [name for name in _containers(level.name) if name.startswith(folder.name)]
    assert not list(folder.parent.glob(f"{folder.name}*"))


def test_what_a_dead_judge_left_with_the_engine_is_removed_by_the_next(level, tmp_path):
    if level.name == "apptainer":
        pytest.skip("it remembers nothing")
    with subprocess.Popen(["true"]) as dead:
        pass
    name = f"pike-{dead.pid}-abc-{level.name}"
    folder = tmp_path / "own"
    for part in ("tmp", "shm"):
        (folder / "caches" / part).mkdir(parents=True)
    spec = SandboxSpec(str(folder), (), False)
    argv = [name if word.endswith(f"own-{level.name}") and "/" not in word else word
            for word in level.command(spec, ["sleep", "600"])]  # fmt: skip
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as keeping:
        try:
            _until(lambda: name in _containers(level.name))
            level.sweep()
            assert name not in _containers(level.name)
        finally:
            keeping.terminate()
            level.end(spec)


def test_a_daemon_that_does_not_answer_is_said(monkeypatch, tmp_path):
    choose_or_skip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    assert "daemon" in Docker().obstacle()


def _named(name: str, root: int) -> set[int]:
    found = processes.descendants_of(root)
    return {pid for pid in found if _read(f"/proc/{pid}/comm").strip() == name}


def _containers(name: str) -> list[str]:
    return next(container for container in CONTAINERS if container.name == name).names()


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
