"""The least that a child must see of the file system: system libraries, Python, torch, compilers.

Everything else (the home, projects, tasks, other runs) is not listed and therefore not visible.
Does not know how a level mounts a path.
"""

import contextlib
import enum
import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pike.judge.sandbox.level import SandboxSpec

KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""User 0 may write to these without any capability."""
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/sys/devices/system",
)  # fmt: skip
_SETTINGS = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf", "localtime",
)  # fmt: skip
_ENGINE_FILES = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")
"""Files that a container engine would make up or copy from the host."""
_PROJECTS = ("/usr/src", "/usr/local/src")
"""Folders below the system's in which people keep their own work."""
_TOOLS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "as", "ld", "ninja", "make")
_OUR_CODE = ("__init__.py", "core", "judge/__init__.py", "judge/child", "judge/sandbox/first_process.py")
_OUR_TASKS = "tasks/suites"
"""The one part of the package that no live module's file can import: the judged tasks."""


class MountMode(enum.Enum):
    """How a path appears."""

    READ = "read-only, with all below it"
    WRITE = "writable"
    EMPTY = "an empty folder, read-only"
    BLANK = "a file that cannot be read"
    LINK = "a symbolic link"


@dataclass(frozen=True, slots=True)
class Mount:
    """One path in the sandbox.

    Attributes:
        path: where it appears.
        mode: how.
        source: what is mounted there for `READ` and `WRITE`, the target for `LINK`.
    """

    path: str
    mode: MountMode
    source: str = ""


def mounts(spec: SandboxSpec) -> list[Mount]:
    """All that a child sees, each path once, outermost paths first."""
    found = [*visible_paths(spec)]
    found.append(Mount("/tmp", MountMode.WRITE, f"{spec.workdir}/caches/tmp"))
    found.append(Mount("/dev/shm", MountMode.WRITE, f"{spec.workdir}/caches/shm"))
    found += [Mount(path, MountMode.WRITE, path) for path in (spec.workdir, spec.kept_caches) if path]
    return outermost_first({mount.path: mount for mount in found}.values())


def engine_mounts(spec: SandboxSpec) -> list[Mount]:
    """The mounts that a container engine is asked for; the links lie in its root (`links`)."""
    own = [Mount(path, MountMode.BLANK) for path in _ENGINE_FILES]
    return [*(mount for mount in mounts(spec) if mount.mode is not MountMode.LINK), *own]


def links(spec: SandboxSpec) -> dict[str, str]:
    """The symbolic links that a container's root must hold: path to target."""
    return {mount.path: mount.source for mount in visible_paths(spec) if mount.mode is MountMode.LINK}


def outermost_first(found: Iterable[Mount]) -> list[Mount]:
    """Mounts in an order in which each lies over those around it."""
    return sorted(found, key=lambda mount: (len(Path(mount.path).parts), mount.path))


def visible_paths(spec: SandboxSpec) -> Iterator[Mount]:
    """The paths that a child sees besides its own folders; a later mount of a path wins."""
    package = str(Path(__file__).parents[2])
    wanted = [*_system(spec.cuda), *_python(), *_tools(spec.cuda), *spec.readable]
    wanted += [path for folder in spec.importable for path in _importable(folder) if path != package]
    names = {name for path in wanted for name in _names(path) if os.path.exists(name)}
    shown = {name for name in names if not any(name != other and _inside(name, other) for other in names)}
    masks = [path for path in (*_PROJECTS, package) if os.path.isdir(path) and _is_shown(path, shown)]
    shown |= {name for name in names if any(_inside(name, mask) for mask in masks)}
    shown |= {os.path.join(package, part) for part in (_all_but_tasks(package) if spec.live_module else _OUR_CODE)}
    yield from (Mount(path, MountMode.LINK, os.readlink(path)) for path in _SYSTEM if os.path.islink(path))
    yield from (Mount(path, MountMode.EMPTY) for path in masks)
    yield from (Mount(path, MountMode.READ, path) for path in shown)
    hidden = (name for path in spec.hidden for name in _names(path))
    yield from (Mount(path, MountMode.BLANK) for path in hidden if os.path.isfile(path) and _is_shown(path, shown))


def _system(cuda: bool) -> Iterator[str]:
    yield from (path for path in _SYSTEM if not os.path.islink(path))
    yield from (f"/etc/{name}" for name in _SETTINGS)
    yield from _unless_private([*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), *_library_folders()])
    if cuda:
        yield "/sys"  # the driver reads the topology of the PCI bus
        yield "/run/opengl-driver"  # where NixOS keeps libcuda
        places = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
        yield from _unless_private([*places, *glob.glob("/opt/cuda*")])


def _library_folders() -> list[str]:
    """Where the linker looks besides the usual folders, for a driver's libraries for example."""
    lines = []
    for name in glob.glob("/etc/ld.so.conf.d/*.conf"):
        with contextlib.suppress(OSError):
            lines += Path(name).read_text().split()
    return [line for line in lines if line.startswith("/")]


def _python() -> Iterator[str]:
    link = sys.executable
    while link:
        yield link
        link = os.path.join(os.path.dirname(link), os.readlink(link)) if os.path.islink(link) else ""
    yield from _unless_private([sys.prefix, sys.base_prefix, sys.exec_prefix])
    yield from (path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    for name in ("torch", "triton", "numpy"):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from _unless_private([os.path.dirname(place)]) or (place,)


def _tools(cuda: bool) -> Iterator[str]:
    search = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    named = [os.environ.get(name, "").split(" ")[0] for name in ("CC", "CXX")]
    for tool in (*_TOOLS, *named, *(("nvcc",) if cuda else ())):
        found = shutil.which(tool, path=search) if tool else None
        if found:
            yield found
            home = os.path.dirname(os.path.dirname(os.path.realpath(found)))
            yield from () if _inside(home, os.path.expanduser("~")) else _unless_private([home])


def _importable(folder: str) -> Iterator[str]:
    """The modules and packages that `import` can find in a folder, hidden ones excluded."""
    for entry in os.scandir(folder) if os.path.isdir(folder) else ():
        if entry.is_dir():
            if entry.name.isidentifier() and _is_package(entry.path):
                yield entry.path
        elif entry.name.endswith((".py", ".so")):
            yield entry.path


def _all_but_tasks(package: str) -> Iterator[str]:
    """What a live module may need whose file imports `pike` as well."""
    tasks = os.path.dirname(_OUR_TASKS)
    yield from (entry for entry in os.listdir(package) if entry != tasks)
    inside = (os.path.join(tasks, entry) for entry in os.listdir(os.path.join(package, tasks)))
    yield from (entry for entry in inside if entry != _OUR_TASKS)
    yield os.path.join(_OUR_TASKS, "__init__.py")


def _is_package(folder: str) -> bool:
    """Whether a folder holds modules, or (a namespace) a folder that is a package."""
    return bool(glob.glob(f"{glob.escape(folder)}/*.py") or glob.glob(f"{glob.escape(folder)}/*/__init__.py"))


def _names(path: str) -> set[str]:
    """A path as it was named and as it is, without a symbolic link in its first part."""
    real = os.path.realpath(path)
    top = os.sep.join(path.split(os.sep)[:2])
    return {real} if os.path.islink(top) else {os.path.abspath(path), real}


def _unless_private(paths: list[str]) -> tuple[str, ...]:
    """Those that are not the home, the folder of all temporary files, or anything around them."""
    private = [os.path.realpath(place) for place in (os.path.expanduser("~"), "/tmp", os.getcwd())]
    return tuple(p for p in paths if p and not any(_inside(place, os.path.realpath(p)) for place in private))


def _is_shown(path: str, shown: set[str]) -> bool:
    return any(_inside(path, other) for other in shown)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
