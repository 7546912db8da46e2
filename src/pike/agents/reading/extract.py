"""The candidate file in the text of an answer, or the reason why there is none.

Knows fenced blocks in all the ways models write them, answers that were cut off, and bare code.
Does not judge the file: a complete block with a syntax error is still the file, and the judge
refuses it.
"""

import ast
import re
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache

from pike.agents.reading.blocks import CodeBlock, blocks
from pike.core.query import Finish
from pike.core.text.parsing import parse

CLASS_NAME = "ModelNew"
A_DIFF = "the answer is a diff: the whole file is needed"
SOURCE_BYTES = 512 * 1024
"""No honest candidate file is nearly as long."""

_CLASS_LINE = re.compile(rf"^[ \t]*class[ \t]+{CLASS_NAME}\b[ \t]*[(:]", re.MULTILINE)
_CODE_START = re.compile(r"^(?:import |from \w|class |def |@|\"\"\"|'''|#!)")
_DIFF = re.compile(r"^(?:@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|--- \S.*\n\+\+\+ \S)", re.MULTILINE)
_FILE_NAME = re.compile(r"\b(\w+)\.py\b")
_STARTS_TRIED = 10
_ENDS_TRIED = 6


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of reading an answer.

    Attributes:
        source: the file; if `refused`, the best guess, possibly empty.
        refused: why this is no candidate file, empty if it is one.
        files: how many different candidate files the answer holds.
    """

    source: str
    refused: str = ""
    files: int = 1


def extract(answer: str, finish: Finish = Finish.STOP) -> Extraction:
    """The candidate file in an answer.

    Of several blocks the last complete one that defines `ModelNew` counts; blocks are never put
    together. An unclosed block counts as complete if the model stopped by itself and the block is
    valid Python to its end.
    """
    text = answer.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    if not text.strip():
        return Extraction("", "the answer is empty" + cut_off(finish))
    found = blocks(text, _defines)
    complete = [
        block for block in found if block.closed or (finish is Finish.STOP and _parsed(block.text)[0] is not None)
    ]
    chosen = _choose(complete)
    if chosen is not None:
        files = len({block.text for block in complete if _defines(block.text)})
        return replace(_sized(chosen.text, _second_file(chosen, complete)), files=files)
    if not found:
        return _bare(text, finish)
    return _refusal(found, finish)


def _second_file(chosen: CodeBlock, complete: list[CodeBlock]) -> str:
    """Why the chosen block is not whole: it imports another block of the answer as a file."""
    for block in complete:
        named = _FILE_NAME.search(f"{block.info}\n{block.text.lstrip().partition(chr(10))[0]}")
        if named and block is not chosen and re.search(rf"^\s*(?:from|import) {named[1]}\b", chosen.text, re.MULTILINE):
            return f"the answer holds two files, and only one is taken: {named[0]} must stand in the file itself"
    return ""


def _choose(complete: list[CodeBlock]) -> CodeBlock | None:
    defining = [block for block in complete if _defines(block.text)]
    naming = [block for block in complete if _CLASS_LINE.search(block.text) and not _DIFF.search(block.text)]
    best = defining or naming
    return best[-1] if best else None


def _refusal(found: list[CodeBlock], finish: Finish) -> Extraction:
    last = found[-1]
    if not last.closed and finish is Finish.LENGTH:
        return _sized(last.text, "the answer was cut off by the output limit before its code block was complete")
    naming = [block for block in found if _CLASS_LINE.search(block.text) and not _DIFF.search(block.text)]
    if naming:
        return _sized(
            naming[-1].text, f"the code block with {CLASS_NAME} is not closed and not valid Python to its end"
        )
    if any(_DIFF.search(block.text) for block in found):
        return _sized(last.text, A_DIFF)
    longest = max(found, key=lambda block: len(block.text))
    which = "the code block does not define" if len(found) == 1 else f"none of the {len(found)} code blocks defines"
    return _sized(longest.text, f"{which} class {CLASS_NAME}{cut_off(finish)}")


def _bare(text: str, finish: Finish) -> Extraction:
    """An answer without any fence: code alone, or code with prose before and after it."""
    if not _CLASS_LINE.search(text) and not _DIFF.search(text):
        return _sized(text, f"the answer holds no code{cut_off(finish)}")
    if finish is Finish.LENGTH:
        return _sized(text, "the answer was cut off by the output limit")
    lines = text.split("\n")
    starts = [0, *(i for i, line in enumerate(lines) if _CODE_START.match(line))][:_STARTS_TRIED]
    for start in starts:
        source = _up_to_prose(lines[start:])
        if source:
            return _sized(source)
    if _DIFF.search(text):
        return _sized(text, A_DIFF)
    return _sized(text, "the answer mixes code and text without a code block")


def _up_to_prose(lines: list[str]) -> str:
    """The code at the beginning of `lines`, up to the prose; empty without `ModelNew`."""
    for _ in range(_ENDS_TRIED):
        source = "\n".join(lines)
        tree, failed_at = _parsed(source)
        if tree is not None:
            return source if _defines(source) else ""
        if not 1 < failed_at <= len(lines):
            return ""
        lines = lines[: failed_at - 1]
    return ""


def _sized(source: str, refused: str = "") -> Extraction:
    source = source.strip("\n") + "\n" if source.strip() else ""
    if len(source.encode("utf-8", "replace")) > SOURCE_BYTES:
        return Extraction(source[:10_000], refused or f"the file is larger than {SOURCE_BYTES // 1024} KiB")
    return Extraction(source, refused)


def cut_off(finish: Finish) -> str:
    """The end of a reason where the output limit cut the answer off."""
    return " (it was cut off by the output limit)" if finish is Finish.LENGTH else ""


@lru_cache(maxsize=4)
def _parsed(source: str) -> tuple[ast.Module | None, int]:
    """The syntax tree, or None and the line where parsing stopped (0 if unknown)."""
    if len(source) > SOURCE_BYTES:
        return None, 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse(source), 0
    except SyntaxError as error:
        return None, error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return None, 0


def _defines(source: str) -> bool:
    """Whether `source` is valid Python with `ModelNew` at module level, or in `if` or `try`."""
    if not _CLASS_LINE.search(source):
        return False
    tree, _ = _parsed(source)
    open_bodies = [tree.body] if tree else []
    while open_bodies:
        for node in open_bodies.pop():
            if isinstance(node, ast.ClassDef) and node.name == CLASS_NAME:
                return True
            if isinstance(node, ast.If | ast.Try | ast.With):
                open_bodies.append(node.body)
                open_bodies.append(getattr(node, "orelse", []))
                open_bodies += [handler.body for handler in getattr(node, "handlers", [])]
    return False
