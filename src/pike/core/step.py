"""The vocabulary between search and engine: steps, candidates, outcomes and the strategy protocol.

Knows what a strategy decides and is told. Does not know prompts, models, judges or files.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pike.core.verdict.evaluation import Evaluation

LAST_OF = "the last of "
"""How the note of a candidate begins whose answer holds several files."""
ORIGINAL = "original"
"""The candidate id of the unmodified model, which every library holds."""


class Role(StrEnum):
    """The role that is asked: three agents of PIKE, three of STARK (arXiv 2510.16996)."""

    BRAINSTORM = "iba"
    OPTIMISE = "coa"
    FIX = "efa"
    PLAN = "plan"
    """Marks what to change in the seed and says how; writes no candidate."""
    CODE = "code"
    """Carries a plan out."""
    DEBUG = "debug"
    """Repairs a failing candidate with the least change, from its plan and its verdict."""

    @property
    def repairs(self) -> bool:
        """Whether it is shown a failing candidate."""
        return self in (Role.FIX, Role.DEBUG)


class Scope(StrEnum):
    """How far a rewrite should go from its seed."""

    ANY = "any"
    """As the model likes; prompts say nothing about it."""
    TWEAK = "tweak"
    """One local change."""
    REWRITE = "rewrite"
    """Another approach."""


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of a strategy: ask one role for one thing.

    Attributes:
        id: counts from 0 in the order of asking; unique in a run.
        role: the role that is asked.
        round: the search round, from 0.
        sample: index of the sample inside its round (a fix keeps its sample's index).
        seed: id of the candidate to improve, `ORIGINAL` for the unmodified model.
        idea: a brainstormed idea to start from, or None.
        inspirations: ids of further candidates to show, valid or not.
        failed: ids of refused candidates to show: of this seed, or earlier ones of this repair's
            chain.
        failing: for a role that repairs, id of the candidate to repair.
        attempt: for a role that repairs, 1 for the first attempt; otherwise 0.
        plan: for `CODE` and `DEBUG`, the text of the plan to carry out, else empty.
        scope: how far to go from the seed.
        model: which of the role's models is asked, by its name; empty where the role has one.
        queries: the queries that the step costs (0 for the brainstorming agent).
        temperature: sampling temperature of the model asked.
        max_output_tokens: output limit of the model asked.
    """

    id: int
    role: Role
    round: int = 0
    sample: int = 0
    seed: str = ORIGINAL
    idea: str | None = None
    inspirations: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    failing: str | None = None
    attempt: int = 0
    plan: str = ""
    scope: Scope = Scope.ANY
    model: str = ""
    queries: int = 1
    temperature: float = 0.8
    max_output_tokens: int = 32_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rewrite of the model.

    Attributes:
        id: `c<step id>` for answers to steps, `r-<name>` for recipe seeds; unique in a run.
        source: the whole Python file, with a class `ModelNew`; empty when an answer held no code.
        parent: id of the candidate it was derived from, `ORIGINAL` for the unmodified model.
        author: the model or recipe that wrote it, for humans.
        note: one line on what it tries, for humans.
        recipes: the recipes it is composed of, in order; empty for a model's answer.
        plan: the plan it was written from, empty where there was none.
        expected_seconds: how long its verdict should take, 0 where its author cannot say.
    """

    id: str
    source: str
    parent: str = ORIGINAL
    author: str = ""
    note: str = ""
    recipes: tuple[str, ...] = ()
    plan: str = ""
    expected_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Solution:
    """A candidate with its verdict, valid or not."""

    candidate: Candidate
    evaluation: Evaluation

    def slowness(self, on_gpu: bool) -> float:
        """What the candidates of a run are ranked by, least first; infinite for one that is not valid.

        On a CPU the inverse of the speedup, because what slows the machine slows the original too.
        On a GPU the candidate's own time: the original is often bound by the host, and its time
        then tells how busy that is.
        """
        timing = self.evaluation.timing
        if timing is None:
            return math.inf
        return timing.candidate_ms if on_gpu else 1.0 / timing.speedup


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step; exactly one is told for every step that was asked.

    Attributes:
        step_id: the step it answers.
        candidate: what was written, None for brainstorming and planning steps and after a failure.
        evaluation: the verdict on `candidate`, present exactly when `candidate` is.
        ideas: what a brainstorming step brought, best first; may be empty.
        failure: why nothing came (the agent declined, the provider gave up), else empty.
        text: the plan of a planning step, or remarks of a brainstorming step, else empty.
        usd: what its query cost, None where it cost nothing or the price is unknown.
    """

    step_id: int
    candidate: Candidate | None = None
    evaluation: Evaluation | None = None
    ideas: tuple[str, ...] = ()
    failure: str = ""
    text: str = ""
    usd: float | None = None

    def __post_init__(self) -> None:
        if (self.candidate is None) != (self.evaluation is None):
            raise ValueError("an outcome has a candidate and its evaluation, or neither")


class Strategy(Protocol):
    """A pure ask/tell state machine: no I/O, no clock, no threads, randomness injected (ADR 0001).

    The same sequence of calls always gives the same answers, so a strategy is rebuilt from its
    journal by calling it again. It never asks for more queries than its budget, counting
    `Step.queries`.
    """

    def ask(self) -> Step | None:
        """The next step that can start now, or None if nothing can start until more is told."""

    def tell(self, outcome: Outcome) -> None:
        """Take the outcome of a step that was asked; every step is told once, in any order."""

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Take a valid solution from outside, such as a recipe seed, before the first ask."""

    @property
    def done(self) -> bool:
        """True when nothing is in flight and `ask` will never give another step."""
