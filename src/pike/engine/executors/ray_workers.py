"""Judges on a Ray cluster: one actor for each, which keeps a judge on the machine where it lives.

The judge and its candidates share no process with the actor, and the journal stays with the run. Ray
shares actors out over machines and GPUs. Does not know when a lost worker is replaced (`pool`).
"""

import importlib
import math
import os
import queue
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pike
from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError, needing, saying
from pike.core.events import WORKER
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, OnStage, Requests
from pike.engine.executors.contract import Worker
from pike.engine.executors.exploring import ProcessExplorer
from pike.engine.executors.parcel import IN_PARCEL, Parcel, pack, unpack
from pike.engine.executors.versions import unlike, versions

RAY = "ray"
JUDGES_PER_GPU = 4
"""They build side by side; the lock of the device lets one time at once."""
CPUS_PER_JUDGE = 2
_KEPT_PARCELS = 16
_STARTS = 3
_ANSWER_SECONDS = 10.0
IDLE_SECONDS = 300.0
"""After how much time without work a judge ends, so that an autoscaling cluster can end its node."""
_KIND = "accelerator_type:"
_Said = tuple[str, Any]
T = TypeVar("T")


def connect(address: str) -> Any:
    """The module `ray`, connected to the cluster at an address, by default to a cluster here.

    Raises:
        UserError: Ray is not installed, or no cluster answers.
    """
    with needing("The executor ray", RAY):
        ray = importlib.import_module(RAY)
    if not ray.is_initialized():
        _require_answer(address)
        code = {"py_modules": [str(Path(pike.__file__).parent)]}
        try:
            ray.init(address=address or None, runtime_env=code, log_to_driver=False, logging_level="warning")
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = f"{_first_line(error)}; one that was started with a token wants RAY_AUTH_MODE=token here too"
            raise UserError(f"No Ray cluster answers at '{address}': {reason}") from error
    return ray


def _require_answer(address: str) -> None:
    """Ray itself looks for minutes.

    Raises:
        UserError: nothing listens at `HOST:PORT`; other forms of an address are left to Ray.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    with saying(UserError, f"No Ray cluster answers at '{address}'"):
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()


class RayWorkers:
    """Starts workers on one cluster.

    Attributes:
        size: how many judges work: `judges`, or four for each GPU, or one for each two CPUs.
        gpus: on how many GPUs.

    Args:
        address: as for `ray.init`, empty for a cluster that is started here.
        judges: how many are asked for, shared out evenly; 0 for as many as the cluster bears.
        judge: makes the judge on the actor's machine, by default `pike.judge.client.JudgeClient`.
        kinds: the kind of GPU to be used, as Ray calls it; it need not be named where there is one.
            With a number (`H100:8`), so many GPUs, also if they come only when judges wait for them.

    Raises:
        UserError: as for `connect`, or the GPUs are of several kinds and none of them is named, or no
            judge has room and their number is not named.
    """

    def __init__(
        self, address: str = "", judge: Callable[[], Worker] | None = None, kinds: Sequence[str] = (), judges: int = 0
    ) -> None:
        self._ray, self._judge = connect(address), judge
        self._kind, self.gpus = _chosen(gpus_by_kind(self._ray.nodes()), kinds)
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        self.size = judges or self.gpus * JUDGES_PER_GPU or cpus // CPUS_PER_JUDGE
        if not self.size:
            raise UserError(
                f"The Ray cluster has {cpus} CPUs now, and a judge needs {CPUS_PER_JUDGE}: if nodes come when they "
                "are needed, name the number of judges (--set engine.judges=8) or the GPUs (--devices H100:8)"
            )
        self._actor, self._first = self._ray.remote(_Judge), list[str]()

    def start(self) -> Worker:
        """A worker, whose first call waits for a machine that has room."""
        share: dict[str, Any] = {"num_cpus": CPUS_PER_JUDGE}
        if self.gpus:  # Ray would ask for a CPU each, and a judge would wait for ever where there are few
            together = math.ceil(self.size / self.gpus)
            share = {"num_gpus": 1 / together, "num_cpus": 0, "accelerator_type": self._kind or None}
        return RayWorker(self._ray, lambda: self._actor.options(**share).remote(self._judge), self._admit)

    def _admit(self, worker: "RayWorker") -> None:
        """Compare a worker with this machine and with the workers before.

        Raises:
            UserError: its machine has other versions, or another device or driver.
        """
        node = worker.require_alike(versions())
        facts = worker.facts("auto")
        device = " with driver ".join([facts.name, *(told for name, told in facts.versions if name == "driver")])
        self._first.append(device)
        if device != (first := self._first[0]):
            worker.kill()
            raise UserError(
                f"The Ray node {node} judges on {device} and another one on {first}, and times on them do not "
                "compare: have nodes of one kind and driver only"
            )


class RayWorker:
    """One actor, driven by blocking calls from one thread at a time.

    Args:
        ray: the module.
        make: makes the actor. Ray notices the loss of a machine late, so one that is lost before it
            was admitted is made again.
        admit: looks at the worker before its first call.
    """

    def __init__(self, ray: Any, make: Callable[[], Any], admit: Callable[["RayWorker"], None]) -> None:
        self._ray, self._make, self._admit = ray, make, admit
        self._actor, self._starts, self._killed = make(), _STARTS, False
        self._parcel = lru_cache(_KEPT_PARCELS)(lambda task: ray.put(pack(task)))  # reaches each machine once

    def require_alike(self, here: tuple[tuple[str, str], ...]) -> str:
        """Compare versions, so that a verdict means the same wherever it was reached; the node's name.

        Raises:
            UserError: they differ.
        """
        node, there = self._last("versions")
        if differing := unlike(there, here):
            self.kill()
            raise UserError(f"The Ray node {node} has {differing}; install what is here on all nodes")
        return str(node)

    def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts on several candidates of one task, timed in the same sessions."""
        asked = [encode(replace(request, task=IN_PARCEL)) for request in requests]
        found = self._last("evaluate", self._parcel(requests[0].task), asked, on_stage=on_stage)
        return [decode(Evaluation, one) for one in found]

    def preflight(self, request: EvaluationRequest) -> float | None:
        """Milliseconds of the original, once it was seen that a candidate could be judged."""
        found = self._last("preflight", self._parcel(request.task), encode(replace(request, task=IN_PARCEL)))
        return None if found is None else float(found)

    def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """What recipes say about the task, on the actor's machine."""
        asked = encode(replace(request, task=IN_PARCEL)), encode(device)
        return str(self._last("explore", self._parcel(request.task), *asked))

    def facts(self, device: str) -> DeviceFacts:
        """What the device is, on the actor's machine."""
        return decode(DeviceFacts, self._last("facts", device))

    def release(self) -> None:
        """Hand all device memory back."""
        self._last("call", "release")

    def kill(self) -> None:
        """End the actor at once, also one that waits for a machine; its judge ends when it notices."""
        self._killed = True
        self._ray.kill(self._actor)

    def close(self) -> None:
        """End the judge in good order, and then the actor."""
        with suppress(InfraError):
            self._last("call", "close")
        self.kill()

    def _last(self, method: str, *arguments: Any, on_stage: OnStage | None = None) -> Any:
        """What a method says at the end; stages come before."""
        self._arrive()
        try:
            for said in getattr(self._actor, method).options(num_returns="streaming").remote(*arguments):
                kind, value = self._ray.get(said)
                if kind == "stage" and on_stage is not None:
                    on_stage(value)
                elif kind == "failed":
                    raise value
                elif kind == "found":
                    return value
        except self._ray.exceptions.RayError as error:
            raise InfraError(f"a worker of the Ray cluster was lost: {_first_line(error)}") from error
        raise InfraError("a worker of the Ray cluster said nothing")

    def _arrive(self) -> None:
        while self._starts:
            left, self._starts = self._starts - 1, 0  # what admission asks comes here too
            try:
                self._admit(self)
            except InfraError:
                if not left or self._killed:
                    raise
                self._starts, self._actor = left, self._make()


class _Judge:
    """The actor: a judge beside it, and the tasks that came."""

    def __init__(self, judge: Callable[[], Worker] | None) -> None:
        from pike.judge.client import JudgeClient

        self._judge: Worker = (judge or JudgeClient)()
        self._folder = Path(tempfile.gettempdir()) / f"pike-parcels-{os.getuid()}"

    def versions(self) -> Iterator[_Said]:
        yield "found", (os.uname().nodename, versions())

    def facts(self, device: str) -> Iterator[_Said]:
        yield _told(lambda: encode(self._judge.facts(device)))

    def evaluate(self, parcel: Parcel, asked: Sequence[Any]) -> Iterator[_Said]:
        task, said = unpack(parcel, self._folder), queue.SimpleQueue[_Said]()
        requests = [self._here(task, one) for one in asked]

        at = f" on GPU {gpu}" if (gpu := os.environ.get("CUDA_VISIBLE_DEVICES")) else ""
        yield "stage", f"{WORKER}on {os.uname().nodename}{at}"

        def judge() -> list[Any]:
            found = self._judge.evaluate_together(requests, lambda stage: said.put(("stage", stage)))
            return [encode(one) for one in found]

        threading.Thread(target=lambda: said.put(_told(judge)), daemon=True).start()
        while (one := said.get())[0] == "stage":
            yield one
        yield one

    def preflight(self, parcel: Parcel, asked: Any) -> Iterator[_Said]:
        yield _told(lambda: self._judge.preflight(self._here(unpack(parcel, self._folder), asked)))

    def explore(self, parcel: Parcel, asked: Any, device: Any) -> Iterator[_Said]:
        request = self._here(unpack(parcel, self._folder), asked)
        facts = decode(DeviceFacts, device)
        yield _told(lambda: ProcessExplorer().explore(request.task, facts, request.options).text)

    def call(self, method: str) -> Iterator[_Said]:
        yield _told(getattr(self._judge, method))

    def _here(self, task: Task, asked: Any) -> EvaluationRequest:
        return replace(decode(EvaluationRequest, asked), task=task)


def on_every_node(address: str, ask: Callable[[], T]) -> list[tuple[str, T]]:
    """What a function says on each living node of a cluster, behind the node's name.

    Raises:
        UserError: as for `connect`.
        InfraError: a node did not answer.
    """
    ray = connect(address)
    place = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    nodes, task = [node for node in ray.nodes() if node["Alive"]], ray.remote(num_cpus=0)(ask)
    coming = [task.options(scheduling_strategy=place(node["NodeID"], soft=False)).remote() for node in nodes]
    try:
        return [(node["NodeManagerHostname"], said) for node, said in zip(nodes, ray.get(coming), strict=True)]
    except ray.exceptions.RayError as error:
        raise InfraError(f"A node of the Ray cluster does not answer: {_first_line(error)}") from error


def gpus_by_kind(nodes: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """How many GPUs of each kind a cluster's living nodes have, as Ray tells kinds apart."""
    found = Counter[str]()
    for resources in (node["Resources"] for node in nodes if node["Alive"]):
        kinds = (name.removeprefix(_KIND) for name in resources if name.startswith(_KIND))
        found[next(kinds, "")] += int(resources.get("GPU", 0))
    return +found


def _chosen(have: Mapping[str, int], kinds: Sequence[str]) -> tuple[str, int]:
    """The kind that is named, or the only one, and how many GPUs; empty without GPUs.

    Raises:
        UserError: it is not there, or there are several.
    """
    kind, _, coming = next(iter(kinds or have), "").partition(":")
    if len(kinds or have) <= 1 and (coming.isdigit() if coming else kind in have or not kinds):
        return kind, int(coming or have.get(kind, 0))
    known = ", ".join(f"{count} {kind or 'unknown'}" for kind, count in sorted(have.items())) or "none"
    raise UserError(
        f"engine.devices: the cluster's GPUs are {known}, and times on unlike ones do not compare: "
        f"name one kind, for example --devices {max(have, key=have.__getitem__, default='H100:8')}"
    )


def _told(ask: Callable[[], Any]) -> _Said:
    try:
        return "found", ask()
    except (UserError, InfraError) as error:
        return "failed", error


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
