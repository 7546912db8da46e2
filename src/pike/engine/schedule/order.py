"""What comes first in a suite, and how long it should take.

Knows the worth of cells and the deadline. Does not know how cells are carried out.
"""

import importlib.util
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from pike.core.comparison.campaign import Cell
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions
from pike.engine.schedule.turns import CellProgress
from pike.engine.state.timetable import FINAL_OVERHEAD

SEARCH_SECONDS, CHILD_SECONDS, TASK_SECONDS = 0.8, 6.0, 8.0
"""Timing in a search, starting a child, preparing a task: measured on an H100
(docs/experiments/2026-11-21-h100-judge-speed.md)."""
_BUILD_SECONDS = {
    "eager": 0.0,
    "cuda-graph": 2.0,
    "compile:max-autotune": 45.0,
    "compile:max-autotune-no-cudagraphs": 45.0,
    "tensorrt": 60.0 if importlib.util.find_spec("torch_tensorrt") else 0.0,
}
"""What compilers take on an H100 is a guess: 25 s, and more for autotuning."""
_COMPILE_SECONDS, CANDIDATE_SECONDS, FINAL_SECONDS = 25.0, 15.0, 15.0
_FIRST = "compile:max-autotune"


@dataclass(frozen=True, slots=True)
class PlanStage:
    """Cells of equal worth: one line of a plan.

    Attributes:
        contenders: their names.
        place: the suite and the precision.
        cells: how many there are.
        seconds: how long they should take with all workers busy.
    """

    contenders: tuple[str, ...]
    place: str
    cells: int
    seconds: float


def alone_seconds(options: EvaluateOptions, effort: Effort) -> float:
    """How long one candidate should have the device alone to be timed."""
    if effort is Effort.SEARCH:
        return min(SEARCH_SECONDS, options.max_timing_seconds)
    return FINAL_OVERHEAD * options.max_timing_seconds


def expected_seconds(cell: Cell, candidates: int, alone: float = SEARCH_SECONDS) -> float:
    """How long a cell should take; a strategy's is 0, because its run is resumed if time is short.

    Args:
        cell: which cell.
        candidates: the most of one search over recipes.
        alone: seconds in which a fixed candidate is timed.
    """
    contender = cell.contender
    if contender.searches_with_models:
        return 0.0
    if contender.searches:
        return TASK_SECONDS + candidates * CANDIDATE_SECONDS + FINAL_SECONDS
    if contender.kind is ContenderKind.BASELINE:
        building = _BUILD_SECONDS.get(contender.source, _COMPILE_SECONDS)
        return TASK_SECONDS + building + CHILD_SECONDS + alone
    return TASK_SECONDS + CANDIDATE_SECONDS + FINAL_SECONDS


class Order:
    """Gives cells by their worth, as long as they can end before the deadline.

    Suite by suite, recipes, strategies, published solutions and max-autotune come first, then the
    other baselines. Within these, the longest come first, so that no long cell is the last. Cells
    of one task at one precision are never open at the same time, so that one worker prepares the
    task once.

    Args:
        cells: everything there is to do.
        candidates: the most of one search over recipes.
        workers: how many cells are open at once.
        alone: seconds in which a fixed candidate is timed.
        deadline: monotonic seconds at which everything stops.
    """

    def __init__(
        self,
        cells: Iterable[CellProgress],
        candidates: int,
        workers: int,
        alone: float = SEARCH_SECONDS,
        deadline: float = float("inf"),
    ) -> None:
        self._workers = workers
        self._alone = alone
        self._deadline = deadline
        self._seconds: Callable[[Cell], float] = lambda cell: expected_seconds(cell, candidates, alone)
        todo = [one for one in cells if one.can_go_on]
        suites = list(dict.fromkeys(_suite(one.cell) for one in todo))
        precisions = list(dict.fromkeys(one.cell.precision for one in todo))
        together: dict[tuple[object, ...], float] = {}
        for one in todo:
            together[self._group(one)] = together.get(self._group(one), 0.0) + self._seconds(one.cell)

        def worth(one: CellProgress) -> tuple[object, ...]:
            cell = one.cell
            place = suites.index(_suite(cell)), _rank(cell.contender), precisions.index(cell.precision)
            return *place, -together[self._group(one)], cell.task.name, one.index

        self.cells = tuple(sorted(todo, key=worth))

    def next(self, closing: bool) -> CellProgress | None:
        """The most valuable cell that may begin now, None if there is none."""
        left = self._deadline - time.monotonic()
        busy = {self._place(one) for one in self.cells if one.is_open}
        for one in self.cells:
            if one.can_go_on and not one.is_open and self._place(one) not in busy and self._seconds(one.cell) < left:
                return one
        return None

    def stages(self) -> tuple[PlanStage, ...]:
        """The plan, for people."""
        return tuple(
            self._stage([one.cell for one in group])
            for _, group in groupby(
                self.cells, lambda one: (_suite(one.cell), _rank(one.cell.contender), one.cell.precision)
            )
        )

    def _stage(self, cells: list[Cell]) -> PlanStage:
        seconds = [self._seconds(cell) for cell in cells]
        names = tuple(dict.fromkeys(cell.contender.name for cell in cells))
        # All workers build side by side, and time alone.
        total = max(sum(seconds) / self._workers, max(seconds), self._alone * len(cells))
        return PlanStage(
            names, f"{_suite(cells[0]) or cells[0].task.name}, {cells[0].precision.value}", len(cells), total
        )

    def _group(self, one: CellProgress) -> tuple[object, ...]:
        return *self._place(one), _rank(one.cell.contender)

    @staticmethod
    def _place(one: CellProgress) -> tuple[object, ...]:
        return one.cell.task.name, one.cell.precision


def _suite(cell: Cell) -> str:
    return cell.task.name.rpartition("/")[0]


def _rank(contender: Contender) -> int:
    """0 for what is worth most."""
    return int(contender.kind is ContenderKind.BASELINE and contender.source != _FIRST)
