"""Solutions as programs of OpenEvolve.

Knows the content of each field of a program. Does not know islands (`checkpoint`) or files
(OpenEvolve).
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pike.core.step import ORIGINAL, Solution
from pike.engine.tools.openevolve.history import History
from pike.search.evolution import FITNESS


def programs(run: History, module: ModuleType) -> Iterator[Any]:
    """The original, every valid solution, and the copies that live on other islands, parents first."""
    state = run.state
    ms = state.reference_ms
    metrics = {} if ms is None else _metrics(ms, 1.0)
    programs = {ORIGINAL: module.Program(id=ORIGINAL, code=state.task.source, metrics=metrics)}
    for solution in run.valid:
        programs[solution.candidate.id] = _program(run, module, solution, programs)
    yield from programs.values()
    for name, of in run.population.copies.items():
        data = {**programs[of].to_dict(), "id": name, "parent_id": of}
        yield module.Program(**{**data, "metadata": {**data["metadata"], "migrant": True}})


def _program(run: History, module: ModuleType, solution: Solution, programs: dict[str, Any]) -> Any:
    candidate, timing = solution.candidate, solution.evaluation.timing
    assert timing is not None
    metrics = _metrics(timing.candidate_ms, timing.speedup)
    final = run.state.finals.get(candidate.id)
    if final is not None and final.speedup is not None:
        metrics["final_speedup"] = final.speedup
    parent = programs.get(candidate.parent)
    step = _step_of(candidate.id)
    return module.Program(
        id=candidate.id,
        code=candidate.source,
        changes_description=candidate.note,
        parent_id=candidate.parent,
        generation=parent.generation + 1 if parent else 1,
        timestamp=run.judged_at.get(candidate.id, 0.0),
        iteration_found=run.queries.get(step, 0),
        metrics=metrics,
        metadata={
            "changes": candidate.note,
            "author": candidate.author,
            "parent_metrics": parent.metrics if parent else {},
        },
    )


def _metrics(ms: float, speedup: float) -> dict[str, float]:
    return {FITNESS: 1000.0 / ms, "runtime_ms": ms, "speedup": speedup}


def prompt_of(run: History, name: str) -> dict[str, Any] | None:
    """The prompt that a candidate answers, as OpenEvolve logs it; None where no model was asked."""
    step = _step_of(name)
    query, answer = run.asked.get(step), run.state.answers.get(step)
    if query is None:
        return None
    responses = [answer.text] if answer else []
    return {query.role.value: {"system": query.system, "user": query.prompt, "responses": responses}}


def _step_of(name: str) -> int:
    """The step that a candidate answers, -1 for one from outside."""
    number = name.removeprefix("c")
    return int(number) if number != name and number.isdecimal() else -1
