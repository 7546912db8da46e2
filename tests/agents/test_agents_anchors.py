"""Anchors are found where they are well formed, and nothing changes unseen outside of them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pike.agents.reading.anchors import BEGINS, ENDS, drift, mismatch, read

TEXT = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=12)


def without_markers(text: str) -> bool:
    return "<<<" not in text


@st.composite
def files(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int]]]:
    """A file of distinct lines of code, and the ranges of lines that a plan wants changed."""
    size = draw(st.integers(1, 12))
    indents = draw(st.lists(st.sampled_from(["", "    ", "\t"]), min_size=size, max_size=size))
    lines = [f"{indent}line_{number} = {number}" for number, indent in enumerate(indents)]
    cuts = sorted(draw(st.lists(st.integers(0, size), min_size=2, max_size=6)))
    return lines, list(zip(cuts[::2], cuts[1::2], strict=False))


def plan_for(lines: list[str], ranges: list[tuple[int, int]], instruction: str = "do it") -> str:
    out, at = [], 0
    for begin, end in ranges:
        out += [*lines[at:begin], f"  # {BEGINS}", f"# {instruction}", *lines[begin:end], f"# {ENDS}  "]
        at = end
    return "\n".join([*out, *lines[at:]])


def carried_out(lines: list[str], ranges: list[tuple[int, int]], new: list[str]) -> list[str]:
    out, at = [], 0
    for begin, end in ranges:
        out += [*lines[at:begin], *new]
        at = end
    return [*out, *lines[at:]]


def outside(lines: list[str], ranges: list[tuple[int, int]]) -> list[int]:
    return [i for i in range(len(lines)) if not any(begin <= i < end for begin, end in ranges)]


@given(files(), TEXT.filter(without_markers))
def test_anchors_put_around_any_lines_are_found_and_fit_the_file(made, instruction: str) -> None:
    lines, ranges = made
    assume(instruction.strip())
    plan = read(plan_for(lines, ranges, instruction))
    assert [span.instruction for span in plan.spans] == [instruction.strip()] * len(ranges)
    assert [list(span.code) for span in plan.spans] == [lines[begin:end] for begin, end in ranges]
    assert mismatch(plan, "\n".join(lines)) == ""
    assert mismatch(plan, "\r\n".join(f"{line}  \t" for line in lines) + "\n\n") == ""


@given(files(), st.lists(TEXT.filter(without_markers), max_size=4))
def test_whatever_replaces_a_span_is_no_drift(made, new: list[str]) -> None:
    lines, ranges = made
    plan = read(plan_for(lines, ranges))
    body = carried_out(lines, ranges, [f"new {text}" for text in new])
    assert drift(plan, "\n".join(body)) == ""
    dressed = ["# what makes it fast", "import triton", "from torch import (", "    nn,", ")", "", *body, "", "  "]
    assert drift(plan, "\n".join(f"{line}   " for line in dressed)) == ""


@given(files(), st.data())
def test_one_line_changed_outside_the_spans_is_drift(made, data: st.DataObject) -> None:
    lines, ranges = made
    left = outside(lines, ranges)
    assume(left)
    victim = data.draw(st.sampled_from(left))
    edited = [*lines]
    edited[victim] = data.draw(st.sampled_from([lines[victim] + " + 1", " " + lines[victim], "# gone", "pass"]))
    plan = read(plan_for(lines, ranges))
    body = "\n".join(carried_out(edited, ranges, ["new = 1"]))
    assert drift(plan, body)
    assert mismatch(plan, "\n".join(edited))


@given(files(), st.data())
def test_one_line_lost_outside_the_spans_is_drift(made, data: st.DataObject) -> None:
    lines, ranges = made
    left = outside(lines, ranges)
    assume(left)
    lost = lines[data.draw(st.sampled_from(left))]
    plan = read(plan_for(lines, ranges))
    assert drift(plan, "\n".join(line for line in carried_out(lines, ranges, ["new = 1"]) if line != lost))


@given(files(), st.data())
def test_one_line_put_in_between_two_that_no_anchor_parts_is_drift(made, data: st.DataObject) -> None:
    lines, ranges = made
    borders = {border for pair in ranges for border in pair}
    left = set(outside(lines, ranges))
    inner = [i for i in left if i - 1 in left and i not in borders]
    assume(inner)
    at = data.draw(st.sampled_from(inner))
    marked = [*lines[:at], "EXTRA", *lines[at:]]
    moved = [(b + (b >= at), e + (e > at)) for b, e in ranges]
    plan = read(plan_for(lines, ranges))
    assert drift(plan, "\n".join(carried_out(marked, moved, ["new = 1"])))


@given(files(), st.data())
def test_an_anchor_line_lost_or_doubled_is_refused(made, data: st.DataObject) -> None:
    lines, ranges = made
    text = plan_for(lines, ranges).split("\n")
    marks = [i for i, line in enumerate(text) if "<<<" in line]
    at = data.draw(st.sampled_from(marks))
    for broken in ([*text[:at], *text[at + 1 :]], [*text[:at], text[at], *text[at:]]):
        with pytest.raises(ValueError, match="anchor"):
            read("\n".join(broken))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "no anchor"),
        (f"# {BEGINS}\nx = 1\n# {ENDS}", "no instruction"),
        (f"x = 1  # {BEGINS}\n# do\n# {ENDS}", "line of its own"),
        (f"# {BEGINS}\n# do\nx = 1  # {ENDS}", "line of its own"),
        (f"# {BEGINS} do {ENDS}", "line of its own"),
        (f"# {BEGINS}\n# do\n# {ENDS} and then", "line of its own"),
        (f"# {BEGINS}\n# do\n# {BEGINS}\n# {ENDS}\n# {ENDS}", "inside another"),
        (f"# {ENDS}\n# {BEGINS}", "not begun"),
        (f"# {BEGINS}\n# do", "not ended"),
    ],
)
def test_what_is_malformed_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(text)


def test_an_instruction_may_begin_beside_its_anchor_and_stand_in_cpp() -> None:
    plan = read(f"// {BEGINS} tile by 32\n// and unroll\nint x;\n// {ENDS}\n/* {BEGINS} fuse */\n/* {ENDS} */")
    assert [span.instruction for span in plan.spans] == ["tile by 32\nand unroll", "fuse"]
    assert plan.spans[0].code == ("int x;",)


def test_imports_may_come_and_go_but_only_at_module_level() -> None:
    plan = read(f"import a\nclass M:\n    x = 1\n# {BEGINS}\n# do\n# {ENDS}")
    assert drift(plan, "from b import \\\n    c\nclass M:\n    x = 1\nnew = 2") == ""
    assert "import d" in drift(plan, "import a\nclass M:\n    import d\n    x = 1")


def test_a_comment_counts_below_the_first_line_of_code() -> None:
    plan = read(f"x = 1\n#define N 4\ny = 2\n# {BEGINS}\n# do\n# {ENDS}")
    assert drift(plan, "# title\nx = 1\n#define N 4\ny = 2") == ""
    assert "#define N 8" in drift(plan, "x = 1\n#define N 8\ny = 2")


def test_pieces_that_overlap_do_not_count_twice() -> None:
    plan = read(f"a = 1\nb = 2\n# {BEGINS}\n# do\n# {ENDS}\na = 1\nb = 2")
    assert drift(plan, "a = 1\nb = 2\na = 1\nb = 2") == ""
    assert drift(plan, "a = 1\nb = 2\n")


def test_a_line_that_stands_twice_must_be_there_twice() -> None:
    span = f"# {BEGINS}\n# do\n# {ENDS}"
    plan = read(f"a = 1\n{span}\nx = 0\n{span}\nx = 0\n{span}\nb = 2")
    assert drift(plan, "a = 1\nx = 0\nx = 0\nb = 2") == ""
    assert drift(plan, "a = 1\nx = 0\nb = 2")
