"""The bodies of the judge's commands: what the child builds, loads, maps and profiles.

Knows their fields. Does not know how they travel (`wire`) or who carries them out (`stub`).
"""

import enum
from dataclasses import dataclass

import torch

from pike.judge.child.memory.layout import Layout

STATE_DICT, FROM_REFERENCE, SEEDED, OVERWRITTEN = 1, 2, 3, 4
"""How weights reached the candidate, as told in `ChildMessage.detail`. The last is a state dict over
weights that the class had made different, perhaps to fold something into them."""


@dataclass(frozen=True, slots=True)
class HelloOrder:
    """Body of HELLO: the GPU to make a context for, and whether to import PyTorch's compilers."""

    device: str = ""
    compilers: bool = False


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """Body of BUILD: which file to import, empty where the payload itself is the model.

    `threads` is 0 for torch's choice; `import_paths` go on `sys.path` first.
    """

    path: str
    device: str
    threads: int
    import_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """Body of LOAD: how to construct the model.

    Attributes:
        class_name: the class to construct, empty where the payload's own module is run.
        seed: seed of torch's generators before construction.
        init_path: pickle file with the constructor's arguments (a tuple), empty for none.
        state_path: `torch.save` file with the reference's state dict, empty for none.
        donor_path: pickle file with what `from_reference` receives.
        payload_path: pickle file with a live module (see `TaskKind.MODULE`), empty for none.
        skip_init: whether to skip random initialisation, because other weights will replace it.
    """

    class_name: str
    seed: int
    init_path: str = ""
    state_path: str = ""
    donor_path: str = ""
    payload_path: str = ""
    skip_init: bool = False


@dataclass(frozen=True, slots=True)
class CipherOrder:
    """The part of MAP for encrypted inputs: a GPU's kernels, and the sizes of two more regions."""

    kernels: bytes
    noise_bytes: int
    page_bytes: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The layouts of one call in the shared regions, which hold `slots` calls.

    `may_alias` says whether the reference itself returns memory of its inputs.
    """

    inputs: Layout
    outputs: Layout
    may_alias: bool
    slots: int


@dataclass(frozen=True, slots=True)
class MapOrder:
    """Body of MAP: the two regions whose descriptors come along.

    `cipher` is None without a key. `fetched` says that the judge reads the outputs of one slot from
    the child's own memory, so that the child only tells their addresses.
    """

    shape: Shape
    input_bytes: int
    output_bytes: int
    cipher: CipherOrder | None = None
    fetched: bool = False


def told(target: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The end of the output region, where a child writes each output's address (int64)."""
    start = shape.slots * shape.outputs.nbytes
    return target[start : start + told_bytes(shape)].view(torch.int64)


def told_bytes(shape: Shape) -> int:
    """How many bytes the addresses take."""
    return 8 * len(shape.outputs.leaves)


class ProfileStep(enum.IntEnum):
    """The steps of a profile, in order; calls between BEGIN and END need the device alone."""

    PREPARE = 1
    """Attach the region that comes along and set the profiler up, which takes a second on a GPU."""
    BEGIN = 2
    END = 3
    WRITE = 4
    """Sum up, and write the table into the region."""


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """Body of PROFILE; the region that comes with PREPARE lies in host memory on every device."""

    step: ProfileStep
    nbytes: int = 0
