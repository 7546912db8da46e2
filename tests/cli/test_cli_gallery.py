"""`pike gallery`: what it lists, and what it says of a machine; the judge is made up."""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_judge import Judge

from pike.cli import main
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage, Precision
from pike.engine.executors.instant import instant_verdict
from pike.engine.tools.gallery import COMPILE, FOLDER, RECIPES, entries
from pike.store import read_results

TOOL = Path(__file__).resolve().parents[2] / "tools" / "gallery.py"


class Hopper(Judge):
    """Says that it has a GPU. Winners take 2 ms there, all else what its text decides."""

    def __init__(self, asked: list[EvaluationRequest]) -> None:
        self.requests = asked

    def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        self.requests.append(request)
        asked = "valid 2.0ms" if "load_inline" in request.source else "valid 5.0ms"
        return instant_verdict(replace(request, source=f"# pike-instant: {asked} final {asked[6:]}"))

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cuda:0", "NVIDIA H200", capability="9.0", versions=(("torch", "9.9"),))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]):
    """Runs `pike gallery` and returns its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main.run(["gallery", *words])
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return run


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> list[EvaluationRequest]:
    asked: list[EvaluationRequest] = []
    monkeypatch.setattr("pike.engine.executors.gpus.start_judge", lambda *_: Hopper(asked))
    return asked


def test_the_list_names_every_winner_with_what_it_is_faster_than_and_where(said) -> None:
    code, out, _ = said()
    assert code == 0 and "over eager" in out and "over compile" in out
    _, out, _ = said("--json")
    (listed,) = json.loads(out).values()
    assert [one["name"] for one in listed] == sorted(path.name for path in FOLDER.iterdir())
    for one in listed:
        assert one["speedup"] > 1.0 and one["device"] and one["torch_version"] and one["date"]
        assert one["original"].partition("/")[0] in ("level3-pike", "level5", "zoo")


def test_a_name_that_is_not_there_is_one_sentence(said) -> None:
    code, _, err = said("verify", "lenet")
    assert code == 2 and err == "pike: The gallery has no 'lenet'; did you mean 'lenet5'?"


def test_a_machine_without_the_device_says_so_and_the_files_are_checked(
    said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pike.engine.executors.gpus.start_judge", lambda *_: Judge())
    code, out, err = said("verify", "lenet5", "rnn_step", "--out", str(tmp_path / "results.jsonl"))
    assert code == 2 and not out and not list(tmp_path.iterdir())
    assert err.startswith("2 of 2 winners can be read and define ModelNew.")
    assert "lenet5 cannot be measured on made up: it was made for an NVIDIA GPU of compute capability 9.0" in err


def test_a_winner_is_measured_beside_eager_and_the_compile_ways_in_one_group(said, hopper) -> None:
    code, out, _ = said("verify", "lenet5")
    assert code == 0
    for name in ("gallery", "eager", "compile:reduce-overhead", "compile:max-autotune"):
        assert name in out
    assert len({(one.task.id, one.options.precision) for one in hopper}) == 1
    assert [one.effort for one in hopper] == [Effort.FINAL, *[Effort.BESIDE] * (len(hopper) - 1)]
    assert hopper[0].options.precision is Precision.HALF
    (known,) = [one for one in entries() if one.name == "lenet5"]
    assert hopper[0].source == known.source


def test_on_another_gpu_it_says_what_was_verified_where_and_writes_nothing(
    said, hopper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = said("verify", "lenet5", "--json")
    (one,) = json.loads(out)["verified"]
    assert code == 0 and not list(tmp_path.iterdir())
    assert "on NVIDIA H100 80GB HBM3 with torch 2." in one["note"]
    assert one["note"].endswith("nothing is verified for NVIDIA H200 with torch 9.9")
    assert [each["contender"] for each in one["results"]][:2] == ["gallery", "eager"]
    assert one["results"][0]["speedup"] == pytest.approx(5.0)


def test_results_are_kept_where_asked_and_become_the_entry_s(said, hopper, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    assert said("verify", "rnn_step", "lenet5", "--out", str(out))[0] == 0
    assert {one.contender.name for one in read_results([out])} >= {"gallery", "eager", "compile"}
    spec = importlib.util.spec_from_file_location("gallery_tool", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    copy = tmp_path / "gallery"
    shutil.copytree(FOLDER, copy)
    assert tool.take(out, copy) == ["rnn_step", "lenet5"]
    known = {one.name: one for one in entries(copy)}
    assert known["lenet5"].verified and known["lenet5"].device.name == "NVIDIA H200"
    assert known["lenet5"].over(COMPILE) == pytest.approx(2.5) and known["lenet5"].over(RECIPES) is None
    assert known["resnet_block"].results == {one.name: one for one in entries()}["resnet_block"].results
    (copy / "lenet5" / "best.py").write_text("class ModelNew: ...")
    assert not {one.name: one for one in entries(copy)}["lenet5"].verified
    with pytest.raises(UserError, match="measured on other files than the gallery has now"):
        tool.take(out, copy)


def test_results_go_to_a_file_that_is_read_again(said, hopper, tmp_path: Path) -> None:
    code, _, err = said("verify", "lenet5", "--out", str(tmp_path / "results.txt"))
    assert code == 2 and "give --out a name that ends with .jsonl, not 'results.txt'" in err


def test_a_winner_that_is_wrong_here_ends_with_exit_code_1(said, hopper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Hopper, "evaluate", lambda self, request, on_stage=None: instant_verdict(
            replace(request, source="# pike-instant: wrong-output off by 3")
        ),
    )  # fmt: skip
    code, out, _ = said("verify", "lenet5")
    assert code == 1 and "wrong-output off by 3" in " ".join(out.split())


def test_a_file_that_cannot_be_used_is_said_before_anything_is_measured(
    said, hopper: list[EvaluationRequest], tmp_path: Path
) -> None:
    code, _, err = said("verify", "lenet5", "--out", str(tmp_path / "results.txt"))
    assert (code, hopper) == (2, []) and "give --out a name that ends with .jsonl" in err


def test_a_disk_that_refuses_loses_nothing_that_was_measured(said, hopper: list[EvaluationRequest]) -> None:
    code, out, err = said("verify", "lenet5", "--out", "/dev/full/results.jsonl")
    assert code not in (0, 1) and hopper and "lenet5 on instant" in out and "cannot be written" in err
