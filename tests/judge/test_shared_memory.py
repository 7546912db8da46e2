"""Memory of a GPU that two processes map."""

import pytest
import torch

from pike.judge.child.memory.cuda_driver import SharedMemory


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_what_was_queued_on_shared_memory_ends_before_it_is_unmapped() -> None:
    for _ in range(20):
        memory = SharedMemory.allocate(256 << 20, 0)
        for _ in range(200):
            memory.tensor.add_(1)
        memory.close()
        torch.cuda.synchronize()
