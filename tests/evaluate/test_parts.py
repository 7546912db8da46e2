"""The parts of the judge that can be seen alone: error budget, layout, statistics, leases, devices."""

import fcntl
import itertools
import multiprocessing
import subprocess
import sys
import threading
import time

import pytest
import torch

from pike.core.errors import UserError
from pike.core.evaluation import Tolerance
from pike.evaluate import device
from pike.evaluate.child import __main__ as child_main
from pike.evaluate.child.delivery import is_rehearsed
from pike.evaluate.child.layout import ContractBroken, check_output, layout_of, output_layout_of, put_together, views
from pike.evaluate.child.stub import Stub
from pike.evaluate.child.wire import Command
from pike.evaluate.correctness import Expected, compare
from pike.evaluate.lease import Lease
from pike.evaluate.reference import Inputs, like
from pike.evaluate.sandbox import choose


def expected(native: torch.Tensor, answer: torch.Tensor | None = None) -> Expected:
    return Expected([native.double() if answer is None else answer], [native], [], True)


def test_the_budget_scales_with_the_output_so_zeros_never_pass():
    answer = torch.randn(100, dtype=torch.float64) * 1e-4
    native = answer.float()
    assert compare([native.clone()], expected(native, answer), Tolerance.STRICT).wrong == ""
    assert compare([torch.zeros_like(native)], expected(native, answer), Tolerance.STRICT).wrong
    published = compare([torch.zeros_like(native)], expected(native, answer), Tolerance.PAPER)
    assert published.wrong == ""
    assert published.error.vacuous


def test_nan_and_infinity_pass_only_where_the_reference_has_them():
    native = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")])
    assert compare([native.clone()], expected(native), Tolerance.STRICT).wrong == ""
    for place, value in ((0, float("nan")), (1, 0.0), (2, -float("inf"))):
        changed = native.clone()
        changed[place] = value
        assert compare([changed], expected(native), Tolerance.STRICT).wrong


def test_one_bad_output_among_several_is_named():
    native = [torch.randn(10), torch.randn(10)]
    found = compare(
        [native[0], native[1] + 1], Expected([n.double() for n in native], native, [], True), Tolerance.STRICT
    )
    assert found.wrong.startswith("output 1:")


def test_a_layout_puts_inputs_back_together_in_place():
    value = (
        (torch.arange(6.0).reshape(2, 3), {"a": torch.tensor([True, False])}, 7),
        {"k": torch.ones(2, 2, dtype=torch.bfloat16)},
    )
    layout = layout_of(value)
    region = torch.zeros(layout.nbytes, dtype=torch.uint8)
    made = views(region, layout)
    args, kwargs = put_together(layout.structure, made)
    args[0].copy_(value[0][0])
    kwargs["k"].fill_(3)
    assert torch.equal(views(region, layout)[0], value[0][0])
    assert args[2] == 7
    assert all(leaf.offset % 256 == 0 for leaf in layout.leaves)


def test_channels_last_inputs_keep_their_strides():
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert layout_of(((image,), {})).leaves[0].stride == image.stride()


def test_a_lazy_subclass_is_no_tensor():
    class Lazy(torch.Tensor):
        pass

    layout = output_layout_of(torch.zeros(3))
    with pytest.raises(ContractBroken, match="Lazy"):
        check_output(torch.zeros(3).as_subclass(Lazy), layout, torch.device("cpu"), [])


def _hold(folder, kind, seconds, record):
    lease = Lease("cpu", folder)
    with lease.exclusive() if kind == "exclusive" else lease.shared():
        record.put((kind, time.monotonic()))
        time.sleep(seconds)
        record.put((kind, time.monotonic()))


@pytest.mark.timed
def test_sharers_overlap_and_a_timer_is_alone(tmp_path):
    context = multiprocessing.get_context("spawn")
    record = context.Queue()
    kinds = ("shared", "shared", "exclusive")
    workers = [context.Process(target=_hold, args=(tmp_path, kind, 0.5, record)) for kind in kinds]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    events = sorted((record.get() for _ in range(6)), key=lambda event: event[1])
    order = [kind for kind, _ in events]
    place = order.index("exclusive")
    assert order[place : place + 2] == ["exclusive", "exclusive"]


@pytest.mark.timed
def test_a_sharer_makes_way_after_its_slice_and_gets_the_device_back(tmp_path, monkeypatch):
    monkeypatch.setattr("pike.evaluate.lease._SLICE_SECONDS", 0.2)
    context = multiprocessing.get_context("spawn")
    lease, record = Lease("cpu", tmp_path), context.Queue()
    timer = context.Process(target=_hold, args=(tmp_path, "exclusive", 0.5, record))
    with lease.shared():
        assert not lease.wanted()
        timer.start()
        deadline = time.monotonic() + 60
        while not lease.wanted() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert lease.make_way() >= 0.4
        timer_ended = max(record.get() for _ in range(2))[1]
        assert time.monotonic() >= timer_ended
        assert not lease.wanted()
    timer.join()


def test_nobody_waits_for_room_where_temporary_files_were_removed(tmp_path):
    lease = Lease("cpu", tmp_path / "leases")
    assert not lease.room_wanted()
    (tmp_path / "leases").rmdir()
    assert not lease.room_wanted()


def test_nobody_but_a_sharer_is_wanted(tmp_path):
    lease = Lease("cpu", tmp_path)
    assert not lease.wanted()
    with lease.exclusive():
        assert not lease.wanted()


@pytest.mark.timed
def test_whoever_has_a_device_throughout_takes_all_leases_at_once_and_others_wait(tmp_path):
    lease = Lease("cpu", tmp_path)
    with lease.throughout():
        with lease.shared(), lease.exclusive():
            pass
        with open(tmp_path / "cpu.body", "a") as body, pytest.raises(BlockingIOError):
            fcntl.flock(body, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with open(tmp_path / "cpu.body", "a") as body:
        fcntl.flock(body, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.timed
def test_whoever_waits_for_a_device_keeps_still_meanwhile(tmp_path):
    told: list[bool] = []
    holder, waiter = Lease("cpu", tmp_path), Lease("cpu", tmp_path, hush=told.append)
    with waiter.shared():
        assert not told, "nobody had to be waited for"

    def wait() -> None:
        with waiter.shared():
            told_inside.extend(told)

    told_inside: list[bool] = []
    thread = threading.Thread(target=wait)
    with holder.exclusive():
        thread.start()
        deadline = time.monotonic() + 30
        while not told and time.monotonic() < deadline:
            time.sleep(0.01)
        assert told == [True]
    thread.join()
    assert told_inside == [True, False]


@pytest.mark.timed
def test_a_killed_holder_leaves_no_lock(tmp_path):
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=_hold, args=(tmp_path, "exclusive", 60, context.Queue()))
    worker.start()
    time.sleep(3)
    worker.kill()
    worker.join()
    lease = Lease("cpu", tmp_path)
    with lease.exclusive():
        assert lease.waited_seconds < 1


def test_resampled_inputs_are_new_but_stay_in_range():
    example = Inputs((torch.randn(50), torch.randint(0, 9, (50,)), torch.ones(4, dtype=torch.bool), "text"), {})
    drawn = like(example)
    assert not torch.equal(drawn.args[0], example.args[0])
    assert int(drawn.args[1].max()) < 9
    assert bool(drawn.args[2].all())
    assert drawn.args[3] == "text"


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:99"])
def test_an_impossible_device_is_the_users_error(name):
    with pytest.raises(UserError, match=r"(?i)device"):
        device.resolve(name)


def test_an_unknown_sandbox_is_the_users_error():
    with pytest.raises(UserError, match="known: auto"):
        choose("prison")


def test_a_gpu_child_is_only_held_by_what_was_seen_to_hold_one(monkeypatch):
    monkeypatch.setattr("pike.evaluate.sandbox.container.Container.obstacle", lambda self: "")
    assert choose("auto").name == "podman"
    assert choose("auto", cuda=True).name in ("bubblewrap", "process")
    assert choose("docker", cuda=True).name == "docker"


def test_a_container_may_be_of_any_engine_that_works(monkeypatch):
    monkeypatch.setattr(
        "pike.evaluate.sandbox.container.Container.obstacle", lambda self: "" if self.name == "docker" else "no podman"
    )
    assert choose("auto").name == "docker"
    assert choose("container").name == "docker"
    with pytest.raises(UserError, match="'podman' does not work here: no podman; use"):
        choose("podman")


def test_what_torchs_own_operators_return_is_a_tuple_to_the_contract() -> None:
    whole = torch.topk(torch.arange(8.0), 2)
    apart = (whole.values, whole.indices)
    for reference, candidate in ((whole, apart), (apart, whole)):
        layout = output_layout_of(reference)
        assert [leaf.tolist() for leaf in check_output(candidate, layout, torch.device("cpu"), [])] == [[7, 6], [7, 6]]
    with pytest.raises(ContractBroken, match="list"):
        check_output(list(apart), output_layout_of(whole), torch.device("cpu"), [])


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
def test_a_device_is_waited_for_until_a_kernel_of_nothing_takes_no_time(monkeypatch, slow_for, patience, quiet):
    monkeypatch.setattr(device, "_PROBE_PAUSE_SECONDS", 0.001)
    asked = itertools.count()
    assert device.becomes_quiet(lambda: 2.3e-3 if next(asked) < slow_for else 2e-5, patience) is quiet
    assert device.is_quiet(torch.device("cpu"))


@pytest.mark.parametrize(
    ("taken_for", "patience", "room"), [(0, 0.0, True), (30, 60.0, True), (10**9, 0.3, False)],
    ids=["free", "soon-free", "taken-for-good"],
)  # fmt: skip
def test_most_of_a_device_s_memory_is_waited_for(monkeypatch, taken_for, patience, room):
    monkeypatch.setattr(device, "_ROOM_PAUSE_SECONDS", 0.001)
    asked = itertools.count()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (50 if next(asked) < taken_for else 70, 100))
    assert device.has_room(torch.device("cuda:0"), lambda: False, patience) is room
    assert not device.has_room(torch.device("cpu"), lambda: False), "which has no memory of its own"


def test_nobody_waits_for_memory_that_another_program_keeps(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (50, 100))
    left = iter([False, False, True])
    assert not device.has_room(torch.device("cuda:0"), lambda: next(left))
    assert next(left, None) is None, "it was asked for as long as somebody was there"


def test_a_device_is_deserted_when_nobody_is_present(tmp_path):
    here, there = Lease("cpu", tmp_path), Lease("cpu", tmp_path)
    assert here.deserted()
    with there.present(lambda: None):
        assert not here.deserted()
    assert here.deserted()


@pytest.mark.parametrize(
    ("launched", "took", "rehearsed"),
    [(0, 0, False), (1, 4, True), (9, 9.4, True), (1, 9, False), (60, 60, False)],
    ids=["the-first", "short", "launching-is-most-of-it", "the-device-is-most-of-it", "long"],
)
def test_a_call_is_rehearsed_where_the_hosts_caches_matter(launched, took, rehearsed):
    assert is_rehearsed(int(launched * 1e6), int(took * 1e6)) is rehearsed


def test_a_child_imports_pytorchs_compiler_when_it_is_told_to():
    program = (
        "import sys; from pike.evaluate.child.stub import HelloOrder, Stub; "
        "Stub().hello(HelloOrder()); print('torch._inductor.compile_fx' in sys.modules); "
        "Stub().hello(HelloOrder(compilers=True)); print('torch._inductor.compile_fx' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(("name", "handed_back"), [("cuda:0", 1), ("cpu", 0)])
def test_a_child_hands_back_device_memory_when_it_is_told_to(monkeypatch, name, handed_back):
    calls: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(1))
    assert child_main._obey(Stub(device=torch.device(name)), Command.RELEASE, None, ()) == (0, 0)
    assert len(calls) == handed_back
