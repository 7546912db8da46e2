"""Run by tests in a process of its own: the attention kernel of a file, without a GPU.

`attention_kernel_alone.py FILE numbers`, under Triton's interpreter (TRITON_INTERPRET=1): the largest error of the
kernel over that of PyTorch's own float32, against float64, for each case. The interpreter computes products in float32
whatever the arithmetic is (it does not know all of them), so this shows the algorithm and its addresses, not what tensor
cores lose.
`attention_kernel_alone.py FILE sixteen_bits`: in float16, the largest error over the largest value.
`attention_kernel_alone.py FILE not_a_number`: how many outputs are NaN only here or only in PyTorch.
`attention_kernel_alone.py FILE compile`: the kernel compiled down to machine code for Hopper, and the bytes of shared
memory that it takes, for each of the default tiles.
"""

import importlib.util
import itertools
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

ARITHMETIC = ("bf16x6", "bf16x3")


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
        module.attend(query, key, value, output, scale, causal, "ieee", cut, rectified)
        exact = plain(query.double(), key.double(), value.double(), causal, scale, rectified)
        own = plain(query, key, value, causal, scale, rectified)
        errors = [float((found.double() - exact).abs().max()) for found in (output, own)]
        words = [name, *(["causal"] if causal else []), *(["rectified"] if rectified else [])]
        print(f"{', '.join(words)}: {errors[0] / errors[1]}")


def sixteen_bits(module):
    """What has 16 bits: the largest error in terms of the largest value."""
    for name, output, exact in both_kinds(module, [heads(1, 2, 130, 24).half() for _ in range(3)]):
        print(f"{name}: {float((output.double() - exact).abs().max() / exact.abs().max())}")


def not_a_number(module):
    """A query and a key that are no numbers: how many outputs are numbers only here, or only in PyTorch."""
    given = [heads(1, 2, 130, 24) for _ in range(3)]
    given[0][0, 0, 70] = given[1][0, 1, 100] = float("nan")
    for name, output, exact in both_kinds(module, given):
        assert exact.isnan().any() and not exact.isnan().all()
        print(f"{name}: {int((output.isnan() != exact.isnan()).sum())}")


def both_kinds(module, given):
    """Causal attention with and without a softmax, and the same in float64."""
    let_loops_run()
    for rectified in (False, True):
        output = torch.zeros_like(given[2])
        module.attend(*given, output, 0.2, True, "ieee", module.AttentionTiles(64, 32, 4, 1), rectified)
        exact = plain(*(tensor.double() for tensor in given), True, 0.2, rectified)
        yield "rectified" if rectified else "softmax", output, exact


def compiled(module, size, arithmetic, causal, rectified=False, number="fp32"):
    """The kernel for heads of one size, compiled for Hopper as a launch with aligned tensors would."""
    import triton
    from triton.backends.compiler import GPUTarget

    tiles = module.attention_tiles(size, arithmetic)[0]
    program = module.attention_program()
    fixed = module.fixed_parameters(size, size, 1000, causal, rectified, arithmetic, tiles)
    types = dict.fromkeys(program.arg_names, "i32") | dict.fromkeys(("query", "key", "value", "output"), f"*{number}")
    types |= {f"{name}_steps": ("i32",) * 3 for name in ("query", "key", "value", "output")} | {"scale": "fp32"}
    types |= dict.fromkeys(fixed, "constexpr")
    places = {name: place for place, name in enumerate(program.arg_names)}
    aligned = [(places[name],) for name in ("query", "key", "value", "output")]
    aligned += [(places[name], axis) for name in places if name.endswith("_steps") for axis in range(3)]
    source = triton.compiler.ASTSource(
        program,
        types,
        {(places[name],): value for name, value in fixed.items()},
        {place: [["tt.divisibility", 16]] for place in aligned},
    )
    options = {"num_warps": tiles.warps, "num_stages": tiles.stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def compile_all(module):
    wanted = [(*way, False, "fp32") for way in itertools.product((32, 64, 96, 128), ARITHMETIC, (False, True))]
    wanted += [(64, arithmetic, True, True, "fp32") for arithmetic in ARITHMETIC] + [(64, "bf16x3", True, True, "fp16")]
    for way in wanted:
        kernel = compiled(module, *way)
        assert "wgmma.mma_async" in kernel.asm["ptx"], "Hopper's own products"
        print(f"{way}: {kernel.metadata.shared}")


def main():
    spec = importlib.util.spec_from_file_location("under_test", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    sys.modules["under_test"] = module
    spec.loader.exec_module(module)
    ways = {"numbers": numbers, "sixteen_bits": sixteen_bits, "not_a_number": not_a_number, "compile": compile_all}
    ways[sys.argv[2]](module)


if __name__ == "__main__":
    main()
