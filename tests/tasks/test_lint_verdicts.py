"""What lint found is known again, for the same text and precision only."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pike.core.codec import encode
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Precision
from pike.core.verdict.lint import LintReport, TrivialAnswer
from pike.tasks import lint_verdicts

TASK = Task("made", "made", TaskKind.SOURCE, "x = 1\n", "made.py")
PASSES = TrivialAnswer("zeros", False, "its output is zero")
REFUSED = TrivialAnswer("a constant", True, "has another shape")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def verdict(
    *answers: TrivialAnswer, precision: Precision = Precision.HALF, untried: int = 0
) -> lint_verdicts.LintVerdict:
    return lint_verdicts.verdict_of(LintReport("made", answers, untried, "cpu"), precision)


@pytest.mark.parametrize(
    ("answers", "untried", "words"),
    [
        ((REFUSED,), 0, "sound at half"),
        ((REFUSED, PASSES), 0, "1 would pass at half"),
        ((REFUSED,), 3, "3 not tried at half"),
        ((PASSES,), 3, "1 would pass, 3 not tried at half"),
    ],
)
def test_a_verdict_in_words(answers, untried, words):
    found = verdict(*answers, untried=untried)
    assert found.words == words
    assert found.sound == (words == "sound at half")


def test_what_was_kept_is_known_until_the_file_changes():
    found = verdict(PASSES)
    assert lint_verdicts.known(TASK) is None
    lint_verdicts.keep(TASK, found)
    assert lint_verdicts.known(TASK) == found
    assert lint_verdicts.known(replace(TASK, id="another/name")) == found
    assert lint_verdicts.known(replace(TASK, source="x = 2\n")) is None
    assert lint_verdicts.known(TASK, Precision.SAME) is None


def test_the_loosest_precision_says_most():
    lint_verdicts.keep(TASK, verdict(REFUSED, precision=Precision.SAME))
    lint_verdicts.keep(TASK, verdict(PASSES, precision=Precision.TF32))
    assert lint_verdicts.known(TASK).words == "1 would pass at tf32"
    assert lint_verdicts.known(TASK, Precision.SAME).words == "sound at same"


def test_a_damaged_file_counts_as_none(cache):
    lint_verdicts.keep(TASK, verdict(REFUSED))
    (path,) = (cache / "pike" / "lint").iterdir()
    path.write_text("{")
    assert lint_verdicts.known(TASK) is None


def test_a_shipped_suite_brings_its_verdicts(tmp_path, monkeypatch):
    monkeypatch.setattr(lint_verdicts.shipped, "FOLDER", tmp_path)
    (tmp_path / "mine").mkdir()
    found = verdict(REFUSED)
    lint_verdicts._shipped.cache_clear()
    (tmp_path / "mine" / lint_verdicts.SHIPPED).write_text(
        json.dumps({lint_verdicts._key(TASK, lint_verdicts.PRECISIONS[0]): encode(found)})
    )
    assert lint_verdicts.known(TASK) == found
    lint_verdicts.keep(TASK, verdict(PASSES))
    assert not lint_verdicts.known(TASK).sound
    monkeypatch.undo()
    lint_verdicts._shipped.cache_clear()
