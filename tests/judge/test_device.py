"""What a device is called, and what is waited for there."""

import itertools

import pytest
import torch

from pike.core.errors import UserError
from pike.judge import device


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:99"])
def test_an_impossible_device_is_the_users_error(name):
    with pytest.raises(UserError, match=r"(?i)device"):
        device.resolve(name)


def test_a_gpu_has_one_name_whatever_its_number(monkeypatch):
    numbers = {0: "GPU-b", 1: "GPU-a"}
    properties = lambda gpu: type("Properties", (), {"uuid": numbers[gpu.index]})  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    names = [device.machine_name(torch.device(name)) for name in ("cuda:0", "cuda:1", "cpu")]
    assert names == ["GPU-b", "GPU-a", "cpu"]


@pytest.mark.parametrize(("reserved", "handed_back"), [(3 << 30, 1), (1 << 30, 0)])
def test_much_device_memory_that_is_not_used_is_handed_back(monkeypatch, reserved, handed_back):
    calls = []
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: reserved)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 1 << 29)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(1))
    device.release_memory(torch.device("cpu"))
    assert not calls
    device.release_memory(torch.device("cuda:0"))
    assert len(calls) == handed_back


@pytest.mark.parametrize(
    ("slow_for", "patience", "quiet"), [(0, 0.0, True), (30, 60.0, True), (10**9, 0.3, False)],
    ids=["alone", "another-kernel-ends", "another-kernel-goes-on"],
)  # fmt: skip
def test_a_device_is_quiet_once_a_trivial_kernel_is_short(slow_for, patience, quiet):
    asked = itertools.count()
    assert device.becomes_quiet(lambda: 2.3e-3 if next(asked) < slow_for else 2e-5, patience) is quiet
    assert device.is_quiet(torch.device("cpu"))


@pytest.mark.parametrize(
    ("visible", "name", "number"),
    [("", "cuda:1", 1), ("2", "cuda:0", 2), ("3,1", "cuda:1", 1), ("GPU-1a", "cuda:0", 0), ("0", "cpu", 0)],
)
def test_a_judge_that_sees_one_gpu_only_knows_which_it_is(
    monkeypatch: pytest.MonkeyPatch, visible: str, name: str, number: int
) -> None:
    """Each GPU has CPUs of its own while something is timed, also where each judge calls its GPU cuda:0."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device.number(torch.device(name)) == number
