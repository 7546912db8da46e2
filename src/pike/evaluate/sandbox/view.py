"""The least that a child must see of the file system: system libraries, Python, torch, compilers, its own code.

Knows where these lie on this machine and which of our own files a child imports. Everything else (the home, projects,
tasks, other runs) is left out by not being listed. Does not know how a level shows a path or hides it.
"""

from __future__ import annotations

import contextlib
import enum
import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pike.evaluate.sandbox.level import Cell

_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/sys/devices/system",
)  # fmt: skip
_SETTINGS = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf", "localtime",
)  # fmt: skip
_PROJECTS = ("/usr/src", "/usr/local/src")
"""Folders below the system's where people keep their own work."""
_TOOLS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "as", "ld", "ninja", "make")
_OUR_CODE = ("__init__.py", "core", "evaluate/__init__.py", "evaluate/child")
_OUR_TASKS = "tasks/suites"
"""The only part of the package that a live module's file cannot import: it holds what others are judged on."""


class Show(enum.Enum):
    """How a path appears."""

    READ = "read-only, with all below it"
    LINK = "the same symbolic link"
    EMPTY = "an empty folder"
    BLANK = "a file that cannot be read"


@dataclass(frozen=True, slots=True)
class Sight:
    """One path and how it appears; later sights lie over earlier ones."""

    path: str
    show: Show


def sights(cell: Cell) -> tuple[Sight, ...]:
    """What a child in `cell` sees besides its own folder, outermost paths first."""
    links = [Sight(path, Show.LINK) for path in _SYSTEM if os.path.islink(path)]
    package = str(Path(__file__).parents[2])
    wanted = [*_system(cell.cuda), *_python(), *_tools(cell.cuda), *cell.readable]
    wanted += [path for folder in cell.importable for path in _importable(folder) if path != package]
    binds = _outermost({name for path in wanted for name in _names(path) if os.path.exists(name)})
    masks = [Sight(path, Show.EMPTY) for path in (*_PROJECTS, package) if os.path.isdir(path) and _below(path, binds)]
    inner = {name for path in wanted for name in _names(path) if any(_inside(name, mask.path) for mask in masks)}
    binds |= {name for name in inner if os.path.exists(name)}
    binds |= {os.path.join(package, part) for part in (_all_but_tasks(package) if cell.live_module else _OUR_CODE)}
    blanks = [Sight(name, Show.BLANK) for path in cell.hidden for name in _names(path) if _shown(name, binds)]
    shown = [*masks, *(Sight(path, Show.READ) for path in binds)]
    return (*links, *sorted(shown, key=lambda sight: (len(Path(sight.path).parts), sight.path)), *blanks)


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
    """Where this machine's linker looks besides the usual folders, drivers' libraries for example."""
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
    """What `import` can find in a folder: modules and packages, no other files and no hidden ones."""
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


def _outermost(paths: set[str]) -> set[str]:
    return {path for path in paths if not any(path != other and _inside(path, other) for other in paths)}


def _below(path: str, binds: set[str]) -> bool:
    return any(_inside(path, bind) for bind in binds)


def _shown(path: str, binds: set[str]) -> bool:
    return os.path.isfile(path) and _below(path, binds)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
