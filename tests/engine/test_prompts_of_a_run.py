"""Words of a run's prompts: their version in the journal, the facts in them, folders and sampling of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import IDEAS, TASK, answer, coa, config, efa, events, wiring, write_script

from pike import engine
from pike.agents import prompts_version
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import QuerySent, RunStarted
from pike.core.query import Query
from pike.core.settings.config import PromptConfig, RunConfig
from pike.core.settings.merging import merge, parse_setting
from pike.core.step import Role
from pike.core.verdict.evaluation import EvaluationRequest
from pike.core.verdict.profile import Profile
from pike.engine.run.configuration import resolve
from pike.engine.schedule.contenders.naming import contenders_named
from pike.llm.fake_server import FakeReply, FakeServer
from pike.llm.provider.adaptation import Adaptation
from pike.store import Journal

PROFILE = Profile("torch profiler (cpu)", "note", operations=2_000_000, least_bytes=4_194_304, bytes_per_second=1e9)


class Profiling(engine.InstantExecutor):
    """An instant executor with a clock for the original; whoever asks for a profile gets one."""

    async def preflight(self, request: EvaluationRequest) -> float | None:
        return 7.0

    async def evaluate(self, request: EvaluationRequest, on_stage: engine.OnStage | None = None):  # type: ignore[no-untyped-def, name-defined]
        if "pike-instant" not in request.source:
            request = replace(request, source="# pike-instant: valid 7ms\nclass ModelNew: ...")
        found = await super().evaluate(request, on_stage)
        return replace(found, profile=PROFILE) if request.profile and found.valid else found


def prompts_in(folder: Path, role: Role) -> list[Query]:
    return [e.query for e in events(folder) if isinstance(e, QuerySent) and e.query.role is role]


async def test_the_version_of_the_prompts_stands_in_the_journal(tmp_path: Path) -> None:
    script = write_script(tmp_path / "s.json", [IDEAS, *[coa("valid 3ms", str(i)) for i in range(2)]])
    await engine.start(TASK, config(script, queries=2), tmp_path / "run", wiring())
    begun = events(tmp_path / "run")[0]
    assert isinstance(begun, RunStarted)
    assert begun.prompts == prompts_version()


async def test_the_original_is_profiled_once_and_before_anyone_is_asked(tmp_path: Path) -> None:
    script = write_script(tmp_path / "s.json", [IDEAS, *[coa("valid 3ms", str(i)) for i in range(2)]])
    setup = replace(config(script, queries=2), prompt=PromptConfig(profile=True))
    await engine.start(TASK, setup, tmp_path / "run", wiring(executor=Profiling()))
    begun = events(tmp_path / "run")[0]
    assert isinstance(begun, RunStarted)
    assert begun.original_profile == PROFILE
    (ideas,) = prompts_in(tmp_path / "run", Role.BRAINSTORM)
    assert "Where the original's time goes" in ideas.prompt
    assert "moved once (4 MiB)" in ideas.prompt
    plain = replace(setup, prompt=PromptConfig())
    await engine.start(TASK, plain, tmp_path / "plain", wiring(executor=Profiling()))
    (ideas,) = prompts_in(tmp_path / "plain", Role.BRAINSTORM)
    assert "Where the original's time goes" not in ideas.prompt


async def test_a_daring_run_shows_what_failed_and_a_published_one_does_not(tmp_path: Path) -> None:
    wrong = [write("build-error boom", f"{write.__name__} {i}") for write in (coa, efa) for i in range(40)]
    for strategy, shown in (("pike-b:daring", True), ("pike-b", False)):
        script = write_script(tmp_path / f"{shown}.json", [IDEAS, *wrong])
        setup = config(script, queries=40, strategy=strategy)
        await engine.start(TASK, setup, tmp_path / strategy, wiring())
        asked = [query.prompt for query in prompts_in(tmp_path / strategy, Role.FIX)]
        assert any("## What failed before" in prompt for prompt in asked) is shown
        assert "its errors are shown and repaired" in prompts_in(tmp_path / strategy, Role.OPTIMISE)[0].system


async def test_a_folder_of_prompts_is_used_and_checked_before_anything_is_spent(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    (own / "system_coa.md").write_text("Be brief.")
    script = write_script(tmp_path / "s.json", [IDEAS, coa("valid 3ms", "a")])
    setup = merge(config(script, queries=1), parse_setting(f"prompt.folder={own}"))
    await engine.start(TASK, setup, tmp_path / "run", wiring())
    assert prompts_in(tmp_path / "run", Role.OPTIMISE)[0].system == "Be brief."
    with pytest.raises(UserError, match="holds no template"):
        await engine.start(TASK, merge(setup, parse_setting("prompt.folder=nowhere")), tmp_path / "other", wiring())
    assert not (tmp_path / "other").exists()


async def test_a_run_that_goes_on_with_other_prompts_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    words = tmp_path / "mine" / "system_coa.md"
    words.write_text("Be brief.")
    script = write_script(tmp_path / "s.json", [IDEAS, *[coa("valid 3ms", str(i)) for i in range(4)]])
    setup = merge(config(script, queries=4), parse_setting(f"prompt.folder={words.parent}"))
    setup = merge(setup, parse_setting("engine.max_hours=0"))
    run = tmp_path / "run"
    with Journal.create(run) as journal:
        journal.append(RunStarted(TASK, resolve(setup), DeviceFacts("cpu", "instant"), "1", None, "another"))
    result = await engine.resume_run(run, wiring())
    assert any("began with prompts another" in note for note in result.notes)


def test_a_contender_may_have_prompts_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "iba.md").write_text("Think.")
    mine, plain = contenders_named([{"base": "pike-b", "name": "mine", "prompts": str(tmp_path)}, "pike-b"], {})
    shared = RunConfig()
    assert mine.configure(shared).prompt.folder == str(tmp_path)
    assert plain.configure(shared).prompt.folder == ""
    with pytest.raises(UserError, match=r"has no option 'prompts': nothing is searched"):
        contenders_named([{"base": "eager", "prompts": str(tmp_path)}], {})
    with pytest.raises(UserError, match="holds no template"):
        contenders_named([{"base": "pike-b", "prompts": str(tmp_path / "none")}], {})


def test_a_strategy_may_ask_for_profiles() -> None:
    assert resolve(merge(RunConfig(), {"strategy": {"preset": "stark"}})).prompt.profile
    assert not resolve(merge(RunConfig(), {"strategy": {"preset": "stark", "profile": False}})).prompt.profile


async def test_sampling_options_reach_the_server_and_the_journal(tmp_path: Path) -> None:
    with FakeServer(default=FakeReply(answer("valid 3ms", "a"))) as server:
        setup = config(f"openai:fake-model@{server.url}", queries=2, tokens=10**7)
        setup = merge(merge(setup, parse_setting("llm.top_p=0.9")), parse_setting("llm.top_k=40"))
        await engine.start(TASK, setup, tmp_path / "run", wiring())
        sent = [request.body for request in server.requests]
    assert all(body["top_p"] == 0.9 for body in sent)
    assert prompts_in(tmp_path / "run", Role.OPTIMISE)[0].top_k == 40


def test_a_server_that_takes_one_sampling_option_alone_keeps_the_temperature() -> None:
    query = Query(0, Role.OPTIMISE, "s", "p", 0.8, 100, top_p=0.9, top_k=40)
    learning = Adaptation()
    sent = learning.settings(query, 1.0)
    assert learning.learn(sent, 400, "temperature and top_p cannot both be specified") == "takes no top_p"
    sent = learning.settings(query, 1.0)
    assert (sent.get("temperature"), sent.get("top_p"), sent.get("top_k")) == (0.8, None, 40)


def test_a_gpus_units_follow_from_its_capability() -> None:
    assert DeviceFacts("cuda:0", "H100", capability="9.0").units == ("tensor cores for FP16 INT8 BF16 TF32 FP8",)
    assert DeviceFacts("cuda:0", "P100", capability="6.0").units == ()
    assert DeviceFacts("cpu", "x", vector_units=("AVX2",)).units == ("AVX2",)
