"""The glossary and the code hold together: one word, one meaning, and no word that was given up."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pike"
DATA = ("tasks/suites", "corpus/attacks", "corpus/honest", "gallery/")
"""Folders of Python files that are read as data and never imported."""
RETIRED = {
    "bench": "prepared task",
    "byhand": "external",
    "contestant": "contender",
    "crew": "agents",
    "handover": "transfer",
    "hush": "pause",
    "kin": "node",
    "lease": "device lock",
    "nursery": "warm processes",
    "opponent": "baseline",
    "opponents": "baselines",
    "purse": "shared budget",
    "regime": "input distribution",
    "regimes": "input distributions",
    "scribe": "journal writer",
    "seat": "worker",
    "seats": "workers",
    "twin": "reference process",
}
"""Words that were given up, and what stands in their place."""
MODULES = sorted(path for path in SOURCE.rglob("*.py") if not path.relative_to(SOURCE).as_posix().startswith(DATA))


def terms() -> list[str]:
    """The first cell of every row of the glossary's tables."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
    return [row.strip() for row in rows if row.strip() not in ("word", "---")]


def words(identifier: str) -> list[str]:
    """The words of a name in snake case or camel case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def test_every_term_stands_once() -> None:
    twice = [term for term, count in Counter(terms()).items() if count > 1]
    assert len(terms()) > 80 and not twice


def test_no_retired_word_is_a_term() -> None:
    assert not set(terms()) & set(RETIRED)


def test_no_class_name_stands_in_two_modules() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_no_retired_word_is_in_a_name() -> None:
    found = []
    for path in MODULES:
        place = path.relative_to(SOURCE).as_posix()
        found += [f"{place}: {word}" for word in words(place.removesuffix(".py")) if word in RETIRED]
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.NAME and token.string != "KernelBench":
                found += [
                    f"{place}:{token.start[0]}: {token.string} ({RETIRED[word]})"
                    for word in words(token.string)
                    if word in RETIRED
                ]
    assert not found, "\n".join(found)
