"""The level that a container engine makes: a file system of what is allowed, and nothing else.

Descriptors and the environment do not pass through an engine: the child connects to a socket in its
own folder, and its environment is put before its command. Does not know any engine's words.
"""

import contextlib
import functools
import glob
import os
import resource
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from pike.judge.sandbox import probe, subreaper
from pike.judge.sandbox.level import Claim, SandboxLevel, SandboxSpec

_ASK_SECONDS = 10.0
_MOST_FILES, _MOST_TASKS = 4096, 16384
_SLACK_BYTES = 512 << 20


class Container(SandboxLevel, ABC):
    """A container of one engine.

    The methods that run the engine's program raise `OSError` or `subprocess.TimeoutExpired` where
    it does not run, or not within 10 seconds.

    Attributes:
        variants: options that may make the engine work here, tried in this order.
    """

    claims = frozenset(Claim)
    works_with_cuda = False
    inherits = False
    variants: tuple[tuple[str, ...], ...] = ((),)

    @abstractmethod
    def run(self, variant: tuple[str, ...], spec: SandboxSpec, root: Path) -> list[str]:
        """The command up to the program inside; `root` is an empty folder for this container."""

    def prepare(self) -> str:
        """Make what all containers share; returns why that fails, empty if it does not."""
        return ""

    def names(self) -> list[str]:
        """The containers that the engine remembers."""
        return []

    def remove(self, root: Path) -> None:
        """Kill and remove the container that belongs to a folder, if there is one."""

    def cleanup_command(self, name: str) -> tuple[str, ...]:
        """The command that ends a container whose client was killed, empty if none is needed."""
        return ()

    def obstacle(self) -> str:
        """Why it does not work here: no engine, or a container does not start."""
        return self._working_variant[1]

    def command(self, spec: SandboxSpec, argv: list[str]) -> list[str]:
        """For example `podman run ... argv`, below a process that keeps detached processes."""
        return self._command(self._working_variant[0], spec, argv)

    def end(self, spec: SandboxSpec) -> None:
        """Remove what is left of the container (usually nothing) and its folder."""
        self.discard(self._root(spec))

    def discard(self, root: Path) -> None:
        """Remove a container and its folder."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.remove(root)
        shutil.rmtree(root, ignore_errors=True)

    def owns(self, name: str) -> bool:
        """Whether a folder or container of this name was made by this level."""
        return name.endswith(f"-{self.name}")

    def sweep(self) -> None:
        """Remove containers of dead judges; their folders may be gone already."""
        for name in self.names():
            owner = name.split("-")[1] if name.startswith("pike-") and self.owns(name) else ""
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    self.remove(Path(name))

    def _root(self, spec: SandboxSpec) -> Path:
        """A folder beside the child's own. Its name is the container's and names the judge."""
        return Path(f"{spec.workdir}-{self.name}")

    def _command(self, variant: tuple[str, ...], spec: SandboxSpec, argv: list[str]) -> list[str]:
        root = self._root(spec)
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        cleanup = self.cleanup_command(root.name)
        keep = (sys.executable, "-I", "-S", str(subreaper.__file__), str(len(cleanup)), *cleanup)
        environment = [f"{name}={value}" for name, value in spec.environment]
        return [*keep, *self.run(variant, spec, root), "env", "-i", *environment, *argv]

    @functools.cached_property
    def _working_variant(self) -> tuple[tuple[str, ...], str]:
        """The variant that works, and why none does."""
        if not shutil.which(self.name):
            return (), f"{self.name} is not installed"
        try:
            self.sweep()
            if why := self.prepare():
                return (), f"{self.name} does not work: {why}"
        except (OSError, subprocess.TimeoutExpired) as error:
            return (), f"{self.name} does not answer: {error}"
        reasons = []
        for variant in self.variants:
            if not variant or shutil.which(variant[-1]):
                reasons.append(probe.failure(functools.partial(self._command, variant), self.end))
                if not reasons[-1]:
                    return variant, ""
        return (), f"{self.name} runs no container: {'; '.join(reasons)}"


def ask(program: tuple[str, ...], *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run an engine's program; raises as the methods of `Container` do."""
    return subprocess.run([*program, *arguments], capture_output=True, check=False, timeout=_ASK_SECONDS, input=given)


def listed(program: tuple[str, ...]) -> list[str]:
    """The names of containers that `ps` lists."""
    return ask(program, "ps", "--all", "--format", "{{.Names}}").stdout.decode(errors="replace").split()


def run_options(spec: SandboxSpec, name: str) -> Iterator[str]:
    """Options of `run` that podman and docker share."""
    yield from ("--rm", "--name", name, "--log-driver", "none", "--workdir", spec.workdir)
    yield from ("--network", "none", "--ipc", "private", "--cgroupns", "private", "--read-only", "--cap-drop", "all")
    for option in ("no-new-privileges", "seccomp=unconfined", "label=disable"):  # the child brings its own filter
        yield from ("--security-opt", option)
    yield from _limits(spec)
    for device in gpu_devices() if spec.cuda else ():
        yield from ("--device", device)


def gpu_devices() -> list[str]:
    """The GPU's device files."""
    return [path for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path)]


def quoted(fields: list[str]) -> str:
    """Fields of a `--mount` option, which is a line of comma-separated values."""
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _limits(spec: SandboxSpec) -> Iterator[str]:
    """The kernel's limits, a little above the judge's: the judge names what was exceeded."""
    most = {"nofile": (resource.RLIMIT_NOFILE, _MOST_FILES), "nproc": (resource.RLIMIT_NPROC, _MOST_TASKS)}
    for name, (kind, value) in most.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(hard, value)
        yield from ("--ulimit", f"{name}={value}:{value}")
    if spec.memory_bytes:
        most_bytes = str(spec.memory_bytes + _SLACK_BYTES)
        yield from ("--memory", most_bytes, "--memory-swap", most_bytes)
    yield from ("--pids-limit", str(spec.tasks or -1))
