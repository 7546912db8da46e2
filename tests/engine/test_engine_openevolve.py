"""A run as OpenEvolve's own tools see it: opened with its loader, as its visualiser reads it, and evolved on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_material import IDEAS, MIXED, TASK, coa, config, efa, entries, events, wiring
from openevolve.config import DatabaseConfig
from openevolve.database import Program, ProgramDatabase

from pike import engine, search
from pike.core.errors import UserError
from pike.core.events import Asked, Finished, Stopped
from pike.core.step import ORIGINAL, Strategy
from pike.exchange import export_run
from pike.search.evolution import population
from pike.store import Journal

Run = Callable[..., Any]


def export(folder: Path, out: Path | None = None) -> Path:
    return Path(export_run(folder, "openevolve", out).path)


def opened(checkpoint: Path) -> Any:
    database = ProgramDatabase(DatabaseConfig(num_islands=1, random_seed=None))
    database.load(str(checkpoint))
    return database


def read_by_the_visualiser(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Nodes and edges as its page draws them: the programs of the islands, joined where the parent is among them."""
    metadata = json.loads((path / "metadata.json").read_text())
    names = [name for island in metadata["islands"] for name in island]
    assert len(names) == len(set(names)), "it would rename what is listed twice"
    nodes = {name: json.loads((path / "programs" / f"{name}.json").read_text()) for name in names}
    return nodes, [(node["parent_id"], name) for name, node in nodes.items() if node["parent_id"] in nodes]


async def test_a_run_without_islands_opens_whole(run: Run, tmp_path: Path) -> None:
    result = await run(MIXED, queries=40)
    done = export(tmp_path / "run")
    database = opened(done)
    valid = {name for name in database.programs if name != ORIGINAL}
    assert len(valid) > 8
    assert set(database.islands[0]) == {ORIGINAL, *valid}
    assert result.best is not None
    assert database.best_program_id == result.best.id
    assert database.get_best_program().code == result.best.source
    assert (done / "best_program.py").read_text() == result.best.source
    assert done == tmp_path / "run" / "openevolve" / "checkpoints" / "checkpoint_40"
    assert database.last_iteration == 40
    assert len(database.archive) == min(12, len(valid))
    assert ORIGINAL not in database.archive


async def test_programs_say_what_the_journal_says(run: Run, tmp_path: Path) -> None:
    refused = [coa("build-error no", f"two {number}") for number in range(9)]
    answers = [coa("valid 4ms", "one"), *refused, efa("valid 2ms final 2.5ms", "three")]
    result = await run(answers, queries=11, strategy="pike-b:no-iba")
    database = opened(export(tmp_path / "run"))
    assert "c1" not in database.programs, "refused candidates are no programs"
    original, first, fixed = (database.programs[name] for name in (ORIGINAL, "c0", "c2"))
    assert (original.code, original.parent_id, original.generation) == (TASK.source, None, 0)
    assert original.metrics["speedup"] == 1.0
    assert (first.parent_id, first.generation, first.iteration_found) == (ORIGINAL, 1, 1)
    assert first.metrics["runtime_ms"] == pytest.approx(4.0)
    assert first.metrics["combined_score"] == pytest.approx(250.0)
    assert fixed.iteration_found == 3
    assert fixed.metrics["combined_score"] == pytest.approx(500.0)
    assert result.speedup is not None
    assert fixed.metrics["final_speedup"] == pytest.approx(result.speedup)
    prompt = fixed.prompts["efa"]
    assert "two" in prompt["user"]
    assert "three" in prompt["responses"][0]
    assert 0 < first.timestamp <= fixed.timestamp


async def test_lineages_are_whole_for_the_visualiser(run: Run, tmp_path: Path) -> None:
    await run(MIXED, queries=40)
    nodes, edges = read_by_the_visualiser(export(tmp_path / "run"))
    assert len(edges) == len(nodes) - 1, "everything but the original has its parent"
    generation = {name: node["generation"] for name, node in nodes.items()}
    assert all(generation[child] == generation[parent] + 1 for parent, child in edges)
    assert max(generation.values()) > 1


async def test_an_evolutionary_run_keeps_its_islands(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the strategy held when the run ended is what is rebuilt from the journal and what OpenEvolve loads."""
    strategies: list[Strategy] = []
    make = search.make
    monkeypatch.setattr(search, "make", lambda *given: strategies.append(make(*given)) or strategies[-1])
    result = await run(MIXED, queries=60, strategy="pike-o", concurrency=4)
    lived = population(strategies[0])
    assert lived is not None
    done = export(tmp_path / "run")
    database = opened(done)
    assert len(database.islands) == 3
    assert database.archive == set(lived.archive)
    assert [dict(grid) for grid in database.island_feature_maps] == [dict(grid) for grid in lived.cells]
    assert tuple(database.island_generations) == lived.generations
    for number, island in enumerate(database.islands):
        assert set(lived.islands[number]) <= island
        assert all(lived.homes[name] == number for name in island - set(lived.islands[number]))
        assert all(database.programs[name].metadata["island"] == number for name in island)
        best = database.programs[database.island_best_programs[number]].metrics["combined_score"]
        assert best == max(database.programs[name].metrics.get("combined_score", 0.0) for name in island)
    assert result.best is not None
    assert database.best_program_id == result.best.id
    nodes, edges = read_by_the_visualiser(done)
    assert len(edges) == len(nodes) - 1
    assert set(lived.homes) <= set(nodes)


@pytest.mark.parametrize("part", [0.3, 0.8])
async def test_an_evolutionary_run_goes_on_from_where_its_journal_ends(run: Run, tmp_path: Path, part: float) -> None:
    await run(MIXED, queries=40, strategy="pike-o", concurrency=4)
    whole = entries(tmp_path / "run")
    searched = [entry.event for entry in whole if not isinstance(entry.event, Stopped | Finished)]
    with Journal.create(tmp_path / "cut") as journal:
        for event in searched[: int(part * len(searched))]:
            journal.append(event)
    result = await engine.resume_run(tmp_path / "cut", wiring())
    assert result.finished
    assert result.spend.queries == 40
    export(tmp_path / "cut")  # which decides everything once more


async def test_an_evolutionary_run_is_replayed(run: Run, tmp_path: Path) -> None:
    first = await run(MIXED, queries=40, strategy="pike-o", concurrency=4)
    replay = config(f"replay:{tmp_path / 'run'}", queries=40, strategy="pike-o", concurrency=2)
    again = await engine.start(TASK, replay, tmp_path / "again", wiring(executor=None))
    asked, repeated = (
        [event for event in events(tmp_path / folder) if isinstance(event, Asked)] for folder in ("run", "again")
    )
    assert repeated == asked
    assert any(event.step.inspirations for event in asked)
    assert again.best == first.best


async def test_openevolve_can_go_on_from_it(run: Run, tmp_path: Path) -> None:
    await run(MIXED, queries=30)
    database = opened(export(tmp_path / "run"))
    parent, inspirations = database.sample_from_island(0, 2)
    assert parent.id in database.programs
    assert len(inspirations) == 2
    child = Program("new", "better = True", parent_id=parent.id, metrics={"combined_score": 1e9})
    assert database.add(child, iteration=31) == "new"
    assert database.best_program_id == "new"


async def test_a_run_without_a_valid_candidate_is_the_original(run: Run, tmp_path: Path) -> None:
    await run([IDEAS, coa("build-error no", "a")], queries=2, strategy="pike-b:no-efa")
    done = export(tmp_path / "run", tmp_path / "out")
    database = opened(done)
    assert (database.best_program_id, set(database.programs), database.archive) == (ORIGINAL, {ORIGINAL}, set())
    assert done == tmp_path / "out" / "checkpoints" / "checkpoint_2"


async def test_exporting_again_replaces_its_own_and_nothing_else(run: Run, tmp_path: Path) -> None:
    await run(MIXED, queries=12)
    path = export(tmp_path / "run")
    (path / "programs" / "left-over.json").write_text("{}")
    assert export(tmp_path / "run") == path
    assert not (path / "programs" / "left-over.json").exists()
    assert [entry.name for entry in path.parent.iterdir()] == ["checkpoint_12"]
    (path / "pike.json").unlink()
    with pytest.raises(UserError, match="something else"):
        export(tmp_path / "run")
    assert (path / "metadata.json").exists()


async def test_what_is_in_the_way_is_named(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        export(tmp_path / "nowhere")
    await run(MIXED, queries=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another --out"):
        export(tmp_path / "run", tmp_path / "file")
