"""A private Slurm cluster of two nodes on this machine, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
NODES = ("n1", "n2")
CONFIGURATION = """
ClusterName=pike
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=5
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing() -> str:
    """Why no cluster can be started here, empty if one can."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)} (Debian: slurm-wlm, munge)"
    return "" if os.getuid() == 0 else "needs root, as slurmd does"


class Cluster:
    """Its daemons; `env` is the environment in which its commands work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._munged: subprocess.Popen[bytes] | None = None
        self._hurried: dict[str, float] = {}

    def start(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        places = [f"--{name}={self.folder / file}" for name, file in MUNGE.items()]
        self._munged = subprocess.Popen(["munged", "--force", "--foreground", *places], stderr=subprocess.DEVNULL)
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(host=host, folder=self.folder, ports=free_ports(3))
        (self.folder / "slurm.conf").write_text(text)
        self.wait(lambda: (self.folder / "munge.socket").exists(), 20.0)
        subprocess.run(["slurmctld"], env=self.env, check=True)
        for node in NODES:
            self.start_node(node)
        self.wait(lambda: self.ask("sinfo", "--noheader", "--format=%T %D") == "idle 2")

    def start_node(self, node: str) -> None:
        subprocess.run(["slurmd", "-N", node], env=self.env, check=True)

    def kill_node(self, node: str, job: str) -> None:
        """As a power cut does it: the daemon, the job's steps and all that they started."""
        daemon = int((self.folder / f"slurmd-{node}.pid").read_text())
        roots = [daemon, *(pid for pid, _, command in processes() if command.startswith(f"slurmstepd: [{job}."))]
        for pid in (*roots, *(child for root in roots for child in descendants(root))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ask(self, *command: str) -> str:
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False).stdout.strip()

    def jobs_on(self, node: str) -> list[str]:
        """The jobs that run on a node; a requeued one and its successor may do so at once."""
        return self.ask("squeue", "--noheader", "--states=RUNNING", f"--nodelist={node}", "--format=%i").split()

    def wait(self, ready: Callable[[], object], seconds: float = 150.0) -> None:
        until = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < until, f"too late: {self.ask('squeue')} {self.ask('sinfo')}"
            self._hurry()
            time.sleep(0.2)

    def _hurry(self) -> None:
        """Slurm lets a requeued job wait for two minutes; two seconds are enough to revoke its credential."""
        for line in self.ask("squeue", "--noheader", "--states=PENDING", "--format=%i %r").splitlines():
            job, _, reason = line.partition(" ")
            if reason == "BeginTime" and time.monotonic() > self._hurried.get(job, 0.0) + 5.0:
                self._hurried[job] = time.monotonic()
                self.ask("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def stop(self) -> None:
        self.ask("scancel", "--user=root")
        self.ask("scontrol", "shutdown")
        for node in NODES:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((self.folder / f"slurmd-{node}.pid").read_text()), signal.SIGTERM)
        if self._munged is not None:
            self._munged.terminate()
            self._munged.wait()


MUNGE = {
    "key-file": "munge.key",
    "socket": "munge.socket",
    "pid-file": "munged.pid",
    "log-file": "munged.log",
    "seed-file": "munge.seed",
}


def processes() -> Iterator[tuple[int, int, str]]:
    """(pid, parent, command line) of all."""
    for line in subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        pid, parent, command = line.split(None, 2)
        yield int(pid), int(parent), command


def descendants(root: int) -> list[int]:
    found, known = [root], list(processes())
    for pid in found:
        found += [child for child, parent, _ in known if parent == pid]
    return found[1:]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
