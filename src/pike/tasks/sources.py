"""KernelBench-format files: checked by reading their syntax tree and turned into tasks.

Knows what such a file must define. Does not execute it: only the judge does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from pike.core.errors import UserError
from pike.core.task import Task, TaskKind

NEEDED = {
    "Model": "a class Model(torch.nn.Module)",
    "get_inputs": "a function get_inputs() that returns the arguments of one forward call",
    "get_init_inputs": "a function get_init_inputs() that returns the arguments of Model's constructor",
}
"""What a KernelBench-format file defines at its top level, and how to say so."""


def from_file(path: Path, *, id: str = "", name: str = "") -> Task:
    """The task in a KernelBench-format file.

    Args:
        path: the file.
        id: the task's id, the file's stem by default.
        name: what people read, the stem in words by default.

    Raises:
        UserError: the file cannot be read, does not parse, or lacks a definition.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Task file {path} cannot be read: {error}") from error
    check(source, str(path))
    return Task(
        id or path.stem, name or _words(path.stem), TaskKind.SOURCE, source, str(path.resolve()), None, _siblings(path)
    )


def from_text(source: str, *, id: str, origin: str) -> Task:
    """The task in a KernelBench-format text that lies in no file.

    Args:
        source: the text.
        id: the task's id.
        origin: where the text came from, for people.

    Raises:
        UserError: it does not parse, or lacks a definition.
    """
    check(source, origin)
    return Task(id, _words(id.rpartition("/")[2]), TaskKind.SOURCE, source, origin)


def looks_like_a_task(path: Path) -> bool:
    """Whether a file mentions what a task defines, so that other files in a folder are not taken for broken tasks."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return not path.name.startswith("_") and "class Model" in source and "get_inputs" in source


def _words(stem: str) -> str:
    return stem.replace("_", " ").replace("-", " ")


def check(source: str, origin: str) -> None:
    """Refuse a source text that is not in KernelBench format.

    Raises:
        UserError: with the line of a syntax error, or everything that is missing.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UserError(f"Task file {origin} does not parse: line {error.lineno}: {error.msg}") from error
    bound = set(bound_names(tree.body))
    missing = [what for name, what in NEEDED.items() if name not in bound]
    if missing:
        raise UserError(f"Task file {origin} is not in KernelBench format: it lacks {' and '.join(missing)}")


def bound_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that the statements of a module's top level bind, branches included, bodies of definitions not."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        else:
            inner = (child for child in ast.iter_child_nodes(node))
            yield from bound_names(_statements(inner))


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            yield from node.body


def _siblings(path: Path) -> tuple[str, ...]:
    """The file's folder where other Python files lie beside it, so that it may import them."""
    folder = path.resolve().parent
    others = (other for other in folder.glob("*.py") if other.name not in (path.name, "__init__.py"))
    return (str(folder),) if any(others) else ()
