"""The suites inside the package: folders of KernelBench-format files.

Knows where they lie, and that a suite's own extra is called like the suite. Does not know any
single task.
"""

import ast
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pike.core.errors import UserError
from pike.core.task import Task
from pike.core.text.parsing import parse
from pike.tasks.sources import from_file
from pike.tasks.suite import Suite, SuiteEntry, by_number

FOLDER = Path(__file__).parent.parent / "suites"
"""The folder of the shipped suites, which are one folder each."""


def names() -> tuple[str, ...]:
    """The names of the installed suites, in alphabetical order."""
    return tuple(sorted(entry.name for entry in FOLDER.iterdir() if entry.is_dir() and any(entry.glob("*.py"))))


def load(name: str) -> Suite | None:
    """The shipped suite of that name, None if there is none."""
    if name not in names():
        return None
    files = [path for path in (FOLDER / name).glob("*.py") if not path.name.startswith("_")]
    return Suite(name, tuple(_entry(name, path) for path in sorted(files, key=lambda path: by_number(path.stem))))


def _entry(suite: str, path: Path) -> SuiteEntry:
    id = f"{suite}/{path.stem}"
    return SuiteEntry(path.stem, id, id, str(path), partial(_read, path, suite))


def _read(path: Path, suite: str) -> Task:
    task = from_file(path, id=f"{suite}/{path.stem}", alone=True)
    for node in parse(task.source).body:
        named = [node.module] if isinstance(node, ast.ImportFrom) else []
        named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for package in (name.partition(".")[0] for name in named if name):
            if find_spec(package) is None:
                raise UserError(f"Task '{task.id}' needs {package}: pip install 'pike-torch[{suite}]'")
    return task
