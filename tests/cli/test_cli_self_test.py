"""`pike doctor --self-test`: real samples, a real judge, and an exit code that tells."""

import json
from dataclasses import replace

import pytest

from pike import corpus
from pike.cli import main


@pytest.fixture
def samples() -> dict[str, corpus.CorpusSample]:
    return {sample.id: sample for sample in corpus.catalogue()}


def judged(
    chosen: list[corpus.CorpusSample], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, dict[str, object]]]:
    monkeypatch.setattr(corpus, "catalogue", lambda: tuple(replace(sample, self_test=True) for sample in chosen))
    code = main.run(["doctor", "--self-test", "--device", "cpu", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] == (code == 0)
    return code, {trial["sample"]: trial for trial in answer["trials"]}


def test_what_is_enforced_is_shown(samples, monkeypatch, capsys) -> None:
    code, trials = judged([samples["cache_by_id"], samples["events_patched"]], monkeypatch, capsys)
    assert code == 0
    assert trials["cache_by_id"]["got"] == "wrong-output"
    assert trials["events_patched"]["got"] == "", "it needs a GPU, so nothing is promised"
    assert "cuda" in str(trials["events_patched"]["detail"])


@pytest.mark.slow
def test_an_expected_verdict_that_is_not_delivered_is_an_exit_code(samples, monkeypatch, capsys) -> None:
    trusted = replace(samples["reference_again"], expected=("wrong-output",))
    code, trials = judged([trusted], monkeypatch, capsys)
    assert code == 1
    assert "accepted instead of wrong-output" in str(trials["reference_again"]["detail"])


def test_the_representative_part_has_attacks_on_every_room_and_honest_candidates(samples) -> None:
    chosen = [sample for sample in samples.values() if sample.self_test]
    assert sum(sample.kind is corpus.SampleKind.HONEST for sample in chosen) == 4
    assert len({sample.mechanism for sample in chosen}) >= 12
    assert all("cpu" in sample.devices and not sample.slow and not sample.gap for sample in chosen)
