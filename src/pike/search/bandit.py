"""Several models for one role: which of them is asked next, by what each earned for its cost.

Knows names of models, the cost of their steps and the outcomes. Does not know providers, prices or
prompts, nor the strategy that it wraps. Each role with several models is a bandit of its own, with
an upper confidence bound on reward per dollar (a budgeted bandit; compare KUBE, arXiv 1204.1909):
the mean reward plus the hope for more, over the mean cost.

- A role that repairs earns 1 for a repair. First and later attempts are separate bandits, because
  the failures that remain are harder.
- Every other role earns the logarithm of the speedup over the seed.
- The model that wrote a failing program pays for its repairs, and earns from the repaired program.
- A model that plans earns from the program that was written from its plan.
- Where the price of a model is unknown, all models of its role are compared per query.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pike.core.rng import stream
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step, Strategy
from pike.core.verdict.evaluation import Evaluation

HOPE = 0.25
"""Weight of the confidence term; rewards are scaled to at most 1 in each role."""
_LATER = 2
"""The first attempt at a repair that counts as a later one."""


@dataclass(slots=True)
class Arm:
    """One model in one role.

    Attributes:
        asked: steps asked, those in flight included.
        answered: steps whose outcome is known.
        unpriced: steps whose cost is unknown.
    """

    name: str
    asked: int = 0
    answered: int = 0
    reward: float = 0.0
    usd: float = 0.0
    unpriced: int = 0


class Bandit:
    """The models of one role."""

    def __init__(self, names: tuple[str, ...], rng: random.Random) -> None:
        self._arms = [Arm(name) for name in names]
        self._rng = rng
        self._largest = 0.0

    def choose(self) -> Arm:
        """The model to ask next: each once in the order given, then the highest bound."""
        arm = next((arm for arm in self._arms if not arm.asked), None)
        if arm is None:
            bounds = self._bounds()
            best = max(bounds)
            arm = self._rng.choice([arm for arm, bound in zip(self._arms, bounds, strict=True) if bound == best])
        arm.asked += 1
        return arm

    def earn(self, arm: Arm, reward: float) -> None:
        """Credit a model."""
        arm.reward += reward
        self._largest = max(self._largest, reward)

    def _bounds(self) -> list[float]:
        total = sum(arm.asked for arm in self._arms)
        priced = all(arm.answered and not arm.unpriced and arm.usd > 0.0 for arm in self._arms)
        scale = self._largest or 1.0
        return [
            (arm.reward / scale / max(1, arm.answered) + HOPE * math.sqrt(2.0 * math.log(total) / arm.asked))
            / (arm.usd / arm.answered if priced else 1.0)
            for arm in self._arms
        ]


@dataclass(frozen=True, slots=True)
class _Pull:
    """One step that a bandit decided."""

    bandit: Bandit
    arm: Arm


class OverModels:
    """A strategy that also decides which model answers (`Strategy`)."""

    def __init__(self, strategy: Strategy, arms: Mapping[Role, tuple[str, ...]], run_seed: int) -> None:
        self._strategy = strategy
        self._arms = {role: names for role, names in arms.items() if len(names) > 1}
        self._run_seed = run_seed
        self._bandits: dict[tuple[Role, bool], Bandit] = {}
        self._steps: dict[int, Step] = {}
        self._pulls: dict[int, _Pull] = {}
        self._writers: dict[str, tuple[_Pull, ...]] = {}
        self._planners: dict[str, _Pull] = {}
        self._gains = {ORIGINAL: 0.0}

    @property
    def done(self) -> bool:
        """Whether the wrapped strategy is done."""
        return self._strategy.done

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Pass a solution on, and remember its speed."""
        self._strategy.admit(candidate, evaluation)
        self._gains[candidate.id] = _gain(evaluation)

    def ask(self) -> Step | None:
        """The wrapped strategy's next step, with a model if its role has several."""
        step = self._strategy.ask()
        if step is None:
            return None
        if step.role in self._arms and not step.model:
            bandit = self._bandit(step)
            pull = self._pulls[step.id] = _Pull(bandit, bandit.choose())
            step = replace(step, model=pull.arm.name)
        self._steps[step.id] = step
        return step

    def tell(self, outcome: Outcome) -> None:
        """Pass an outcome on, and learn from it."""
        self._strategy.tell(outcome)
        step = self._steps.pop(outcome.step_id)
        pull = self._pulls.pop(outcome.step_id, None)
        if pull is not None:
            pull.arm.answered += 1
        self._learn(step, pull, outcome)

    def _bandit(self, step: Step) -> Bandit:
        key = (step.role, step.attempt >= _LATER)
        if key not in self._bandits:
            rng = stream(self._run_seed, f"models of {step.role}, {'later' if key[1] else 'first'}")
            self._bandits[key] = Bandit(self._arms[step.role], rng)
        return self._bandits[key]

    def _learn(self, step: Step, pull: _Pull | None, outcome: Outcome) -> None:
        payers = self._payers(step, pull)
        for payer in payers:
            if outcome.usd is None:
                payer.arm.unpriced += 1
            else:
                payer.arm.usd += outcome.usd
        if outcome.text and pull is not None:
            self._planners[outcome.text] = pull
        candidate, evaluation = outcome.candidate, outcome.evaluation
        if candidate is None or evaluation is None:
            return
        writers = payers[1:] if step.role.repairs and pull is not None else payers
        if not evaluation.valid:
            self._writers[candidate.id] = writers
            return
        self._gains[candidate.id] = _gain(evaluation)
        if step.role.repairs and pull is not None:
            pull.bandit.earn(pull.arm, 1.0)
        gained = max(0.0, self._gains[candidate.id] - self._gains[step.seed])
        for writer in writers:
            writer.bandit.earn(writer.arm, gained)

    def _payers(self, step: Step, pull: _Pull | None) -> tuple[_Pull, ...]:
        """The models that pay for a step: its own, then the writer or planner of its material."""
        own = () if pull is None else (pull,)
        if step.failing is not None:
            return own + self._writers.get(step.failing, ())
        planner = self._planners.get(step.plan) if step.plan else None
        return own if planner is None else (*own, planner)


def over_models(strategy: Strategy, arms: Mapping[Role, tuple[str, ...]], run_seed: int) -> Strategy:
    """The strategy, with a bandit that chooses the models of every role that has several.

    Args:
        strategy: any strategy that has not been asked yet.
        arms: the names of each role's models, in the order in which they are tried first. A role
            with fewer than two is left alone.
        run_seed: decides ties.
    """
    if all(len(names) < 2 for names in arms.values()):
        return strategy
    return OverModels(strategy, arms, run_seed)


def _gain(evaluation: Evaluation) -> float:
    """The logarithm of a valid verdict's speedup."""
    return math.log(evaluation.speedup) if evaluation.speedup else 0.0
