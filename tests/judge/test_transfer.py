"""The encrypted transfer, played on the CPU: no input before the clock starts, no output after it stopped."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from tests.judge.conftest import OPTIONS
from tests.judge.conftest import SOURCE as PLAIN
from tests.judge.host_cipher import HostCipher

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, Status
from pike.judge.calls import runner
from pike.judge.calls.fetching import can_read, held
from pike.judge.calls.transfer import EncryptedTransfer, Transfer
from pike.judge.child.memory import regions
from pike.judge.child.memory.control_page import ControlPage
from pike.judge.child.memory.layout import layout_of, output_layout_of, views
from pike.judge.child.orders import Shape, told
from pike.judge.child.wire import ChildMessage, ChildReply, Command
from pike.judge.judge import Judge
from pike.judge.refusal import Refused
from pike.judge.timing.contention import cpu_seconds

SOURCE = "import tests.judge.host_cipher\n" + PLAIN
HONEST = SOURCE.replace("class Model(", "class ModelNew(")
PATCH = """
import gc
from tests.judge import host_cipher
honest = host_cipher.CommittingOnHost.deliver
def deliver(self, leaves, slot, last):
    {body}
host_cipher.CommittingOnHost.deliver = deliver
"""
CPU = torch.device("cpu")


def encrypted(shape: Shape) -> EncryptedTransfer:
    """The transfer of a GPU, with its cipher played on the CPU."""
    return EncryptedTransfer(shape, CPU, b"", lambda kernels, device, page: HostCipher.at(page))


@pytest.fixture(scope="module")
def locked() -> Iterator[Callable[..., Evaluation]]:
    """`locked(source)` judges a candidate of the small task by the locked transfer."""
    options = replace(OPTIONS, sandbox="process")  # the file imports from here
    judge, task = Judge(), Task("small", "two linear layers", TaskKind.SOURCE, SOURCE, "small.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "make", lambda shape, device, _: encrypted(shape))
        yield lambda source: judge.evaluate(EvaluationRequest(task, source, options))
        judge.close()


def test_a_copy_of_the_reference_is_valid(locked: Callable[..., Evaluation]) -> None:
    found = locked(HONEST)
    assert found.status is Status.VALID, found.reason + found.log


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (HONEST.replace("* self.gain", "* 2"), Status.WRONG_OUTPUT),
        (HONEST.replace("def forward(self, x):", "def forward(self, x):\n        x.zero_()"), Status.BAD_CONTRACT),
        (HONEST.replace("return self.second", "raise KeyError(1)"), Status.RUNTIME_ERROR),
        (HONEST.replace("return self.second", "import os; os._exit(0)"), Status.RUNTIME_ERROR),
        (
            HONEST
            + PATCH.format(body="self._page.commit(self._ticket, bytes(16)); self._slots[slot][0].copy_(leaves[0])"),
            Status.UNTRUSTED_TIMING,
        ),
        (
            HONEST + PATCH.format(body="honest(self, leaves, slot, last); self._slots[slot][0].add_(1e-9)"),
            Status.UNTRUSTED_TIMING,
        ),
        (HONEST + PATCH.format(body="pass"), Status.SANDBOX_VIOLATION),
    ],
    ids=["wrong", "input-modified", "raises", "exits", "commits-early", "writes-late", "never-commits"],
)
def test_what_an_unreliable_child_is_called(locked: Callable[..., Evaluation], source: str, status: Status) -> None:
    assert locked(source).status is status


EXAMPLE, ANSWER = torch.arange(64.0), torch.arange(32.0)


class Actor:
    """Plays the child: attaches to the memory as a child does, and looks into it at the moments that matter."""

    def __init__(self, transfer: EncryptedTransfer, packed: torch.Tensor, answer: torch.Tensor) -> None:
        order, fds = transfer.order()
        assert order.cipher is not None
        sizes = (order.input_bytes, order.output_bytes, order.cipher.noise_bytes, order.cipher.page_bytes)
        attached = [regions.attach(os.dup(fd), size, CPU).tensor for fd, size in zip(fds, sizes, strict=True)]
        self.source, self.target, self.noise, page = attached
        self.packed, self.answer, self.page, self.begun = packed, answer, ControlPage(page), False

    def send(self, command: Command, body: object) -> None:
        assert not torch.equal(self.noise[: self.packed.numel()], self.packed)
        assert not torch.equal(self.source[: self.packed.numel()], self.packed)

    def receive(self) -> ChildMessage:
        return ChildMessage(ChildReply.OK, 1)

    def until(self, ready: Callable[[], bool]) -> int:
        if not self.begun:
            self.begun = True
            self.page.say_ready(1)
            return 0
        cipher = HostCipher(self.page)
        cipher.set_key(self.page.wait_for_key(1))
        cipher.decrypt(self.noise, self.source)
        assert torch.equal(self.source[: self.packed.numel()], self.packed)
        cipher.commit([self.answer], cipher.route(views(self.target, output_layout_of(self.answer))), 1, first=True)
        assert ready()
        return 5


class LateWriter(Actor):
    """Changes an output after it committed to it."""

    def receive(self) -> ChildMessage:
        self.target[0].add_(1)
        return super().receive()


@pytest.fixture
def transfer() -> Iterator[EncryptedTransfer]:
    made = encrypted(Shape(layout_of((EXAMPLE,)), output_layout_of(ANSWER), may_alias=False, slots=1))
    yield made
    made.close()


def test_an_input_is_not_in_the_childs_memory_before_the_clock_starts(transfer: EncryptedTransfer) -> None:
    packed = EXAMPLE.view(torch.uint8).clone()
    transfer.call(Actor(transfer, packed, ANSWER), packed, Command.RUN)
    assert torch.equal(transfer.taken()[:128].view(torch.float32), ANSWER)


def test_a_commitment_to_other_bytes_is_refused(transfer: EncryptedTransfer) -> None:
    packed = EXAMPLE.view(torch.uint8).clone()
    with pytest.raises(Refused, match="not the ones committed"):
        transfer.call(LateWriter(transfer, packed, ANSWER), packed, Command.RUN)


class Still(Actor):
    """Plays a child on a CPU: tells where its output lies, or answers without one."""

    def __init__(self, transfer: Transfer, pid: int, place: int | None) -> None:
        order, fds = transfer.order()
        self.target = regions.attach(os.dup(fds[1]), order.output_bytes, CPU).tensor
        self.shape, self.place, self.pid = order.shape, place, pid

    def send(self, command: Command, body: object) -> None:
        """The addresses are poisoned by now."""
        if self.place is not None:
            told(self.target, self.shape)[0] = self.place


@pytest.mark.parametrize(
    ("place", "status"),
    [("own", None), (None, Status.SANDBOX_VIOLATION), (8, Status.BAD_CONTRACT)],
    ids=["fetched", "nothing-told", "no-memory"],
)
def test_on_a_cpu_an_output_is_read_from_the_childs_own_memory(place: object, status: Status | None) -> None:
    program = (
        "import ctypes, time\nroom = (ctypes.c_float * 32)(*range(32))\n"
        "print(ctypes.addressof(room), flush=True)\ntime.sleep(60)"
    )
    shape = Shape(layout_of((EXAMPLE,)), output_layout_of(ANSWER), may_alias=False, slots=1)
    with subprocess.Popen([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = int(process.stdout.readline())
        transfer = Transfer(shape, CPU, can_read(process.pid))
        assert transfer.fetches
        child = Still(transfer, process.pid, address if place == "own" else place)
        with pytest.raises(Refused) if status else nullcontext() as refused:
            transfer.call(child, EXAMPLE.view(torch.uint8).clone(), Command.RUN)
            assert torch.equal(transfer.taken()[:128].view(torch.float32), ANSWER)
        assert status is None or refused.value.status is status
        process.kill()
        transfer.close()


def test_a_held_process_does_nothing() -> None:
    program = "n = 0\nwhile True:\n    n += 1\n    print(n, flush=True)"
    with subprocess.Popen([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        with held(process.pid):
            before = cpu_seconds(process.pid)
            time.sleep(0.1)
            assert cpu_seconds(process.pid) == before
        process.kill()
