"""From an answer to a verified plan, and from a plan to a file that keeps to it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from agents_material import CANDIDATE, MODEL, MODULE_TASK, PLAN, SOURCE_TASK, make, needed, refused, solved

from pike.agents.reading.anchors import BEGINS, ENDS
from pike.agents.reading.originals import original_file
from pike.agents.reading.plans import DRIFT, find, improvable, instructions, refusal
from pike.core.query import Answer, Finish
from pike.core.step import Role
from pike.core.verdict.evaluation import Status


def answer(block: str, finish: Finish = Finish.STOP, closed: bool = True) -> Answer:
    return Answer(f"Because of this and that.\n```python\n{block}" + ("```\n" if closed else ""), finish, "planner")


def test_a_plan_that_fits_its_seed_is_taken() -> None:
    found = find(answer(PLAN), CANDIDATE)
    assert (found.text, found.failure) == (PLAN, "")
    assert instructions(found.text)[0].startswith("Fuse the ReLU")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(PLAN.replace("fused in one", "fused into one")), "does not match the file"),
        (answer(PLAN.replace("import torch\n", "import torch\nimport triton\n")), "does not match the file"),
        (answer(PLAN.replace(f"    # {ENDS}\n", "")), "no anchor|not ended"),
        (answer(CANDIDATE), "no code block has an anchor"),
        (Answer("Fuse everything."), "no code block has an anchor"),
        (Answer("First, fuse", Finish.LENGTH), "no code block has an anchor (it was cut off by the output limit)"),
        (Answer(""), "no code block has an anchor"),
        (answer(PLAN[:-30], Finish.LENGTH, closed=False), "cut off"),
        (answer(PLAN.replace("pass", "pass\n" + "    # x\n" * 200_000)), "larger than"),
    ],
)
def test_an_answer_without_a_usable_plan_says_why(given: Answer, why: str) -> None:
    found = find(given, CANDIDATE)
    assert found.text == ""
    assert any(words in found.failure for words in why.split("|")), found.failure


def test_of_several_blocks_the_last_plan_counts_and_fences_inside_are_no_end() -> None:
    seed = CANDIDATE.replace("pass", '"""Like this:\n    ```\n    x\n    ```\n    """')
    plan = PLAN.replace("    pass\n", '    """Like this:\n    ```\n    x\n    ```\n    """\n')
    first = f"```python\n# {BEGINS}\n# An example.\n# {ENDS}\n```\n"
    assert find(Answer(f"{first}\n```python\n{plan}```\n```text\nthe end\n```"), seed).text == plan


def test_the_original_of_a_file_is_the_file_with_its_class_renamed() -> None:
    source = MODEL + "\n\nclass Models:\n    note = 'Model'  # Model\n\n\nbase = nn.Model\nModel.mark = 1\n"
    found = original_file(replace(SOURCE_TASK, source=source))
    assert "class ModelNew(nn.Module):" in found
    assert "ModelNew.mark = 1" in found
    for kept in ("class Models:", "note = 'Model'  # Model", "base = nn.Model\n"):
        assert kept in found


def test_what_only_a_task_needs_is_left_out_of_its_original() -> None:
    found = original_file(replace(SOURCE_TASK, source=f"{MODEL}\n\n# The end.\nSIZE = 3\n"))
    assert (
        found
        == MODEL.partition("\n\n\ndef get_inputs")[0].replace("Model(", "ModelNew(") + "\n\n\n# The end.\nSIZE = 3\n"
    )
    used = MODEL.replace("super().__init__()", "super().__init__()\n        self.example = get_inputs()")
    assert "def get_inputs" in original_file(replace(SOURCE_TASK, source=used))


def test_an_original_that_is_no_python_is_renamed_all_the_same() -> None:
    assert "class ModelNew(" in original_file(replace(SOURCE_TASK, source="class Model(nn.Module):\n  '''open"))


def test_the_original_of_a_live_module_is_a_candidate_that_wraps_it() -> None:
    tree = ast.parse(original_file(MODULE_TASK))
    (kind,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert kind.name == "ModelNew"
    assert {node.name for node in kind.body if isinstance(node, ast.FunctionDef)} >= {"from_reference", "forward"}


def test_a_plan_improves_its_seed() -> None:
    assert improvable(make(Role.PLAN, seed=solved())) == CANDIDATE
    assert improvable(make(Role.PLAN)) == original_file(SOURCE_TASK)


KEPT = CANDIDATE.replace("    pass\n", "    def forward(self, x):\n        return x\n")


def test_a_file_that_keeps_to_the_anchors_is_not_refused() -> None:
    context = make(Role.CODE, **needed(Role.CODE))
    assert refusal(context, KEPT) == ""
    assert refusal(context, "import triton\n" + KEPT) == ""
    assert refusal(context, KEPT.replace("Module):", "Module):\n    mark = 1")) == ""


@pytest.mark.parametrize(
    "source", [KEPT.replace("torch.nn.Module", "nn.Module"), PLAN, f"{KEPT}# {ENDS}\n", f"import torch\n{'x = 1'}\n"]
)
def test_a_file_that_left_the_anchors_is_refused_as_drift(source: str) -> None:
    reason = refusal(make(Role.CODE, **needed(Role.CODE)), source)
    assert reason.startswith(DRIFT)
    assert DRIFT == "anchor drift: "


def test_a_plan_in_words_binds_nobody() -> None:
    assert refusal(make(Role.CODE, step={"plan": "use channels_last"}), CANDIDATE + "x = 1\n") == ""


def test_a_repair_is_free_unless_it_repairs_a_drift() -> None:
    step = {"plan": PLAN}
    drifted = refused(Status.PARSE_ERROR, f"{DRIFT}a line is missing")
    assert refusal(make(Role.DEBUG, failing=refused(), step=step), CANDIDATE + "x = 1\n") == ""
    assert refusal(make(Role.DEBUG, failing=drifted, step=step), KEPT) == ""
    assert refusal(make(Role.DEBUG, failing=drifted, step=step), KEPT.replace("torch", "t")).startswith(DRIFT)
    assert refusal(make(Role.DEBUG, failing=refused(), step=step), PLAN).startswith(DRIFT)
