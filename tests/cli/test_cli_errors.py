"""What a user sees when something is wrong: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pike.api import runs
from pike.api.options import compose_config
from pike.cli import main
from pike.core.errors import InfraError, ProviderError, UserError

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def task(tmp_path: Path) -> str:
    path = tmp_path / "relu.py"
    path.write_text(TASK)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], "bogus"),
        (["optimize"], "TASK"),
        (["optimize", "x.py", "--query-budget", "-1"], "--query-budget"),
        (["optimize", "x.py", "--query-budget", "many"], "--query-budget"),
        (["optimize", "x.py", "--set", "budget"], "a.b=value"),
        (["optimize", "x.py", "--set", "budget.querys=3"], "did you mean 'queries'"),
        (["optimize", "x.py", "--tolerance", "loose"], "paper"),
        (["optimize", "x.py", "--config", "nowhere.toml"], "nowhere.toml"),
        (["optimize", "x.py", "--max-minutes", "inf"], "engine.max_hours"),
        (["evaluate", "demo/resnet18", "nope.py"], "cannot be read: No such file or directory; give the path"),
        (["serve", "--evaluate", "--tokens", "nope"], "cannot be read: No such file or directory"),
        (["resume", "nowhere"], "nowhere"),
        (["report", "nowhere"], "nowhere"),
        (["export", "nowhere"], "--to"),
        (["export", "nowhere", "--to", "jsonl"], "nowhere"),
        (["export", "nowhere", "--to", "json"], "did you mean 'jsonl'"),
        (["import", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("pike: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "nothing is written before everything is checked"


def test_an_error_under_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["report", "nowhere", "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["kind"] == "user"
    assert "nowhere" in error["message"]
    assert "nowhere" in err


@pytest.mark.parametrize("error", [ProviderError("the server is down", transient=False), InfraError("no judge")])
def test_the_outside_world_has_its_own_exit_code(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(runs, "resume", fail)
    assert main.run(["resume", "somewhere"]) == 3
    assert capsys.readouterr().err == f"pike: {error}.\n"


def test_a_bug_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(runs, "resume", fail)
    with pytest.raises(ZeroDivisionError):
        main.run(["resume", "somewhere"])


def test_ctrl_c_is_not_a_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "resume", interrupted)
    assert main.run(["resume", "somewhere"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_money_is_not_spent_without_a_terminal_to_ask_on(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the run began")

    script = tmp_path / "script.toml"
    script.write_text('input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n[[answer]]\ntext = "hello"\n')
    monkeypatch.setattr(runs, "optimize", never)
    assert main.run(["optimize", task, "--llm", f"scripted:{script}", "--query-budget", "20"]) == 2
    err = capsys.readouterr().err
    assert "--yes" in err
    assert "$" in err
    assert "queries" in err, "the estimate is shown"


@pytest.mark.parametrize("arguments", [["--llm", "none"], ["--llm", "openai:model", "--yes"]])
def test_nobody_is_asked_where_nothing_is_spent_or_yes_was_said(
    arguments: list[str], task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(*_: object, **__: object) -> None:
        raise UserError("the run began")

    monkeypatch.setattr(runs, "optimize", begun)
    monkeypatch.setattr(runs, "estimate", lambda *_, **__: pytest.fail("estimated"))
    assert main.run(["optimize", task, *arguments]) == 2


def test_options_win_over_the_file_and_settings_over_options(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def begun(target: str, **given: object) -> None:
        given.pop("observer")
        given.pop("out")
        seen.append(compose_config(target, given))  # type: ignore[arg-type]
        raise UserError("enough")

    monkeypatch.setattr(runs, "optimize", begun)
    file = tmp_path / "run.toml"
    file.write_text("[budget]\nqueries = 7\nusd = 1.5\n[engine]\nconcurrency = 3\n[strategy]\nselection = {k = 2}\n")
    options = ["--config", str(file), "--concurrency", "5", "--query-budget", "9", "--set", "budget.queries=11"]
    models = ["--llm", "openai:a", "--llm", "openai:b", "--debug-llm", "openai:c"]
    main.run(["optimize", task, *options, *models, "--yes"])
    (config,) = seen
    assert (config.llm.coa, config.llm.efa, config.llm.debug) == (("openai:a", "openai:b"), "", "openai:c")
    assert (config.budget.queries, config.budget.usd, config.engine.concurrency) == (11, 1.5, 5)
    assert config.strategy.options == {"selection": {"k": 2}}


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pike 0.")


def test_strategies_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["strategies", "--json"]) == 0
    names = [preset["name"] for preset in json.loads(capsys.readouterr().out)["strategies"]]
    assert {"pike-b", "pike-b:no-efa", "best-of-n", "reflexion", "metr", "recipes", "stark"} <= set(names)


def test_strategies_of_a_file_are_listed_with_what_they_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[strategies.mine]\nbase = "stark"\nselection = {epsilon = 0.1}\n')
    assert main.run(["strategies", "--config", str(file), "--json"]) == 0
    mine = json.loads(capsys.readouterr().out)["strategies"][-1]
    assert (mine["name"], mine["base"], mine["differences"]) == ("mine", "stark", [["selection.epsilon", "0.1"]])
    file.write_text("[strategies.mine]\nepsilon = 0.1\n")
    assert main.run(["strategies", "--config", str(file)]) == 2
    assert "needs a base" in capsys.readouterr().err
