"""The drop-in where the original worked: transformers, timm, torchvision, and torch's own tools."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from pike.api.dropin import DropIn, JudgedCalls
from pike.core.errors import UserError
from pike.engine.output.originals import dtypes_of
from pike.engine.output.signature import describe

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Marked(nn.Module):
    """A fast form that says that it answered: it counts its calls, and adds 1000 to a tensor."""

    calls = 0

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        Marked.calls += 1
        out = self.inner(*args, **kwargs)
        return out + 1000 if isinstance(out, torch.Tensor) else out


def dropin_for(original: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """A drop-in that was judged on this call."""
    judged = JudgedCalls(describe(args, kwargs), "cpu", dtypes=dtypes_of(original))
    return DropIn(original.eval().requires_grad_(False), Marked, judged)


@pytest.fixture(autouse=True)
def _quiet():
    Marked.calls = 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The original")
        yield


class Scaled(nn.Sequential):
    """A container with a method of its own that calls the module."""

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self(x) * 2

    def forward(self, input: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return super().forward(input) * scale


class Planned(nn.Module):
    """Shares plain settings with a submodule, as models of transformers share plans."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()
        self.act.plan = {"linear": (["x"], ["out"]), "scales": [1.0]}
        self.plan, self.linear = self.act.plan, nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.linear(x)) * self.plan["scales"][0]


@torch.no_grad()
@pytest.mark.parametrize("tool", ["compile", "script", "export"])
def test_tools_of_torch_leave_it_fast(tool: str) -> None:
    original = nn.Sequential(nn.Linear(4, 3), nn.ReLU()) if tool == "script" else Planned()
    dropin = dropin_for(original, X)
    {
        "compile": lambda: torch.compile(dropin, backend="eager")(X),
        "script": lambda: torch.jit.script(dropin),
        "export": lambda: torch.export.export(dropin, (X,)),
    }[tool]()
    assert dropin.why_not((X,), {}) == ""
    assert torch.equal(dropin(X), original(X) + 1000)
    if tool == "export":
        assert original.plan is not original.act.plan, "else this shows nothing"
        for plan in (original.plan, original.act.plan):
            plan["scales"][0] = 2.0
            assert "plan['scales'][0]' changed" in dropin.why_not((X,), {})
            assert torch.equal(dropin(X), original(X))
            plan["scales"][0] = 1.0
            assert dropin.why_not((X,), {}) == ""
    original.training_ratio = 1
    assert "training_ratio" in dropin.why_not((X,), {}), "an attribute that a model may read counts"


class Strict(Marked):
    """Raises for negative numbers, as TorchScript does, wherever the original does."""

    def forward(self, ids: torch.Tensor) -> Any:
        if (ids < 0).any():
            raise RuntimeError("It failed.\nTraceback of TorchScript:\n  embedding\n~~~\nRuntimeError: out of range\n")
        return super().forward(ids)


@torch.no_grad()
def test_a_call_that_the_original_refuses_too_does_not_cost_the_fast_form() -> None:
    original = nn.Embedding(5, 3)
    good, bad = torch.arange(4), torch.full((4,), -1)
    dropin = DropIn(original.eval(), Strict, JudgedCalls(describe((good,), {}), "cpu"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids in (bad, good, bad, good):
            if ids is bad:
                with pytest.raises(IndexError, match="index out of range in self"):
                    dropin(bad)
            else:
                assert torch.equal(dropin(good), original(good) + 1000)
    original.forward = lambda ids: ids * 0.0
    dropin = DropIn(original, Strict, JudgedCalls(describe((good,), {}), "cpu"))
    with pytest.warns(UserWarning, match="its code failed .RuntimeError: out of range.$"):
        assert torch.equal(dropin(bad), bad * 0.0)
    assert dropin.explain().endswith("\n1: its code failed (RuntimeError: out of range)")
    assert "its code failed" in dropin.why_not((good,), {}), "the original can answer what the code cannot"


def negated(_module: nn.Module, _args: Any, out: torch.Tensor) -> torch.Tensor:
    """A hook that can be pickled."""
    return -out


@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle", "save"])
def test_hooks_on_it_go_with_its_copies(how: str) -> None:
    dropin, buffer = dropin_for(nn.Linear(4, 3), X), io.BytesIO()
    dropin.register_forward_hook(negated)
    dropin.register_forward_pre_hook(doubled, with_kwargs=True)
    torch.save(dropin, buffer)
    buffer.seek(0)
    other = {
        "copy": lambda: copy.copy(dropin),
        "deepcopy": lambda: copy.deepcopy(dropin),
        "pickle": lambda: pickle.loads(pickle.dumps(dropin)),
        "save": lambda: torch.load(buffer, weights_only=False),
    }[how]()
    assert torch.equal(other(X), -(dropin.original(X * 2) + 1000))
    other.register_forward_hook(negated)
    assert torch.equal(dropin(X), other(X)) == (how == "copy"), "a shallow copy shares hooks, as any module's does"


def doubled(_module: nn.Module, args: Any, kwargs: Any) -> Any:
    """A hook before the call that can be pickled."""
    return (args[0] * 2,), kwargs


def test_it_is_an_instance_of_the_originals_class_and_its_methods_call_it() -> None:
    original = Scaled(nn.Linear(4, 3))
    dropin = dropin_for(original, X)
    assert isinstance(dropin, Scaled)
    assert isinstance(dropin, DropIn)
    assert (type(dropin).__name__, type(dropin).__module__) == ("Scaled", __name__)
    assert inspect.signature(dropin.forward) == inspect.signature(original.forward)
    assert (len(dropin), dropin[0], list(dropin)) == (1, original[0], [original[0]])
    assert torch.equal(dropin.twice(X), (original(X) + 1000) * 2)
    dropin.append(nn.ReLU())
    assert torch.equal(dropin(X), original(X)), "the original changed"
    assert len(original) == 2
    for other in (copy.deepcopy(dropin), copy.copy(dropin)):
        assert isinstance(other, Scaled)
        assert torch.equal(other(X), original(X)), "a copy of a changed drop-in stays with its original"


def test_an_original_whose_class_refuses_subclasses_has_a_plain_drop_in() -> None:
    class Final(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Final:
            if any(isinstance(base, Final) for base in bases):
                raise TypeError("final")
            return super().__new__(cls, name, bases, body)

    class Closed(nn.Linear, metaclass=Final):
        pass

    original = Closed(4, 3)
    dropin = dropin_for(original, X)
    assert type(dropin) is DropIn
    assert torch.equal(dropin(X), original(X) + 1000)
    outer = dropin_for(dropin_for(nn.Linear(4, 3), X), X)
    assert torch.equal(outer(X), outer.original(X) + 1000), "a drop-in of a drop-in"
    assert torch.equal(torch.jit.trace(outer, X, check_trace=False)(X), outer.original.original(X))


def test_a_class_that_registers_its_subclasses_never_sees_a_drop_in() -> None:
    known = dict[str, type]()

    class Registered(nn.Linear):
        def __init_subclass__(cls) -> None:
            known[cls.__name__] = cls

    class Model(Registered):
        pass

    assert isinstance(dropin_for(Model(4, 3), X), Model)
    assert known == {"Model": Model}


def test_a_parametrization_goes_to_the_original() -> None:
    with pytest.raises(UserError, match=r"parametrize its \.original"):
        parametrizations.orthogonal(dropin_for(nn.Linear(4, 3), X))
    original = nn.Linear(4, 3)
    dropin = dropin_for(original, X)
    parametrizations.orthogonal(dropin.original)
    assert torch.equal(dropin(X), original(X))
    assert torch.equal(dropin.weight, original.weight)


def test_it_explains_who_answered() -> None:
    dropin = dropin_for(nn.Linear(4, 3), X)
    for x in (X, X, X[:1], X[:1], X.double().float(), X.reshape(1, 2, 4)):
        dropin(x)
    first, *why = dropin.explain().splitlines()
    assert first == "Calls that the optimised code answered: 3, the original: 3"
    assert why == [
        "2: it was judged on (float32[2, 4]), this call is (float32[1, 4])",
        "1: it was judged on (float32[2, 4]), this call is (float32[1, 2, 4])",
    ]


TOOLS = {
    "export": lambda module: torch.export.export(module, (X,)).module(),
    "compile": lambda module: torch.compile(module, backend="eager", fullgraph=True),
    "fx": torch.fx.symbolic_trace,
    "script": torch.jit.script,
    "trace": lambda module: torch.jit.trace(module, X, check_trace=False),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_what_traces_it_sees_the_original_under_its_own_names(tool: str) -> None:
    original = nn.Sequential(nn.Linear(4, 3), nn.GELU())
    made = TOOLS[tool](dropin_for(original, X))
    assert torch.equal(made(X), original(X))
    assert {name.removeprefix("_orig_mod.") for name in made.state_dict()} == set(original.state_dict())
    assert Marked.calls == 0


def test_compiled_in_place_it_is_the_compiled_original() -> None:
    original = nn.Sequential(nn.Linear(4, 3), nn.GELU())
    dropin = dropin_for(original, X)
    dropin.compile(backend="eager", fullgraph=True)
    assert torch.equal(dropin(X), original(X))
    assert original._compiled_call_impl is None


def test_threads_that_mix_judged_calls_and_others_get_their_own_answers() -> None:
    original = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 4))
    dropin, wrong = dropin_for(original, X), list[str]()

    def calls(thread: int) -> None:
        for number in range(30):
            x = X[: 1 + (thread + number) % 2] + thread
            want = original(x) + 1000 * (len(x) == 2)
            if not torch.allclose(dropin(x), want, atol=1e-3):
                wrong.append(f"thread {thread}, call {number}")

    threads = [threading.Thread(target=calls, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert dropin.explain().startswith("Calls that the optimised code answered: 120, the original: 120")


def test_weights_go_back_and_forth_between_drop_in_and_original() -> None:
    original, other = nn.Linear(4, 3), nn.Linear(4, 3)
    dropin = dropin_for(original, X)
    buffer = io.BytesIO()
    torch.save(other.state_dict(), buffer)
    buffer.seek(0)
    dropin.load_state_dict(torch.load(buffer))
    assert torch.allclose(dropin(X), other(X) + 1000, atol=1e-3)
    original.weight.zero_()
    other.load_state_dict(dropin.state_dict())
    assert torch.allclose(dropin(X), other(X) + 1000, atol=1e-3)


class Bert:
    """A text classifier with a tokenizer, both made here."""

    def __init__(self, transformers: Any) -> None:
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
        self.model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=100, **sizes))
        self.llama = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(vocab_size=100, max_position_embeddings=64, eos_token_id=99, **sizes)
        )
        tokenizers = pytest.importorskip("tokenizers")
        words = {f"w{number}": number for number in range(97)} | {"[PAD]": 97, "[UNK]": 98, "[SEP]": 99}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[SEP]"
        )


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers")


@pytest.fixture
def bert(transformers: Any) -> Bert:
    return Bert(transformers)


def test_a_model_of_transformers_keeps_its_looks(transformers: Any, bert: Bert, tmp_path: Path) -> None:
    inputs = dict(bert.tokenizer(["w1 w2 w3", "w4 w5 w6"], return_tensors="pt"))
    bert.model.save_pretrained(tmp_path / "published")
    model = type(bert.model).from_pretrained(tmp_path / "published")
    dropin = dropin_for(model, **inputs)
    out = dropin(**inputs)
    assert Marked.calls > 0
    assert type(out) is type(model(**inputs))
    assert torch.equal(out.logits, model(**inputs).logits)
    assert isinstance(dropin, transformers.PreTrainedModel)
    for name in ("config", "device", "dtype", "main_input_name", "base_model_prefix"):
        assert getattr(dropin, name) == getattr(model, name)
    assert dropin.can_generate() == model.can_generate()
    dropin.save_pretrained(tmp_path / "again")
    again = type(model).from_pretrained(tmp_path / "again")
    assert again.config.architectures == ["BertForSequenceClassification"]
    assert torch.equal(again.eval()(**inputs).logits, out.logits)
    assert "config.dtype' changed" in dropin.why_not((), inputs), "saving writes the name of the type"
    dropin.config.dtype = torch.float32
    assert dropin.why_not((), inputs) == ""


def test_a_pipeline_uses_the_optimised_form_for_judged_calls(transformers: Any, bert: Bert) -> None:
    dropin = dropin_for(bert.model, **bert.tokenizer("w1 w2 w3", return_tensors="pt"))
    with torch.no_grad():
        classify = [
            transformers.pipeline("text-classification", model=m, tokenizer=bert.tokenizer)
            for m in (bert.model, dropin)
        ]
        for text in ("w4 w5 w6", "w7"):
            want, got = (pipeline(text) for pipeline in classify)
            assert got == want
    assert Marked.calls > 0
    assert dropin.explain().splitlines()[0] == "Calls that the optimised code answered: 1, the original: 1"


def test_what_it_generates_is_the_originals(transformers: Any, bert: Bert) -> None:
    ids = torch.arange(8).reshape(2, 4)
    dropin = dropin_for(bert.llama, input_ids=ids)
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 97}
    assert torch.equal(dropin.generate(ids, **options), bert.llama.generate(ids, **options))
    first, *why = dropin.explain().splitlines()
    assert first == "Calls that the optimised code answered: 0, the original: 4"
    assert "an input is a DynamicCache" in why[0]
    want, got = (
        transformers.pipeline("text-generation", model=model, tokenizer=bert.tokenizer)("w1 w2", **options)
        for model in (bert.llama, dropin)
    )
    assert got == want
    assert dropin.why_not((), {"input_ids": ids}) == "", "generating changes nothing for judged calls"


def test_feature_extractors_of_timm(tmp_path: Path) -> None:
    timm, x = pytest.importorskip("timm"), torch.randn(1, 3, 32, 32)
    features = timm.create_model("resnet10t", features_only=True)
    dropin = dropin_for(features, x)
    assert all(map(torch.equal, dropin(x), features(x)))
    assert Marked.calls > 0
    assert dropin.feature_info.channels() == features.feature_info.channels()
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 5}
    vit = timm.create_model("vit_tiny_patch16_224", **sizes)
    fast = dropin_for(vit, x)
    assert torch.equal(fast(x), vit(x) + 1000)
    assert torch.equal(fast.forward_head(fast.forward_features(x)), vit(x))
    for got, want in zip(
        fast.forward_intermediates(x, indices=1)[1], vit.forward_intermediates(x, indices=1)[1], strict=True
    ):
        assert torch.equal(got, want)
    fast.reset_classifier(3)
    assert fast(x).shape == (1, 3)
    assert "'head.bias' changed" in fast.explain()


def test_the_feature_extractor_of_torchvision() -> None:
    timm, extraction = pytest.importorskip("timm"), pytest.importorskip("torchvision.models.feature_extraction")
    x = torch.randn(1, 3, 32, 32)
    model = timm.create_model("resnet10t")
    want, got = (
        extraction.create_feature_extractor(m, {"layer1": "a", "layer4": "b"})(x)
        for m in (model.eval(), dropin_for(model, x))
    )
    assert all(torch.equal(got[name], want[name]) for name in "ab")
