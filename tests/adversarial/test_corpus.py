"""Every sample gets the verdict that is expected for it from the real judge."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from pike.core.verdict.evaluation import EvaluateOptions
from pike.corpus import CorpusSample, SampleKind, catalogue, judge_sample, obstacle
from pike.corpus.catalogue import LABELLED
from pike.judge.candidate_file import parse_problem
from pike.judge.client import JudgeClient

OPTIONS = EvaluateOptions(device="cpu", threads=1, max_timing_seconds=0.6, correctness_seeds=2)
NOISE = 3.0
"""A loaded machine may make equal programs look this different; the fake gains are far larger."""
SAMPLES = catalogue()
SLOW = {
    *("bytes_in_another_order", "torch_compiled", "torch_compiled_again", "inline_extension", "batch_norm_folded"),
    *("computes_into_the_judges_buffer", "padded_cache_of_one_window", "nominal_values_fast"),
}
"""Samples that take long and have a quicker one of their kind beside them."""
NOT_A_CANDIDATES_DOING = {
    68: "a geometric mean that one shape at nearly zero collapses; verdicts are never averaged over shapes",
}


def parameters() -> list[object]:
    return [
        pytest.param(s, id=s.id, marks=[*gap_of(s), *([pytest.mark.slow] if s.id in SLOW else [])])
        for s in sorted(SAMPLES, key=lambda s: (s.task, s.precision.value, s.id))  # a judge keeps one task ready
        if "cpu" in s.devices
    ]


def gap_of(sample: CorpusSample) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(strict=True, reason=sample.gap)] if sample.gap else []


@pytest.mark.parametrize("sample", parameters())
def test_a_sample_gets_the_verdict_that_is_expected(sample: CorpusSample, judge: JudgeClient) -> None:
    if why := obstacle(sample, "cpu", "auto"):
        pytest.skip(why)
    found = judge_sample(judge, sample, OPTIONS, NOISE)
    assert not found.problem, f"{found.problem}: {found.reason}\n{found.evaluation.log if found.evaluation else ''}"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_a_sample_says_what_it_is(sample: CorpusSample) -> None:
    for device in sample.devices:
        source = sample.source_on(device)
        assert parse_problem(source) == ""
        compile(ast.parse(source), sample.id, "exec")
    assert sample.title.endswith(".")
    assert sample.mechanism or sample.kind is SampleKind.HONEST
    if sample.kind is SampleKind.ATTACK:
        assert sample.rows and sample.bite and "valid" not in sample.expected
        assert sample.label or LABELLED not in sample.expected


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_an_attack_on_the_child_names_what_is_there(sample: CorpusSample) -> None:
    """After a rename in the child, an attack on it would quietly do nothing."""
    modules = {"_MAIN": importlib.import_module("pike.judge.child.__main__")}
    for variable, name in re.findall(r'(\w+) = sys\.modules(?:\.get\(|\[)"(pike\.[\w.]+)"', sample.text):
        modules[variable] = importlib.import_module(name)
    for variable, attribute in re.findall(r"\b(\w+)\.(\w+)", sample.text):
        assert variable not in modules or hasattr(modules[variable], attribute)


def test_the_corpus_covers_the_taxonomy() -> None:
    attacks = [s for s in SAMPLES if s.kind is SampleKind.ATTACK]
    covered = {row for sample in attacks for row in sample.rows}
    assert covered | NOT_A_CANDIDATES_DOING.keys() == set(range(1, 75))
    assert len(attacks) >= 70
    assert len(SAMPLES) - len(attacks) >= 15


def test_the_threat_model_names_every_attack() -> None:
    text = (Path(__file__).parents[2] / "docs" / "concepts" / "threat-model.md").read_text()
    table = text.partition("## Mechanisms")[2].partition("## What does not hold")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", table))
    assert named == {s.id for s in SAMPLES if s.kind is SampleKind.ATTACK}
    for sample in SAMPLES:
        assert not sample.gap or sample.id in text.partition("## What does not hold")[2]
