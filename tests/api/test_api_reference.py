"""The public names: the reference page lists each, its signature is whole, its example runs."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest
import torch
from api_material import CONVERTS, best_file

import pike

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api.md"
VERBS = [name for name in pike.__all__ if inspect.isfunction(getattr(pike, name))]
ORDER = [
    "optimize",
    "resume",
    "evaluate",
    "lint",
    "report",
    "load",
    "export",
    "import_runs",
    "estimate",
    "ask",
    "tell",
    "finish",
]
"""Verbs whose examples use what an earlier one left; the others come after them."""


def documented(name: str) -> set[str]:
    """The arguments in a docstring's section `Args`."""
    text = inspect.getdoc(getattr(pike, name)) or ""
    section = re.search(r"^Args:\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    return set(re.findall(r"^    (\w+):", section[1], re.MULTILINE)) if section else set()


def test_the_reference_page_lists_every_public_name_once() -> None:
    listed = re.findall(r"^::: pike\.(\w+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(set(pike.__all__) - {"__version__"})


@pytest.mark.parametrize("name", VERBS)
def test_a_signature_is_whole(name: str) -> None:
    parameters = inspect.signature(getattr(pike, name)).parameters.values()
    for position, parameter in enumerate(parameters):
        assert parameter.annotation not in (inspect.Parameter.empty, "Any"), parameter
        assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY), parameter
        assert parameter.kind is parameter.KEYWORD_ONLY or position < 3, parameter


@pytest.mark.parametrize("name", VERBS)
def test_a_docstring_names_every_argument_and_has_an_example(name: str) -> None:
    arguments = set(inspect.signature(getattr(pike, name)).parameters)
    text = inspect.getdoc(getattr(pike, name)) or ""
    assert text.splitlines()[0].endswith("."), "one sentence in one line"
    assert ">>> " in text
    assert documented(name) <= arguments
    # What a verb does not explain is explained at `optimize`, and it says so.
    assert arguments <= documented(name) | (documented("optimize") if "`optimize`" in text else set())


def test_the_options_are_those_of_optimize() -> None:
    taken = set(inspect.signature(pike.optimize).parameters)
    own = {"target", "example_inputs", "out", "track", "observer", "progress", "dynamic_batch"}
    assert taken - set(pike.Options.__annotations__) == own
    assert set(pike.Options.__annotations__) <= taken


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without a compiler, so that no candidate takes a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    best_file(tmp_path / "best.py", CONVERTS, (torch.zeros(32, 64),))
    names: dict[str, object] = {"pike": pike, "torch": torch, "Path": Path}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    torch.manual_seed(0)
    for verb in [*ORDER, *sorted(set(VERBS) - set(ORDER))]:
        text = inspect.getdoc(getattr(pike, verb)) or ""
        example = doctest.DocTestParser().get_doctest(text, names, verb, None, 0)
        runner.run(example, out=said.append, clear_globs=False)
        names = example.globs
    assert not runner.failures, "".join(said)
