"""Run a strategy without an engine, for tests, estimates and benchmarks.

Knows how many steps may be in flight and which of them ends next. Does not know agents, judges or
journals: a function answers each step.
"""

from collections.abc import Callable, Iterable

from pike.core.step import Outcome, Step, Strategy

Call = Step | Outcome
"""A step that was asked, or an outcome that was told."""


def drive(
    strategy: Strategy,
    answer: Callable[[Step], Outcome],
    *,
    concurrency: int = 1,
    pick: Callable[[int], int] = lambda _: 0,
) -> tuple[Call, ...]:
    """Ask and tell until the strategy is done.

    Args:
        strategy: what to run; it may have been run for a while already, with nothing in flight.
        answer: gives the outcome of a step.
        concurrency: steps in flight at once.
        pick: given the number of steps in flight, the index of the one that ends next, in order of
            asking.

    Returns:
        Every step asked and every outcome told, in order.

    Raises:
        RuntimeError: the strategy is stuck: not done, nothing in flight, and it asks for nothing.
    """
    calls: list[Call] = []
    in_flight: list[Step] = []
    while not strategy.done:
        while len(in_flight) < concurrency and (step := strategy.ask()) is not None:
            calls.append(step)
            in_flight.append(step)
        if not in_flight:
            raise RuntimeError(f"the strategy is stuck after {len(calls)} calls")
        outcome = answer(in_flight.pop(pick(len(in_flight))))
        calls.append(outcome)
        strategy.tell(outcome)
    return tuple(calls)


def replay(strategy: Strategy, calls: Iterable[Call]) -> None:
    """Bring a new strategy to the state of the one that `calls` come from.

    Raises:
        ValueError: it asks for another step than was recorded.
    """
    for call in calls:
        if isinstance(call, Outcome):
            strategy.tell(call)
        elif (step := strategy.ask()) != call:
            raise ValueError(f"the strategy asked for {step}, but {call} was recorded")
