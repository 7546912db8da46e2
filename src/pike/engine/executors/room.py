"""Room for evaluations in the memory of a pool's GPUs, by what earlier verdicts held there.

Knows bytes. Does not know workers. Finalists and their baselines stand on a GPU all at once: without
this several groups of them find no memory, and each is then tried again alone, while all others wait.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest

PROCESS_BYTES = 600 << 20
"""What a process takes that uses a GPU at all, libraries included."""
USED_SHARE = 0.9
"""So much of the memory is given away."""


class MemoryRoom:
    """Lets evaluations in while they should fit, in the order in which they came.

    Attributes:
        capacity: bytes of all GPUs together, None for no limit.
    """

    def __init__(self) -> None:
        self.capacity: int | None = None
        self._taken = 0
        self._held: dict[Task, int] = {}
        self._turn, self._changed = asyncio.Lock(), asyncio.Condition()

    def learn(self, task: Task, found: Sequence[Evaluation]) -> None:
        """Remember the most that a candidate of the task held."""
        self._held[task] = max([self._held.get(task, 0), *[one.held_bytes or 0 for one in found]])

    @asynccontextmanager
    async def of(self, requests: Sequence[EvaluationRequest]) -> AsyncIterator[None]:
        """Have room for these candidates, all of one task, and for what judges them.

        What would not even fit alone enters alone.
        """
        need = self._need(requests)
        async with self._turn, self._changed:
            await self._changed.wait_for(lambda: self._fits(need))
            self._taken += need
        try:
            yield
        finally:
            self._taken -= need
            await asyncio.shield(self._tell())

    def _need(self, requests: Sequence[EvaluationRequest]) -> int:
        """Bytes of the candidates and the original, each in a process of its own, and of the judge."""
        if not requests:
            return 0
        sides = 1 + len(requests)
        return sides * self._held.get(requests[0].task, 0) + (1 + sides) * PROCESS_BYTES

    def _fits(self, need: int) -> bool:
        return self.capacity is None or not self._taken or self._taken + need <= USED_SHARE * self.capacity

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
