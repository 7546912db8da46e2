"""The checks that a candidate's outputs must pass before and after timing.

Knows which inputs are tried. Does not know how large an error may be (`correctness`).
"""

import math
import random
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import torch

from pike.core.errors import UserError
from pike.core.verdict.evaluation import Effort, EvaluateOptions, OutputError, Status, Tolerance
from pike.judge.calls.runner import Runner
from pike.judge.child.memory.layout import take_apart
from pike.judge.child.wire import Command
from pike.judge.correctness.compare import Expected, compare_closely, is_real, worse
from pike.judge.correctness.rows import in_pieces
from pike.judge.prepared_task import PreparedTask
from pike.judge.reference.boundary_shapes import boundary_shapes
from pike.judge.reference.input_distributions import DISTRIBUTIONS, InputDistribution, other_numbers, unchanged
from pike.judge.reference.reference import Inputs
from pike.judge.refusal import Refused
from pike.judge.timing.reservoir import TimedOutput

_FINAL_SEEDS, _AUDIT_SEEDS = 2, 8
REUSES_OUTPUT = "reuses-output-buffer"
"""Label of a candidate that writes each result over the previous one, as the child says."""
ONLY_THESE_NUMBERS = "judged-numbers-only"
"""Label of a candidate that is wrong for other Python numbers among its inputs than the judged ones."""
_USELESS_SHARE = 0.1
_MORE_CALLS, _MORE_SECONDS = 512, 15.0
"""The most calls, and the time for them, of a candidate that compiled in a timed call: a kernel may
differ by a number that is drawn at each call. Triton, for one, has another one for each 16th number.
Such outputs are not compared; those of timed calls are."""
_COMPILING_SECONDS, _COMPILING_TIMES, _MOST_SETTLING = 1.0, 10.0, 6
"""A call that takes longer than this, and this many times the reference's time, counts as
compiling. It is repeated at most so often: torch.compile gives up on a function after eight
versions."""

Answer = TypeVar("Answer")


class Checks:
    """The checks of one candidate; each raises `Refused` if an output is wrong or a call failed.

    Attributes:
        error: the worst error so far.
        labels: findings that refuse nothing.
        first_call_seconds: of the first call, compiling included; None until it returned.
        call_seconds: of the last call.
        telling: the input distributions on which a wrong answer would show.
    """

    def __init__(
        self,
        prepared: PreparedTask,
        runner: Runner,
        options: EvaluateOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.error: OutputError | None = None
        self.labels: list[str] = []
        self._prepared, self._runner, self._options = prepared, runner, options
        self.telling: list[InputDistribution] = []
        self._tried = 0
        self._clock = clock
        self.first_call_seconds: float | None = None
        self.call_seconds = 0.0

    def before_timing(self, effort: Effort, again: bool = False) -> None:
        """Try secret inputs, many more `again`, and beyond a search other distributions.

        Of finalists also other numbers and shapes.
        """
        left = self._options.correctness_seeds + _FINAL_SEEDS * (effort is not Effort.SEARCH)
        while left > 0 or self._tried < 2:  # the first call is timed alone; two outputs are alive after it
            left -= self._try_drawn(pair=self._tried == 1 and self._prepared.shape.slots > 1)
        self._settle()
        until = self._clock() + _MORE_SECONDS
        for _ in range(_MORE_CALLS if again else 0):
            if self._clock() < until:
                self._runner.call(self._runner.stage(self._prepared.draw(secrets.randbits(63))))
        if effort is not Effort.SEARCH:
            self._try_distributions()
            self.labels += [f"untested: {kind} inputs" for kind in unchanged(self._prepared.shape.inputs)]
        if effort is Effort.FINAL:
            self._try_numbers()
            held_out = self._prepared.draw_held_out(secrets.randbits(63))
            for inputs in held_out:
                self._try_held_out(inputs)
            for inputs in boundary_shapes(self._prepared.draw(secrets.randbits(63)), held_out) if held_out else ():
                with suppress(UserError):  # the reference need not run on shapes that the task does not declare
                    self._try_held_out(inputs, "boundary")

    def audit(self) -> None:
        """Try more secret inputs and every distribution, because a time is too good to be true."""
        for _ in range(_AUDIT_SEEDS):
            self._try_drawn(pair=False)
        self._try_distributions()

    def after_timing(self, effort: Effort) -> None:
        """Beyond a search, try every distribution again: some are careful only until timed."""
        if effort is not Effort.SEARCH:
            self._try_distributions()

    def recheck(self, kept: TimedOutput) -> None:
        """Check an output that was kept while it was timed."""
        inputs, where = self._prepared.draw(kept.seed), "while being timed, "
        if distribution := kept.distribution:
            inputs, where = distribution.change(inputs, kept.seed), f"{where}on inputs with {distribution.name}, "
            expected = self._asked(lambda: self._prepared.expected_or_none(inputs, distribution.slack))
            if expected is None or not _tests_something(expected):
                return
        else:
            expected = self._expected(inputs)
        self._compare(inputs, expected, self._runner.outputs(kept.snapshot), where)

    def _try_drawn(self, pair: bool) -> int:
        """Try one fresh input, or two whose outputs are alive at once; returns how many."""
        drawn = [self._prepared.draw(secrets.randbits(63)) for _ in range(2 if pair else 1)]
        staged, began = self._runner.stage(*drawn), self._clock()
        call = self._runner.call(staged, Command.TWICE if pair else Command.RUN)
        self.call_seconds = self._clock() - began
        if self.first_call_seconds is None:
            self.first_call_seconds = self.call_seconds
        for inputs, snapshot in zip(drawn, self._runner.snapshots(), strict=True):
            self._compare(inputs, self._expected(inputs), self._runner.outputs(snapshot), "")
        if pair and call.hint:
            self.labels.append(REUSES_OUTPUT)
        self._tried += 1
        return len(drawn)

    def _settle(self) -> None:
        """Try more secret inputs while calls compile, so that none compiles during timing."""
        for _ in range(_MOST_SETTLING):
            if self.call_seconds <= max(_COMPILING_SECONDS, _COMPILING_TIMES * self._prepared.call_seconds):
                return
            self._try_drawn(pair=False)

    def _try_distributions(self) -> None:
        if self._options.tolerance is Tolerance.STRICT:  # the published protocol has one kind of inputs
            for distribution in random.SystemRandom().sample(DISTRIBUTIONS, len(DISTRIBUTIONS)):
                self._try_distribution(distribution)

    def _try_distribution(self, distribution: InputDistribution) -> None:
        if not distribution.applies(self._prepared.shape.inputs):
            return
        inputs = distribution.change(self._prepared.draw(secrets.randbits(63)), secrets.randbits(63))
        expected = self._asked(lambda: self._prepared.expected_or_none(inputs, distribution.slack))
        if expected is None or not _tests_something(expected):
            self.labels.append(f"untested: {distribution.name}")
            return
        self._try(inputs, expected, f"on inputs with {distribution.name}, ")
        if distribution not in self.telling:
            self.telling.append(distribution)

    def _try_numbers(self) -> None:
        """Try other Python numbers; a candidate may hold for the judged ones only, and is labelled."""
        inputs = other_numbers(self._prepared.draw(secrets.randbits(63)))
        if inputs is None or self._options.tolerance is not Tolerance.STRICT:
            return
        before, label = self.error, ""
        try:
            with self._prepared.laid_out_for(inputs, self._runner):
                expected = self._asked(lambda: self._prepared.expected_or_none(inputs, 1.0))
                if expected is not None and _tests_something(expected):
                    self._try(inputs, expected, "on other numbers, ")
                else:
                    label = "untested: other numbers"
            return
        except UserError:  # the reference does not take them
            label = "untested: other numbers"
        except Refused as refused:
            if refused.died or refused.status not in (Status.WRONG_OUTPUT, Status.RUNTIME_ERROR, Status.BAD_CONTRACT):
                raise
            self.error, label = before, ONLY_THESE_NUMBERS
        finally:
            self.labels += [label] if label else []
        self._runner.map(self._prepared.shape)

    def _try_held_out(self, inputs: Inputs, kind: str = "held-out") -> None:
        tensors, _ = take_apart((inputs.args, inputs.kwargs))
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        with self._prepared.laid_out_for(inputs, self._runner):
            self._try(inputs, self._expected(inputs), f"on {kind} shape {shapes}, ")

    def _try(self, inputs: Inputs, expected: Expected, where: str) -> None:
        try:
            self._runner.call(self._runner.stage(inputs))
        except Refused as refused:
            refused.reason = where + refused.reason
            raise
        self._compare(inputs, expected, self._runner.outputs(), where)

    def _expected(self, inputs: Inputs) -> Expected:
        return self._asked(lambda: self._prepared.expected(inputs))

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """The reference's answer; if memory runs out, the children release theirs first.

        Raises:
            torch.OutOfMemoryError: there is still too little.
        """
        with suppress(torch.OutOfMemoryError):
            return ask()
        self._prepared.release_memory()
        self._runner.order(Command.RELEASE)
        return ask()

    def _compare(self, inputs: Inputs, expected: Expected, outputs: list[torch.Tensor], where: str) -> None:
        nearby = lambda: self._asked(lambda: self._prepared.nearby(inputs))  # noqa: E731
        found = compare_closely(outputs, expected, self._options.tolerance, nearby)
        self.error = worse(self.error, found.error)
        if found.wrong:
            self.error = found.error
            changed = len(self._prepared.shape.outputs.changed)
            first = len(outputs) - changed
            note = f" (from output {first} on: inputs that the reference changes in place)" if changed else ""
            raise Refused(Status.WRONG_OUTPUT, f"{where}{found.wrong}{note}")


def _tests_something(expected: Expected) -> bool:
    """Whether a wrong answer would show.

    The reference must be finite, and its own error small beside its values at every allowed
    precision. An answer of another length says nothing about errors: a rounding error decided it.
    """
    expected = expected.fitting(expected.native)
    return all(
        _is_close(own[index], answer)
        for own in (expected.native, *expected.variants)
        for index, answer in enumerate(expected.answers)
        if is_real(answer)
    )


def _is_close(own: torch.Tensor, answer: torch.Tensor) -> bool:
    error, scale = 0.0, 0.0
    for one, right in in_pieces(own, answer):
        error += float((one - right).square().sum())
        scale += float(right.square().sum())
    return math.sqrt(error) <= _USELESS_SHARE * math.sqrt(scale) if math.isfinite(error + scale) else False
