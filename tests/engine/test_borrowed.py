"""A candidate that holds another run's winner is labelled, and nothing else is."""

from pathlib import Path

import pytest
from engine_material import coa

from pike.core.step import Candidate, Solution
from pike.core.verdict.evaluation import Evaluation, Status, Timing
from pike.engine.output.borrowed import BorrowedLines

WINNER = "# a header\nimport torch\n" + "".join(f"weight_{i} = torch.stack([x, {i} * x])\n" for i in range(10))
VALID = Evaluation(Status.VALID, timing=Timing(2.0, 1.0, 2.0, (1.9, 2.1), 12, 60, 0.0), labels=("seen",))


@pytest.fixture
def borrowed(tmp_path: Path) -> BorrowedLines:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "best.py").write_text(WINNER)
    (tmp_path / "mine" / "best.py").write_text("")
    return BorrowedLines(tmp_path / "mine", "class Model: ...", {})


def labels(borrowed: BorrowedLines, source: str, verdict: Evaluation = VALID, recipes: tuple[str, ...] = ()) -> object:
    return borrowed.labelled(Candidate("c0", source, recipes=recipes), verdict).labels


def test_the_lines_of_another_winner_are_named_with_its_run(borrowed: BorrowedLines) -> None:
    reworded = "# my own\n" + WINNER.replace("# a header", "") + "    result = weight_3.sum(0)\n"
    assert labels(borrowed, reworded) == ("seen", "lines-of-another-run: other")


def test_own_work_recipes_and_what_is_refused_stay_as_they_are(borrowed: BorrowedLines) -> None:
    own = WINNER.replace("stack", "concatenate", 5)
    assert labels(borrowed, own) == ("seen",)
    assert labels(borrowed, WINNER, recipes=("fold",)) == ("seen",)
    assert labels(borrowed, WINNER, Evaluation(Status.WRONG_OUTPUT)) == ()
    assert labels(borrowed, "\n".join(WINNER.splitlines()[:7])) == ("seen",), "too few lines to tell"


def test_the_original_s_lines_and_those_of_recipes_tell_nothing(borrowed: BorrowedLines, tmp_path: Path) -> None:
    assert labels(borrowed, WINNER) != ("seen",)
    recipe = Solution(Candidate("c1", WINNER, recipes=("fold",)), VALID)
    assert labels(BorrowedLines(tmp_path / "mine", "", {"c1": recipe}), WINNER) == ("seen",)
    assert labels(BorrowedLines(tmp_path / "mine", WINNER, {}), WINNER) == ("seen",)


async def test_a_finalist_keeps_the_label_of_its_search(run, tmp_path: Path) -> None:
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "best.py").write_text(WINNER)
    text = coa("valid 2ms", "x")["text"].replace("import torch\n", WINNER, 1)
    result = await run([{"role": "coa", "text": text}], queries=1, strategy="pike-b:no-iba")
    assert result.evaluation.labels == ("lines-of-another-run: earlier",)
