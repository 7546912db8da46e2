"""KernelBench-format files: checked by reading their syntax tree and turned into tasks.

Knows what such a file must define. Does not execute it: only the judge does.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from pike.core.errors import UserError, saying
from pike.core.task import Task, TaskKind
from pike.core.text.parsing import parse
from pike.tasks.files import task_files

NEEDED = {
    "Model": "a class Model(torch.nn.Module)",
    "get_inputs": "a function get_inputs() that returns the arguments of one forward call",
    "get_init_inputs": "a function get_init_inputs() that returns the arguments of Model's constructor",
}
"""The names that a KernelBench-format file defines at its top level, each with a description."""


def from_file(path: Path, *, id: str = "", alone: bool = False) -> Task:
    """The task in a KernelBench-format file.

    Args:
        path: the file.
        id: the task's id, the file's stem by default.
        alone: whether the file imports nothing from the files beside it.

    Raises:
        UserError: the file cannot be read, does not parse, or lacks a definition.
    """
    with saying(UserError, f"Task file {path} cannot be read"):
        source = path.read_text(encoding="utf-8")
    check(source, str(path))
    paths = () if alone else _siblings(path)
    files = task_files([path], paths)
    return Task(id or path.stem, _words(path.stem), TaskKind.SOURCE, source, str(path.resolve()), None, paths, files)


def from_text(source: str, *, id: str, origin: str) -> Task:
    """The task in a KernelBench-format text without a file; `origin` says where it came from."""
    check(source, origin)
    return Task(id, _words(id.rpartition("/")[2]), TaskKind.SOURCE, source, origin)


def looks_like_a_task(path: Path) -> bool:
    """Whether a file mentions a model and its inputs; others in a folder are no broken tasks."""
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
        tree = parse(source)
    except SyntaxError as error:
        raise UserError(f"Task file {origin} does not parse: line {error.lineno}: {error.msg}") from error
    bound = set(bound_names(tree.body))
    missing = [what for name, what in NEEDED.items() if name not in bound]
    if missing:
        raise UserError(f"Task file {origin} is not in KernelBench format: it lacks {' and '.join(missing)}")


def bound_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that a module's top level binds, in branches too but not in definitions."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        else:
            yield from bound_names(_statements(ast.iter_child_nodes(node)))


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            yield from node.body


def _siblings(path: Path) -> tuple[str, ...]:
    """The file's folder if other Python files lie in it, which the file may import."""
    folder = path.resolve().parent
    others = (other for other in folder.glob("*.py") if other.name not in (path.name, "__init__.py"))
    return (str(folder),) if any(others) else ()
