"""Makes the environment that the Makefile's targets run in: `.venv` with PIKE and what it needs.

Knows how to end up with the right build of torch: the CPU build on a machine without an NVIDIA GPU,
which saves gigabytes of CUDA. Needs only the standard library. uv installs the rest, which takes pip
a minute longer; where uv cannot, or pip's settings name an index of their own, pip does. Does not
know any package index by address: pip's own settings name them, and uv knows PyTorch's by itself.

Usage: python3 tools/setup.py [runtime|test|docs]
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TORCH = "2.13.0"
OLDEST_PYTHON = (3, 11)
EXTRAS = {"runtime": "", "test": "[llm,dev,zoo]", "docs": "[llm,dev,zoo,docs]"}
"""Environments by name, with the extras of pyproject.toml that each installs; each contains those
before it."""

NOT_COMPILED = r"site-packages/(pip|ray|mypy|transformers/models|.*/tests)/"
"""What `compile_all` leaves out: a third of all code, which no child imports, or only after its parent has."""

ONLY_PIP = {"index-url", "no-index", "proxy", "client-cert"}
"""Where pip needs one of these settings to reach its packages, uv is not asked: it does not read them."""

DECLARED = """
if not _has_ops():  # added by tools/setup.py of PIKE
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""What torchvision lacks where it cannot load its operators."""


class SetupError(Exception):
    """Set-up cannot go on; the message is one sentence with the cure."""


def main(wanted: str) -> None:
    """Bring `.venv` up to date for `wanted`; does nothing where the stamp says that it is.

    Raises:
        SetupError: the machine lacks something, or an installation failed.
    """
    if sys.version_info < OLDEST_PYTHON:
        found = platform.python_version()
        raise SetupError(
            f"PIKE needs Python 3.11 or newer and this is {found}; name a newer one: make PYTHON=python3.11"
        )
    if wanted not in EXTRAS:
        raise SetupError(f"There is no environment {wanted!r}; known: {', '.join(EXTRAS)}")
    if is_current(wanted):
        stamp_file(wanted).touch()
        return
    started = time.monotonic()
    make_venv()
    install_torch()
    install_project(EXTRAS[wanted])
    if "zoo" in EXTRAS[wanted]:
        mend_torchvision()
    compile_all()
    for name in list(EXTRAS)[: list(EXTRAS).index(wanted) + 1]:
        stamp_file(name).write_text(fingerprint())
    say(f"ready in {time.monotonic() - started:.0f} s")


def venv_python() -> Path:
    """The interpreter inside the environment."""
    return VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def stamp_file(name: str) -> Path:
    """The file whose content says for which inputs the environment `name` was made."""
    return VENV / f".pike-{name}"


def fingerprint() -> str:
    """A digest of everything that decides the environment."""
    inputs = [(ROOT / "pyproject.toml").read_bytes(), Path(__file__).read_bytes(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(inputs)).hexdigest()


def is_current(name: str) -> bool:
    """Whether the environment `name` was made here from the present inputs and still runs."""
    stamp = stamp_file(name)
    return stamp.exists() and stamp.read_text() == fingerprint() and works(venv_python())


def make_venv() -> None:
    """Create the virtual environment unless a working one is there.

    Raises:
        SetupError: this Python cannot make virtual environments.
    """
    if works(venv_python(), "import pip"):
        return
    say(f"making {VENV.name} with Python {platform.python_version()}")
    if VENV.exists():
        shutil.rmtree(VENV)
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if made.returncode != 0 or not works(venv_python(), "import pip"):
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupError(
            f"{sys.executable} cannot make virtual environments: install its venv package "
            "(on Debian and Ubuntu: apt-get install python3-venv) or use another one: make PYTHON=python3.11"
        )


def install_torch() -> None:
    """Install torch unless a recent one is there: the CPU build on Linux without an NVIDIA GPU,
    else the plain one."""
    if works(venv_python(), "import torch; assert tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 8)"):
        return
    if sys.platform != "linux" or has_nvidia_gpu():
        say("installing torch")
        install(f"torch=={TORCH}")
        return
    say("installing the CPU build of torch")
    # A source that offers the +cpu build directly (a wheel folder, a mirror) spares the detour over uv.
    if install(f"torch=={TORCH}+cpu", quiet=True):
        return
    install("uv")
    run([*uv_install(), "--torch-backend=cpu", f"torch=={TORCH}"])


def install_project(extras: str) -> None:
    """Install PIKE itself, editable, and its other dependencies, without touching torch."""
    say(f"installing PIKE{extras} and its dependencies")
    version = subprocess.run(
        [venv_python(), "-c", "from importlib.metadata import version; print(version('torch'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    constraints = VENV / "keep-torch.txt"
    constraints.write_text(f"torch=={version}\n")
    wanted = ["--constraint", constraints, "--editable", f"{ROOT}{extras}"]
    settings = pip_settings()
    limits = [word for each in settings.get("constraint", []) for word in ("--constraint", each)]
    if ONLY_PIP & set(settings) or not install("uv", quiet=True) or not succeeds([*uv_install(), *limits, *wanted]):
        say("installing with pip: uv does not read its settings, or could not install")
        install(*wanted)


def mend_torchvision() -> None:
    """Make torchvision importable beside the CPU build of torch.

    The wheel on PyPI needs CUDA's libraries to load its operators, and one line of it fails without
    them. PyTorch's own index has a CPU build. Where that index cannot be reached, the operator is
    declared: everything works then but non-maximum suppression.
    """
    if works(venv_python(), "import torchvision"):
        return
    say("installing the CPU build of torchvision")
    wanted = ["--torch-backend=cpu", "--no-deps", "--reinstall-package", "torchvision", "torchvision"]
    os.environ.setdefault("UV_HTTP_RETRIES", "1")  # there is another way
    command = [*uv_install(), "--constraint", VENV / "keep-torch.txt", *wanted]
    if succeeds(command) and works(venv_python(), "import torchvision"):
        return
    code = "from importlib.util import find_spec; print(find_spec('torchvision').submodule_search_locations[0])"
    found = subprocess.run([venv_python(), "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    extension = Path(found) / "extension.py"
    extension.write_text(extension.read_text().partition(DECLARED[:40])[0] + DECLARED)
    if not works(venv_python(), "import torchvision"):
        raise SetupError("torchvision cannot be imported beside this torch: install the build that belongs to it")


def compile_all() -> None:
    """Compile what was installed and PIKE itself, because sandboxed children cannot keep what they compile.

    A few packages hold files that are not for this Python; what does not compile is not imported
    either. What children never import is left out.
    """
    code = (
        "import compileall, re, sys, sysconfig\n"
        "for place in (sysconfig.get_path('purelib'), sys.argv[1]):\n"
        "    compileall.compile_dir(place, quiet=2, workers=0, rx=re.compile(sys.argv[2]))"
    )
    subprocess.run([venv_python(), "-c", code, ROOT / "src", NOT_COMPILED], check=False)


def has_nvidia_gpu() -> bool:
    """Whether the NVIDIA driver runs here."""
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidia0").exists()


def install(*what: str | Path, quiet: bool = False) -> bool:
    """Install with the environment's pip; with `quiet`, a failure is an answer and nothing is
    printed.

    Bytecode is left to `compile_all`, which has more than one core for it.
    """
    command = [venv_python(), "-m", "pip", "--disable-pip-version-check", "install", "--no-compile", *what]
    if not quiet:
        run([*command, "--quiet"])
        return True
    return succeeds(command)


def uv_install() -> list[str | Path]:
    """uv's command that installs into the environment.

    Files are copies of its cache, because `mend_torchvision` changes one.
    """
    os.environ["UV_LINK_MODE"] = "copy"
    return [venv_python(), "-m", "uv", "pip", "install", "--python", venv_python()]


def pip_settings() -> dict[str, list[str]]:
    """pip's settings for an installation, the values of each name."""
    command = [venv_python(), "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for key, value in (line.split("=", 1) for line in listed.splitlines() if "=" in line):
        section, _, name = key.rpartition(".")
        if section in ("global", "install", ":env:"):
            found.setdefault(name, []).extend(str(ast.literal_eval(value)).splitlines())
    return found


def succeeds(command: list[str | Path]) -> bool:
    """Whether a command that prints nothing ends well."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run(command: list[str | Path]) -> None:
    """Run a command whose failure ends the set-up.

    Raises:
        SetupError: it failed; its own output is already on the terminal.
    """
    if subprocess.run(command, check=False).returncode != 0:
        words = " ".join(str(word) for word in command[1:])
        raise SetupError(f"Set-up stopped at `{words}`: see its message above, then run make again")


def works(python: Path, code: str = "") -> bool:
    """Whether `python` exists and runs `code` without an error."""
    return python.exists() and succeeds([python, "-c", code])


def say(text: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"set-up: {text}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "runtime")
    except SetupError as error:
        say(str(error))
        raise SystemExit(2) from None
