"""The files that a task rests on: its own file, a saved module, and what they import beside them.

Knows how imports name files. Runs none of them, and does not know who looks at them later.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pike.core.task import TaskFile
from pike.core.text.parsing import parse


def task_files(paths: Iterable[Path], roots: Iterable[str]) -> tuple[TaskFile, ...]:
    """The files in `paths` and all that they import from the folders in `roots`, with digests.

    Where an import finds nothing, the file that it would find has an empty digest: one that comes
    later would be imported in the place of another.
    """
    folders = tuple(Path(root) for root in roots)
    found: dict[Path, TaskFile] = {}
    left = [path.resolve() for path in paths]
    while left:
        path = left.pop()
        if path in found:
            continue
        if not path.is_file():
            found[path] = TaskFile(str(path), "")
            continue
        with path.open("rb") as file:
            found[path] = TaskFile(str(path), hashlib.file_digest(file, "sha256").hexdigest())
        if path.suffix == ".py":
            left += _imported(path, folders)
    return tuple(found[path] for path in sorted(found))


def _imported(path: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    try:
        tree = parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (place for alias in node.names for place in _places(alias.name, roots))
        elif isinstance(node, ast.ImportFrom):
            bases = (path.parents[node.level - 1],) if 0 < node.level <= len(path.parents) else roots
            names = (".".join(filter(None, (node.module, alias.name))) for alias in node.names)
            yield from (place for name in names for place in _places(name, bases))


def _places(name: str, bases: Iterable[Path]) -> Iterator[Path]:
    """Where `import name` may find files: those of the module and of the packages around it."""
    for base in bases:
        place = base
        for part in name.split("."):
            place /= part
            yield from (place.with_suffix(".py"), place / "__init__.py")
            if not place.is_dir():
                break
