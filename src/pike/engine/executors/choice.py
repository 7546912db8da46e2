"""Which executor a run's configuration asks for.

Knows the names. Does not know how any of them works.
"""

from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.engine.executors import gpus
from pike.engine.executors.contract import Executor
from pike.engine.executors.exploring import Explorer, ExplorerThere, ProcessExplorer
from pike.engine.executors.local import LocalExecutor
from pike.engine.executors.pool import WorkerPool
from pike.engine.executors.ray_workers import IDLE_SECONDS, RAY, RayWorkers
from pike.engine.executors.service.workers import ServiceWorkers

_SERVICES = ("http", "https")


def executor_of(config: EngineConfig) -> WorkerPool:
    """The executor of a run.

    Raises:
        UserError: as for `remote`, or a device is not here.
    """
    return remote(config) or LocalExecutor(config)


def explorer_of(executor: Executor, config: EngineConfig) -> Explorer:
    """What explores models on the machine where the executor's judges are; called in its loop."""
    return ProcessExplorer(gpus.entries(config.devices)) if config.executor == "local" else ExplorerThere(executor)


def remote(config: EngineConfig, size: int = 0) -> WorkerPool | None:
    """An executor on other machines, if one is asked for, with `size` workers or as many as it bears.

    Raises:
        UserError: there is no such executor, or nothing answers there.
    """
    name, _, address = config.executor.partition(":")
    if config.executor == "local":
        return None
    if name not in (RAY, *_SERVICES):
        known = "local, ray, ray:ADDRESS or http://HOST:PORT"
        raise UserError(f"engine.executor: there is no executor '{config.executor}'; use {known}")
    if config.devices and name in _SERVICES:
        raise UserError("engine.devices: an evaluation service shares GPUs out itself; leave --devices out")
    judges = size or config.judges
    if name in _SERVICES:
        service = ServiceWorkers(config.executor)
        return WorkerPool([service.start], judges or service.size)
    cluster = RayWorkers(address, kinds=config.devices, judges=judges)
    return WorkerPool([cluster.start], cluster.size, (), IDLE_SECONDS, cluster.gpus != 1)
