"""What of a task's file becomes the first candidate."""

from __future__ import annotations

from pike import tasks
from pike.agents.reading.originals import original_file


def test_weights_that_a_task_sets_afterwards_are_not_the_candidates_business() -> None:
    task = tasks.resolve("level3-pike/1:small")
    assert "def initialise" in task.source
    text = original_file(task)
    assert "def initialise" not in text
    assert "class ModelNew" in text
