"""MLflow: a run of the experiment `pike` in a local SQLite store or at `MLFLOW_TRACKING_URI`.

Knows MLflow's client. Values that are known once become tags: every metric of MLflow is a series.
"""

import os
from collections.abc import Mapping
from typing import Any

from pike.exchange.trackers.tracker import PROJECT, TrackedPlace, TrackedRun

KEY = "pike.journal"


def open(run: TrackedRun) -> "_MlflowRun":
    """Begin a run, in place of an earlier one of the same journal."""
    from mlflow import MlflowClient

    folder = run.out or run.folder / "mlflow"
    address = "" if run.out else os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address:
        folder.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{(folder / 'mlflow.db').resolve()}"
    client = MlflowClient(address)
    known = client.get_experiment_by_name(PROJECT)
    if known is not None:
        experiment = known.experiment_id
    else:
        place = (folder / "artifacts").resolve().as_uri() if address.startswith("sqlite:") else None
        experiment = client.create_experiment(PROJECT, artifact_location=place)
    for earlier in client.search_runs([experiment], f"tags.`{KEY}` = '{run.key}'"):
        client.delete_run(earlier.info.run_id)
    begun = client.create_run(experiment, run_name=run.name, tags={KEY: run.key})
    for name, value in run.parameters.items():
        client.log_param(begun.info.run_id, name, value)
    return _MlflowRun(client, begun.info.run_id, address)


class _MlflowRun:
    def __init__(self, client: Any, run_id: str, address: str) -> None:
        self._client = client
        self._run_id = run_id
        self._address = address

    def log(self, values: Mapping[str, float], step: int, at_seconds: float) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run_id, name, value, timestamp=int(at_seconds * 1000), step=step)

    def artefact(self, name: str, text: str) -> None:
        self._client.log_text(self._run_id, text, name)

    def close(self, once: Mapping[str, float | str]) -> TrackedPlace:
        for name, value in once.items():
            self._client.set_tag(self._run_id, name, value)
        self._client.set_terminated(self._run_id)
        return TrackedPlace(self._address, f"mlflow ui --backend-store-uri {self._address}")
