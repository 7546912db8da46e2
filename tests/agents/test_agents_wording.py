"""What the daring wording adds, how prompts shrink to a window, and templates of a user's own."""

import ast
import asyncio
import dataclasses

import pytest
from agents_material import CPU, GPU_PROFILE, H100, make, needed, planned, refused, solved

from pike.agents import LlmAgent, prompts_version
from pike.agents.prompts.prompting import PromptTooLong, render
from pike.agents.prompts.templates import SHIPPED
from pike.agents.reading.blocks import blocks
from pike.core.agent import PromptTerms
from pike.core.errors import UserError
from pike.core.step import Role
from pike.core.verdict.evaluation import Status
from pike.llm.tokens import approximate_tokens

DARING = PromptTerms(daring=True, repairs=5)


def said(context):
    prompt = render(context)
    return " ".join(f"{prompt.system}\n{prompt.user}".split())


def example(name):
    (block,) = blocks((SHIPPED / "examples" / f"{name}.md").read_text())
    return block.text


@pytest.mark.parametrize("role", [Role.OPTIMISE, Role.CODE])
def test_a_file_that_fails_is_worth_nothing_only_where_nothing_is_repaired(role):
    assert "is worth nothing" in said(make(role, **needed(role)))
    repaired = said(make(role, terms=PromptTerms(repairs=5), **needed(role)))
    assert "is worth nothing" not in repaired
    assert "its errors are shown and repaired" in repaired


def test_the_large_step_is_asked_for_by_the_daring_wording_alone():
    assert "largest step" not in said(make(terms=PromptTerms(repairs=5)))
    assert "repaired up to 5 times" in said(make(terms=DARING))
    assert "Nothing is repaired" in said(make(terms=PromptTerms(daring=True)))
    tweak = said(make(terms=DARING, step={"scope": "tweak"}, seed=solved()))
    assert "largest step" not in tweak, "a step asks for one local change or for a large step, never for both"


@pytest.mark.parametrize(
    ("device", "shown"),
    [
        (CPU, {"cpp"}),
        (H100, {"nvrtc", "cuda", "triton", "cuda_graph"}),
        (dataclasses.replace(CPU, compilers=()), set()),
    ],
)
def test_examples_fit_the_machine(device, shown):
    user = render(make(device=device, terms=DARING)).user
    assert {path.stem for path in (SHIPPED / "examples").glob("*.md") if example(path.stem) in user} == shown
    assert "## Worked examples" not in render(make(device=device)).user


@pytest.mark.parametrize("name", ["cpp", "nvrtc", "cuda", "triton", "cuda_graph"])
def test_an_example_is_a_file_as_the_contract_wants_it(name):
    tree = ast.parse(example(name))
    assert any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body)
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.ClassDef, ast.FunctionDef)
    assert all(isinstance(node, allowed) for node in tree.body), "module level holds definitions and compilation"


def test_what_failed_from_a_seed_is_shown_with_its_reason_and_without_its_file():
    tried = refused(Status.WRONG_OUTPUT, "output 0: max error 0.02", source="class Tried: pass")
    tried = dataclasses.replace(tried, candidate=dataclasses.replace(tried.candidate, note="half precision inside"))
    user = render(make(seed=solved(), failed=(tried,))).user
    assert "reason: output 0: max error 0.02" in user
    assert "half precision inside" in user
    assert "class Tried" not in user


def test_a_repair_sees_the_working_parent_and_what_earlier_repairs_changed():
    first = planned(refused(reason="first try", source="a = 1\nb = 2\n"), "c4")
    second = planned(refused(reason="second try", source="a = 1\nb = 3\n"), "c5")
    last = planned(refused(reason="third try", source="a = 9\nb = 3\n"), "c6")
    parent = solved(source="class Working: pass")
    user = render(make(Role.FIX, failing=last, failed=(second, first), seed=parent, terms=DARING)).user
    assert "class Working" in user
    assert user.index("reason: second try") < user.index("-a = 1\n+a = 9")
    assert user.index("-a = 1\n+a = 9") < user.index("reason: first try") < user.index("-b = 2\n+b = 3")
    assert "class Working" not in render(make(Role.FIX, failing=last, seed=parent)).user


def test_measured_facts_stand_in_the_prompts_that_choose_what_to_do():
    composed = solved("r-compile", candidate_ms=0.6)
    composed = dataclasses.replace(composed, candidate=dataclasses.replace(composed.candidate, recipes=("compile",)))
    for role in (Role.BRAINSTORM, Role.OPTIMISE, Role.PLAN):
        user = render(make(role, H100, original_profile=GPU_PROFILE, known=(composed,), reference_ms=1.25)).user
        assert "Where the original's time goes" in user
        assert "at least: 0.00141 ms of memory, 0.000271 ms of arithmetic" in user
        assert "`torch.compile` alone: 0.6 ms, 2.08 times as fast" in user
        assert "tensor cores for FP16" in user


def too_much(most_tokens):
    shown = tuple(planned(solved(source="# x\n" * 500), f"c{n}") for n in range(9, 14))
    terms = PromptTerms(daring=True, repairs=5, most_tokens=most_tokens)
    return make(device=H100, seed=solved(), inspirations=shown, failed=(refused(),), terms=terms)


def test_a_prompt_is_cut_to_the_window_and_seed_and_contract_stay():
    whole = render(too_much(0))
    for most in (8_000, 6_000, 4_000):
        prompt = render(too_much(most))
        assert approximate_tokens(prompt.system + prompt.user) <= most * 3 / 4
        assert "fused in one kernel" in prompt.user
        assert "## What the file must be" in prompt.user
    assert "## Worked examples" in whole.user
    assert "## Worked examples" not in prompt.user


def test_a_window_without_room_for_the_original_is_a_users_mistake():
    with pytest.raises(PromptTooLong, match=r"a window of 900 has room for 675 .* raise prompt.most_tokens"):
        asyncio.run(LlmAgent({}).act(make(terms=PromptTerms(most_tokens=900))))


def test_a_seed_that_has_outgrown_the_window_ends_its_step_and_not_the_run():
    large = solved(source="# x\n" * 9_000)
    context = make(seed=large, step={"seed": "c3"}, terms=PromptTerms(most_tokens=4_000))
    proposal = asyncio.run(LlmAgent({}).act(context))
    assert "a window of 4000" in proposal.failure


def test_a_folder_of_templates_takes_the_place_of_shipped_ones(tmp_path):
    (tmp_path / "system_coa.md").write_text("You answer in rhyme about {{ device.name }}.\n")
    prompt = render(make(terms=PromptTerms(folder=str(tmp_path))))
    assert prompt.system == f"You answer in rhyme about {CPU.name}."
    assert prompt.user == render(make()).user
    assert prompts_version(str(tmp_path)) != prompts_version()
    assert len(prompts_version()) == 12


def test_a_folder_that_cannot_be_used_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match="holds no template"):
        prompts_version(str(tmp_path / "nowhere"))
    (tmp_path / "system_coo.md").write_text("x")
    with pytest.raises(UserError, match=r"system_coo\.md .* did you mean 'system_coa\.md'"):
        prompts_version(str(tmp_path))
    (tmp_path / "system_coa.md").write_text("{{ device.colour }}")
    with pytest.raises(UserError, match=r"The prompt system_coa\.md .*'colour'"):
        render(make(terms=PromptTerms(folder=str(tmp_path))))
