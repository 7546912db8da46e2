"""What only a GPU shows of the drop-in: streams, capture and looks that do not wait for the device."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from pike.api.dropin import DropIn, JudgedCalls
from pike.engine.output.signature import describe, digest

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


class Buffered(nn.Module):
    """A fast form with one work buffer, busy for long enough that a second stream would meet it."""

    def __init__(self, model: nn.Linear) -> None:
        super().__init__()
        self.weight, self.work = model.weight.detach().clone(), torch.empty(512, 512, device="cuda")

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        self.work.copy_(x)
        for _ in range(20):
            self.work.add_(1.0)
        return (self.work - 20.0) @ self.weight.t()


class Masked(nn.Linear):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return super().forward(x * mask)


@pytest.fixture
def pair() -> tuple[Masked, DropIn, torch.Tensor]:
    original = Masked(512, 512, bias=False).cuda().eval()
    mask = torch.ones(512, 512, device="cuda")
    judged = JudgedCalls(describe((mask, mask), {}), "cuda", torch.cuda.get_device_name(), None, ((1, digest(mask)),))
    return original, DropIn(original, Buffered, judged), mask


def test_threads_on_their_own_streams_do_not_meet_in_the_optimised_code(pair) -> None:
    original, dropin, mask = pair
    wrong: list[int] = []

    def call(seed: int) -> None:
        x = torch.randint(9, (512, 512), generator=torch.Generator().manual_seed(seed)).float().cuda()
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            want = original(x, mask)
            answers = [dropin(x, mask) for _ in range(20)]
            torch.cuda.current_stream().synchronize()
            wrong.extend(seed for answer in answers if not torch.allclose(answer, want, 1e-3, 1e-2))

    torch.cuda.synchronize()
    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@torch.no_grad()
def test_a_capture_holds_the_original_which_follows_its_weights(pair) -> None:
    original, dropin, mask = pair
    dropin(mask, mask)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        original(mask, mask)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream), pytest.warns(UserWarning, match="captured"):
        out = dropin(mask, mask)
    original.weight.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert not out.any()


@torch.no_grad()
def test_a_mask_is_read_again_only_where_it_may_have_changed(pair) -> None:
    original, dropin, mask = pair
    assert dropin.why_not((mask, mask), {}) == ""
    equal = mask.clone()
    assert dropin.why_not((mask, equal), {}) == ""
    mask[0, 0] = 0.0
    assert "mask of ones" in dropin.why_not((equal, mask), {})
    torch.testing.assert_close(dropin(equal, mask), original(equal, mask))
