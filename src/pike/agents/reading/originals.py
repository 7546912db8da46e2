"""The original model as a candidate file, so that a first plan has a file for its anchors.

Knows how the text of a task becomes a file with `ModelNew` that computes the same: its class is
renamed, the functions that only a task needs are left out, and a live module is wrapped. Does not
run or judge anything.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

from pike.agents.reading.blocks import blocks
from pike.agents.reading.extract import CLASS_NAME
from pike.core.task import Task, TaskKind
from pike.core.text.parsing import parse

_CLASS = "Model"
_TASKS_OWN = frozenset({"get_inputs", "get_init_inputs", "get_held_out_inputs", "initialise"})
_MODULE_SEED = Path(__file__).parents[1] / "templates" / "module_seed.md"


def original_file(task: Task) -> str:
    """The original as a candidate."""
    if task.kind is TaskKind.MODULE:
        return blocks(_MODULE_SEED.read_text(encoding="utf-8"))[0].text + "\n"
    try:
        return _renamed(_without_tasks_own(task.source))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return re.sub(rf"\b{_CLASS}\b", CLASS_NAME, task.source)


def _without_tasks_own(source: str) -> str:
    """The file without the functions that only a task needs, unless the model uses them."""
    tree = parse(source)
    drawing = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in _TASKS_OWN]
    inside = {id(name) for node in drawing for name in ast.walk(node)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in inside)
    if any(name.id in _TASKS_OWN for name in names):
        return source
    lines = source.split("\n")
    for node in reversed(drawing):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
        while first and not lines[first - 1].strip():
            first -= 1
        del lines[first : node.end_lineno]
    return "\n".join(lines).strip("\n") + "\n"


def _renamed(source: str) -> str:
    """The file with every name `Model` made `ModelNew`; attributes, strings and comments stay."""
    lines = source.split("\n")
    previous = ""
    places = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string == _CLASS and previous != ".":
            places.append(token.start)
        if token.string.strip():
            previous = token.string
    for row, column in reversed(places):
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}{CLASS_NAME}{line[column + len(_CLASS) :]}"
    return "\n".join(lines)
