"""The set-up script refuses clearly and knows when there is nothing to do."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "tools" / "setup.py"


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pike_setup", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    return module


def test_an_unknown_environment_is_one_sentence() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "set-up: There is no environment 'nonsense'; known: runtime, test, docs\n"


def test_an_old_python_is_one_sentence(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.sys, "version_info", (3, 9, 1))
    with pytest.raises(setup.SetupError, match=r"needs Python 3\.11 or newer.*make PYTHON="):
        setup.main("runtime")


def test_an_environment_is_made_again_when_its_inputs_change(setup: ModuleType) -> None:
    python = setup.venv_python()
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    setup.stamp_file("runtime").write_text(setup.fingerprint())
    assert setup.is_current("runtime")
    assert not setup.is_current("test")
    (setup.ROOT / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert not setup.is_current("runtime")


def test_an_environment_whose_python_is_gone_is_made_again(setup: ModuleType) -> None:
    setup.VENV.mkdir()
    setup.stamp_file("runtime").write_text(setup.fingerprint())
    assert not setup.is_current("runtime")


def test_pips_settings_are_read_whatever_they_hold(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        ":env:.constraint='/a.txt'\nglobal.constraint=\"/it's.txt\"\ndownload.index-url='https://other.test'\n"
        "global.extra-index-url='file:///a/simple\\nfile:///b/simple'\ninstall.no-index='true'\n"
    )
    found = subprocess.CompletedProcess([], 0, stdout=listed)
    monkeypatch.setattr(setup.subprocess, "run", lambda *_, **__: found)
    assert setup.pip_settings() == {
        "constraint": ["/a.txt", "/it's.txt"],
        "extra-index-url": ["file:///a/simple", "file:///b/simple"],
        "no-index": ["true"],
    }


@pytest.mark.parametrize(
    ("settings", "uv_works", "asked"),
    [({}, True, ["uv"]), ({}, False, ["uv", "pip"]), ({"index-url": ["https://mirror.test"]}, True, ["pip"])],
    ids=["uv", "uv-fails", "an-index-of-its-own"],
)
def test_pip_installs_where_uv_cannot_or_may_not(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, settings: dict, uv_works: bool, asked: list[str]
) -> None:
    done: list[str] = []

    def install(*what: object, quiet: bool = False) -> bool:
        done.extend(["pip"] * ("--editable" in what))
        return True

    def succeeds(command: list[object]) -> bool:
        done.append("uv")
        return uv_works

    setup.VENV.mkdir()
    monkeypatch.setattr(setup.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout="2.13.0"))
    monkeypatch.setattr(setup, "pip_settings", lambda: settings)
    monkeypatch.setattr(setup, "install", install)
    monkeypatch.setattr(setup, "succeeds", succeeds)
    setup.install_project("")
    assert done == asked
