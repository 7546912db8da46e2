"""The import floors of docs/architecture.md, and the other promises that every module makes."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "pike"
BELOW_ENGINE = {
    "core",
    "tasks",
    "llm",
    "judge",
    "corpus",
    "search",
    "simulate",
    "store",
    "agents",
    "recipes",
    "baselines",
    "reporting",
}
FLOORS: dict[str, set[str]] = {
    "core": set(),
    "tasks": {"core"},
    "llm": {"core"},
    "judge": {"core"},
    "corpus": {"core", "judge"},
    "search": {"core"},
    "simulate": {"core", "search"},
    "store": {"core"},
    "agents": {"core", "llm"},
    "recipes": {"core"},
    "baselines": {"core"},
    "reporting": {"core", "store"},
    "engine": BELOW_ENGINE,
    "exchange": {"core", "tasks", "store", "reporting", "engine"},
    "api": {"core", "tasks", "reporting", "engine", "exchange"},
    "cli": {"core", "api", "server"},
    "server": {"core", "api"},
    "": {"core", "api", "cli"},
}
"""Room -> rooms that it may import; the empty name is the modules directly under `pike`."""

BARE = {"core": set[str](), "judge": {"numpy", "torch"}}
"""Rooms that must work on a bare machine -> what they may import besides the standard library."""

DATA = {SOURCE / "corpus" / folder for folder in ("attacks", "honest")} | {*(SOURCE / "gallery").iterdir()}
"""Folders of Python files that are read and never imported."""

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent not in DATA)
ROOMS = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def dotted(path: Path) -> str:
    parts = ("pike", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    parts = module.split(".")
    is_package = (SOURCE / parts[1]).is_dir() if len(parts) > 1 else False
    return parts[1] if is_package else ""


def imports_of(path: Path) -> Iterator[str]:
    """Every module that `path` imports anywhere, lazily or for types only included."""
    package = dotted(path).split(".") if path.name == "__init__.py" else dotted(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "pike")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pike":
            # After a bare `import pike` every room is within reach: what counts is which one is used.
            yield from [f"pike.{node.attr}"] * (not node.attr.startswith("__"))
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names = [alias.name for alias in node.names if not alias.name.startswith("__")]
            yield from (f"{base}.{name}" for name in names)


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_go_down_only(path: Path) -> None:
    room = room_of(dotted(path))
    assert room in FLOORS, f"the room {room!r} is new: give it a floor in this table and in docs/architecture.md"
    imported = {room_of(name) for name in imports_of(path) if name.split(".")[0] == "pike"}
    if room:
        assert imported <= FLOORS[room] | {room}
    else:
        assert imported - {""} <= FLOORS[""]


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(dotted(p)) in BARE], ids=dotted)
def test_bare_rooms_need_nothing_installed_but_torch(path: Path) -> None:
    allowed = sys.stdlib_module_names | {"pike"} | BARE[room_of(dotted(path))]
    assert {name.split(".")[0] for name in imports_of(path)} <= allowed


@pytest.mark.parametrize("path", sorted((SOURCE / "judge" / "child").rglob("*.py")), ids=dotted)
def test_the_child_imports_only_torch_and_core(path: Path) -> None:
    for name in imports_of(path):
        top, ours = name.split(".")[0], name.startswith(("pike.core.", "pike.judge.child"))
        assert top in sys.stdlib_module_names or top == "torch" or ours, name


def test_bare_rooms_import_where_everything_else_is_missing() -> None:
    modules = [dotted(path) for path in MODULES if room_of(dotted(path)) in BARE and path.stem != "__main__"]
    code = f"""
import importlib, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"typer", "click", "rich", "cloudpickle", "pydantic", "pydantic_ai", "openevolve", "httpx"}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
for name in {modules!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_module_says_what_it_knows(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{dotted(path)} has no docstring"
    assert docstring.split("\n\n")[0].rstrip().endswith("."), f"{dotted(path)} must open with a sentence"


@pytest.mark.parametrize("folder", ROOMS, ids=lambda folder: dotted(folder / "__init__.py"))
def test_all_is_what_is_visible(folder: Path) -> None:
    path = folder / "__init__.py"
    visible, declared = names_of(ast.parse(path.read_text()))
    if not visible and declared is None:
        return
    assert declared is not None, f"{dotted(path)} exposes {sorted(visible)} without __all__"
    assert len(declared) == len(set(declared)), f"{dotted(path)} lists a name twice"
    assert visible <= set(declared), f"{dotted(path)} exposes more than __all__ says"
    module = importlib.import_module(dotted(path))
    missing = [name for name in declared if not hasattr(module, name)]
    assert not missing, f"{dotted(path)} promises {missing} and does not have them"


def names_of(tree: ast.Module) -> tuple[set[str], list[str] | None]:
    """The public names of ours that a module binds at its top level, and what its `__all__` says."""
    bound: set[str] = set()
    declared: list[str] | None = None
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").split(".")[0] == "pike":
                bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = {target.id for target in targets if isinstance(target, ast.Name)}
            if "__all__" in named and node.value is not None:
                declared = list(ast.literal_eval(node.value))
            bound |= named
    return {name for name in bound if not name.startswith("_")}, declared


def measured() -> list[str]:
    path = SOURCE.parent.parent / "tools" / "measure_house.py"
    spec = importlib.util.spec_from_file_location("measure_house", path)
    assert spec is not None and spec.loader is not None
    measure_house = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = measure_house
    spec.loader.exec_module(measure_house)
    return list(measure_house.problems(measure_house.modules()))


def test_no_folder_is_crowded_no_class_stands_twice_and_no_imports_go_in_circles() -> None:
    assert measured() == []
