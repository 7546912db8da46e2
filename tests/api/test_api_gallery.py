"""The gallery's winners as files and as drop-ins, and the pages that are made of them; all on a CPU.

The kernels themselves run on a GPU of their kind only, where `pike gallery verify` judges them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from exchange_runs import ANSWERS, make_run

import pike
from pike import tasks
from pike.api.gallery import GalleryEntry, chosen
from pike.core.verdict.evaluation import Effort
from pike.engine.output import originals
from pike.engine.run.run import read_result
from pike.judge.candidate_file import has_third_party_header

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = chosen(())
HEAVY = ["bert_base", "causal_attention", "densenet201", "llama3_step", "mb_conv", "resnet18", "vit_b_16"]
"""Winners whose originals take seconds to build and to calibrate on a CPU."""
LIGHT = [entry.name for entry in ENTRIES if entry.name not in HEAVY]
named = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def tool() -> ModuleType:
    """The program that writes the gallery's files."""
    spec = importlib.util.spec_from_file_location("gallery_tool", ROOT / "tools" / "gallery.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_holds_winners_and_says_where_each_was_measured() -> None:
    assert len(ENTRIES) >= 4
    for entry in ENTRIES:
        assert entry.evaluation.valid and entry.device.is_cuda
        assert entry.evaluation.timing and entry.evaluation.timing.faster
        assert entry.found.author and entry.found.strategy and entry.found.queries


@named
def test_a_winner_is_a_candidate_file_that_says_what_it_does(entry: GalleryEntry) -> None:
    assert not entry.problem
    assert not has_third_party_header(entry.source, entry.task.source)
    docstring = entry.source.split('"""')[1]
    for said in ("What made it fast", "Limits", "Author: a coding agent", "Licence: Apache-2.0"):
        assert said in docstring
    assert f"strategy {entry.found.strategy}" in " ".join(docstring.split())
    suite, _, name = entry.task.id.partition("/")
    assert f"`{suite}/{name.partition('_')[0] if name[0].isdigit() else name}`" in docstring


@named
def test_a_page_is_short_and_claims_no_figure_of_its_own(entry: GalleryEntry) -> None:
    page = (entry.folder / "README.md").read_text()
    assert len(page.splitlines()) <= 60 and max(map(len, page.splitlines())) <= 100
    assert not re.findall(r"\d(?: ?×|x\b| times| ms\b| µs\b| us\b| %)", page)


STAND_IN = """
import sys, json, types, torch, torchvision  # which looks for Triton when it is imported
import torch.utils.cpp_extension as extensions
from pike.api.dropin import FromSource
from pike.engine.tools.gallery import chosen
from pike.judge.reference import reference


class Compiled:
    def __init__(self, *args, **given):
        pass

    def __getattr__(self, name):
        return Compiled()

    def __call__(self, *args, **given):
        return Compiled()


torch.set_num_threads(1)  # other tests need the cores
extensions.load_inline = torch.cuda._compile_kernel = Compiled
for name in ("", ".language", ".tools", ".tools.tensor_descriptor", ".runtime", ".runtime.errors"):
    name = "triton" + name
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
    sys.modules[name].__getattr__ = lambda name: Compiled()
said = {}
for entry in chosen(sys.argv[1:]):
    original = reference.load(entry.task)
    made = FromSource(entry.source, entry.evaluation.weights, original.init_inputs)(original.model)
    kept = {name: one for name, one in made.state_dict().items()}
    theirs = original.model.state_dict()
    same = list(kept) == list(theirs) and all(torch.equal(kept[name], theirs[name]) for name in kept)
    finite = all(bool(one.isfinite().all()) for one in kept.values())
    finite = finite and (same or all(map(torch.any, made.parameters()))) and any(map(torch.any, kept.values()))
    said[entry.name] = {"converts": hasattr(type(made), "from_reference"), "same": same, "finite": finite}
print(json.dumps(said))
"""


@pytest.mark.parametrize("names", [LIGHT, pytest.param(HEAVY, marks=pytest.mark.slow)], ids=["light", "heavy"])
def test_every_winner_takes_the_weights_of_our_original(names: list[str]) -> None:
    """In a child, and without a compiler: what is compiled is replaced by nothing."""
    command = [sys.executable, "-c", STAND_IN, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said) == set(names)
    for name, one in said.items():
        assert one["finite"], name
        assert one["same"] or one["converts"], f"{name} has parameters of its own and no from_reference"


def test_where_the_winner_cannot_run_its_original_answers() -> None:
    faster = pike.gallery("rnn_step").to("cpu")
    original = originals.load(tasks.resolve("level3-pike/33")).reference
    assert list(faster.state_dict()) == list(original.model.state_dict())
    inputs = original.draw(5).args
    with torch.no_grad(), pytest.warns(UserWarning, match="original Model answers"):
        assert faster(*inputs).shape == (8, 128)
    assert "NVIDIA H100" in repr(faster)


def test_a_model_of_ones_own_keeps_its_weights() -> None:
    model = originals.load(tasks.resolve("level3-pike/4")).reference.model
    with torch.no_grad():
        model.fc3.bias.fill_(7.0)
    faster = pike.gallery("lenet5", model)
    assert torch.equal(faster.state_dict()["fc3.bias"], torch.full((10,), 7.0))
    with torch.no_grad(), pytest.warns(UserWarning, match="original Model answers"):
        assert torch.equal(faster(torch.ones(1, 1, 32, 32)), model(torch.ones(1, 1, 32, 32)))


def test_a_model_of_another_form_and_an_unknown_name_get_one_sentence() -> None:
    with pytest.raises(pike.UserError, match="The model Linear has other parameters than level3-pike/4_LeNet5"):
        pike.gallery("lenet5", torch.nn.Linear(2, 2))
    with pytest.raises(pike.UserError, match="The gallery has no 'lenet'; did you mean 'lenet5'"):
        pike.gallery("lenet")


def test_the_pages_are_up_to_date() -> None:
    made = tool()
    assert not made.outdated(made.pages()), "run python tools/gallery.py pages"


def test_an_entry_is_made_from_the_journal_of_a_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ANSWERS, 14)
    found = tool().discovery(folder)
    assert (found.run, found.strategy, found.effort) == ("run", "pike-b:no-iba", Effort.FINAL)
    assert found.evaluation.candidate_ms == pytest.approx(2.5) and found.task == "level3/8_Tiny"
    assert found.queries == asyncio.run(read_result(folder)).spend.queries > 0
    other = tool().discovery(folder, "c0")
    assert other.evaluation.candidate_ms == pytest.approx(5.0) and other.author == "tester"
    with pytest.raises(pike.UserError, match="judged no valid candidate c99"):
        tool().discovery(folder, "c99")
