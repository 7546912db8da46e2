"""The engine and the driver without an engine go the same way through the same simulated problem."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from engine_material import TASK, config, events
from simulated_run import simulated

from pike import engine, search
from pike.core.errors import UserError
from pike.core.events import Asked, Told
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import ORIGINAL, Step
from pike.engine.tools.comparison import RunComparison, comparable, compare
from pike.simulate import Conditions, Parameters, Team, World, simulate, suite
from pike.simulate.parameters import CHEAP, STRONG

NUMBERS = Parameters()
SIMULATED = suite(NUMBERS, 10)[7]
QUERIES = 60
NAMES = comparable()[0]
TEAM = Team(STRONG, named={"strong": STRONG, "cheap": CHEAP})


async def carried_out(preset: str, concurrency: int, folder: Path) -> tuple[engine.RunResult, World]:
    problem = World(NUMBERS, SIMULATED, TEAM, 3)
    chosen = config(strategy=preset, queries=QUERIES, concurrency=concurrency, run_seed=3)
    return await engine.start(TASK, chosen, folder, simulated(problem)), problem


def driven(preset: str, concurrency: int) -> tuple[list[Step], World]:
    problem = World(NUMBERS, SIMULATED, TEAM, 3)
    strategy = search.make(StrategyConfig(preset), Budget(QUERIES), 3)
    calls = search.drive(strategy, lambda step: problem.answer(step).outcome, concurrency=concurrency)
    return [call for call in calls if isinstance(call, Step)], problem


@pytest.mark.parametrize("preset", NAMES)
async def test_one_step_at_a_time_both_take_the_same_steps_to_the_same_programs(preset: str, tmp_path: Path) -> None:
    result, one = await carried_out(preset, 1, tmp_path / "run")
    steps, other = driven(preset, 1)
    journal = events(tmp_path / "run")
    assert [event.step for event in journal if isinstance(event, Asked)] == steps
    assert [event.step_id for event in journal if isinstance(event, Told)] == [step.id for step in steps]
    assert one.programs == other.programs
    assert result.finished
    assert (result.best is not None) == any(each.valid for name, each in one.programs.items() if name != ORIGINAL)
    if result.best is not None:
        assert result.speedup == pytest.approx(math.exp(one.final(result.best.id)))


@pytest.mark.parametrize("preset", ["pike-b", "pike-b:elitist"])
async def test_with_several_in_flight_the_same_programs_are_written(preset: str, tmp_path: Path) -> None:
    """Where decisions do not depend on the order of arrival, only ids do."""

    def written(problem: World) -> list[tuple[float, float, bool]]:
        return sorted((each.gain, each.plateau, each.valid) for each in problem.programs.values())

    _, one = await carried_out(preset, 8, tmp_path / "run")
    assert written(one) == written(driven(preset, 8)[1])


async def test_the_simulated_run_reports_what_the_engine_measures_again(tmp_path: Path) -> None:
    found = simulate(Conditions(StrategyConfig("pike-b"), QUERIES, 1), SIMULATED, 3, NUMBERS)
    result, _ = await carried_out("pike-b", 1, tmp_path / "run")
    assert math.log(result.speedup or 1.0) == pytest.approx(found.gain())


def test_processes_change_nothing() -> None:
    wanted = RunComparison(("pike-b", "pike-b:no-efa"), repeats=5, queries=20, tasks=3)
    alone, together = list(compare(wanted, 1)), list(compare(wanted, 2))
    assert alone == together
    assert [each.preset for each in alone] == ["pike-b", "pike-b:no-efa"]
    assert [each.runs for each in alone] == [15, 15]
    assert alone[0].repaired is not None and alone[1].repaired is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"presets": ("pike-bb",)}, "pike-bb"),
        ({"presets": ("recipes",)}, "asks no model"),
        ({"repeats": 1}, "at least 2"),
        ({"level": "level9"}, "level9"),
    ],
)
def test_bad_wishes_are_refused_before_anything_runs(change: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        RunComparison(**{"presets": ("pike-b",), **change})  # type: ignore[arg-type]
