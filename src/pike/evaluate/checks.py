"""What a candidate's outputs must survive before and after timing.

Knows which inputs are tried on a candidate and puts into words where it failed. Does not know what an error may be
(`correctness`) nor the stages and leases around it (`judge`).
"""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import torch

from pike.core.evaluation import Effort, EvaluateOptions, OutputError, Status, Tolerance
from pike.evaluate.bench import Bench
from pike.evaluate.blocks import Kept
from pike.evaluate.child.layout import take_apart
from pike.evaluate.child.wire import Command
from pike.evaluate.correctness import Expected, compare_closely, worse
from pike.evaluate.reference import Inputs
from pike.evaluate.refusal import Refused
from pike.evaluate.regimes import REGIMES, Regime
from pike.evaluate.rows import in_pieces
from pike.evaluate.runner import Runner

_FINAL_SEEDS, _AUDIT_SEEDS = 2, 8
REUSES_OUTPUT = "reuses-output-buffer"
"""Label of a candidate that writes a call's result where the previous one's lies; the child says so, unchecked."""
_USELESS_SHARE = 0.1
_COMPILING_SECONDS, _COMPILING_TIMES, _MOST_SETTLING = 1.0, 10.0, 6
"""A call that takes longer than so many seconds, and than so many times the reference's, is taken to compile, and how
often it is called again for that: torch.compile gives up on a function after eight of its versions."""

Answer = TypeVar("Answer")


class Checks:
    """The checks of one candidate.

    Attributes:
        error: the worst error so far.
        labels: what was noticed and refuses nothing.
        first_call_seconds: how long the first call took, with all that was compiled in it; None until it returned.
    """

    def __init__(
        self,
        bench: Bench,
        runner: Runner,
        options: EvaluateOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.error: OutputError | None = None
        self.labels: list[str] = []
        self._bench, self._runner, self._options = bench, runner, options
        self._tried = False
        self._clock = clock
        self.first_call_seconds: float | None = None
        self._call_seconds = 0.0

    def before_timing(self, effort: Effort) -> None:
        """Secret inputs, drawn now that the candidate is built; for finalists also inputs of other kinds.

        Raises:
            Refused: an output is wrong, or a call failed.
        """
        final = effort is Effort.FINAL
        left = self._options.correctness_seeds + (_FINAL_SEEDS if final else 0)
        while left > 0:
            left -= self._try_drawn(pair=not self._tried and self._bench.places > 1)
        self._settle()
        if final:
            self._try_regimes()
            for inputs in self._bench.draw_held_out(secrets.randbits(63)):
                self._try_held_out(inputs)

    def audit(self) -> None:
        """More secret inputs and every regime, for a candidate whose time is too good to be true.

        Raises:
            Refused: an output is wrong, or a call failed.
        """
        for _ in range(_AUDIT_SEEDS):
            self._try_drawn(pair=False)
        self._try_regimes()

    def after_timing(self, effort: Effort) -> None:
        """Every kind of inputs once more for finalists: what was right on them at first may have been so until timed.

        Raises:
            Refused: an output is wrong, or a call failed.
        """
        if effort is Effort.FINAL:
            self._try_regimes()

    def recheck(self, kept: Kept) -> None:
        """An output that was kept while it was timed.

        Raises:
            Refused: it is wrong.
        """
        inputs = self._bench.draw(kept.seed)
        self._compare(inputs, self._expected(inputs), self._runner.outputs(kept.snapshot), "while being timed, ")

    def _try_drawn(self, pair: bool) -> int:
        """One fresh input, or two with both outputs alive at once; returns how many."""
        drawn = [self._bench.draw(secrets.randbits(63)) for _ in range(2 if pair else 1)]
        staged, began = self._runner.stage(*drawn), self._clock()
        call = self._runner.call(staged, Command.TWICE if pair else Command.RUN)
        self._call_seconds = self._clock() - began
        if self.first_call_seconds is None:
            self.first_call_seconds = self._call_seconds
        for inputs, snapshot in zip(drawn, self._runner.snapshots(), strict=True):
            self._compare(inputs, self._expected(inputs), self._runner.outputs(snapshot), "")
        if pair and call.hint:
            self.labels.append(REUSES_OUTPUT)
        self._tried = True
        return len(drawn)

    def _settle(self) -> None:
        """More secret inputs for as long as calls compile: what compiles while it is timed keeps everybody waiting."""
        for _ in range(_MOST_SETTLING):
            if self._call_seconds <= max(_COMPILING_SECONDS, _COMPILING_TIMES * self._bench.call_seconds):
                return
            self._try_drawn(pair=False)

    def _try_regimes(self) -> None:
        if self._options.tolerance is Tolerance.STRICT:  # the published protocol has one kind of inputs
            for regime in random.SystemRandom().sample(REGIMES, len(REGIMES)):
                self._try_regime(regime)

    def _try_regime(self, regime: Regime) -> None:
        inputs = regime.change(self._bench.draw(secrets.randbits(63)), secrets.randbits(63))
        expected = self._with_room(lambda sparing: self._bench.expected_or_none(inputs, regime.slack, sparing))
        if expected is None or not _tests_something(expected):
            self.labels.append(f"untested: {regime.name}")
            return
        self._try(inputs, expected, f"on inputs with {regime.name}, ")

    def _try_held_out(self, inputs: Inputs) -> None:
        tensors, _ = take_apart((inputs.args, inputs.kwargs))
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        with self._bench.laid_out_for(inputs, self._runner):
            self._try(inputs, self._expected(inputs), f"on held-out shape {shapes}, ")

    def _try(self, inputs: Inputs, expected: Expected, where: str) -> None:
        try:
            self._runner.call(self._runner.stage(inputs))
        except Refused as refused:
            raise Refused(refused.status, where + refused.reason) from refused
        self._compare(inputs, expected, self._runner.outputs(), where)

    def _expected(self, inputs: Inputs) -> Expected:
        """What a call on `inputs` must return."""
        return self._with_room(lambda sparing: self._bench.expected(inputs, sparing))

    def _with_room(self, ask: Callable[[bool], Answer]) -> Answer:
        """What the reference answers, if need be with the memory that both children keep and do not use.

        Args:
            ask: told whether to spare memory.

        Raises:
            torch.OutOfMemoryError: there is too little even so.
        """
        with suppress(torch.OutOfMemoryError):
            return ask(False)
        self._bench.release_memory()
        self._runner.order(Command.RELEASE)
        return ask(True)

    def _compare(self, inputs: Inputs, expected: Expected, outputs: list[torch.Tensor], where: str) -> None:
        nearby = lambda: self._with_room(lambda sparing: self._bench.nearby(inputs, sparing))  # noqa: E731
        found = compare_closely(outputs, expected, self._options.tolerance, nearby)
        self.error = worse(self.error, found.error)
        if found.wrong:
            self.error = found.error
            raise Refused(Status.WRONG_OUTPUT, f"{where}{found.wrong}")


def _tests_something(expected: Expected) -> bool:
    """Whether the reference is finite and its own error small beside its values, at every allowed precision, so that a
    wrong answer would show."""
    return all(
        _is_close(own[index], answer)
        for own in (expected.native, *expected.variants)
        for index, answer in enumerate(expected.answers)
        if answer.is_floating_point() or answer.is_complex()
    )


def _is_close(own: torch.Tensor, answer: torch.Tensor) -> bool:
    error, scale = 0.0, 0.0
    for one, right in in_pieces(own, answer):
        error += float((one - right).square().sum())
        scale += float(right.square().sum())
    return math.sqrt(error) <= _USELESS_SHARE * math.sqrt(scale) if math.isfinite(error + scale) else False
