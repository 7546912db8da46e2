"""Services with a simulated judge as processes of their own, and how to speak to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from engine_material import TASK
from service_driver import TOKEN

from pike.core.codec import encode
from pike.core.verdict.evaluation import Effort, EvaluateOptions, EvaluationRequest
from pike.engine.executors.parcel import pack
from pike.engine.executors.service.wire import submission_of

DRIVER = Path(__file__).with_name("service_driver.py")
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
PARCEL = pack(TASK)


class Service:
    """A server process over a folder; it can be killed and started again at the same address."""

    def __init__(self, folder: Path, delay: float = 0.0, most_queued: int = 10_000) -> None:
        self.folder, self._port = folder, 0
        self._more = [str(delay), str(most_queued)]
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(DRIVER), str(self.folder), str(self._port), *self._more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def judged(self) -> list[str]:
        """The first line of each candidate that was judged, in order."""
        path = self.folder / "judged"
        return path.read_text().splitlines() if path.exists() else []

    def http(self, headers: dict[str, str] | None = None) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers or {}, timeout=30)

    def bring(self, headers: dict[str, str] = ADMIN) -> None:
        with self.http(headers) as http:
            assert http.put(f"/v1/parcels/{PARCEL.digest}", json=encode(PARCEL)).status_code == 201


def asked(*sources: str, **more: Any) -> dict[str, Any]:
    """The body of a submission."""
    requests = [EvaluationRequest(TASK, one, EvaluateOptions(device="cpu"), Effort.SEARCH) for one in sources]
    return {**encode(submission_of(PARCEL.digest, requests)), **more}


def candidate(number: int | str, verdict: str = "valid 5ms") -> str:
    return f"# candidate {number}\n# pike-instant: {verdict}\n"
