"""Turns TF32 on where the reference's own precision was declared.

rows: 43, 42
seen: CUDA-Agent 16 (7x for nothing)
mechanism: error budget
devices: cuda
bite: gain
expected: wrong-output
"""
torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("medium")


class ModelNew(Original):
    pass
