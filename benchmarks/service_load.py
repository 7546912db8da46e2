"""How fast an evaluation service accepts: 200 clients, 5,000 submissions, a simulated judge.

Each client submits a candidate, waits for its verdict and submits the next. The judge takes
DELAY seconds for each of JUDGES candidates at once. Clients begin within the first RAMP seconds, and
are a process of their own. At last every verdict is looked at.

    python benchmarks/service_load.py [--clients 200] [--submissions 5000] [--delay 0.8]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pike import server
from pike.core.codec import encode
from pike.core.settings.config import EngineConfig
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest
from pike.engine.executors.instant import InstantExecutor
from pike.engine.executors.parcel import pack
from pike.engine.executors.service.wire import submission_of

JUDGES, DELAY, RAMP = 64, 0.8, 2.0
TOKEN = "a-token-for-the-benchmark"
TASK = Task("load", "load", TaskKind.SOURCE, "class Model: ...", "load.py")
PADDING = "# a line of a typical candidate, which has some four kilobytes\n" * 60


def serve(folder: Path, delay: float) -> None:
    place = server.ServicePlace(folder)
    tokens = server.ServiceTokens(server.administrator(TOKEN), freely=False)
    executor = InstantExecutor(delay_seconds=delay)
    terms = server.DeskTerms(judges=JUDGES)
    work = server.serve_evaluations(place, tokens, terms, EngineConfig(), lambda url: print(url, flush=True), executor)
    asyncio.run(work)


class Line:
    """One client's connection; httpx looks through all 200 at each request, which would be measured too."""

    def __init__(self, url: str) -> None:
        self._host, _, self._port = url.removeprefix("http://").partition(":")

    async def call(self, method: str, path: str, content: bytes = b"") -> tuple[int, Any]:
        if not hasattr(self, "_streams"):
            self._streams = await asyncio.open_connection(self._host, int(self._port))
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length"))
        return int(lines[0].split()[1]), json.loads(await reader.readexactly(length))


async def client(url: str, numbers: range, digest: str, accepted: list[float], ids: list[str]) -> None:
    await asyncio.sleep(random.uniform(0, RAMP))
    line = Line(url)
    for number in numbers:
        source = f"# candidate {number}\n{PADDING}"
        asked = submission_of(digest, [EvaluationRequest(TASK, source, EvaluateOptions(device="cpu"))])
        content = json.dumps(encode(asked)).encode()
        began = time.perf_counter()
        status, told = await line.call("POST", "/v1/submissions", content)
        accepted.append(time.perf_counter() - began)
        assert status == 202, told
        ids.append(told["id"])
        while told["state"] != "done":
            _, told = await line.call("GET", f"/v1/submissions/{ids[-1]}?wait=30")


async def load(url: str, clients: int, submissions: int, delay: float) -> dict[str, object]:
    parcel, accepted, ids = pack(TASK), list[float](), list[str]()
    await Line(url).call("PUT", f"/v1/parcels/{parcel.digest}", json.dumps(encode(parcel)).encode())
    each, began = submissions // clients, time.perf_counter()
    shares = [range(one * each, (one + 1) * each) for one in range(clients)]
    await asyncio.gather(*(client(url, share, parcel.digest, accepted, ids) for share in shares))
    seconds = time.perf_counter() - began
    accepted.sort()
    at = {
        f"p{share:g}_ms": round(1000 * accepted[int(share / 100 * (len(accepted) - 1))], 1) for share in (50, 99, 100)
    }
    ideal = submissions * delay / JUDGES
    return {"submissions": len(accepted), "distinct": len(set(ids)), "seconds": round(seconds, 1)} | {
        "ideal_seconds": round(ideal, 1),
        "accept": at,
        "cores": len(os.sched_getaffinity(0)),
        "load_1m": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clients", type=int, default=200)
    arguments.add_argument("--submissions", type=int, default=5000)
    arguments.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--delay", type=float, default=DELAY)
    given = arguments.parse_args()
    if given.serve:
        serve(given.serve, given.delay)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--serve", folder, "--delay", str(given.delay)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            print(
                json.dumps(
                    asyncio.run(load(process.stdout.readline().strip(), given.clients, given.submissions, given.delay)),
                    indent=2,
                )
            )
        finally:
            process.kill()


if __name__ == "__main__":
    main()
