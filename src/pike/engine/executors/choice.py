"""Which executor a run's configuration asks for.

Knows the names. Does not know how any of them works.
"""

from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.engine.executors import ray_workers
from pike.engine.executors.local import LocalExecutor
from pike.engine.executors.pool import WorkerPool


def executor_of(config: EngineConfig) -> WorkerPool:
    """The executor of a run.

    Raises:
        UserError: as for `remote`, or a device is not here.
    """
    return remote(config) or LocalExecutor(config)


def remote(config: EngineConfig, size: int = 0) -> WorkerPool | None:
    """An executor on other machines, if one is asked for, with `size` workers or as many as it bears.

    Raises:
        UserError: there is no such executor, or nothing answers there.
    """
    name, _, address = config.executor.partition(":")
    if name == "local" and not address:
        return None
    if name != ray_workers.NAME:
        raise UserError(f"engine.executor: there is no executor '{config.executor}'; use local, ray or ray:ADDRESS")
    if config.devices:
        raise UserError("engine.devices: a Ray cluster shares GPUs out itself; leave --devices out")
    workers = ray_workers.RayWorkers(address)
    return WorkerPool([workers.start], size or config.judges or workers.size)
