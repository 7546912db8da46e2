"""Journals of older versions hold one flat table of dials; they mean the same as they did, decision by decision."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from search_worlds import landscape, valid

from pike import search, store
from pike.core.codec import encode
from pike.core.events import RunStarted
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Candidate, Step
from pike.engine.state import resume
from pike.engine.state.run_state import RunState
from pike.search.options.library import Islands
from pike.search.options.prompting import Drawn, Wording
from pike.search.options.selection import Rest

FLAT: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "assets" / "flat_options.json").read_text())
"""Written by the last version with flat options: every preset, and mixes, each with digests of its decisions."""
JOURNALS = Path(__file__).parents[1] / "store" / "assets"


def decisions(config: StrategyConfig, seeds: int) -> str:
    """A digest of all steps that a run with 150 queries asks for."""
    strategy = search.make(config, Budget(queries=150), 7)
    for index in range(seeds):
        strategy.admit(Candidate(f"r-{index}", f"# {index}"), valid(5.0 + index))
    calls = search.drive(strategy, landscape(1), concurrency=7, pick=random.Random(2).randrange)
    steps = [encode(call) for call in calls if isinstance(call, Step)]
    assert not any(step.pop("failed") for step in steps), "an older strategy showed no refused candidates"
    return hashlib.sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", [name for name, stored in FLAT.items() if name == stored["preset"]])
def test_a_journalled_preset_is_todays_preset_in_its_old_words(name: str) -> None:
    then, now = (search.options_of(StrategyConfig(name, given)) for given in (FLAT[name]["options"], {}))
    if isinstance(now.library, Islands):  # it drew and showed what OpenEvolve 0.4 does by itself
        now = replace(now, selection=replace(now.selection, rest=Rest.ISLAND))
        now = replace(now, inspiration=Drawn(3, 2) if isinstance(now.inspiration, Drawn) else now.inspiration)
    assert then == replace(now, wording=Wording.PUBLISHED, failures=0, profile=False)


def test_a_strategy_written_out_before_prompts_had_a_wording_keeps_its_words() -> None:
    written = search.resolve(StrategyConfig("pike-x")).options
    older = {name: value for name, value in written.items() if name not in ("wording", "failures", "profile")}
    assert not search.needs(StrategyConfig("pike-x", older)).daring
    assert search.needs(StrategyConfig("pike-x", {"temperature": 0.5})).daring, "a user's options are not written out"


@pytest.mark.parametrize("name", list(FLAT))
def test_a_journalled_strategy_decides_what_it_decided_then(name: str) -> None:
    config = StrategyConfig(FLAT[name]["preset"], FLAT[name]["options"])
    assert search.resolve(search.resolve(config)) == search.resolve(config)
    assert decisions(config, 0) == FLAT[name]["decisions"]
    assert decisions(config, 3) == FLAT[name]["decisions_with_seeds"]


def test_a_shipped_journal_is_resumed_step_by_step() -> None:
    folder = JOURNALS / "journal_v1_models"
    entries = tuple(store.read(folder))
    (started,) = [entry.event for entry in entries if isinstance(entry.event, RunStarted)]
    config = started.config
    assert search.resolve(config.strategy) == search.resolve(StrategyConfig("pike-b"))
    strategy = search.make(config.strategy, config.budget, config.engine.run_seed)
    resume.rebuild(RunState(), strategy, entries, folder)
    assert strategy.done
