"""The timed outputs that are verified after timing.

Knows which of many outputs to keep. Does not know what is right.
"""

import random
from dataclasses import dataclass

import torch

from pike.judge.reference.input_distributions import InputDistribution


@dataclass(frozen=True, slots=True)
class TimedOutput:
    """A timed output to verify later: the seed of its inputs, and its bytes.

    Attributes:
        distribution: what changed the inputs, None for those that the task draws.
    """

    seed: int
    snapshot: torch.Tensor
    distribution: InputDistribution | None = None


class Reservoir:
    """A random sample of the timed outputs, with the last one and the fastest of a block.

    A candidate that takes a shortcut in some calls only is fastest in those.
    """

    def __init__(self, size: int) -> None:
        self._size, self._seen, self._blocks = size, 0, 0
        self._fastest: list[TimedOutput] = []
        self._kept: list[TimedOutput] = []
        self._last: list[TimedOutput] = []
        self._chance = random.SystemRandom()

    def offer(self, kept: TimedOutput) -> None:
        """Add a timed output."""
        self._seen += 1
        self._last = [kept]
        if len(self._kept) < self._size - 1:
            self._kept.append(kept)
        elif (place := self._chance.randrange(self._seen)) < len(self._kept):
            self._kept[place] = kept

    def offer_fastest(self, kept: TimedOutput) -> None:
        """Add the fastest timed output of a block."""
        self._blocks += 1
        if not self._chance.randrange(self._blocks):
            self._fastest = [kept]

    def all(self) -> list[TimedOutput]:
        """The outputs to verify."""
        seeds = [kept.seed for kept in self._kept]
        extra = {kept.seed: kept for kept in (*self._fastest, *self._last) if kept.seed not in seeds}
        return [*self._kept, *extra.values()]
