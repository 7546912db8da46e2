"""The contract of a sandbox level, by side effects: a level joins by being listed in `LEVELS`.

One child per level tries everything that it should not be able to do and prints what happened; the tests look at that
and, where it matters, at the machine.
"""

import ctypes
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pike
from pike.judge import processes
from pike.judge.child.orders import BuildOrder
from pike.judge.child.wire import Command
from pike.judge.process import cgroup, filters
from pike.judge.process.child import Child, ChildPlan
from pike.judge.sandbox import LEVELS, Claim

pytestmark = pytest.mark.timed

TRY = """
import ctypes, errno, json, os, signal, socket, subprocess, sys, threading, time

facts = json.load(open(os.path.join(os.environ["HOME"], "facts.json")))
found = {}

def attempt(name, action):
    try:
        found[name] = action() or "done"
    except BaseException as error:
        found[name] = f"{type(error).__name__} {getattr(error, 'errno', '')}"

def refused(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    return errno.errorcode.get(ctypes.get_errno(), "done") if getattr(libc, name)(*arguments) < 0 else "done"

def read(path):
    with open(path, "rb") as file:
        return file.read(64).decode(errors="replace")

def write(path):
    with open(path, "w") as file:
        file.write("from a candidate")

def tell():
    print("FOUND" + json.dumps(found), flush=True)
"""

BEFORE = (
    TRY
    + """
attempt("connect", lambda: socket.create_connection(("127.0.0.1", facts["port"]), 2).close())
attempt("socket pair", lambda: socket.socketpair() and None)
found["environment"] = repr(dict(os.environ))
for name, path in facts["private"].items():
    attempt("read " + name, lambda: read(path))
for name, path in facts["elsewhere"].items():
    attempt("write " + name, lambda: write(path))
attempt("write own", lambda: write(os.path.join(os.environ["HOME"], "own.txt")))
attempt("import", lambda: (sys.path.insert(0, facts["importable"]), __import__("contract_helper").WORD)[1])
attempt("judge", lambda: read(f"/proc/{facts['judge']}/environ"))
for pid in (os.getppid(), facts["judge"], -facts["judge_group"], -1):
    attempt(f"signal {pid}", lambda: os.kill(pid, signal.SIGURG))
attempt("ptrace", lambda: refused("ptrace", 16, os.getppid(), 0, 0))
attempt("unshare", lambda: refused("unshare", 0x10000000))
attempt("mount", lambda: refused("mount", b"none", os.environ["HOME"].encode(), b"tmpfs", 0, None))
attempt("huge file", lambda: open(os.path.join(os.environ["HOME"], "huge"), "w").truncate(9 << 30))
attempt("program", lambda: subprocess.run(["sleep", "0"], check=True) and None)
between = os.fork()
if between == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", facts["marker"]])
    os._exit(0)
os.waitpid(between, 0)
if os.fork() == 0:
    while True: time.sleep(60)
earlier = threading.Event()
def later():
    earlier.wait()
    attempt("program in a thread", lambda: subprocess.run(["sleep", "0"], check=True) and None)
    earlier.clear()
threading.Thread(target=later, daemon=True).start()
sys.contract = (found, attempt, tell, earlier)
print("x" * 50_000)
tell()
"""
)

AFTER = """
import os, subprocess, sys, time
found, attempt, tell, earlier = sys.contract
found.clear()
attempt("program", lambda: subprocess.run(["sleep", "0"], check=True) and None)
def forked():
    pid = os.fork()
    if pid == 0:
        try: os.execvp("sleep", ["sleep", "0"])
        except OSError as error: os._exit(error.errno)
    return str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
attempt("program in a fork", forked)
earlier.set()
while earlier.is_set(): time.sleep(0.01)
def daemon():  # is there at the end where no filter works
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: time.sleep(60)
        os._exit(0)
attempt("daemon", daemon)
tell()
"""


@dataclass
class Findings:
    """What one child found and what it left behind."""

    level: object
    before: dict[str, str]
    after: dict[str, str]
    unsealed: str
    alive: tuple[int, int]  # before and after the helpers were ended
    connected: bool
    signals: list[int]
    elsewhere: dict[str, str]
    log: str
    survivors: set[int]
    marked: bool
    folder: Path

    def claims(self, claim: Claim) -> None:
        if claim not in filters.enforced(self.level, cuda=False):
            pytest.skip(f"nothing enforces it at the level {self.level.name}")


WAYS = [pytest.param((level, True), id=level.name) for level in LEVELS]
WAYS += [pytest.param((level, False), id=f"{level.name}-without-groups") for level in LEVELS if level.inherits]


@pytest.fixture(scope="module", params=WAYS)
def evaluation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Findings]:
    level, groups = request.param
    if obstacle := level.obstacle():
        pytest.skip(obstacle)
    if not groups and cgroup.find() is None:
        pytest.skip("no control groups here, so this is the same as above")
    patch = pytest.MonkeyPatch()
    if not groups:
        patch.setattr(cgroup, "find", lambda: None)
    patch.setenv("CONTRACT_API_KEY", "sk-contract")
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to us, as they come to a judge
    received: list[int] = []
    earlier = signal.signal(signal.SIGURG, lambda number, _: received.append(number))
    try:
        yield _held(level, tmp_path_factory.mktemp("contract"), received)
    finally:
        signal.signal(signal.SIGURG, earlier)
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
        patch.undo()


def _held(level, place: Path, received: list[int]) -> Findings:
    library = place / "library"
    library.mkdir()
    (library / "contract_helper.py").write_text("WORD = 'imported'")
    for name in ("reference.py", "notes.txt"):
        (library / name).write_text("the reference")
    (place / "other-run.py").write_text("somebody else's candidate")
    home = Path(pike.__file__).parent
    private = {
        "reference": library / "reference.py",
        "notes": library / "notes.txt",
        "run": place / "other-run.py",
        "judge's code": home / "judge" / "judge.py",
        "suites": next((home / "tasks" / "suites").rglob("*.py")),
        "this test": Path(__file__),
        "host name": Path("/etc/hostname"),
    }
    marker = f"31536{os.getpid()}"
    elsewhere = {
        "run": place / "written", "root": Path("/pike-contract"), "system": Path("/usr/pike-contract"),
        "tmp": Path(f"/tmp/pike-contract-{marker}"), "shm": Path(f"/dev/shm/pike-contract-{marker}"),
        "code": home / "core" / "pike-contract",
    }  # fmt: skip
    plan = ChildPlan(level, (), False, 8 << 30, (str(library),), (str(library / "reference.py"),))
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = Child(plan)
        facts = {
            "port": server.getsockname()[1], "judge": os.getpid(), "judge_group": os.getpgid(0), "marker": marker,
            "private": {name: str(path) for name, path in private.items()},
            "elsewhere": {name: str(path) for name, path in elsewhere.items()}, "importable": str(library),
        }  # fmt: skip
        (child.folder / "facts.json").write_text(json.dumps(facts))
        try:
            before = _build(child, "first", BEFORE)
            running = _alive(child)
            child.end_helpers()
            alive = running, _alive(child)
            if filters.work():
                child.send(Command.SEAL, None)
                child.receive(time.monotonic() + 60)
            unsealed, after = child.unsealed(), _build(child, "second", AFTER)
            server.settimeout(0.0)
            log, pids = child.log(), child.pids()
        finally:
            child.kill()
        written = {name: path.read_text() for name, path in elsewhere.items() if path.exists()}
        for path in elsewhere.values():
            path.unlink(missing_ok=True)
        left = {pid for pid in pids if processes.held(pid).alive}
        return Findings(level, before, after, unsealed, alive, _connected(server), received, written, log, left,
                     _marked(marker), child.folder)  # fmt: skip


def _build(child: Child, name: str, source: str) -> dict[str, str]:
    path = child.folder / f"{name}.py"
    path.write_text(source)
    child.send(Command.BUILD, BuildOrder(str(path), "cpu", 1))
    child.receive(time.monotonic() + 120)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        said = [line for line in child.log().splitlines() if line.startswith("FOUND")]
        if len(said) >= (1 if name == "first" else 2):
            return json.loads(said[-1].removeprefix("FOUND"))
    raise AssertionError(child.log())


def _alive(child: Child) -> int:
    return sum(processes.held(pid).alive for pid in child.pids())


def _connected(server: socket.socket) -> bool:
    try:
        server.accept()
    except OSError:
        return False
    return True


def _marked(marker: str) -> bool:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return any(marker.encode() in line and b"sleep" in line for line in lines)


def test_no_network(evaluation):
    evaluation.claims(Claim.NETWORK)
    assert evaluation.before["connect"] != "done"
    assert not evaluation.connected
    assert evaluation.before["socket pair"] == "done"


def test_no_secret_in_the_environment(evaluation):
    assert "sk-contract" not in evaluation.before["environment"]


def test_no_private_file_can_be_read(evaluation):
    evaluation.claims(Claim.FILES)
    read = {name: text for name, text in evaluation.before.items() if name.startswith("read ")}
    assert all("Error" in text for text in read.values()), read


def test_what_may_be_imported_can_be(evaluation):
    assert evaluation.before["import"] == "imported"


def test_nothing_is_written_outside_its_own_folder(evaluation):
    evaluation.claims(Claim.READ_ONLY)
    its_own_memory = Claim.READ_ONLY in evaluation.level.claims  # elsewhere the verdict names /dev/shm
    assert evaluation.elsewhere.keys() <= (set() if its_own_memory else {"shm"})
    assert evaluation.before["write own"] == "done"


def test_the_judge_is_not_to_be_seen(evaluation):
    evaluation.claims(Claim.PROCESSES)
    assert "FileNotFoundError" in evaluation.before["judge"]


def test_no_signal_reaches_the_judge(evaluation):
    if not filters.work():
        evaluation.claims(Claim.SIGNALS)
    assert evaluation.signals == []


def test_dangerous_system_calls_are_refused(evaluation):
    if not filters.work():
        pytest.skip("no system call filter here")
    assert [evaluation.before[name] for name in ("ptrace", "unshare", "mount")] == ["EPERM"] * 3


def test_files_and_output_are_bounded(evaluation):
    assert evaluation.before["huge file"] == "OSError 27"
    assert len(evaluation.log) < 20_000
    assert "bytes left out" in evaluation.log


def test_programs_start_until_building_is_over_and_not_afterwards(evaluation):
    assert evaluation.before["program"] == "done"
    if not filters.work():
        pytest.skip("no system call filter here")
    assert evaluation.after == dict.fromkeys(
        ("program", "program in a fork", "program in a thread", "daemon"), "PermissionError 1"
    )


def test_when_building_is_over_helpers_end_and_every_thread_is_filtered(evaluation):
    before, after = evaluation.alive
    assert before - after == 2, "the daemon and the idle fork"
    if filters.work():
        assert evaluation.unsealed == ""


def test_nothing_survives(evaluation):
    assert not evaluation.survivors
    assert not evaluation.marked
    assert not evaluation.folder.exists()
