"""Does a task test anything: asked in a judge process of its own.

Knows how to start one and end it. Does not know which answers are tried (`evaluate.lint`).
"""

from __future__ import annotations

from pike.core.evaluation import EvaluateOptions
from pike.core.lint import LintReport
from pike.core.task import Task


def lint_task(task: Task, options: EvaluateOptions) -> LintReport:
    """Whether every trivial answer to `task` is refused; takes seconds to minutes.

    Raises:
        UserError: the task or an option cannot be used.
        InfraError: the judge died.
    """
    from pike.evaluate.client import JudgeClient

    judge = JudgeClient()
    try:
        return judge.lint(task, options)
    finally:
        judge.close()
