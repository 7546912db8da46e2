"""The small variant of a task: the same file with other numbers.

Knows the convention. `SMALL` in a file gives other values for some of its top-level constants, and
the variant is the file with those values written in. It stands alone like any task. Does not
execute the file.
"""

import ast
from dataclasses import replace

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.core.task import Task, TaskKind
from pike.core.text.parsing import parse

SUFFIX = ":small"
"""The name of a small variant ends with this."""


def split(text: str) -> tuple[str, bool]:
    """A name without the suffix, and whether it had one."""
    return text.removesuffix(SUFFIX), text.endswith(SUFFIX)


def small(task: Task) -> Task:
    """The small variant of `task`.

    Raises:
        UserError: the task declares none, or `SMALL` names what the file does not define.
    """
    if task.kind is not TaskKind.SOURCE:
        raise UserError(f"Task '{task.id}' has no small variant: only files declare one, as SMALL = {{...}}")
    body = parse(task.source).body
    constants = dict(found for node in body if (found := _constant(node)))
    if "SMALL" not in constants:
        raise UserError(f"Task '{task.id}' has no small variant: its file declares none as SMALL = {{...}}")
    source = task.source
    values = _values(task, constants)
    replaced = [(constants[name], text) for name, text in values.items()]
    for node, text in sorted(replaced, key=lambda pair: (pair[0].lineno, pair[0].col_offset), reverse=True):
        source = _replaced(source, node, text)
    return replace(task, id=task.id + SUFFIX, name=f"{task.name} (small)", source=source)


def _values(task: Task, constants: dict[str, ast.expr]) -> dict[str, str]:
    """The values in `SMALL`, as source text by constant."""
    listed = constants["SMALL"]
    if not isinstance(listed, ast.Dict) or not all(isinstance(key, ast.Constant) for key in listed.keys):
        raise UserError(f"Task '{task.id}': SMALL must be a dictionary with names of constants as its keys")
    values = {
        str(key.value): ast.unparse(value)
        for key, value in zip(listed.keys, listed.values, strict=True)
        if isinstance(key, ast.Constant)
    }
    known = constants.keys() - {"SMALL"}
    for name in values:
        if name not in known:
            raise UserError(
                f"Task '{task.id}': SMALL names '{name}', which the file does not define{nearest(name, known)}"
            )
    return values


def _constant(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name and value that a statement binds, None for other statements."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    return None


def _replaced(source: str, node: ast.expr, text: str) -> str:
    lines = source.splitlines(keepends=True)
    last = (node.end_lineno or node.lineno) - 1
    first = node.lineno - 1
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    return "".join([*lines[:first], head + text + tail, *lines[last + 1 :]])
