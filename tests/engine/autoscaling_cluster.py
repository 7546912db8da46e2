"""A Ray cluster on this machine whose nodes come because judges wait for them, and go when they are idle.

Ray's own `AutoscalingCluster` ends every Ray process of the machine, also others', and wants a file that Ray's wheels
lack. So this gives Ray's autoscaler the same provider of nodes that are processes here.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
MEMORY = 80 << 20
COMMANDS = ("setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray", "initialization")


@contextmanager
def autoscaling_cluster(folder: Path, node: dict[str, float], most: int, idle_seconds: float) -> Iterator[str]:
    """The address of a cluster that begins with a head without CPUs, and has up to `most` other nodes."""
    from ray.util import get_node_ip_address

    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    address = f"{get_node_ip_address()}:{port}"
    config: dict[str, Any] = {
        "cluster_name": "fake",
        "max_workers": most,
        "idle_timeout_minutes": idle_seconds / 60,
        "upscaling_speed": 1.0,
        "provider": {
            "type": "external",
            "module": PROVIDER,
            "gcs_address": address,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "judging": {"resources": {**node, "object_store_memory": MEMORY}, "node_config": {}, "max_workers": most},
        },
        **{f"{name}_commands": [] for name in COMMANDS},
        "auth": {},
        "file_mounts": {},
        "cluster_synced_files": [],
    }
    path = folder / "autoscaling.json"
    path.write_text(json.dumps(config))
    ray = Path(sys.executable).with_name("ray")
    started = [str(ray), "start", "--head", "--block", "--num-cpus=0", f"--port={port}", "--include-dashboard=false"]
    started += [f"--object-store-memory={MEMORY}", f"--autoscaling-config={path}", "--disable-usage-stats"]
    settings = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_AUTH_MODE": "disabled"}
    with (folder / "ray.log").open("w") as log:
        head = subprocess.Popen(started, env={**os.environ, **settings}, stdout=log, stderr=log)
    try:
        _wait_for(address, head)
        yield address
    finally:
        nodes = list(_family(head.pid))
        head.terminate()
        head.wait()
        for process in nodes:  # the head ends no node that the autoscaler started
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _family(process: int) -> Iterator[int]:
    """All processes that descend from one."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from _family(child)


def _wait_for(address: str, head: subprocess.Popen[bytes]) -> None:
    host, _, port = address.rpartition(":")
    while head.poll() is None:
        with suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.1)
    raise RuntimeError("Ray's head did not start: see ray.log")
