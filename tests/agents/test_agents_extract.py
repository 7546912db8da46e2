import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike.agents import extract
from pike.agents.reading.extract import SOURCE_BYTES
from pike.core.query import Finish

GOOD = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
OLD = GOOD.replace("return x", "return x + 0")
HALF = GOOD[: GOOD.index("return x")] + "return torch.relu("
USAGE = "model = ModelNew()\n"
KERNEL = "void f() {}\n"
HELPER = "import torch\n\n\ndef helper():\n    return 1\n"


def block(code, bar="```", info="python", close=True):
    return f"{bar}{info}\n{code}" + (f"{bar}\n" if close else "")


@pytest.mark.parametrize(
    "answer",
    [
        block(GOOD),
        block(GOOD, info=""),
        block(GOOD, info="py title=model.py"),
        block(GOOD, bar="~~~"),
        block(GOOD, bar="`````"),
        f"Here is the file.\n\n{block(GOOD)}\nIt is faster because.",
        block(GOOD).replace("\n", "\r\n"),
        block(GOOD).replace("\n", "\r"),
        "\ufeff" + block(GOOD),
        "1. The file:\n\n" + "".join(f"   {line}\n" if line else "\n" for line in block(GOOD).split("\n")),
        block(GOOD, close=False),
        "Sure!\n" + block(GOOD, close=False),
        GOOD,
        f"Here you are:\n\n{GOOD}",
        f"{GOOD}\nThis is faster because it's fused.\nEnjoy it.",
        f"Here it is.\n{GOOD}\nIt doesn't copy any more.",
        f"{block(HELPER)}\nand\n{block(GOOD)}",
        f"{block(GOOD)}\nUsage:\n{block(USAGE)}",
        f"{block(KERNEL, info='cpp')}\n{block(GOOD)}",
        f"First try:\n{block(OLD)}\nBetter:\n{block(GOOD)}",
        f"{block(GOOD)}\n{block(HALF)}",
        f"```python\nimport torch\n\n{block(GOOD)}",
    ],
    ids=range(22),
)
def test_the_file_is_found(answer):
    found = extract(answer)
    assert found.refused == ""
    assert found.source == GOOD


def test_fences_in_a_docstring_belong_to_the_code():
    code = GOOD.replace(
        "    def forward", '    """Use it so:\n\n    ```\n    m = ModelNew()\n    ```\n    """\n\n    def forward'
    )
    for info in ("", "python"):
        code = code.replace("    ```\n    m", f"    ```{info}\n    m")
        assert extract(f"Look:\n{block(code)}\nDone.\n{block(USAGE)}").source == code


def test_blocks_are_never_put_together():
    found = extract(f"{block(HELPER)}\n{block(GOOD)}")
    assert "helper" not in found.source


def test_a_class_below_if_or_try_counts():
    code = "try:\n    import triton\nexcept ImportError:\n    triton = None\nif True:\n" + "".join(
        f"    {line}\n" if line else "\n" for line in GOOD.rstrip().split("\n")
    )
    assert extract(block(HELPER) + block(code)).refused == ""


def test_a_complete_block_with_a_syntax_error_is_for_the_judge():
    found = extract(block(HALF + "\n"))
    assert found.refused == ""
    assert "torch.relu(" in found.source


@pytest.mark.parametrize(
    ("answer", "finish", "reason", "source"),
    [
        ("", Finish.STOP, "empty", ""),
        ("  \n ", Finish.LENGTH, "output limit", ""),
        ("I cannot help with that.", Finish.STOP, "no code", "I cannot help"),
        (block(HELPER), Finish.STOP, "does not define class ModelNew", "helper"),
        (block(HELPER) + block("x = 1\n"), Finish.STOP, "none of the 2 code blocks", "helper"),
        (block(HALF, close=False), Finish.LENGTH, "cut off by the output limit", "torch.relu("),
        (block(GOOD, close=False), Finish.LENGTH, "cut off by the output limit", "ModelNew"),
        (block(HALF, close=False), Finish.STOP, "not closed", "torch.relu("),
        (GOOD, Finish.LENGTH, "cut off by the output limit", "ModelNew"),
        ("class ModelNew(: is what I'd write, but", Finish.STOP, "mixes code and text", "ModelNew"),
        (block(GOOD + "# " + "x" * SOURCE_BYTES + "\n"), Finish.STOP, "larger than", "ModelNew"),
    ],
)
def test_what_is_no_file_is_refused_with_a_reason(answer, finish, reason, source):
    found = extract(answer, finish)
    assert reason in found.refused
    assert source in found.source


def test_of_a_cut_off_answer_a_complete_block_is_used():
    found = extract(block(GOOD) + "And even better:\n" + block(HALF, close=False), Finish.LENGTH)
    assert (found.source, found.refused) == (GOOD, "")


PIECES = st.sampled_from(
    [
        "```",
        "````",
        "~~~",
        "```python",
        "\n",
        "\r\n",
        "class ModelNew(nn.Module):",
        "    x = 1",
        "text",
        " ",
        "'''",
        "(",
        "\x00",
    ]
)


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(list(Finish)))
def test_no_answer_raises_and_a_refusal_always_has_a_reason(answer, finish):
    found = extract(answer, finish)
    assert found.refused or "ModelNew" in found.source


def test_a_large_hostile_answer_is_read_quickly():
    import time

    started = time.monotonic()
    extract(("```python\nclass ModelNew(\n" * 3000) + "```\n" * 3000)
    extract("import x\nclass ModelNew(:\n" * 5000)
    assert time.monotonic() - started < 5


DIFF = """--- a/model.py
+++ b/model.py
@@ -4,3 +4,3 @@
 class ModelNew(torch.nn.Module):
     def forward(self, x):
-        return x
+        return torch.relu(x)
"""


@pytest.mark.parametrize("answer", [DIFF, f"Apply this:\n{block(DIFF, info='diff')}", block(DIFF, info=""), DIFF[30:]])
def test_a_diff_is_refused_as_a_diff(answer):
    assert "is a diff" in extract(answer).refused


def test_a_diff_beside_the_whole_file_does_no_harm():
    assert extract(f"{block(GOOD)}\nThe change:\n{block(DIFF, info='diff')}").source == GOOD


@pytest.mark.parametrize(
    "helper", [block(HELPER, info="python title=ops.py"), block(f"# ops.py\n{HELPER}"), block(HELPER, info="ops.py")]
)
def test_a_file_that_imports_another_of_the_answer_is_refused(helper):
    importing = f"from ops import helper\n{GOOD}"
    found = extract(f"{helper}\nand\n{block(importing)}")
    assert "two files" in found.refused and "ops.py" in found.refused
    assert found.source == importing
    assert extract(f"{helper}\nand\n{block(GOOD)}").refused == ""
