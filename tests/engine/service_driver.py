"""A service with a simulated judge, as a process of its own: `service_driver.py FOLDER PORT DELAY [MOST_QUEUED]`.

Each judgement is noted in the folder's file `judged`, one line for each candidate. The address is printed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pike import server
from pike.core.device import DeviceFacts
from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest
from pike.engine.executors.instant import InstantExecutor
from pike.recipes.search.explored import Explored

TOKEN = "a-token-for-tests-only"


class NotingExecutor(InstantExecutor):
    def __init__(self, folder: Path, delay_seconds: float) -> None:
        super().__init__(delay_seconds=delay_seconds)
        self._file = folder / "judged"

    async def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        if "raise a bug" in request.source:
            raise ZeroDivisionError
        found = await super().evaluate(request, on_stage)
        with self._file.open("a") as file:
            file.write(request.source.splitlines()[0] + "\n")
        return found

    async def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        return Explored.nothing(f"explored by the service for {device.name}").text


async def main(folder: Path, port: int, delay: float, most_queued: int = 10_000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokens = folder / "tokens.toml"
    known = server.read_tokens(tokens) if tokens.exists() else server.administrator(TOKEN)
    await server.serve_evaluations(
        server.ServicePlace(folder, port=port, most_bytes=1 << 20),
        server.ServiceTokens(known, freely=not tokens.exists()),
        server.DeskTerms(judges=4, most_queued=most_queued),
        EngineConfig(),
        lambda url: print(url, flush=True),
        NotingExecutor(folder, delay),
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:])))
