"""Measures the house: modules per folder, lines per room, functions, prose of docstrings, class
names, circles.

Knows the source tree as text and syntax trees; imports nothing of it. `python
tools/measure_house.py` prints the table that `docs/architecture.md` shows, `--details` adds the
places to look at, `--write` puts the table into the page, and `--check` fails where the page or a
limit does not hold.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pike"
PAGE = ROOT / "docs" / "architecture.md"
DATA = ("tasks/suites", "corpus/attacks", "corpus/honest", "gallery/")
"""Folders of Python files that are read as data and never imported."""
UNCOUNTED = ("corpus", "recipes")
"""Rooms outside the line limit, as is the data above."""
MOST_MODULES = 12
AIM_LINES = 30_000
"""Of all kinds. It is not reached (docs/experiments/2026-11-24-size-of-the-house.md)."""
MOST_CODE_LINES = 30_000
"""The limit counts code only, so that documenting what is there costs nothing."""
MOST_FUNCTION_LINES = 50
MOST_SENTENCE_WORDS = 25
MOST_DOCSTRING_COLUMNS = 100
BEGIN, END = "<!-- house: begin -->", "<!-- house: end -->"


@dataclass(frozen=True)
class Module:
    """One file of the source."""

    path: Path

    @cached_property
    def text(self) -> str:
        """What it holds."""
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def place(self) -> str:
        """Its path below `src/pike`."""
        return self.path.relative_to(SOURCE).as_posix()

    @property
    def room(self) -> str:
        """The folder under `src/pike` in which it lies, empty for modules directly in it."""
        return self.place.partition("/")[0] if "/" in self.place else ""

    @property
    def lines(self) -> int:
        """Its lines, blank ones and comments included."""
        return self.text.count("\n")

    @property
    def dotted(self) -> tuple[str, ...]:
        """Its import path."""
        parts = ("pike", *self.path.relative_to(SOURCE).with_suffix("").parts)
        return parts[:-1] if parts[-1] == "__init__" else parts

    def functions(self) -> Iterator[tuple[str, int, int]]:
        """Name, line and length in lines of every function and method."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1

    def classes(self) -> Iterator[str]:
        """The public classes at its top level."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name

    def docstrings(self) -> Iterator[tuple[int, str]]:
        """Line and text, as written, of every docstring."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if not isinstance(body, list):
                continue
            for statement in body:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.lineno, value.value

    def imports(self) -> Iterator[tuple[str, ...]]:
        """The import paths of ours that it names anywhere, lazily or for types only included."""
        package = self.dotted if self.path.name == "__init__.py" else self.dotted[:-1]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (tuple(alias.name.split(".")) for alias in node.names if alias.name.startswith("pike."))
            elif isinstance(node, ast.ImportFrom):
                start = package[: len(package) - node.level + 1] if node.level else ()
                base = (*start, *(node.module.split(".") if node.module else ()))
                if base[:1] == ("pike",):
                    yield from ((*base, alias.name) for alias in node.names)


def modules() -> tuple[Module, ...]:
    """Every module of the house; files that are data are none."""
    kept = (path for path in SOURCE.rglob("*.py") if not path.relative_to(SOURCE).as_posix().startswith(DATA))
    return tuple(Module(path) for path in sorted(kept))


def sentences(text: str) -> Iterator[tuple[str, int]]:
    """The sentences of a docstring's prose and their words; examples, tables and lists of fields
    are left out."""
    kept = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith((">>>", "...", "|", "```")) or bare in ("Args:", "Returns:", "Raises:", "Attributes:"):
            bare = "."
        kept.append(re.sub(r"^[\w*., |`]{1,40}: ", "", bare) if re.match(r"^\w+: ", bare) else bare or ".")
    for sentence in re.split(r"(?<=[.!?])\s+", " ".join(kept)):
        words = re.findall(r"[A-Za-z`][\w`'/.-]*", sentence)
        if len(words) > 1:
            yield sentence.strip(), len(words)


def crowded(house: Sequence[Module]) -> dict[str, int]:
    """Folders with more modules than allowed."""
    count: dict[str, int] = defaultdict(int)
    for module in house:
        if module.path.name not in ("__init__.py", "__main__.py"):
            count[module.path.parent.relative_to(SOURCE.parent).as_posix()] += 1
    return {folder: number for folder, number in sorted(count.items()) if number > MOST_MODULES}


def named_twice(house: Sequence[Module]) -> dict[str, list[str]]:
    """Public class names that stand in more than one module."""
    where: dict[str, list[str]] = defaultdict(list)
    for module in house:
        for name in module.classes():
            where[name].append(module.place)
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


def circles(house: Sequence[Module]) -> list[tuple[str, ...]]:
    """Groups of children of one folder, files or folders, that import each other in a circle."""
    paths = {module.dotted for module in house}
    arrows: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module in house:
        for name in module.imports():
            target = name if name in paths else name[:-1]
            if target not in paths or target == module.dotted:
                continue
            shared = _shared(module.dotted, target)
            if shared and len(module.dotted) > shared and len(target) > shared:
                arrows[target[:shared]][module.dotted[shared]].add(target[shared])
    found = []
    for folder, graph in sorted(arrows.items()):
        found += [tuple(".".join((*folder, name)) for name in group) for group in _components(graph)]
    return found


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def _components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node, by mutual reachability."""
    reach = {name: _reachable(graph, name) for name in graph}
    groups: list[list[str]] = []
    for name in sorted(graph):
        if any(name in group for group in groups):
            continue
        group = sorted({name} | {other for other in reach[name] if name in reach.get(other, set())})
        if len(group) > 1:
            groups.append(group)
    return groups


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = list(graph.get(start, ()))
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left.extend(graph.get(name, ()))
    return seen


def rooms(house: Sequence[Module]) -> dict[str, list[Module]]:
    """The modules of each room."""
    found: dict[str, list[Module]] = defaultdict(list)
    for module in house:
        found[module.room or "(top)"].append(module)
    return dict(sorted(found.items()))


def counted_lines(house: Sequence[Module]) -> int:
    """Lines of everything but suites, corpus and recipes."""
    return sum(module.lines for module in house if module.room not in UNCOUNTED)


def kinds_of_lines(house: Sequence[Module]) -> Counter[str]:
    """The same lines by kind; a comment counts as code."""
    found: Counter[str] = Counter()
    for module in house:
        if module.room in UNCOUNTED:
            continue
        docstrings, imports = _docstring_lines(module), _import_lines(module)
        for number, line in enumerate(module.text.splitlines(), 1):
            kind = "docstring" if number in docstrings else "import" if number in imports else "code"
            found[kind if line.strip() or kind == "docstring" else "blank"] += 1
    return found


def table(house: Sequence[Module]) -> str:
    """The rooms in Markdown."""
    rows = [
        "| room | modules | lines | median function | longest function | median sentence | sentences over 25 words |",
        "|---|---|---|---|---|---|---|",
    ]
    for room, inside in [*rooms(house).items(), ("all", list(house))]:
        lengths = [length for module in inside for _, _, length in module.functions()] or [0]
        words = [count for module in inside for _, text in module.docstrings() for _, count in sentences(text)] or [0]
        long = 100.0 * sum(count > MOST_SENTENCE_WORDS for count in words) / len(words)
        figures = (
            len(inside),
            f"{sum(module.lines for module in inside):,}",
            f"{statistics.median(lengths):.0f}",
            max(lengths),
            f"{statistics.median(words):.0f}",
            f"{long:.0f} %",
        )
        rows.append(f"| {room} | " + " | ".join(map(str, figures)) + " |")
    lines, kinds = counted_lines(house), kinds_of_lines(house)
    rows += [
        "",
        f"Without suites, corpus and recipes: {lines:,} lines (aim {AIM_LINES:,}).",
        f"Of these {kinds['code']:,} are code (limit {MOST_CODE_LINES:,}), {kinds['docstring']:,} docstrings,",
        f"{kinds['import']:,} imports and {kinds['blank']:,} blank.",
    ]
    return "\n".join(rows)


def problems(house: Sequence[Module]) -> list[str]:
    """Every limit that does not hold, a line each."""
    found = [f"{folder} holds {number} modules, more than {MOST_MODULES}" for folder, number in crowded(house).items()]
    found += [f"class {name} stands in {', '.join(places)}" for name, places in named_twice(house).items()]
    found += [f"circle: {' <-> '.join(circle)}" for circle in circles(house)]
    code = kinds_of_lines(house)["code"]
    if code > MOST_CODE_LINES:
        found.append(f"{code:,} lines of code without suites, corpus and recipes, more than {MOST_CODE_LINES:,}")
    return found


def details(house: Sequence[Module], room: str) -> Iterator[str]:
    """Places to look at: long functions, sentences and docstring lines."""
    for module in house:
        if room and not module.place.startswith(room):
            continue
        for name, line, length in module.functions():
            if length > MOST_FUNCTION_LINES:
                yield f"{module.place}:{line}: function {name} has {length} lines"
        for line, text in module.docstrings():
            for sentence, count in sentences(text):
                if count > MOST_SENTENCE_WORDS:
                    yield f"{module.place}:{line}: {count} words: {sentence}"
        inside = _docstring_lines(module)
        for number, text in enumerate(module.text.splitlines(), 1):
            if len(text) > MOST_DOCSTRING_COLUMNS and number in inside:
                yield f"{module.place}:{number}: docstring line of {len(text)} columns"


def _docstring_lines(module: Module) -> set[int]:
    return {line + at for line, text in module.docstrings() for at in range(text.count("\n") + 1)}


def _import_lines(module: Module) -> set[int]:
    nodes = (node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def main(words: Sequence[str] | None = None) -> int:
    """Print, write or check; the exit code is 1 where a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--details", nargs="?", const="", metavar="ROOM", help="places to look at, of one room or all")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--check", action="store_true", help="fail where the page or a limit does not hold")
    given = parser.parse_args(words)
    house = modules()
    if given.details is not None:
        print("\n".join(details(house, given.details)))
    text = table(house)
    print(text)
    found = problems(house)
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    shown, _, after = rest.partition(END)
    if given.write and begin:
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    elif given.check and shown.strip() != text.strip():
        found.append(f"{PAGE.relative_to(ROOT)} shows another table: run python tools/measure_house.py --write")
    print("\n".join(found) or "every limit holds")
    return 1 if given.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
