"""Does the drop-in of a real search work where models of transformers and timm are used?

Knows four small models, built offline, and what people do with them. Each is optimised by one
composition of recipes with the real judge. The drop-in is used even if it was no faster here, for
these models are tiny. Needs transformers and timm.

    python benchmarks/dropin_in_the_world.py --only features vit
"""

from __future__ import annotations

import argparse
import copy
import io
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import timm
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

import pike
from pike.engine.output import originals, outputs
from pike.engine.state.resume import read_state

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SETTINGS = ("evaluate.max_timing_seconds=0.3", "evaluate.correctness_seeds=1", "engine.finalists=1")
Use = Callable[[Any], Any]
"""What is done with a module; its result must be the same for the drop-in and the original."""


def tokenizer() -> Any:
    """A tokenizer of ninety-seven words."""
    words = {f"w{number}": number for number in range(97)} | {"[PAD]": 97, "[UNK]": 98, "[SEP]": 99}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", eos_token="[SEP]"
    )


def texts(uses: dict[str, Use], **inputs: torch.Tensor) -> dict[str, Use]:
    """What is done with every model of transformers, and more."""
    return {"called by keyword": lambda model: model(**inputs).logits} | uses


def classifier() -> tuple[nn.Module, Any, dict[str, Use]]:
    """A text classifier, judged on one text of four words."""
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=100, **SIZES))
    words = tokenizer()
    inputs = dict(words("w1 w2 w3 w4", return_tensors="pt"))

    def pipe(text: str) -> Use:
        return lambda model: transformers.pipeline("text-classification", model=model, tokenizer=words)(text)

    return model, inputs, texts({"pipeline, four words": pipe("w5 w6 w7 w8"), "pipeline, one": pipe("w9")}, **inputs)


def generator() -> tuple[nn.Module, Any, dict[str, Use]]:
    """A decoder, judged on a prompt of eight tokens without a cache."""
    config = transformers.LlamaConfig(vocab_size=100, max_position_embeddings=64, eos_token_id=99, **SIZES)
    ids, options = torch.arange(8)[None], {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 97}
    inputs = {"input_ids": ids, "use_cache": False}
    return (
        transformers.LlamaForCausalLM(config),
        inputs,
        texts({"generate": lambda model: model.generate(ids, **options)}, **inputs),
    )


def images(name: str, uses: dict[str, Use], **options: Any) -> tuple[nn.Module, Any, dict[str, Use]]:
    """A model of timm, judged on two images."""
    x = torch.randn(2, 3, 64, 64)
    found = {use: (lambda model, do=do: do(model, x)) for use, do in uses.items()}
    return timm.create_model(name, **options), x, {"called": lambda model: model(x)} | found


def features() -> tuple[nn.Module, Any, dict[str, Use]]:
    """The feature maps of a convolutional network."""
    return images("resnet10t", {"one image": lambda model, x: model(x[:1])}, features_only=True)


def vit() -> tuple[nn.Module, Any, dict[str, Use]]:
    """A vision transformer."""
    uses = {
        "forward_features": lambda model, x: model.forward_features(x),
        "three": lambda model, x: model(x[[0, 1, 0]]),
    }
    return images("vit_tiny_patch16_224", uses, img_size=64, embed_dim=48, depth=2, num_heads=3)


def dropin_of(model: nn.Module, inputs: Any, folder: Path, queries: int) -> tuple[pike.Optimized, Any]:
    """The search's best candidate as a drop-in, faster or not; None without a valid one."""
    done = pike.optimize(
        model,
        inputs,
        llm="none",
        query_budget=queries,
        device="cpu",
        out=folder,
        settings=SETTINGS,
        dynamic_batch=[1, 2],
    )
    verdict = done.result.evaluation
    if verdict is None or verdict.timing is None:
        return done, None
    faster = replace(verdict, timing=replace(verdict.timing, speedup_ci95=(2.0, 3.0)))
    task = read_state(folder).task
    outputs.write(folder, task, replace(done.result, evaluation=faster), originals.load(task))
    return done, pike.load(folder / "best.py", reference=model)


def saved(dropin: Any) -> Any:
    """The drop-in, saved and loaded."""
    buffer = io.BytesIO()
    torch.save(dropin, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def counts(dropin: Any) -> list[int]:
    """How many calls the optimised code and the original answered."""
    return [int(number) for number in re.findall(r": (\d+)", dropin.explain().splitlines()[0])]


def row(use: str, do: Use, dropin: Any, original: nn.Module) -> str:
    """Who answered, and whether it was right."""
    before, got, want = counts(dropin), do(dropin), do(original)
    fast, left = (now - then for now, then in zip(counts(dropin), before, strict=True))
    try:
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
        right = True
    except (AssertionError, TypeError):
        right = str(got) == str(want)
    return f"  {use:30} {'right' if right else 'WRONG'}, optimised {fast}, original {left}"


@torch.no_grad()
def main() -> None:
    """Optimise each model, and use it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="The original")
    for name in options.only:
        torch.manual_seed(0)
        model, inputs, uses = MODELS[name]()
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            done, dropin = dropin_of(model.eval(), inputs, Path(folder) / "run", options.queries)
            print(f"{name}: {done.result.speedup}, {dict(done.result.counts)}, {time.monotonic() - began:.0f} s")
            for tried in done.result.recipe_history:
                print(f"  {' + '.join(tried.recipes)}: {tried.speedup or tried.reason}")
            if dropin is None:
                continue
            verdict = done.result.evaluation
            print(f"  cold start {done.result.cold_start_seconds:.2f} s, {verdict.held_bytes / 1e6:.1f} MB held")
            for bucket in done.buckets:
                print(f"  batch {bucket.batch}: {bucket.speedup or bucket.why}")
            for use, do in uses.items():
                print(row(use, do, dropin, model))
            first, called = next(iter(uses.items()))
            for way, other in (("deepcopy", copy.deepcopy(dropin)), ("torch.save", saved(dropin))):
                print(row(f"{first}, {way}", called, other, model))
            original = copy.deepcopy(model)
            dropin.load_state_dict({name: tensor * 1.5 for name, tensor in model.state_dict().items()})
            original.load_state_dict(dropin.state_dict())
            print(row(f"{first}, new weights", called, dropin, original), flush=True)


MODELS = {"classifier": classifier, "generator": generator, "features": features, "vit": vit}


if __name__ == "__main__":
    main()
