"""`pike simulate`: what it prints, for people and for programs, and what it refuses."""

from __future__ import annotations

import json

import pytest

from pike.cli.main import run
from pike.core.errors import UserError

SMALL = ["--repeats", "2", "--tasks", "2", "--queries", "20"]


def test_one_json_object_with_medians_and_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--preset", "pike-b", "--preset", "pike-b:no-efa", *SMALL, "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)["simulated"]
    assert [each["preset"] for each in found] == ["pike-b", "pike-b:no-efa"]
    for each in found:
        assert each["runs"] == 4
        assert each["speedup"]["ci95"][0] <= each["speedup"]["mean"] <= each["speedup"]["ci95"][1]
        assert each["speedup"]["single95"][0] <= each["speedup"]["median"] <= each["speedup"]["single95"][1]
        assert each["usd"] > 0.0


def test_the_table_says_that_it_is_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--preset", "pike-b", *SMALL]) == 0
    printed = capsys.readouterr().out
    assert "pike-b" in printed and "95 % of the mean" in printed
    assert "hypothesis for real runs" in " ".join(printed.split())


def test_without_an_extra_the_others_are_compared_and_what_is_left_out_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*_: object) -> None:
        raise UserError("needs the extra")

    monkeypatch.setattr("pike.engine.tools.comparison.asks_models", lambda name: name in ("pike-b", "pike-o"))
    monkeypatch.setattr("pike.search.assemble.EvolutionLibrary", lacks)
    assert run(["simulate", *SMALL, "--json"]) == 0
    printed = capsys.readouterr()
    assert [each["preset"] for each in json.loads(printed.out)["simulated"]] == ["pike-b"]
    assert "pike-o" in " ".join(printed.err.split())


def test_recipe_seeds_help_in_the_simulator_too(capsys: pytest.CaptureFixture[str]) -> None:
    means = []
    for more in ([], ["--seed-recipes"]):
        assert (
            run(["simulate", "--preset", "pike-b", "--tasks", "6", *SMALL[:2], "--queries", "20", *more, "--json"]) == 0
        )
        means.append(json.loads(capsys.readouterr().out)["simulated"][0]["speedup"]["mean"])
    assert means[1] > 1.3 * means[0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--preset", "pike-z"], "pike-z"), (["--level", "level9"], "level9"), (["--repeats", "1"], "repeats")],
)
def test_bad_input_is_one_sentence(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *SMALL, *arguments]) == 2
    said = capsys.readouterr().err
    assert named in said and said.count("\n") == 1 and "Traceback" not in said
