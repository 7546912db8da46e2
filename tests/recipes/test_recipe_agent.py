"""The agent without a language model: ideas, compositions, neighbours, repairs, and the end of its wits."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from recipe_harness import CPU, CUDA, HALF, Case, small_task, source_task

from pike.core.agent import Context, Proposal
from pike.core.step import Candidate, Role, Solution, Step
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, OutputError, Precision, Status, Timing
from pike.recipes import RecipeAgent
from pike.recipes.precision import sixteen_bits
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import legal_compositions
from pike.recipes.search.evidence import Evidence, broken, suspects
from pike.recipes.search.explored import Explored, explore, problem_of
from pike.recipes.search.space import Space

STEADY = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.a(x) + self.b(x)
def get_inputs():
    return [torch.randn(2, 4)]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def case() -> Case:
    return Case.of(source_task(STEADY))


def agent_of(case: Case, facts=CPU, options=HALF) -> RecipeAgent:
    return RecipeAgent(lambda: explore(problem_of(case.reference, facts, options)))


def ask(agent: RecipeAgent, case: Case, step: Step, **more) -> Proposal:
    return asyncio.run(agent.act(Context(case.task, step, CPU, HALF, **more)))


def candidate(id: str, *recipes: str) -> Candidate:
    return Candidate(id, "...", recipes=recipes)


def judged(id: str, *recipes: str, speedup: float = 0.0) -> Solution:
    verdict = Evaluation(Status.INFRA_ERROR)
    if speedup:
        interval = (0.9 * speedup, 1.1 * speedup)
        verdict = Evaluation(Status.VALID, timing=Timing(1.0, 1 / speedup, speedup, interval, 10, 100, 0.01))
    return Solution(candidate(id, *recipes), verdict)


def failed(status: Status, *recipes: str, log: str = "") -> Solution:
    return Solution(candidate("c1", *recipes), Evaluation(status, "refused", log=log))


def test_ideas_are_legal_compositions_without_repetition(case):
    ideas = ask(agent_of(case), case, Step(0, Role.BRAINSTORM)).ideas
    assert 5 <= len(ideas) <= 10
    assert len(set(ideas)) == len(ideas)
    assert all(part in BY_NAME for text in ideas for part in text.split(" + "))


def test_an_idea_becomes_exactly_that_composition(case):
    proposal = ask(agent_of(case), case, Step(1, Role.OPTIMISE, idea="compile + fuse_linears"))
    assert proposal.recipes == ("fuse_linears", "compile")
    assert "class ModelNew" in proposal.source
    assert proposal.author == "recipes"


def test_ten_parallel_samples_propose_ten_different_things(case):
    agent = agent_of(case)
    for seed in (None, Solution(candidate("c0", "fuse_linears", "compile"), Evaluation(Status.INFRA_ERROR))):
        steps = [Step(i, Role.OPTIMISE, round=1, sample=i) for i in range(10)]
        found = [ask(agent, case, step, seed=seed).recipes for step in steps]
        assert len(set(found)) == 10


def test_a_seed_gets_an_untried_neighbour(case):
    agent = agent_of(case)
    seed = Solution(candidate("c0", "fuse_linears", "compile"), Evaluation(Status.INFRA_ERROR))
    known: tuple[Solution, ...] = (seed,)
    near = 0
    for number in range(8):
        found = ask(agent, case, Step(number, Role.OPTIMISE, round=1, sample=number), seed=seed, known=known).recipes
        assert found not in {known_one.recipes for known_one in (one.candidate for one in known)}
        near += len(set(found) ^ set(seed.candidate.recipes)) <= 2
        known = (*known, judged(f"c{number + 1}", *found))
    assert near >= 5


def test_the_same_context_has_the_same_answer(case):
    step = Step(7, Role.OPTIMISE, round=2, sample=3)
    known = (judged("c1", "compile", speedup=2.0),)
    assert ask(agent_of(case), case, step, known=known) == ask(agent_of(case), case, step, known=known)


def test_everything_is_offered_once_and_then_the_agent_is_exhausted(case):
    agent = agent_of(case)
    known: list[Solution] = []
    for number in range(500):
        proposal = ask(
            agent, case, Step(number, Role.OPTIMISE, round=number // 10, sample=number % 10), known=tuple(known)
        )
        if proposal.exhausted:
            break
        known.append(judged(f"c{number}", *proposal.recipes))
    everything = {one.candidate.recipes for one in known}
    assert proposal.exhausted
    assert not proposal.source
    assert len(everything) == len(known) > 20
    assert everything == set(legal_compositions([name for name, reason in agent.declined().items() if not reason]))


def test_a_fix_drops_or_replaces_the_culprit(case):
    agent = agent_of(case)
    cases = [
        (failed(Status.WRONG_OUTPUT, "fuse_linears", "bf16", "compile"), "bf16"),
        (
            failed(Status.RUNTIME_ERROR, "fuse_linears", "bf16", "compile", log="torch._inductor.exc.CppCompileError"),
            "compile",
        ),
        (
            failed(Status.RUNTIME_ERROR, "fuse_linears", "compile", "freeze", log="bad joined_weight shape"),
            "fuse_linears",
        ),
        (failed(Status.TIMEOUT, "fuse_linears", "max_autotune", "freeze"), "max_autotune"),
    ]
    for failing, culprit in cases:
        step = Step(3, Role.FIX, failing="c1", attempt=1)
        found = ask(agent, case, step, failing=failing, known=(failing,))
        assert culprit not in found.recipes
        assert found.recipes, found.failure
        assert len(set(found.recipes) - set(failing.candidate.recipes)) <= 1


def test_a_plan_names_recipes_and_is_carried_out(case):
    agent = agent_of(case)
    plan = ask(agent, case, Step(0, Role.PLAN))
    assert plan.text
    assert not plan.source
    done = ask(agent, case, Step(1, Role.CODE, plan=plan.text))
    assert " + ".join(done.recipes) == plan.text
    assert done.source
    seed = failed(Status.BUILD_ERROR, *done.recipes)
    known = (seed,)
    another = ask(agent, case, Step(2, Role.PLAN, seed="c1"), seed=seed, known=known)
    assert another.text not in ("", plan.text)
    failing = failed(Status.WRONG_OUTPUT, "fuse_linears", "bf16", "compile")
    step = Step(3, Role.DEBUG, failing="c1", attempt=1, plan="bf16 + compile")
    assert "bf16" not in ask(agent, case, step, failing=failing, known=(failing,)).recipes


def test_a_plan_is_no_longer_offered_once_everything_was_tried(case):
    agent = agent_of(case)
    everything = legal_compositions(name for name, reason in agent.declined().items() if not reason)
    known = tuple(judged(f"c{i}", *names) for i, names in enumerate(everything))
    plan = ask(agent, case, Step(0, Role.PLAN), known=known)
    assert (plan.text, plan.source) == ("", "")
    assert plan.exhausted


def test_a_fix_with_nothing_left_fails_without_ending_the_run(case):
    failing = failed(Status.RUNTIME_ERROR, "compile")
    others = legal_compositions(name for name, reason in agent_of(case).declined().items() if not reason)
    near = [judged(f"c{i}", *names) for i, names in enumerate(others) if len(names) == 1]
    found = ask(agent_of(case), case, Step(3, Role.FIX, failing="c1", attempt=1), failing=failing, known=tuple(near))
    assert not found.source
    assert found.failure
    assert not found.exhausted


def test_diagnostics_name_the_culprit():
    verdict = Evaluation(Status.RUNTIME_ERROR, "CUDA error: operation not permitted when stream is capturing")
    assert suspects(("half", "channels_last", "cuda_graph"), verdict)[0] == "cuda_graph"


def test_a_model_to_which_nothing_applies_exhausts_the_agent_with_the_reason():
    chancy = Case.of(source_task(STEADY.replace("self.a(x) +", "torch.rand(4) +")))
    agent = agent_of(chancy)
    assert ask(agent, chancy, Step(0, Role.BRAINSTORM)).failure
    proposal = ask(agent, chancy, Step(1, Role.OPTIMISE))
    assert proposal.exhausted
    assert "different answers" in proposal.failure


def test_only_the_first_question_takes_long(case):
    agent = agent_of(case)
    ask(agent, case, Step(0, Role.BRAINSTORM))
    start = time.perf_counter()
    for number in range(20):
        ask(agent, case, Step(number, Role.OPTIMISE, sample=number))
    assert time.perf_counter() - start < 8


@pytest.mark.parametrize("precision", [Precision.HALF, Precision.SAME])
def test_on_a_gpu_something_quick_comes_first_and_then_the_measured_winner(precision, monkeypatch):
    monkeypatch.setattr(sixteen_bits, "saved_seconds", lambda _: 1e-3)  # as the full network
    network = Case.of(small_task("resnet18"))
    agent = agent_of(network, CUDA, EvaluateOptions(precision=precision))
    quick, best = (text.split(" + ") for text in ask(agent, network, Step(0, Role.BRAINSTORM)).ideas[:2])
    assert "cuda_graph" in quick, "its verdict needs no compiler"
    assert {"channels_last", "freeze"} <= set(best)
    assert {"reduce_overhead", "compiled_graph"}.intersection(best), "compiled, and replayed as a CUDA graph"
    assert ("half" in best) == (precision is Precision.HALF)


def test_the_best_gets_the_neighbour_that_verdicts_promise_most(case):
    agent = agent_of(case)
    seed = judged("c0", "fuse_linears", "compile", speedup=1.5)
    slow = judged("c1", "fuse_linears", speedup=0.7)
    found = ask(agent, case, Step(3, Role.OPTIMISE, seed="c0"), seed=seed, known=(seed, slow)).recipes
    assert "fuse_linears" not in found, "it was seen to cost more than it brings"
    assert "compile" in found


def test_what_broke_the_model_is_not_added_to_the_best(case):
    gain = dict.fromkeys(BY_NAME, 0.1) | {"bf16": 0.5}
    fine, broken = judged("c0", "compile", speedup=1.5), failed(Status.WRONG_OUTPUT, "bf16", "trace_frozen")
    space = Space(legal_compositions(["compile", "bf16", "fold_constants"]), gain)
    assert space.next_to(("compile",), set(), Evidence(gain, [fine])) == ("bf16", "compile")
    refused = Evidence(gain, [fine, broken, failed(Status.WRONG_OUTPUT, "bf16")])
    assert space.next_to(("compile",), set(), refused) == ("fold_constants", "compile")
    busy = Evidence(gain, [fine, Solution(candidate("c2", "bf16"), Evaluation(Status.INFRA_ERROR))])
    assert space.next_to(("compile",), set(), busy) == ("bf16", "compile"), "the machine's failure is no evidence"


def off_by(factor: float, *recipes: str) -> Solution:
    error = OutputError(max_abs=9.0, rms=factor, budget_max_abs=1.0, budget_rms=1.0)
    return Solution(candidate("c1", *recipes), Evaluation(Status.WRONG_OUTPUT, "refused", error=error))


def crashed(id: str, reason: str, *recipes: str) -> Solution:
    return Solution(candidate(id, *recipes), Evaluation(Status.RUNTIME_ERROR, reason))


def test_where_no_graph_can_be_recorded_what_needs_none_comes_first(case):
    agent = agent_of(case, CUDA)
    ideas = ask(agent, case, Step(0, Role.BRAINSTORM)).ideas
    reason = "RuntimeError: Cannot copy between CPU and CUDA tensors during CUDA graph capture"
    known = [crashed("c1", reason, "half", "cuda_graph")]
    later = [ask(agent, case, Step(id, Role.OPTIMISE, idea=idea), known=known) for id, idea in enumerate(ideas, 1)]
    graphs = {"cuda_graph", "compiled_graph", "compiled_blocks"}
    assert any(graphs & set(idea.split(" + ")) for idea in ideas)
    assert not graphs & {name for found in later for name in found.recipes}
    passed = [*known, judged("c2", "half", "compiled_graph", speedup=2.0)]
    assert broken(passed) >= {"cuda_graph"} and "compiled_graph" not in broken(passed)


def test_what_the_diagnostics_do_not_name_stays(case):
    assert not broken([crashed("c1", "RuntimeError: shapes differ", "half", "cuda_graph")])
    assert not broken([crashed("c1", "RuntimeError: CUDA graph capture", "half", "fold_constants")])


def test_an_answer_that_is_far_off_is_tried_again_in_full_float32():
    network = Case.of(small_task("resnet18"))
    agent = agent_of(network, CUDA, EvaluateOptions(precision=Precision.TF32))
    names = ("channels_last", "inductor", "tf32", "freeze")
    restored = ("channels_last", "inductor", "full_float32", "freeze")
    step = Step(3, Role.OPTIMISE)
    assert ask(agent, network, step, known=(off_by(100.0, *names),)).recipes == restored
    assert ask(agent, network, step, known=(off_by(1.2, *names),)).recipes != restored, "that is rounding"
    by_model = off_by(100.0)
    assert ask(agent, network, step, known=(by_model,)).recipes != ("full_float32",), (
        "a model's own code is no composition"
    )
    both = (off_by(100.0, *names), off_by(100.0, *restored))
    assert "full_float32" not in ask(agent, network, step, known=both).recipes
    fix = Step(4, Role.FIX, failing="c1")
    assert ask(agent, network, fix, failing=off_by(100.0, *names)).recipes == restored


def test_many_rewrites_do_not_make_the_ranking_explode():
    names = ["fold_batch_norm", "winograd2", "sdpa", "fuse_linears", "compile"]
    gain = dict.fromkeys([*names, "winograd4"], 0.1)
    few = legal_compositions(names)
    many = legal_compositions([*names, "winograd4"])
    assert len(many) < len(few)
    space = Space(many, gain)
    assert space.applies(("sdpa", "fuse_linears")), "what is not ranked may still be reached"
    assert not space.applies(("sdpa", "half"))


def test_neighbours_keep_what_they_need():
    names = ["fold_batch_norm", "compile", "freeze", "max_autotune"]
    space = Space(legal_compositions(names), dict.fromkeys(names, 0.1))
    near = space.neighbours(("compile", "freeze"))
    assert ("max_autotune", "freeze") in near
    assert ("compile",) in near
    assert ("freeze",) not in near


def test_what_was_found_out_about_a_problem_can_be_kept_and_used_elsewhere(case):
    found = explore(problem_of(case.reference, CUDA, HALF))
    kept = Explored.of(json.loads(json.dumps(found.record)))
    assert kept == found and any(kept.adapted.values())
    step = Step(1, Role.OPTIMISE, idea="half + compiled_graph + freeze")
    asked: list[int] = []

    def known() -> Explored:
        asked.append(1)
        return kept

    elsewhere = RecipeAgent(known)
    assert ask(elsewhere, case, step) == ask(agent_of(case, CUDA), case, step)
    assert ask(elsewhere, case, Step(2, Role.BRAINSTORM)).ideas and asked == [1], "found out once"
