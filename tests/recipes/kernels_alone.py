"""Run by tests in a process of its own: the kernels of a file, without a GPU.

`kernels_alone.py FILE numbers`, under Triton's interpreter (TRITON_INTERPRET=1): the largest error of attention over that
of PyTorch's own float32, against float64, for each case. The interpreter computes products in float32 whatever the
arithmetic is (it does not know all of them), so this shows the algorithm and its addresses, not what tensor cores lose.
`kernels_alone.py FILE sixteen_bits`: in float16, the largest error over the largest value.
`kernels_alone.py FILE not_a_number`: how many outputs are NaN only here or only in PyTorch.
Several words with commas between them do one after the other.
`kernels_alone.py FILE compile`: attention compiled down to machine code for Hopper, and the bytes of shared memory that
it takes, for each of the default tiles.
`kernels_alone.py FILE convolutions` and `compile_convolutions`, `experts` and `compile_experts`, `scans` and
`compile_scans`: the first and the last of these for convolution, for products of rows with their expert's weights, and for
elementwise recurrences.
"""

import importlib.util
import itertools
import sys

import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention

ARITHMETIC = ("bf16x6", "bf16x3")
CONVOLUTIONS = (
    ("few filters", (2, 3, 20, 17), 6, (1, 1), (1, 1), (0, 0), True, True),
    ("a fire module", (2, 6, 20, 17), 128, (3, 3), (1, 1), (1, 1), True, True),
    ("two blocks of filters, channels last", (1, 4, 9, 33), 130, (3, 3), (1, 1), (1, 1), False, False),
    ("steps of two", (1, 3, 31, 30), 70, (3, 5), (2, 3), (1, 2), False, True),
)
"""Name, image, filters, kernel, stride, padding, whether there is a bias, whether a ReLU follows."""

EXPERTS = (
    ("some without rows", (0, 70, 1, 0, 130, 3), 64, 96, None, torch.float32),
    ("the last without rows, odd sizes", (129, 40, 0), 50, 33, None, torch.float32),
    ("few rows", (2, 0, 5, 1, 0), 128, 70, None, torch.float32),
    ("one expert has everything", (0, 0, 200, 0), 32, 64, (64, 64, 128, 4, 2), torch.float32),
    ("one expert", (77,), 48, 40, (16, 16, 64, 4, 1), torch.float32),
    ("16 bits", (90, 0, 300), 100, 130, None, torch.float16),
)
"""Name, rows of each expert, inputs, outputs, tiles, numbers."""

SCANS = (
    ("selective states", (2, 24, 64, 8), 1, torch.float32),
    ("steps first, odd sizes", (13, 3, 77), 0, torch.float32),
    ("narrow", (2, 5, 9, 16), 2, torch.float32),
    ("16 bits", (3, 17, 130), 1, torch.float16),
)
"""Name, shape, axis of steps, numbers."""


def let_loops_run():
    """Triton 3.6 reads bounds of loops from arrays of one element, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def heads(batch, count, tokens, size):
    return torch.randn(batch, count, tokens, size)


def fused(batch, count, tokens, size, value_size):
    """Queries, keys and values as views of what one projection would give, one number off any alignment."""
    whole = torch.randn(batch, tokens, 1 + count * (2 * size + value_size))[..., 1:]
    parts = whole.split([count * size, count * size, count * value_size], dim=-1)
    return [part.unflatten(-1, (count, -1)).transpose(1, 2) for part in parts]


def cases():
    for causal in (False, True):
        yield "odd sizes", (heads(1, 2, 77, 24), heads(1, 2, 130, 24), heads(1, 2, 130, 24)), causal, None
        yield "more queries than keys", (heads(1, 1, 130, 96), heads(1, 1, 77, 96), heads(1, 1, 77, 96)), causal, None
        yield "a fused projection", fused(2, 3, 77, 24, 40), causal, (64, 32, 4, 2)
        yield "whole blocks and a scale", [heads(1, 1, 128, 16) for _ in range(3)], causal, (64, 64, 4, 1)


def plain(query, key, value, causal, scale, rectified):
    """The same by PyTorch; rectified attention is written out."""
    if not rectified:
        return scaled_dot_product_attention(query, key, value, None, 0.0, causal, scale=scale)
    scores = query @ key.mT * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) == 1, float("-inf"))
    return torch.relu(scores) @ value


def numbers(module):
    let_loops_run()
    torch.manual_seed(0)
    for (name, tensors, causal, tiles), rectified in itertools.product(cases(), (False, True)):
        query, key, value = tensors
        scale = 0.7 if "scale" in name else query.shape[-1] ** -0.5
        batch, count, tokens, _ = query.shape
        output = torch.full((batch, tokens, count, value.shape[-1]), float("nan")).transpose(1, 2)
        cut = tiles and module.AttentionTiles(*tiles)
        module.attend(query, key, value, output, module.AttentionTerms(scale, causal, rectified, "ieee"), cut)
        exact = plain(query.double(), key.double(), value.double(), causal, scale, rectified)
        own = plain(query, key, value, causal, scale, rectified)
        errors = [float((found.double() - exact).abs().max()) for found in (output, own)]
        words = [name, *(["causal"] if causal else []), *(["rectified"] if rectified else [])]
        print(f"{', '.join(words)}: {errors[0] / errors[1]}")


def sixteen_bits(module):
    """What has 16 bits: the largest error in terms of the largest value."""
    for name, output, exact in both_kinds(module, [heads(1, 2, 130, 24).half() for _ in range(3)]):
        print(f"sixteen_bits {name}: {float((output.double() - exact).abs().max() / exact.abs().max())}")


def not_a_number(module):
    """A query and a key that are no numbers: how many outputs are numbers only here, or only in PyTorch."""
    given = [heads(1, 2, 130, 24) for _ in range(3)]
    given[0][0, 0, 70] = given[1][0, 1, 100] = float("nan")
    for name, output, exact in both_kinds(module, given):
        assert exact.isnan().any() and not exact.isnan().all()
        print(f"not_a_number {name}: {int((output.isnan() != exact.isnan()).sum())}")


def both_kinds(module, given):
    """Causal attention with and without a softmax, and the same in float64."""
    let_loops_run()
    for rectified in (False, True):
        output = torch.zeros_like(given[2])
        terms, tiles = module.AttentionTerms(0.2, True, rectified, "ieee"), module.AttentionTiles(64, 32, 4, 1)
        module.attend(*given, output, terms, tiles)
        exact = plain(*(tensor.double() for tensor in given), True, 0.2, rectified)
        yield "rectified" if rectified else "softmax", output, exact


def compiled(program, pointers, tuples, numbers, fixed, options, products=True):
    """A kernel compiled for Hopper as a launch with aligned tensors would.

    Args:
        program: the kernel.
        pointers: the types of its tensors, by name.
        tuples: the lengths of its tuples of strides.
        numbers: the types of parameters that are no `i32`.
        fixed: what it is compiled for.
        options: warps and stages.
        products: whether it is to use Hopper's own products.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    types = dict.fromkeys(program.arg_names, "i32") | pointers | numbers | dict.fromkeys(fixed, "constexpr")
    types |= {name: ("i32",) * length for name, length in tuples.items()}
    places = {name: place for place, name in enumerate(program.arg_names)}
    aligned = [(places[name],) for name in pointers]
    aligned += [(places[name], axis) for name, length in tuples.items() for axis in range(length)]
    source = triton.compiler.ASTSource(
        program,
        types,
        {(places[name],): value for name, value in fixed.items()},
        {place: [["tt.divisibility", 16]] for place in aligned},
    )
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert not products or "wgmma.mma_async" in kernel.asm["ptx"]
    return kernel


def compiled_attention(module, size, arithmetic, causal, rectified=False, number="fp32"):
    """Attention for heads of one size."""
    tiles = module.attention_tiles(size, arithmetic)[0]
    fixed = module.attention_parameters(
        size, size, 1000, module.AttentionTerms(1.0, causal, rectified, arithmetic), tiles
    )
    tensors = ("q", "k", "v", "out")
    return compiled(
        module.attention_program(),
        dict.fromkeys(tensors, f"*{number}"),
        {f"{name}_strides": 3 for name in tensors},
        {"scale": "fp32"},
        fixed,
        {"num_warps": tiles.num_warps, "num_stages": tiles.num_stages},
    )


def compile_all(module):
    wanted = [(*way, False, "fp32") for way in itertools.product((64, 128), ARITHMETIC, (False, True))]
    wanted += [(64, arithmetic, True, True, "fp32") for arithmetic in ARITHMETIC] + [(64, "bf16x3", True, True, "fp16")]
    for way in wanted:
        print(f"{way}: {compiled_attention(module, *way).metadata.shared}")


def convolutions(module):
    """The largest error over that of PyTorch's own float32, against float64."""
    torch.manual_seed(0)
    for name, shape, filters, kernel, stride, padding, has_bias, rectified in CONVOLUTIONS:
        image, weight = torch.randn(shape), torch.randn(filters, shape[1], *kernel)
        if "channels last" in name:
            image = image.to(memory_format=torch.channels_last)
        bias = torch.randn(filters) if has_bias else None
        wide = [None if one is None else one.double() for one in (image, weight, bias)]
        exact, own = conv2d(*wide, stride, padding), conv2d(image, weight, bias, stride, padding)
        if rectified:
            exact, own = torch.relu(exact), torch.relu(own)
        output = torch.full(own.shape, float("nan"))
        module.convolve(image, weight, bias, output, module.ConvTerms(stride, padding, rectified, "ieee"))
        errors = [float((found.double() - exact).abs().max()) for found in (output, own)]
        print(f"{name}: {errors[0] / errors[1]}")


def compile_convolutions(module):
    for name, shape, filters, kernel, stride, padding, has_bias, rectified in CONVOLUTIONS:
        weight = torch.zeros(max(filters, 64), shape[1], *kernel)  # fewer do not use Hopper's own products
        for arithmetic in ARITHMETIC:
            terms = module.ConvTerms(stride, padding, rectified, arithmetic)
            fixed = module.conv_parameters(weight, has_bias, terms)
            pointers = dict.fromkeys(("x", "w", "bias", "out"), "*fp32")
            options = {"num_warps": module.CONV_WARPS}
            made = compiled(module.convolution_program(), pointers, {"x_strides": 4}, {}, fixed, options)
            print(f"{name}, {arithmetic}: {made.metadata.shared}")


def experts(module):
    """The largest error over that of PyTorch's own products, against float64."""
    let_loops_run()
    torch.manual_seed(0)
    for name, sizes, inputs, outputs, tiles, number in EXPERTS:
        rows, weights = torch.randn(sum(sizes), inputs).to(number), torch.randn(len(sizes), outputs, inputs).to(number)
        parts = list(zip(rows.split(sizes), weights, strict=True))
        exact = torch.cat([part.double() @ weight.double().t() for part, weight in parts])
        own = torch.cat([part @ weight.t() for part, weight in parts])
        output = torch.full((sum(sizes), outputs), float("nan"), dtype=number)
        ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
        module.multiply_experts(rows, weights, ends, output, "ieee", tiles and module.ExpertTiles(*tiles))
        errors = [float((found.double() - exact).abs().max()) for found in (output, own)]
        print(f"{name}: {errors[0] / errors[1]}")


def compile_experts(module):
    ways = [("fp32", torch.float32, arithmetic) for arithmetic in ARITHMETIC] + [("fp16", torch.float16, "bf16x6")]
    for (number, dtype, arithmetic), tail in itertools.product(ways, (False, True)):
        weights = torch.empty(64, 1408, 2048 + tail, dtype=dtype, device="meta")
        tiles = module.expert_tiles(weights.new_empty(49152, 0), 64)[0]
        fixed = module.expert_parameters(weights, arithmetic, tiles)
        pointers = dict.fromkeys(("a", "b", "c"), f"*{number}") | {"ends": "*i32"}
        options = {"num_warps": tiles.num_warps, "num_stages": tiles.num_stages}
        made = compiled(module.experts_program(), pointers, {}, {}, fixed, options)
        print(f"{number}, {arithmetic}{', a tail' * tail}: {made.metadata.shared}")


def scans(module):
    """The largest error over that of PyTorch's own steps, against float64."""
    let_loops_run()
    torch.manual_seed(0)
    for name, shape, axis, number in SCANS:
        decay, drive = torch.rand(shape).to(number), torch.randn(shape).to(number)
        first = torch.randn(drive.select(axis, 0).shape).to(number)
        exact, own = (torch.stack([*stepped(*given, axis)], axis) for given in both(decay, drive, first))
        states = torch.full(shape, float("nan"), dtype=number)
        module.scan_steps(decay, drive, first, states, axis)
        errors = [float((found.double() - exact).abs().max()) for found in (states, own)]
        print(f"{name}: {errors[0] / errors[1]}")


def both(*tensors):
    """Tensors in float64, and as they are."""
    return tuple(tensor.double() for tensor in tensors), tensors


def stepped(decay, drive, state, axis):
    """The state after each step."""
    for kept, added in zip(decay.unbind(axis), drive.unbind(axis), strict=True):
        state = kept * state + added
        yield state


def compile_scans(module):
    for name, shape, axis, number in SCANS:
        fixed = module.scan_parameters(torch.Size(shape[axis + 1 :]).numel(), module.SCAN_TILES)
        kind = "*fp16" if number == torch.float16 else "*fp32"
        pointers = dict.fromkeys(("decay", "drive", "first", "states"), kind)
        made = compiled(module.scan_program(), pointers, {}, {}, fixed, {"num_warps": 1}, products=False)
        assert "bar.sync" not in made.asm["ptx"], "a step never waits for another warp"
        print(f"{name}: {made.metadata.shared}")


def main():
    spec = importlib.util.spec_from_file_location("under_test", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    sys.modules["under_test"] = module
    spec.loader.exec_module(module)
    of_attention = (numbers, sixteen_bits, not_a_number)
    others = (convolutions, compile_convolutions, experts, compile_experts, scans, compile_scans)
    ways = {way.__name__: way for way in (*of_attention, *others)}
    ways["compile"] = compile_all
    for way in sys.argv[2].split(","):
        ways[way](module)


if __name__ == "__main__":
    main()
