"""The whole option space of a search.

Knows its parts, their defaults and which of them exclude each other. Does not know how they act.
"""

from dataclasses import dataclass, field

from pike.core.errors import UserError
from pike.core.step import Role
from pike.search.options.library import Islands, Memory, Pool, Tree
from pike.search.options.pacing import BudgetCheck, Rounds, Steady
from pike.search.options.prompting import (
    Adaptive,
    AnyScope,
    Drawn,
    Fastest,
    NoInspiration,
    Optimise,
    PlanCode,
    Windows,
    Wording,
)
from pike.search.options.ranges import Choice, at_least, between_0_and
from pike.search.options.repair import Chosen, Debug, Deferred, Immediate, NoRepair
from pike.search.options.selection import ByRatio, EpsilonGreedy, Latest, OriginalOnly, TopK, Weighted


class Writer(Choice):
    """Which agents answer the steps."""

    MODELS = "models"
    """The models that the user chose; recipes where that is `none`."""
    RECIPES = "recipes"
    """Recipes, regardless of the models that the user chose."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Every decision of a search; the defaults are preset `pike-b` (arXiv 2511.16964).

    Attributes:
        pacing: when samples begin.
        library: what remembers solutions.
        selection: which solution a new sample starts from.
        inspiration: which further candidates a step shows beside its seed.
        repair: when a refused candidate is repaired, and by which role.
        roles: the agents that write a new candidate.
        scope: how far a rewrite is asked to go from its seed.
        wording: what prompts ask for and show beside the task and its terms.
        failures: the most refused candidates that a prompt shows: the newest from the same seed,
            for a repair the earlier ones of its chain.
        profile: have the original and valid candidates profiled, and show where time goes.
        ideas: ask the brainstorming agent first; its ideas go to the first samples.
        temperature: sampling temperature of the roles that have none of their own.
        max_output_tokens: output limit of every role, thinking included.
        writer: which agents answer the steps.
        recipe_seeds: put valid recipes into the library before the first query.

    Raises:
        UserError: a value is out of its range, or two parts exclude each other.
    """

    pacing: Rounds | Steady = field(default_factory=Rounds)
    library: Pool | Tree | Islands = field(default_factory=Pool)
    selection: TopK | Weighted | ByRatio | EpsilonGreedy | OriginalOnly | Latest = field(default_factory=TopK)
    inspiration: NoInspiration | Fastest | Drawn | Windows = field(default_factory=NoInspiration)
    repair: NoRepair | Immediate | Deferred | Chosen = field(default_factory=Immediate)
    roles: Optimise | PlanCode = field(default_factory=Optimise)
    scope: AnyScope | Adaptive = field(default_factory=AnyScope)
    wording: Wording = Wording.PUBLISHED
    failures: int = 0
    profile: bool = False
    ideas: bool = True
    temperature: float = 0.8
    max_output_tokens: int = 32_000
    writer: Writer = Writer.MODELS
    recipe_seeds: bool = False

    def __post_init__(self) -> None:
        between_0_and("strategy", self, temperature=2.0)
        at_least("strategy", self, max_output_tokens=1, failures=0)
        self._check_pacing()
        self._check_draws()
        self._check_repairs()

    def _check_pacing(self) -> None:
        pacing, library, selection = self.pacing, self.library, self.selection
        if isinstance(pacing, Rounds):
            return
        if isinstance(library, Pool) and library.memory is Memory.ROUND:
            raise _excluded("library.memory", "round", "pacing 'steady', which has no rounds", "'run'")
        if pacing.first_attempts and not isinstance(selection, TopK | Weighted):
            raise _excluded("pacing.first_attempts", pacing.first_attempts, f"selection '{selection.kind}'", "0")

    def _check_draws(self) -> None:
        library, selection, shown = self.library, self.selection, self.inspiration
        islands = isinstance(library, Islands)
        if isinstance(selection, ByRatio) and islands == bool(selection.elites):
            why = f"library '{library.kind}', which has {'an archive' if islands else 'no archive'}"
            raise _excluded("selection.elites", selection.elites, why, "0" if islands else "4")
        if isinstance(shown, Drawn) and shown.others and not islands:
            raise _excluded("inspiration.others", shown.others, f"library '{library.kind}'", "0")

    def _check_repairs(self) -> None:
        repair, selection = self.repair, self.selection
        chooses = isinstance(selection, EpsilonGreedy | Latest)
        if isinstance(repair, Deferred) and chooses:
            raise _excluded("repair", repair.kind, f"selection '{selection.kind}', which chooses repairs", "'chosen'")
        if isinstance(repair, Chosen) and not chooses:
            why = f"selection '{selection.kind}', which chooses no repairs"
            raise _excluded("repair", repair.kind, why, "'deferred'")

    @property
    def in_rounds(self) -> bool:
        """Whether samples begin in rounds."""
        return isinstance(self.pacing, Rounds)

    @property
    def overdraws(self) -> bool:
        """Whether a round may begin that the query budget does not cover."""
        return isinstance(self.pacing, Rounds) and self.pacing.budget_check is BudgetCheck.ROUND

    @property
    def forgets(self) -> bool:
        """Whether each round forgets the solutions before it."""
        return isinstance(self.library, Pool) and self.library.memory is Memory.ROUND

    @property
    def repairs_at_once(self) -> int:
        """The most repairs of one sample within it."""
        return self.repair.attempts if isinstance(self.repair, Immediate) else 0

    @property
    def repairs_later(self) -> int:
        """The most repairs, by moves of their own, that go back to one first candidate."""
        return self.repair.attempts if isinstance(self.repair, Deferred | Chosen) else 0

    @property
    def free(self) -> bool:
        """Whether steps cost no query, because recipes answer them."""
        return self.writer is Writer.RECIPES

    @property
    def fixing_role(self) -> Role:
        """The role that repairs."""
        return Role.FIX if isinstance(self.repair, NoRepair) else self.repair.fixer.role

    def temperature_of(self, role: Role) -> float:
        """The sampling temperature of `role`."""
        if isinstance(self.roles, PlanCode) and role in (Role.PLAN, Role.CODE):
            return self.roles.plan_temperature if role is Role.PLAN else self.roles.code_temperature
        if role is Role.DEBUG and not isinstance(self.repair, NoRepair) and isinstance(self.repair.fixer, Debug):
            return self.repair.fixer.temperature
        return self.temperature

    def most_queries(self, budget_queries: int) -> int:
        """The most queries that a run with this budget can ask for."""
        if self.free:
            return 0
        if not (isinstance(self.pacing, Rounds) and self.overdraws) or budget_queries <= 0:
            return max(0, budget_queries)
        return budget_queries - 1 + self.pacing.samples * self.roles.queries


def _excluded(setting: str, value: object, why: str, instead: str) -> UserError:
    return UserError(f"Setting 'strategy.{setting}' cannot be '{value}' with strategy.{why}: set it to {instead}")
