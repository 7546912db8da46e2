"""A folder is a suite for every verb that takes one."""

from __future__ import annotations

from pathlib import Path

from pike import tasks
from pike.api.task_list import is_suite, known_suites

FILE = "N = 2\nSMALL = {'N': 1}\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


def test_folders_their_small_variants_and_single_tasks_have_names(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("2_b.py", "10_c.py"):
        (folder / name).write_text(FILE)
    found = [*tasks.in_suite(str(folder)), *tasks.in_suite(f"{folder}:small"), tasks.resolve(f"{folder}/2")]
    assert [task.id for task in found] == ["mine/2_b", "mine/10_c", "mine/2_b:small", "mine/10_c:small", "mine/2_b"]
    assert is_suite(str(folder)) and not is_suite(f"{folder}/2") and not is_suite(str(folder / "2_b.py"))


def test_shipped_suites_are_known_with_their_number_of_tasks() -> None:
    assert {"demo": 4}.items() <= {suite.name: suite.tasks for suite in known_suites()}.items()
