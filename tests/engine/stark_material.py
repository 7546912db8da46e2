"""A scripted planner, coder and debugger that work on whatever file they are shown, and a strategy that asks them."""

from __future__ import annotations

from typing import Any

from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step
from pike.core.verdict.evaluation import Evaluation

SHOWN = r"## The file to improve[^\n]*\n.*?```python\n(.*?)\n```"
PLAN = r"## The plan\n.*?```python\n(.*?)\n```"
WITH_ANCHORS = [
    [r"\A(.*?)(\n# pike-instant[^\n]*)?\Z", r"\1\n# <<<IMPROVE BEGINS>>>\n# Fuse it.\2\n# <<<IMPROVE ENDS>>>"]
]
FENCED = "```python\n{taken}\n```"


def plan(**more: Any) -> dict[str, Any]:
    """A plan that fits the file it is asked to improve."""
    return {"role": "plan", "take": SHOWN, "replace": WITH_ANCHORS, "text": FENCED, **more}


def drifted_plan(**more: Any) -> dict[str, Any]:
    """A plan that also changes the file."""
    return plan(replace=[*WITH_ANCHORS, [r"class ModelNew", "class  ModelNew"]], **more)


def code(instant: str, **more: Any) -> dict[str, Any]:
    """The plan carried out, by a file that gets the verdict `instant`."""
    filled = [[r"^# <<<IMPROVE BEGINS.*?ENDS>>>$", f"# pike-instant: {instant}"]]
    return {"role": "code", "take": PLAN, "replace": filled, "text": FENCED, **more}


def drifted_code(**more: Any) -> dict[str, Any]:
    """The same, with a line changed outside the anchors."""
    made = code("valid 1ms", **more)
    return {**made, "replace": [*made["replace"], [r"class ModelNew", "class  ModelNew"]]}


def debug(instant: str, mark: str = "debugged", **more: Any) -> dict[str, Any]:
    """A repaired file, whatever was wrong."""
    source = f"class ModelNew: ...\n# {mark}\n# pike-instant: {instant}"
    return {"role": "debug", "text": f"The cause.\n```python\n{source}\n```", **more}


class TinyStark:
    """Plans, codes and debugs in one chain, always from the latest valid node; no more than a test needs."""

    def __init__(self, queries: int) -> None:
        self._left = queries
        self._asked = 0
        self._open: Step | None = None
        self._next: dict[str, Any] = {"role": Role.PLAN}
        self._seed = ORIGINAL
        self._nodes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return self._open is None and self._left <= 0

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        raise NotImplementedError

    def ask(self) -> Step | None:
        if self._open is not None or self._left <= 0:
            return None
        cold = {} if self._next["role"] is Role.PLAN else {"temperature": 0.1}
        self._open = Step(
            self._asked, round=self._asked, seed=self._seed, inspirations=self._nodes, **self._next, **cold
        )
        self._asked += 1
        self._left -= 1
        return self._open

    def tell(self, outcome: Outcome) -> None:
        step, self._open = self._open, None
        assert step is not None and step.id == outcome.step_id
        self._next = {"role": Role.PLAN}
        if step.role is Role.PLAN and outcome.text:
            self._next = {"role": Role.CODE, "plan": outcome.text}
        if outcome.candidate is None or outcome.evaluation is None:
            return
        self._nodes = (*self._nodes, outcome.candidate.id)
        if outcome.evaluation.valid:
            self._seed = outcome.candidate.id
        else:
            repair = {"failing": outcome.candidate.id, "attempt": step.attempt + 1, "plan": step.plan}
            self._next = {"role": Role.DEBUG, **repair}
