"""Reasoning effort of a run and of its roles: what was asked for is sent and written down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import TASK, answer, config, events, wiring

from pike import engine
from pike.api.options import compose_config
from pike.core.errors import UserError
from pike.core.events import QuerySent, RunStarted
from pike.core.query import ReasoningEffort
from pike.core.settings.config import RunConfig
from pike.core.settings.merging import merge, parse_setting
from pike.core.step import Role
from pike.llm.fake_server import FakeReply, FakeServer


async def test_each_role_thinks_as_long_as_it_was_told(tmp_path: Path) -> None:
    with FakeServer(default=FakeReply(answer("build-error boom", "a"))) as server:
        setup = config(f"openai:fake-model@{server.url}", queries=14)
        for setting in ("llm.effort=low", "llm.efa_effort=high"):
            setup = merge(setup, parse_setting(setting))
        setup = replace(setup, budget=replace(setup.budget, tokens=10**7))
        result = await engine.start(TASK, setup, tmp_path / "run", wiring())
        sent = [request.body.get("reasoning_effort") for request in server.requests]
    assert result.spend.queries == 14
    written = [
        (event.query.role, event.query.effort) for event in events(tmp_path / "run") if isinstance(event, QuerySent)
    ]
    assert {role for role, _ in written} == {Role.BRAINSTORM, Role.OPTIMISE, Role.FIX}
    assert all(effort == ("high" if role is Role.FIX else "low") for role, effort in written)
    assert sorted(sent) == sorted(effort.value for _, effort in written)
    begun = events(tmp_path / "run")[0]
    assert isinstance(begun, RunStarted)
    assert begun.config.llm.effort is ReasoningEffort.LOW


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(UserError, match=r"llm\.effort"):
        merge(RunConfig(), parse_setting("llm.effort=enormous"))


async def test_an_answer_may_have_no_more_tokens_than_the_user_allows(tmp_path: Path) -> None:
    with FakeServer(default=FakeReply(answer("build-error boom", "a"))) as server:
        setup = merge(config(f"openai:fake-model@{server.url}", queries=2), parse_setting("llm.max_output_tokens=2048"))
        result = await engine.start(TASK, setup, tmp_path / "run", wiring())
        assert [request.body["max_completion_tokens"] for request in server.requests] == [2048] * 3
    assert result.spend.usd == 0.0
    assert result.spend.unpriced == 0
    for told in (result, await engine.read_result(tmp_path / "run")):
        assert any("answers on the CPU on which candidates are timed" in note for note in told.notes)


def test_a_limit_of_no_tokens_is_refused() -> None:
    with pytest.raises(UserError, match=r"llm\.max_output_tokens"):
        compose_config("", {"settings": ["llm.max_output_tokens=0"]})
