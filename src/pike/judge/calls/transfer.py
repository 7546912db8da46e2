"""How one call's data reach a child and come back, and where the clock starts and stops.

On a CPU the judge holds the child still while it writes the inputs, and again while it fetches the
outputs from the child's memory. On a GPU the clock starts when the judge publishes the key of
encrypted inputs, and stops when the child commits to a digest of its outputs, which the judge's
snapshot must have. No input exists for the child before the clock starts, nothing that it writes
later is seen, and no copy is inside the clock that a candidate could save.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Protocol

import torch

from pike.core.verdict.evaluation import Status
from pike.judge.calls import nvrtc
from pike.judge.calls.fetching import can_read, fetch, held
from pike.judge.child.memory import regions
from pike.judge.child.memory.cipher import CudaCipher
from pike.judge.child.memory.control_page import KEY_BYTES, PAGE_BYTES, ControlPage, key_words
from pike.judge.child.memory.layout import views
from pike.judge.child.orders import CipherOrder, MapOrder, Shape, told, told_bytes
from pike.judge.child.wire import ChildMessage, Command
from pike.judge.refusal import Refused

_POISON = 0xFF
"""All bits set: NaN in every floating-point type, -1 in every signed integer type."""


class Conversation(Protocol):
    """A conversation with one child; each failure of it is raised as `Refused`."""

    @property
    def pid(self) -> int:
        """The process that runs the candidate."""

    def send(self, command: Command, body: object) -> None:
        """Send a command."""

    def receive(self) -> ChildMessage:
        """The answer to the last command."""

    def until(self, ready: Callable[[], bool]) -> int:
        """Poll `ready` until it holds; returns `time.perf_counter_ns` of that moment."""


class Transfer:
    """The shared memory of one child, which stands still while the judge copies either way."""

    def __init__(self, shape: Shape, device: torch.device, fetched: bool = False) -> None:
        """Make the memory; it must be closed.

        `fetched`: read the outputs of one slot from the child's own memory. Otherwise the child
        copies them inside the clock at its own expense, and `fetches` is false.
        """
        self._shape, self._fetched, self.fetches = shape, fetched, fetched
        self._source = regions.allocate(shape.slots * shape.inputs.nbytes, device)
        self._target = regions.allocate(shape.slots * shape.outputs.nbytes + told_bytes(shape), device)
        self._snapshot = torch.empty_like(self._target.tensor)
        self._taken = self._snapshot[: shape.outputs.nbytes]

    def order(self) -> tuple[MapOrder, tuple[int, ...]]:
        """What the child must be told to take part, with the descriptors that go along."""
        assert self._source.fd is not None and self._target.fd is not None
        order = MapOrder(self._shape, self._source.nbytes, self._target.nbytes, fetched=self._fetched)
        return order, (self._source.fd, self._target.fd)

    def call(self, talk: Conversation, packed: torch.Tensor, command: Command) -> tuple[int, ChildMessage]:
        """One call on staged inputs: nanoseconds by the judge's clock, and the child's answer.

        Raises:
            Refused: the child failed, changed its inputs or returned other outputs than it
                committed.
        """
        source, target = self._parts(packed)
        count = packed.numel() // self._shape.inputs.nbytes
        fetched = self._fetched and count == 1
        addresses = told(self._target.tensor, self._shape)
        with held(talk.pid):
            (addresses.view(torch.uint8) if fetched else target).fill_(_POISON)
            source.copy_(packed)
            talk.send(command, count)
            started = time.perf_counter_ns()
        up = talk.receive()
        wall = time.perf_counter_ns() - started
        with held(talk.pid):
            if fetched:
                if -1 in (places := addresses.tolist()):
                    raise Refused(Status.SANDBOX_VIOLATION, "the child answered before it delivered")
                for leaf, address in zip(self._shape.outputs.leaves, places, strict=True):
                    fetch(talk.pid, address, self._taken[leaf.offset : leaf.offset + leaf.nbytes])
            else:
                self._taken.copy_(target)
            self._check_unchanged(source, packed)
        return wall, up

    def taken(self) -> torch.Tensor:
        """The judge's copy of all outputs of the last call (uint8), valid until the next one."""
        return self._taken

    def close(self) -> None:
        """Give the shared memory back."""
        self._source.close()
        self._target.close()

    def _check_unchanged(self, source: torch.Tensor, packed: torch.Tensor) -> None:
        """Refuse a call that changed inputs which the reference leaves alone."""
        inputs, may_change = self._shape.inputs, self._shape.outputs.changed
        spans = [(leaf.offset, leaf.offset + leaf.nbytes) for leaf in inputs.leaves]
        kept = [span for index, span in enumerate(spans) if index not in may_change] if may_change else [(0, None)]
        for start, end in kept:
            ours, theirs = (whole.view(-1, inputs.nbytes)[:, start:end] for whole in (packed, source))
            if not torch.equal(ours, theirs):
                raise Refused(Status.BAD_CONTRACT, "the candidate modified its inputs in place; work on a copy")

    def _parts(self, packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The shared inputs and outputs of as many calls as were staged."""
        count = packed.numel() // self._shape.inputs.nbytes
        target = self._target.tensor[: count * self._shape.outputs.nbytes]
        self._taken = self._snapshot[: target.numel()]
        return self._source.tensor[: packed.numel()], target


class EncryptedTransfer(Transfer):
    """The judge publishes a key, the child commits to its outputs, and nothing else is timed."""

    def __init__(
        self,
        shape: Shape,
        device: torch.device,
        kernels: bytes,
        cipher: Callable[[bytes, torch.device, int], CudaCipher] = CudaCipher,
    ) -> None:
        """Make the memory; `kernels` is `cipher.cu`, and `cipher` commits on the judge's side."""
        super().__init__(shape, device)
        self._device, self._kernels, self.fetches = device, kernels, True
        self._noise = regions.allocate(shape.slots * shape.inputs.nbytes, device)
        self._page_region = regions.allocate(PAGE_BYTES, torch.device("cpu"))
        self._page = ControlPage(self._page_region.tensor)
        self._own = torch.zeros(PAGE_BYTES, dtype=torch.uint8, device=device)
        self._current = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
        with self._current:
            self._cipher = cipher(kernels, device, self._own.data_ptr())
        size = shape.outputs.nbytes
        self._routes: list[Any] = [
            self._cipher.route(views(self._snapshot[slot * size :], shape.outputs)) for slot in range(shape.slots)
        ]
        self._ticket = 0

    def order(self) -> tuple[MapOrder, tuple[int, ...]]:
        """The same, with the encrypted inputs and the control page."""
        order, fds = super().order()
        assert self._noise.fd is not None and self._page_region.fd is not None
        cipher = CipherOrder(self._kernels, self._noise.nbytes, self._page_region.nbytes)
        return replace(order, cipher=cipher), (*fds, self._noise.fd, self._page_region.fd)

    def call(self, talk: Conversation, packed: torch.Tensor, command: Command) -> tuple[int, ChildMessage]:
        """The same, with the copies outside the clock."""
        with self._current:  # an original may have made another GPU the current one
            return self._called(talk, packed, command)

    def _called(self, talk: Conversation, packed: torch.Tensor, command: Command) -> tuple[int, ChildMessage]:
        source, target = self._parts(packed)
        key = self._prepare(packed, target)
        talk.send(command, packed.numel() // self._shape.inputs.nbytes)
        ticket, page, words = self._ticket, self._page, key_words(key)
        talk.until(lambda: page.ready() == ticket)
        started = time.perf_counter_ns()
        page.go(ticket, words)
        wall = talk.until(lambda: page.committed() == ticket) - started
        promised = page.digest()
        up = talk.receive()
        self._taken.copy_(target)
        self._check_unchanged(source, packed)
        if self._digest() != promised:
            raise Refused(Status.UNTRUSTED_TIMING, "the outputs are not the ones committed when the clock stopped")
        return wall, up

    def close(self) -> None:
        """Give the shared memory back."""
        super().close()
        self._noise.close()
        self._page_region.close()

    def _prepare(self, packed: torch.Tensor, target: torch.Tensor) -> bytes:
        """Poison the outputs and encrypt the inputs with a new key, and wait until that is done."""
        key = secrets.token_bytes(KEY_BYTES)
        self._ticket += 1
        target.fill_(_POISON)
        self._cipher.set_key(key)
        self._cipher.decrypt(packed, self._noise.tensor[: packed.numel()])
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return key

    def _digest(self) -> bytes:
        """The digest of the snapshot, by the same arithmetic as the child's."""
        count = self._taken.numel() // self._shape.outputs.nbytes
        for slot in range(count):
            leaves = views(self._taken[slot * self._shape.outputs.nbytes :], self._shape.outputs)
            last = slot == count - 1
            self._cipher.commit(leaves, self._routes[slot], self._ticket if last else 0, first=not slot)
        return ControlPage(self._own.cpu()).digest()


def make(shape: Shape, device: torch.device, pid: int) -> Transfer:
    """The transfer for a device and the process that runs the candidate.

    Raises:
        InfraError: a GPU without NVRTC.
    """
    if device.type != "cuda":
        return Transfer(shape, device, can_read(pid))
    major, minor = torch.cuda.get_device_capability(device)
    return EncryptedTransfer(shape, device, nvrtc.cipher_kernels(f"{major}{minor}"))
