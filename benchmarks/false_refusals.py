"""How often the error budget refuses an honest rewrite, and how often it misses one bad row: no judge, no child.

Run `python benchmarks/false_refusals.py [--draws 200] [--dtype bfloat16]`. Each pair computes the same thing in another
order (split sums, other layouts, fused or online forms); a refusal of it is an error of the rule. Then one row in
the output is wrong by one part in 256, as half precision would make it: the rule should refuse that.

Of 16-bit types every rewrite is tried twice: with its partial results in float32, as kernels keep them, and in the type
itself, where a running total loses what the reference keeps. There the rule must refuse products of 8-bit integers, and
one part in 256 is no fault but a rounding error.
"""

import argparse
import collections
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from pike.core.verdict.evaluation import Tolerance
from pike.judge.correctness.compare import Expected, compare_closely
from pike.judge.reference.input_distributions import DISTRIBUTIONS, InputDistribution, neighbour
from pike.judge.reference.reference import Inputs

Call = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Pair:
    """An honest rewrite of a reference, and how inputs are drawn."""

    reference: Call
    rewrite: Call
    draw: Callable[[], list[torch.Tensor]]
    eight_bits: Call | None = None


def rounded(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight bits for each element, and a scale for each row or column."""
    scale = (x.float().abs().amax(dim, keepdim=True) / 127).clamp(min=1e-30)
    return (x.float() / scale).round(), scale


def eight_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (x, rows), (y, columns) = rounded(a, -1), rounded(b, -2)
    return (x @ y * rows * columns).to(a.dtype)


def eight_bits_mlp(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return eight_bits(F.gelu(eight_bits(x, a)), b)


def eight_bits_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return eight_bits(torch.softmax(eight_bits(q, k.mT) * q.shape[-1] ** -0.5, -1), v)


def in_float32(rewrite: Call) -> Call:
    return lambda *given: rewrite(*[one.float() for one in given]).to(given[0].dtype)


def split_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for x, y in zip(a.split(64, 1), b.split(64, 0), strict=True):
        total = total + x @ y
    return total


def merged_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Mean and variance of pieces, merged pairwise (Chan's formula)."""
    mean, squares, count = x.new_zeros(*x.shape[:-1], 1), x.new_zeros(*x.shape[:-1], 1), 0
    for part in x.split(64, -1):
        gap, size = part.mean(-1, keepdim=True) - mean, part.shape[-1]
        squares = squares + part.var(-1, correction=0, keepdim=True) * size + gap**2 * (count * size / (count + size))
        count += size
        mean = mean + gap * (size / count)
    return (x - mean) * torch.rsqrt(squares / count + 1e-5) * w


def online_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    peak = torch.full((*q.shape[:-1], 1), -math.inf, dtype=q.dtype)
    total, out = torch.zeros_like(peak), torch.zeros_like(q)
    for keys, values in zip(k.split(16, -2), v.split(16, -2), strict=True):
        scores = q @ keys.mT * q.shape[-1] ** -0.5
        new = torch.maximum(peak, scores.amax(-1, keepdim=True))
        weights, old = (scores - new).exp(), (peak - new).exp()
        total, out, peak = total * old + weights.sum(-1, keepdim=True), out * old + weights @ values, new
    return out / total


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def mlp(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(x @ a) @ b


def split_mlp(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return split_matmul(F.gelu(split_matmul(x, a)), b)


def serial_sum(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x[..., 0])
    for part in x.split(64, -1):
        total = total + part.sum(-1)
    return total


def draw(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[], list[torch.Tensor]]:
    return lambda: [torch.randn(shape) * scale for shape in shapes]


PAIRS = {
    "matmul, K in pieces": Pair(torch.matmul, split_matmul, draw((128, 1024), (1024, 128)), eight_bits),
    "matmul with one column": Pair(torch.matmul, split_matmul, draw((256, 512), (512, 1)), eight_bits),
    "matmul, 32 terms": Pair(
        torch.matmul, lambda a, b: (a[:, :, None] * b).sum(1), draw((128, 32), (32, 128)), eight_bits
    ),
    "matmul, 64 outputs": Pair(torch.matmul, split_matmul, draw((8, 512), (512, 8)), eight_bits),
    "two layers and GELU": Pair(
        mlp, split_mlp, draw((64, 256), (256, 512), (512, 10), scale=0.3), eight_bits_mlp
    ),
    "row sums": Pair(lambda x: x.sum(-1), serial_sum, draw((64, 4096))),
    "mean of all": Pair(lambda x: x.mean(), lambda x: serial_sum(serial_sum(x)) / x.numel(), draw((64, 4096))),
    "mean squared error": Pair(
        lambda x, y: F.mse_loss(x, y), lambda x, y: serial_sum(serial_sum((x - y) ** 2)) / x.numel(),
        draw((64, 2048), (64, 2048)),
    ),
    "softmax in base 2": Pair(
        lambda x: torch.softmax(x, -1),
        lambda x: (e := torch.exp2((x - x.amax(-1, keepdim=True)) * math.log2(math.e))) / serial_sum(e)[..., None],
        draw((64, 1024)),
    ),
    "layer norm in pieces": Pair(
        lambda x, w: F.layer_norm(x, x.shape[-1:], w), merged_norm, draw((64, 512), (512,))
    ),
    "attention, online": Pair(plain_attention, online_attention, draw(*[(2, 4, 64, 32)] * 3)),
    "attention, fused": Pair(
        plain_attention, F.scaled_dot_product_attention, draw(*[(2, 4, 64, 32)] * 3), eight_bits_attention
    ),
    "convolution, channels last": Pair(
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w, padding=1).contiguous(),
        draw((2, 32, 16, 16), (32, 32, 3, 3)),
    ),
    "convolution as matmul": Pair(
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda x, w: (w.flatten(1) @ F.unfold(x, 3, padding=1)).view(2, 32, 16, 16),
        draw((2, 32, 16, 16), (32, 32, 3, 3)),
        lambda x, w: eight_bits(w.flatten(1), F.unfold(x, 3, padding=1)).view(2, 32, 16, 16),
    ),
    "log-sum-exp": Pair(
        lambda x: torch.logsumexp(x, -1),
        lambda x: serial_sum((x - x.amax(-1, keepdim=True)).exp()).log() + x.amax(-1),
        draw((128, 1024)),
    ),
    "cross entropy": Pair(
        lambda x: F.cross_entropy(x, torch.arange(64)),
        lambda x: (serial_sum((x - x.amax(-1, keepdim=True)).exp()).log() + x.amax(-1) - x.diagonal()).mean(),
        draw((64, 256)),
    ),
}  # fmt: skip


def judged(pair: Pair, rewrite: Call, drawn: list[torch.Tensor], slack: float, spoil: bool = False) -> str | None:
    """Why a rewrite is refused (empty when it is not); None where nothing is tested."""
    native = pair.reference(*drawn)
    answer = pair.reference(*[one.double() for one in drawn])
    if not bool(torch.isfinite(native).all()):
        return None
    output = rewrite(*drawn).reshape(native.shape)
    if spoil:
        output = output.clone()
        rows = output.view(-1, output.shape[-1] if output.dim() > 1 else 1)
        rows[len(rows) // 2] *= 1 + 2**-8

    def nearby() -> list[list[torch.Tensor]]:
        inputs = neighbour(Inputs(tuple(drawn), {}), int(torch.randint(1 << 30, ())))
        return [[pair.reference(*inputs.args)]]

    return compare_closely([output], Expected([answer], [native], [], True, slack), Tolerance.STRICT, nearby).wrong


def counted(distribution: InputDistribution, draws: int, dtype: torch.dtype) -> dict[str, object]:
    """How many answers were tried under one distribution, and which were refused or missed."""
    wide = dtype.itemsize > 2
    refused, narrow, missed = (collections.Counter[str]() for _ in range(3))
    tried, products, reasons = 0, 0, {}
    for number in range(draws):
        for name, pair in PAIRS.items():
            drawn = [one.to(dtype) for one in pair.draw()]
            drawn = list(distribution.change(Inputs(tuple(drawn), {}), number).args)
            wrong = judged(pair, pair.rewrite if wide else in_float32(pair.rewrite), drawn, distribution.slack)
            if wrong is None:
                continue
            tried += 1
            refused[name] += bool(wrong)
            if wrong:
                reasons.setdefault(name, wrong)
            if wide:
                missed[name] += not judged(pair, pair.rewrite, drawn, distribution.slack, spoil=True)
                continue
            narrow[name] += bool(judged(pair, pair.rewrite, drawn, distribution.slack))
            if pair.eight_bits is not None:
                products += 1
                missed[name] += not judged(pair, pair.eight_bits, drawn, distribution.slack)
    both = {"refused": +refused, "missed": +missed, "first": reasons}
    return {"tried": tried, **both, **({} if wide else {"narrow_totals_refused": +narrow, "products": products})}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--draws", type=int, default=200)
    arguments.add_argument("--dtype", default="float32")
    given = arguments.parse_args()
    torch.manual_seed(0)
    drawn = InputDistribution("as drawn", lambda inputs, _: inputs)
    for distribution in (drawn, *(one for one in DISTRIBUTIONS if torch.float32 in one.kinds)):
        found = counted(distribution, given.draws, getattr(torch, given.dtype))
        print(json.dumps({"dtype": given.dtype, "distribution": distribution.name, **found}), flush=True)


if __name__ == "__main__":
    main()
