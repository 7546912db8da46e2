"""A command sees its own run only, changes neither it nor the task, and leaves nothing that goes on."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from pike.core.settings.config import LlmConfig
from pike.llm import confinement, connect
from pike.llm.command import CommandClient
from pike.llm.confinement import Confinement

pytestmark = pytest.mark.skipif(not confinement.works(), reason="no namespaces on this machine")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("mine", "other", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "best.py").write_text(f"secret of {name}")
    for name in ("mine", "other"):
        (tmp_path / name / "journal").touch()
    (tmp_path / "task.py").write_text("the task")
    return tmp_path


def confined(runs: Path, shell: str) -> CommandClient:
    client = connect(f"command:{shlex.join(['sh', '-c', shell])}", LlmConfig(timeout_seconds=20.0))
    assert isinstance(client, CommandClient)
    client.confine(Confinement(runs / "mine", "journal", (str(runs / "task.py"),)))
    return client


async def test_another_run_cannot_be_read_and_all_else_can(ask, runs: Path) -> None:
    answer = await confined(runs, f"cd {runs}; cat mine/best.py other/best.py notes/best.py task.py; true").complete(
        ask()
    )
    assert answer.text.split("secret of ")[1:] == ["mine", "notesthe task"]
    assert (await confined(runs, f"cd {runs}/other && pwd && ls").complete(ask())).text == f"{runs}/other"


async def test_neither_the_run_nor_the_task_can_be_changed(ask, runs: Path) -> None:
    evil = "".join(f"echo evil > {runs}/{name}; " for name in ("task.py", "mine/journal", "mine/best.py", "notes/new"))
    undo = f"umount {runs}/task.py; rm -f {runs}/task.py; mv {runs}/notes/new {runs}/task.py; echo done"
    assert (await confined(runs, evil + undo).complete(ask())).text == "done"
    assert (runs / "task.py").read_text() == "the task"
    assert (runs / "mine" / "journal").read_text() == ""
    assert (runs / "mine" / "best.py").read_text() == "secret of mine"
    assert (runs / "notes" / "new").exists(), "what belongs to no run is the program's to write"


async def test_an_orphan_does_not_outlive_its_query(ask, runs: Path) -> None:
    late = runs / "notes" / "late"
    orphan = f"import os, time\nos.fork() and os._exit(0)\nos.setsid()\nos.fork() and os._exit(0)\ntime.sleep(1)\nopen({str(late)!r}, 'w')"
    shell = f"{shlex.join([sys.executable, '-c', orphan])} >/dev/null 2>&1; echo done"
    assert (await confined(runs, shell).complete(ask())).text == "done"
    await asyncio.sleep(1.5)
    assert not late.exists()


async def test_the_programs_own_status_environment_and_user_are_what_they_were(ask, runs: Path) -> None:
    answer = await confined(runs, 'id -u; pwd; echo "$HOME"; cat | wc -c').complete(ask(prompt="12345"))
    uid, place, home, size = answer.text.split("\n")
    assert (uid, place, home) == (str(os.getuid()), os.getcwd(), os.environ.get("HOME", ""))
    assert int(size) >= 5
