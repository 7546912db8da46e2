"""The evolutionary library: OpenEvolve's database, but the same in every process and untouched by the world."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid

import pytest

from pike.core.errors import UserError
from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.evolution import EvolutionLibrary, Population
from pike.search.evolution import database as adapter
from pike.search.options.library import Islands
from pike.search.options.prompting import Drawn
from pike.search.options.selection import ByRatio
from pike.search.parts import Node, SeedDraw


def library(
    run_seed: int = 0, ratio: ByRatio | None = None, shown: Drawn | None = None, **options: object
) -> EvolutionLibrary:
    rng = stream(run_seed, "library")
    return EvolutionLibrary(Islands(**options), ratio or ByRatio(), shown or Drawn(), rng)  # type: ignore[arg-type]


def node(number: int, ms: float, draw: SeedDraw | None = None, source: str = "") -> Node:
    draw = draw or SeedDraw()
    text = source or f"scale = {number}\n" * (1 + number % 7)
    return Node(ms, number // 10, number % 10, 0, f"c{number}", draw.seed, text, draw.island)


def names(held: Population, island: int) -> set[str]:
    """The candidates of an island, whether it holds them or copies."""
    return {held.copies.get(name, name) for name in held.islands[island]}


def evolve(lib: EvolutionLibrary, count: int, salt: int = 0) -> list[SeedDraw]:
    """Draw and add, as a run with three valid answers of four would."""
    chance = random.Random(salt)
    draws = []
    for number in range(count):
        draws.append(lib.draw())
        if chance.random() < 0.75:
            lib.add(node(number, 0.1 + chance.random(), draws[-1]))
    return draws


def test_first_draws_start_at_the_original_and_take_the_islands_in_turn() -> None:
    lib = library()
    assert [lib.draw() for _ in range(4)] == [SeedDraw(island=island) for island in (0, 1, 2, 0)]


def test_the_rest_after_exploration_and_exploitation_is_drawn_from_all_islands() -> None:
    lib, apart = library(ratio=ByRatio(0.0, 0.0), migration_interval=10_000), library(ratio=ByRatio(1.0, 0.0))
    for one in (lib, apart):
        for number, draw in enumerate([one.draw() for _ in range(12)]):
            one.add(node(number, 1.0, draw))
    homes = lib.population().homes
    drawn = [lib.draw() for _ in range(60)]
    assert {(homes[draw.seed], draw.island) for draw in drawn} == {(at, to) for at in range(3) for to in range(3)}
    homes = apart.population().homes
    drawn = [draw for draw in (apart.draw() for _ in range(60)) if draw.seed != ORIGINAL]
    assert drawn and all(homes[draw.seed] == draw.island for draw in drawn)


def test_a_solution_joins_the_island_it_was_drawn_for() -> None:
    lib = library()
    draws = [lib.draw() for _ in range(3)]
    for number in (2, 0, 1):
        lib.add(node(number, 1.0, draws[number]))
    held = lib.population()
    assert [names(held, island) - {ORIGINAL} for island in range(3)] == [{"c0"}, {"c1"}, {"c2"}]
    assert lib.population().generations == (1, 1, 1)


def test_solutions_from_outside_are_spread_over_the_islands() -> None:
    lib = library()
    for number in range(4):
        lib.add(Node(1.0 + number, -1, number, 0, f"r-{number}", source=f"# {number}" * (1 + 9 * number)))
    islands = lib.population().islands
    assert ["r-0" in islands[0], "r-1" in islands[1], "r-2" in islands[2], "r-3" in islands[0]] == [True] * 4


def test_population_and_archive_keep_their_limits_and_the_best() -> None:
    lib = library()
    evolve(lib, 400)
    lib.add(node(999, 0.001))
    evolve(lib, 200, salt=1)
    held = lib.population()
    assert sum(map(len, held.islands)) <= 26  # 25 and, on no island, the best
    assert 0 < len(held.archive) <= 12
    assert lib.fastest(1)[0].id == "c999"
    assert lib.holds("c999")
    assert not lib.holds("c1000")
    times = [found.ms for found in lib.fastest(100)]
    assert times == sorted(times)
    assert len(times) > 5


def test_the_original_starts_the_population_and_never_enters_the_archive() -> None:
    lib = library(migration_interval=1, population=10)
    lib.add(Node(0.0001, -1, 0, 0, ORIGINAL))  # even where it is faster than everything
    assert ORIGINAL in lib.population().islands[0]
    for number in range(60):
        lib.add(node(number, 5.0, lib.draw()))
        assert ORIGINAL not in lib.population().archive
    held = lib.population()
    assert all(ORIGINAL in names(held, island) for island in range(3)), "it migrates as any program does"
    assert ORIGINAL not in {held.copies.get(name, name) for name in held.archive}
    assert ORIGINAL not in {found.id for found in lib.fastest(100)}


def test_the_originals_time_ranks_it() -> None:
    """Unknown, it is the first to go when the population is full; as the fastest, it stays."""
    slow, fast = library(population=4, islands=1), library(population=4, islands=1)
    fast.add(Node(0.01, -1, 0, 0, ORIGINAL))
    for lib in (slow, fast):
        for number in range(12):
            lib.add(node(number, 5.0 - number / 10, lib.draw()))
    assert ORIGINAL not in slow.population().islands[0]
    assert ORIGINAL in fast.population().islands[0]


def test_broken_programs_are_kept_out() -> None:
    lib = library()
    lib.add(node(1, float("inf"), lib.draw()))
    held = lib.population()
    assert held.islands == ((ORIGINAL,), (), ())
    assert held.archive == ()
    assert held.generations == (0, 0, 0)


def test_islands_meet_only_by_migration() -> None:
    apart, meeting = library(migration_interval=10_000), library(migration_interval=20)
    crossed = 0
    for lib in (apart, meeting):
        born: dict[str, int] = {}
        for _ in range(3):
            lib.draw()  # an island that is empty when its turn comes begins with a copy of the best so far
        for number in range(150):
            draw = lib.draw()
            name = f"c{number}"
            born[name] = draw.island
            lib.add(node(number, 1.0 + (number % 13) / 10, draw))
            held = lib.population()
            strangers = any(born.get(name, at) != at for at in range(3) for name in names(held, at))
            crossed += strangers
            assert lib is meeting or not strangers
            assert all(held.homes[name] == island for name, island in born.items())
    assert crossed > 10
    assert apart.population().migrated_at == 0
    assert meeting.population().migrated_at >= 20


def test_what_is_drawn_are_candidates_and_no_copies() -> None:
    lib = library(migration_interval=5)
    known = {ORIGINAL}
    for number, draw in enumerate(evolve(lib, 300)):
        assert {draw.seed, *draw.inspirations} <= known | {f"c{earlier}" for earlier in range(number)}
        assert draw.seed not in draw.inspirations
        assert len(set(draw.inspirations)) == len(draw.inspirations) <= 8


def test_a_crossover_shows_the_top_of_the_island_first() -> None:
    lib = library(islands=1, ratio=ByRatio(0.0, 1.0))
    for number in range(12):
        lib.add(node(number, 1.0 + number, lib.draw()))
    for _ in range(20):
        draw = lib.draw()
        top = [name for name in ("c0", "c1", "c2") if name != draw.seed]
        assert list(draw.inspirations[: len(top)]) == top
    nothing = library(islands=1, shown=Drawn(0, 0))
    evolve(nothing, 30)
    assert nothing.draw().inspirations == ()


def test_exploitation_draws_from_the_archive_only() -> None:
    lib = library(islands=1, archive=4, ratio=ByRatio(0.0, 1.0))
    for number in range(100):
        draw = lib.draw()
        archive = lib.population().archive
        assert draw.seed in archive or not archive
        lib.add(node(number, 1.0 + (number * 7 % 50) / 10, draw))
    assert len(lib.population().archive) == 4


def test_exploration_draws_from_the_whole_island() -> None:
    lib = library(islands=1, archive=1, ratio=ByRatio(1.0, 0.0))
    for number in range(60):
        lib.add(node(number, 1.0 + number, lib.draw()))
    island = set(lib.population().islands[0])
    drawn = {lib.draw().seed for _ in range(400)}
    assert drawn == island


def test_another_run_seed_draws_otherwise_and_the_same_one_the_same() -> None:
    one = evolve(library(1), 120)
    assert evolve(library(1), 120) == one
    assert evolve(library(2), 120) != one


def test_two_libraries_side_by_side_do_not_disturb_each_other() -> None:
    alone = evolve(library(1), 60)
    first, second = library(1), library(2)
    chance = random.Random(0)
    draws = []
    for number in range(60):
        draws.append(first.draw())
        if chance.random() < 0.75:
            first.add(node(number, 0.1 + chance.random(), draws[-1]))
        second.add(node(number, 0.5, second.draw()))
    assert draws == alone


def test_it_is_the_same_in_every_process_and_imported_late() -> None:
    """String hashes differ between processes, and with them the order of Python's sets."""
    code = """
import sys
import pike.search, pike.search.evolution
assert "openevolve" not in sys.modules
from test_evolution import evolve, library
lib = library(migration_interval=10)
print(evolve(lib, 200), lib.population())
"""
    answers = set()
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": os.path.dirname(__file__)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "no log"
        answers.add(done.stdout)
    assert len(answers) == 1


def test_it_reads_no_clock_no_entropy_and_touches_no_global_state(monkeypatch: pytest.MonkeyPatch) -> None:
    import openevolve.database as installed

    lib = library(migration_interval=5)
    state = random.getstate()

    def refuse(*_: object) -> None:
        raise AssertionError("a strategy is pure")

    with monkeypatch.context() as patch:
        for place, name in ((time, "time"), (random, "random"), (random, "choice"), (uuid, "uuid4"), (os, "urandom")):
            patch.setattr(place, name, refuse)
        evolve(lib, 200)
    assert random.getstate() == state
    assert (installed.random, installed.time, installed.uuid) == (random, time, uuid)


def test_a_quick_source_is_as_far_from_others_as_a_plain_one() -> None:
    database, _ = adapter.open_database(Islands(), ByRatio(), random.Random(0), None)
    texts = ["", "a\nb\n", "import torch\n\n\nx = 1", "b = 'ß'\r\n" * 40, "\n"]
    for one in texts:
        for other in texts:
            plain = database._fast_code_diversity(one, other)
            assert database._fast_code_diversity(adapter.Source(one), adapter.Source(other)) == plain


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter.database_code.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "openevolve"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openevolve", None)
    with pytest.raises(UserError, match=r"pike-torch\[openevolve\]"):
        library()


@pytest.mark.parametrize(
    ("name", "value"),
    [("population", 1), ("archive", 0), ("islands", 0), ("elite_ratio", 1.5), ("migration_rate", float("nan"))],
)
def test_an_option_out_of_range_is_named(name: str, value: float) -> None:
    with pytest.raises(UserError, match=f"strategy.library.{name}"):
        Islands(**{name: value})  # type: ignore[arg-type]
