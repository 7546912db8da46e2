"""How often a reference's own answers differ in integers, over all inputs that a task draws.

Knows counts. One input has few answers, too few to tell a rate: 8 elements that differ where 6 were
seen are the same rate. Does not know candidates.
"""

import math
from collections import Counter
from collections.abc import Sequence

import torch

_SPREADS = 3.0
"""A count of rare events strays so many square roots from its mean in one of a thousand calls."""


class FlipRate:
    """Counts of one task, kept while its candidates are judged."""

    def __init__(self) -> None:
        self._flipped: Counter[tuple[int, int]] = Counter()
        self._seen: Counter[int] = Counter()

    def learn(self, native: Sequence[torch.Tensor], answers: Sequence[Sequence[torch.Tensor]]) -> None:
        """Count on one more input: the first answer's outputs, and those at each other precision."""
        for index, own in enumerate(native):
            if own.is_floating_point() or own.is_complex():
                continue
            self._seen[index] += own.numel()
            for kind, answer in enumerate(answers):
                if answer[index].shape == own.shape:
                    self._flipped[kind, index] += int((answer[index] != own).sum())

    def allowed(self, native: Sequence[torch.Tensor]) -> tuple[int, ...]:
        """Per output, in how many integers an equally unsteady answer may differ; 0 if none ever did."""
        most = Counter[int]()
        for (_, index), flipped in self._flipped.items():
            most[index] = max(most[index], flipped)
        rates = [most[index] * own.numel() / (self._seen[index] or 1) for index, own in enumerate(native)]
        return tuple(int(rate + _SPREADS * math.sqrt(rate)) for rate in rates)
