"""The GPUs of one machine that judge side by side: each judge sees one of them only, as `cuda:0`.

Respects CUDA_VISIBLE_DEVICES, so that names, UUIDs and MIG instances in it are passed on as they
are. Does not know what a judge does there.
"""

import functools
import os
from collections.abc import Callable, Sequence
from contextlib import closing

from pike.core.errors import UserError
from pike.engine.executors.contract import Worker
from pike.judge.client import JudgeClient, SharedCaches

VISIBLE, ALL = "CUDA_VISIBLE_DEVICES", "all"


def visible(devices: Sequence[str], count: Callable[[], int]) -> tuple[str, ...]:
    """What CUDA_VISIBLE_DEVICES of each judge is; one empty entry where no devices are named.

    Args:
        devices: `cuda:N` each, or only `all`.
        count: the number of GPUs that torch sees.

    Raises:
        UserError: a name is not known, is not here or stands twice.
    """
    if not devices:
        return ("",)
    here = tuple(filter(None, os.environ.get(VISIBLE, "").split(","))) or tuple(map(str, range(count())))
    if not here:
        raise UserError("engine.devices: torch sees no CUDA device here; leave --devices out")
    if list(devices) == [ALL]:
        return here
    if len(set(devices)) < len(devices):
        raise UserError(f"engine.devices: {', '.join(devices)} names a device twice")
    return tuple(here[_index(name, len(here))] for name in devices)


def _index(name: str, count: int) -> int:
    kind, _, index = name.partition(":")
    if kind != "cuda" or not index.isdigit():
        raise UserError(f"engine.devices: unknown device '{name}'; give all, or names like cuda:0,cuda:1")
    if int(index) >= count:
        raise UserError(f"engine.devices: '{name}' is not here: torch sees {count} CUDA devices")
    return int(index)


@functools.cache
def entries(devices: tuple[str, ...]) -> tuple[str, ...]:
    """What `visible` says on this machine.

    Raises:
        UserError: as for `visible`.
        InfraError: no judge could be started that counts GPUs.
    """
    return visible(devices, _count)


def starts(devices: tuple[str, ...]) -> list[Callable[[], Worker]]:
    """What starts a judge on each of the devices, or anywhere where none is named; they keep
    compilers' caches together. Raises as `entries` and `SharedCaches` do."""
    caches = SharedCaches()
    return [functools.partial(start_judge, entry, caches) for entry in entries(devices)]


def start_judge(entry: str = "", caches: SharedCaches | None = None) -> Worker:
    """A judge in a process of its own that sees one GPU, or all where none is named."""
    return JudgeClient({VISIBLE: entry} if entry else {}, caches)


def _count() -> int:
    with closing(JudgeClient()) as judge:
        return judge.gpu_count()
