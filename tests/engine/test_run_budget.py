"""What ends a run: money, hours, and an agent with nothing more to offer."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_material import IDEAS, MIXED, TASK, coa, config, entries, wiring, write_script

from pike import engine
from pike.core.agent import Context, Proposal
from pike.core.errors import UserError
from pike.core.events import Stopped, Told
from pike.core.step import Role


async def test_the_money_budget_stops_asking_and_is_never_exceeded(run) -> None:
    price = {"input_usd_per_mtok": 0.0, "output_usd_per_mtok": 10.0}
    answers = [IDEAS, *[coa(f"valid {2 + i}ms", f"{i}", output_tokens=32_000) for i in range(6)]]
    result = await run(answers, queries=50, concurrency=4, usd=2.0, script=price)
    assert result.stopped == "money"
    assert result.finished
    assert 1.6 < result.spend.usd <= 2.0
    assert result.best is not None


async def test_hours_stop_asking(run) -> None:
    result = await run(MIXED, queries=50, max_hours=0.0)
    said = "No candidate was tried, because the time was over before: give the run more time (--max-minutes)"
    assert said in result.notes
    assert (result.stopped, result.finished, result.candidates) == ("hours", True, 0)


async def test_a_refused_key_stops_with_one_sentence_before_anything_is_written(tmp_path: Path) -> None:
    name = write_script(tmp_path / "s.json", [{"text": "x"}], unpriced=True)
    with pytest.raises(UserError, match="price"):
        await engine.start(TASK, config(name, usd=1.0), tmp_path / "run", wiring())
    assert not (tmp_path / "run").exists()


async def test_an_agent_with_nothing_more_to_offer_ends_the_search(tmp_path: Path) -> None:
    class Three:
        async def act(self, context: Context) -> Proposal:
            if context.step.role is Role.BRAINSTORM:
                return Proposal()
            if len(context.known) >= 3:
                return Proposal(failure="nothing left to try", exhausted=True)
            return Proposal(f"# pike-instant: valid {9 - len(context.known)}ms\nclass ModelNew: ...", author="three")

    agents = dict.fromkeys(Role, Three())
    result = await engine.start(TASK, config(queries=50), tmp_path / "run", wiring(agents=agents))
    assert (result.stopped, result.finished, result.candidates) == ("exhausted", True, 3)
    seen = entries(tmp_path / "run")
    (stop,) = (i for i, entry in enumerate(seen) if isinstance(entry.event, Stopped))
    assert isinstance(seen[stop - 1].event, Told)
    assert seen[stop - 1].at_seconds == seen[stop].at_seconds, "both or neither survive a crash"
