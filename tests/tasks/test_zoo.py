"""The zoo: models that others publish, each in a file, half of them held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pike import tasks
from pike.core.errors import UserError
from pike.core.task import Task, is_held_out
from pike.judge.child.memory.layout import flatten_output
from pike.judge.reference.reference import load
from pike.tasks.loaders import shipped
from pike.tasks.sources import from_file

ENTRIES = tasks.load_suite("zoo").entries
FILES = [from_file(Path(entry.where), id=entry.name, alone=True) for entry in ENTRIES]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(name: str) -> Task:
    try:
        return tasks.resolve(f"zoo/{name}:small")
    except UserError as missing:
        pytest.skip(str(missing))


def test_the_zoo_has_every_family_of_models():
    assert len(FILES) >= 36
    assert {task.family for task in FILES} == {
        *("convnet", "vision-transformer", "hybrid", "detection", "segmentation", "diffusion"),
        *("text-encoder", "prefill", "decode", "encoder-decoder", "speech", "state-space"),
        *("recurrent", "graph-network", "mixture-of-experts", "recommender", "dynamic"),
    }


def test_half_of_each_family_is_held_out():
    families: dict[str, list[bool]] = {}
    for task in FILES:
        families.setdefault(task.family, []).append(is_held_out(task.id))
    for family, held_out in families.items():
        assert 1 / 3 <= sum(held_out) / len(held_out) <= 2 / 3, f"{family}: give a model another name"
    assert 0.45 <= sum(map(sum, families.values())) / len(FILES) <= 0.55


def test_the_rule_depends_on_the_name_alone():
    assert is_held_out("zoo/resnet50") and is_held_out("resnet50:small") and is_held_out("mine/resnet50")
    assert not is_held_out("zoo/bert_base")


def test_tasks_that_vary_declare_other_shapes():
    varying = [task for task in FILES if task.family == "dynamic"]
    assert len(varying) >= 3
    assert all("def get_held_out_inputs" in task.source for task in varying)


@pytest.mark.parametrize("name", [entry.id for entry in ENTRIES])
def test_the_small_variant_runs_and_says_the_same_twice(name):
    reference = load(small(name))
    first, second = reference.draw(1), reference.draw(2)
    with torch.no_grad():
        one, other, again = (
            [leaf.clone() for leaf, _ in flatten_output(reference.model(*inputs.args, **inputs.kwargs))]
            for inputs in (first, second, first)
        )
        held_out = [flatten_output(reference.model(*inputs.args)) for inputs in reference.draw_held_out(3)]
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True)), "a call leaves a trace"
    assert not any(torch.equal(a, b) for a, b in zip(one, other, strict=True)), "an output ignores the inputs"
    assert all(leaf.isfinite().all() for leaf in (*one, *(leaf for found in held_out for leaf, _ in found)))
    assert sum(parameter.numel() for parameter in reference.model.parameters()) < 30_000_000


def test_a_package_that_is_missing_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "net.py").write_text(
        "from no_such_package.models import net\nclass Model: ...\nget_inputs = get_init_inputs = list\n"
    )
    with pytest.raises(UserError) as refused:
        tasks.resolve("zoo/net")
    assert str(refused.value) == "Task 'zoo/net' needs no_such_package: pip install 'pike-torch[zoo]'"
