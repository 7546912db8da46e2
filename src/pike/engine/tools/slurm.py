"""Campaigns as chains of Slurm jobs: one script that resumes them until they are over.

Knows `sbatch` and its options. Does not carry a campaign out: the script calls `pike campaign`.
"""

import hashlib
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pike.core.errors import UserError
from pike.store.whole import write_text

_BODY = Path(__file__).with_suffix(".sh")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Allocation:
    """What each job of a chain asks for.

    Attributes:
        nodes: with more than one, judges work on a Ray cluster of them.
        gpus_per_node: 0 for none.
        time: the limit of each job, as for `sbatch --time`.
        stop_seconds: so long before the limit, the campaign is told to stop.
        sbatch: further options of `sbatch`.
    """

    nodes: int
    gpus_per_node: int
    time: str
    stop_seconds: int
    sbatch: tuple[str, ...] = ()

    def settings(self) -> list[str]:
        """The settings of a campaign that make its judges use the nodes."""
        return ["engine.executor=ray"] if self.nodes > 1 else ['engine.devices=["all"]'] * (self.gpus_per_node > 1)

    def require_time(self) -> None:
        """Refuse a limit that Slurm does not know, or that leaves a job no time to work.

        Raises:
            UserError: naming the limit.
        """
        found = _TIME.fullmatch(self.time)
        if found is None:
            raise UserError(f"The time '{self.time}' is none of Slurm: give minutes, H:MM:SS or D-HH:MM:SS")
        days, *rest = found.groups()
        parts = [int(part) for part in rest if part is not None]
        units = (3600, 60, 1) if days or len(parts) == 3 else (60, 1)
        seconds = int(days or 0) * 86400 + sum(part * unit for part, unit in zip(parts, units, strict=False))
        if seconds < 2 * self.stop_seconds:
            raise UserError(
                f"The time '{self.time}' is {seconds} s, and a job that is told to stop {self.stop_seconds} s before "
                "its end needs twice that: give more --time or less --stop-before"
            )


def write_script(
    studies: Sequence[tuple[Path, Path]],
    wanted: Allocation,
    settings: Sequence[str] = (),
    command: Sequence[str] = (sys.executable, "-m", "pike"),
) -> Path:
    """Write the script of campaigns, each a file and its folder, beside the first folder.

    Several are an array of jobs, each element a chain of its own.

    Raises:
        UserError: the time makes no sense, or two campaigns have one folder.
        StoreError: the disk refuses.
    """
    wanted.require_time()
    files = [study.resolve() for study, _ in studies]
    folders = [folder.resolve() for _, folder in studies]
    for index, folder in enumerate(folders):
        if folder in folders[:index]:
            raise UserError(f"Two campaigns would have the folder {folder}: rename one of their files")
    more = len(studies) - 1
    path = folders[0].with_name(f"{folders[0].name}{f'-and-{more}-more' if more else ''}.slurm.sh")
    names = {
        "SCRIPT": [path],
        "STUDIES": files,
        "FOLDERS": folders,
        "PIKE": command,
        "SETTINGS": [word for one in (*wanted.settings(), *settings) for word in ("--set", one)],
        "RAY": ["yes"] if wanted.nodes > 1 else [],
    }
    head = ["#!/bin/bash", *(f"#SBATCH {shlex.quote(option)}" for option in _options(path, more, wanted))]
    head += [f"{name}=({shlex.join(map(str, values))})" for name, values in names.items()]
    write_text(path, "\n".join([*head, _BODY.read_text()]))
    return path


def job_name(script: Path) -> str:
    """What all jobs of a script are called."""
    return f"pike-{script.name.removesuffix('.slurm.sh')}-{hashlib.sha256(str(script).encode()).hexdigest()[:8]}"


def _options(script: Path, more: int, wanted: Allocation) -> list[str]:
    log = str(script.with_suffix(".%a.log" if more else ".log").name)
    return [
        f"--job-name={job_name(script)}",
        *([f"--array=0-{more}"] if more else []),
        f"--nodes={wanted.nodes}",
        *(["--exclusive"] if wanted.nodes > 1 else []),
        *([f"--gpus-per-node={wanted.gpus_per_node}"] if wanted.gpus_per_node else []),
        f"--time={wanted.time}",
        f"--signal=B:TERM@{wanted.stop_seconds}",
        *("--requeue", "--open-mode=append", f"--output={str(script.parent).replace('%', '%%')}/{log}"),
        f"--chdir={Path.cwd()}",
        *wanted.sbatch,
    ]


def submit_script(script: Path) -> str:
    """Send a script, and return the number of its first job.

    Raises:
        UserError: there is no Slurm here, or it refuses the script.
    """
    try:
        sent = subprocess.run(["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False)
    except OSError:
        raise UserError(f"There is no sbatch here: send {script} from a machine of the cluster") from None
    if sent.returncode:
        why = (sent.stderr.strip().splitlines() or ["it does not say why"])[-1].removeprefix("sbatch: error: ")
        raise UserError(f"Slurm refuses {script}: {why}")
    return sent.stdout.strip()
