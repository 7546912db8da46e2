"""What a role sees of other candidates is bounded, and what is cut is said."""

from __future__ import annotations

import pytest
from agents_material import PLAN, make, needed, planned, refused, solved

from pike.agents.prompts.prompting import render
from pike.agents.prompts.windows import MOST_NODES, NODE_CHARACTERS, TEXT_CHARACTERS, WINDOW_CHARACTERS, window
from pike.core.step import Role
from pike.core.verdict.evaluation import Status


def line_of(name: str, characters: int) -> str:
    return "".join(f"{name} = {number:070d}\n" for number in range(characters // 75))


def test_seed_failing_and_repeats_are_not_shown_twice() -> None:
    nodes = (solved("c3"), solved("c5"), refused(), solved("c5"), solved("c6"))
    shown = window(make(Role.DEBUG, seed=solved("c3"), failing=refused(), inspirations=nodes)).nodes
    assert [node.solution.candidate.id for node in shown] == ["c5", "c6"]


def test_all_of_a_search_fits_into_the_bound_and_the_first_ones_are_whole() -> None:
    nodes = tuple(solved(f"c{i}", line_of(f"v{i}", 12_000)) for i in range(10, 40))
    found = window(make(Role.PLAN, inspirations=nodes))
    assert len(found.nodes) == MOST_NODES
    assert sum(len(node.code) for node in found.nodes) <= WINDOW_CHARACTERS
    assert [node.cut for node in found.nodes[:4]] == [""] * 4
    assert found.nodes[-1].code == ""
    assert "160 lines" in found.nodes[-1].cut
    assert found.left_out == "For want of room, 14 more candidates of the search cannot be shown."
    user = render(make(Role.PLAN, inspirations=nodes)).user
    assert found.left_out in user
    assert found.nodes[-1].cut in user


def test_a_long_file_is_cut_between_lines_and_says_so() -> None:
    source = line_of("v", 3 * NODE_CHARACTERS)
    (node,) = window(make(Role.CODE, inspirations=(solved("c5", source),), **needed(Role.CODE))).nodes
    assert NODE_CHARACTERS - 80 < len(node.code) <= NODE_CHARACTERS
    assert source.startswith(node.code)
    assert node.code.endswith("\n")
    assert node.cut == f"Cut for want of room: the first {node.code.count(chr(10))} of 640 lines."


def test_long_reasons_and_plans_are_cut() -> None:
    wordy = planned(refused(Status.RUNTIME_ERROR, "r" * 10_000), "c9", plan="p" * 10_000)
    (node,) = window(make(Role.PLAN, inspirations=(wordy,))).nodes
    for text in (node.verdict, node.plan):
        assert text.endswith(" [cut]")
        assert len(text) < TEXT_CHARACTERS + 10


@pytest.mark.parametrize("role", [Role.PLAN, Role.CODE, Role.DEBUG])
def test_every_role_of_stark_sees_how_others_did_and_what_they_were_to_do(role: Role) -> None:
    others = (planned(solved(candidate_ms=0.8), "c8", "c5"), planned(refused(reason="no such kernel"), "c9"))
    user = render(make(role, inspirations=others, **needed(role))).user
    for words in ("c8, made from c5", "0.8 ms", "c9, made from the original", "no such kernel", "Fuse the ReLU"):
        assert words in user


@pytest.mark.parametrize("role", [Role.PLAN, Role.CODE, Role.DEBUG])
def test_the_original_is_always_shown(role: Role) -> None:
    assert "class Model(nn.Module):" in render(make(role, seed=solved(), **needed(role))).user


def test_a_coding_step_needs_a_plan() -> None:
    with pytest.raises(ValueError, match="needs a plan"):
        render(make(Role.CODE))


def test_the_coder_sees_the_whole_plan_however_long() -> None:
    long = line_of("v", 90_000) + PLAN
    assert long.strip() in render(make(Role.CODE, step={"plan": long})).user
