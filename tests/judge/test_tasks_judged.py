"""Tasks of other shapes: live modules, several outputs, integers, keyword inputs, converted weights."""

from collections import defaultdict
from difflib import Match

import cloudpickle
import pytest
import torch
from tests.judge.conftest import OPTIONS
from torch import nn

from pike import tasks
from pike.core.errors import InfraError, UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluationRequest, Status, Weights
from pike.judge.client import JudgeClient
from pike.judge.sandbox import Claim, choose

FROM_REFERENCE = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, first, second, gain):
        super().__init__()
        self.first, self.second, self.gain = first, second, gain

    @classmethod
    def from_reference(cls, model):
        return cls(nn.Parameter(model.first.weight.t().contiguous()), model.second.weight * model.gain, model.first.bias)

    def forward(self, x):
        return torch.relu(x @ self.first + self.gain) @ self.second.t()
"""


def source_task(text: str) -> Task:
    return Task("other", "other", TaskKind.SOURCE, text, "other.py")


def test_converted_weights_come_from_a_donor_without_code(verdict):
    found = verdict(FROM_REFERENCE)
    assert found.status is Status.VALID
    assert found.weights is Weights.FROM_REFERENCE


def test_the_donor_has_no_forward(verdict):
    call = "model(torch.zeros(1, 96)); return None"
    source = FROM_REFERENCE.replace("return cls(nn.Parameter(", call + "\n        return cls(nn.Parameter(")
    found = verdict(source)
    assert found.status is Status.LOAD_ERROR
    assert "weights and settings only" in found.reason


def test_other_parameter_names_fall_back_to_the_seed(verdict, rewrite):
    found = verdict(rewrite().replace("self.first", "self.one"))
    assert found.status is Status.VALID
    assert found.weights is Weights.SEEDED


def test_a_refused_load_leaves_no_weights_behind(verdict, rewrite):
    """The candidate has a buffer of its own under the name of one of the original's weights."""
    source = rewrite(result="y @ self.second.weight").replace("self.second(", "self.third(")
    source = source.replace("self.second = ", "self.second = nn.Module()\n        self.third = ")
    source = source.replace(
        "self.gain =", "self.second.register_buffer('weight', torch.eye(width))\n        self.gain ="
    )
    found = verdict(source)
    assert (found.status, found.weights) == (Status.VALID, Weights.SEEDED), found.reason


FOLD = "        with torch.no_grad():\n            {}\n"


@pytest.mark.parametrize(
    ("change", "result", "status"),
    [
        # `gain` is folded into the weights, which loading the original's undoes.
        ("self.second.weight.mul_(self.gain)", "y / self.gain", Status.VALID),
        # Weights drawn in another order are mended by loading, and the seed alone would not do.
        ("self.second.weight.normal_()", "y", Status.VALID),
        ("self.second.weight.normal_()", "y / self.gain", Status.WRONG_OUTPUT),
    ],
)
def test_weights_that_are_changed_in_the_constructor_count_where_the_loaded_ones_do_not_fit(
    verdict, rewrite, change, result, status
):
    lines = rewrite(result=result).splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "def forward" in line)
    found = verdict("".join([*lines[: at - 1], FOLD.format(change), *lines[at - 1 :]]))
    assert found.status is status, found.reason
    # A refusal tells of the loaded weights, also where the seed's were tried after them.
    assert found.weights is (Weights.SEEDED if "gain" in change else Weights.STATE_DICT)


INTEGERS = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, k):
        values, indices = x.sort(dim=-1)
        return {"best": (values[:, -k:].contiguous(), indices[:, -k:].contiguous()), "count": int(k)}


def get_inputs():
    return [torch.randn(32, 50), 3]


def get_init_inputs():
    return []
"""


def test_integer_and_structured_outputs_are_exact(verdict):
    task = source_task(INTEGERS)
    good = INTEGERS.replace("class Model(", "class ModelNew(")
    assert verdict(good, task=task).status is Status.VALID
    wrong = good.replace("indices[:, -k:].contiguous()", "indices[:, -k:].flip(1)")
    found = verdict(wrong, task=task)
    assert found.status is Status.WRONG_OUTPUT
    assert "int64" in found.reason
    renamed = verdict(good.replace('"best"', '"top"'), task=task)
    assert renamed.status is Status.BAD_CONTRACT


FORCES = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(24, 24)

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.layer(x).square().sum(1)
            forces = torch.autograd.grad(energy.sum(), x, create_graph=True)[0]
        return {"energy": energy, "forces": forces}


def get_inputs():
    return [torch.randn(32, 24)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("ending", ['{"energy": energy, "forces": forces}', "forces", "energy, forces, energy"])
def test_outputs_that_depend_on_gradients_count_as_their_values(verdict, ending):
    text = FORCES.replace('{"energy": energy, "forces": forces}', ending)
    candidate = text.replace("class Model(", "class ModelNew(")
    found = verdict(candidate, task=source_task(text), effort=Effort.FINAL)
    assert found.status is Status.VALID, found.reason
    wrong = candidate.replace("return ", "forces = 1.01 * forces; return ")
    assert verdict(wrong, task=source_task(text)).status is Status.WRONG_OUTPUT


class Scaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x, *, scale):
        return self.linear(x) * scale


WRAPPED = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    @classmethod
    def from_reference(cls, model):
        return cls(model)

    def forward(self, x, *, scale):
        return self.model(x, scale=scale)
"""


def test_a_live_module_with_keyword_inputs(verdict, tmp_path):
    payload = {"module": Scaler(), "args": (torch.randn(16, 64),), "kwargs": {"scale": torch.rand(16, 1)}}
    path = tmp_path / "module.pkl"
    cloudpickle.register_pickle_by_value(__import__(__name__))
    path.write_bytes(cloudpickle.dumps({**payload, "make_inputs": None}))
    cloudpickle.unregister_pickle_by_value(__import__(__name__))
    task = Task("live", "live", TaskKind.MODULE, "", "live", str(path))
    found = verdict(WRAPPED, task=task)
    assert (found.status, found.weights) == (Status.VALID, Weights.FROM_REFERENCE), found.log
    assert verdict(WRAPPED.replace("scale=scale)", "scale=scale + 1)"), task=task).status is Status.WRONG_OUTPUT
    missing = verdict("class ModelNew: pass", task=task)
    assert missing.status is Status.LOAD_ERROR
    assert "from_reference" in missing.reason


UNPACKS = """
def forward(self, pair, counts):
    return pair.a @ pair.b * (1 + counts["missing"]) + counts["x"]
"""


def test_a_live_module_gets_named_tuples_and_mappings_as_they_are(verdict, tmp_path):
    scope = {"torch": torch, "__name__": "__main__"}
    exec(f"class Net(torch.nn.Module):{UNPACKS.replace(chr(10), chr(10) + '    ')}", scope)
    args = (Match(torch.randn(32, 16), torch.randn(16, 8), 1), defaultdict(int, x=torch.randn(32, 8)))
    task = tasks.from_module(scope["Net"](), args, {}, folder=tmp_path)
    wrapped = WRAPPED.replace("x, *, scale", "pair, counts").replace("x, scale=scale", "pair, counts")
    found = verdict(wrapped, task=task)
    assert found.status is Status.VALID, found.reason


def test_an_original_that_crashes_is_named_as_the_likely_cause():
    task = source_task(
        INTEGERS.replace("values, indices", "__import__('os').kill(__import__('os').getpid(), 11); values, indices")
    )
    client = JudgeClient()
    with pytest.raises(InfraError, match="ended with code -11; the original likely crashed it: call it on its inputs"):
        client.preflight(EvaluationRequest(task, "", OPTIONS))


def test_an_input_that_cannot_be_rebuilt_elsewhere_is_refused(judge, tmp_path):
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 9, 3), torch.tensor([9, 7, 4, 2]), batch_first=True)
    task = tasks.from_module(nn.LSTM(3, 3, batch_first=True), (packed,), {}, folder=tmp_path)
    with pytest.raises(UserError, match="its inputs cannot be sent to another process"):
        judge.preflight(EvaluationRequest(task, "", OPTIONS))


class Ledger(nn.Module):
    def forward(self, amounts):
        if int(amounts.sum()) != 60 * 500:
            raise ValueError("the books do not balance")
        return amounts * 2.0


def test_a_drawn_input_that_fails_is_not_blamed_on_the_model(judge, tmp_path):
    amounts = torch.randperm(999)[:60]
    amounts[0] += 60 * 500 - amounts.sum()
    task = tasks.from_module(Ledger(), (amounts,), {}, folder=tmp_path)
    with pytest.raises(UserError, match="an input that PIKE drew or rebuilt failed: give a function as example_inputs"):
        judge.preflight(EvaluationRequest(task, "", OPTIONS))


@pytest.mark.skipif(Claim.FILES not in choose("auto", False).claims, reason="candidates see every file here")
def test_a_live_module_whose_imports_candidates_cannot_follow_is_refused_at_the_preflight(tmp_path, monkeypatch):
    (tmp_path / "secret_helper.py").write_text("WIDTH = 40\n")
    monkeypatch.syspath_prepend(tmp_path)
    scope = {"torch": torch, "__name__": "__main__"}
    hidden = "__import__('secret_' + 'helper').WIDTH"
    exec(f"class Net(torch.nn.Module):\n    def forward(self, x):\n        return x + {hidden}", scope)
    task = tasks.from_module(scope["Net"](), (torch.randn(9),), {}, folder=tmp_path)
    client = JudgeClient()
    try:
        with pytest.raises(UserError, match="imports the module 'secret_helper' in a way that candidates cannot"):
            client.preflight(EvaluationRequest(task, "", OPTIONS))
    finally:
        client.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("return [torch.randn(32, 50), 3]", "raise OSError('no data')"), "get_inputs() raised OSError: no data"),
        (("values, indices = x.sort", "values, indices = x.srot"), "does not run"),
        (("def get_init_inputs", "def init"), "does not define get_init_inputs"),
    ],
)
def test_a_broken_task_is_the_users_error(verdict, change, words):
    with pytest.raises(UserError, match="(?s)" + words.replace("(", r"\(").replace(")", r"\)")):
        verdict(INTEGERS.replace("class Model(", "class ModelNew("), task=source_task(INTEGERS.replace(*change)))
