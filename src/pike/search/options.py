"""The options of a search: every dial, with the published values and the better ones by name.

Knows the values, their ranges and which of them exclude each other. Does not know how they are acted on (`composite`
and its parts) nor which preset sets which of them (`published`, ...).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pike.core.errors import UserError
from pike.core.step import Role
from pike.search.choices import (
    BudgetCheck,
    Diversity,
    Duplicates,
    Fixer,
    FixOrder,
    InspirationKind,
    LibraryKind,
    Memory,
    Pacing,
    Repair,
    Roles,
    RoundEnd,
    ScopeKind,
    Seeding,
    SelectionKind,
    Writer,
)
from pike.search.evolution.options import EvolutionOptions


@dataclass(frozen=True, slots=True)
class Options:
    """Every dial of a search; the defaults are preset `pike-b`.

    They are the published values (arXiv 2511.16964), except `budget_check`, whose published value spends more
    than the user allowed. A dial that the others make meaningless is ignored, unless it would be misleading.

    Attributes:
        queries_per_round: samples of a round.
        top_k: seeds of a round, for `top-k`; the solutions to draw from, for `weighted`.
        fix_attempts: repairs of one sample, 0 for none.
        ideas: ask the brainstorming agent first; its ideas go to the first samples.
        memory: which solutions of a pool may become seeds.
        diversity: whether branches compete for seed slots.
        per_branch: seeds with the same parent, for `distinct`.
        budget_check: when the query budget is looked at.
        fix_order: whose repair comes first.
        round_end: what the next round waits for.
        quorum: the part of a round's samples to wait for, for `quorum`.
        seeding: where the first samples start when there are admitted solutions.
        duplicates: what becomes of a repeated solution.
        temperature: sampling temperature of the roles that have none of their own below.
        max_output_tokens: output limit of every role, thinking included.
        pacing: when samples begin.
        in_flight: samples that are open at once, for `steady`.
        first_attempts: samples that start as `seeding` says before `top-k` and `weighted` select, for `steady`; with
            `rounds` these are the samples of round 0.
        library: what remembers solutions.
        archive_size: solutions that a pool keeps, the fastest, 0 for all.
        selection: which solution a new sample starts from.
        exploration: how often a library draws from all it holds (a database: of an island), for `ratio`.
        exploitation: how often it draws from its `top_k` fastest (a database: from its archive); what is left of 1 may
            also give the original.
        epsilon: how often `epsilon-greedy` takes any leaf.
        root_children: candidates that `epsilon-greedy` makes from the original model at most.
        failing_children: children after which `epsilon-greedy` gives a node up if all of them, and one more, failed.
        inspiration: which further candidates are shown.
        shown: how many, for `top`; the length of the leaderboard, for `windows`.
        relatives: how many of each kind of relatives are shown, the newest, for `windows`.
        repair: when a refused candidate is repaired.
        fixer: which role repairs.
        repair_share: the part of the moves that repairs take while there is something to repair, for `deferred` (not
            for `epsilon-greedy` and `last`, which choose between both by themselves).
        roles: who writes a new candidate.
        plan_temperature: sampling temperature of the planning role.
        code_temperature: sampling temperature of the coding role.
        debug_temperature: sampling temperature of the debugging role.
        scope: how far a rewrite is asked to go.
        plateau: samples without a new best after which `adaptive` asks for another approach.
        writer: who answers the steps.
        evolution: the population of the evolutionary library.
        recipe_seeds: put valid recipes into the library before the first query, as `--seed-recipes` does.

    Raises:
        UserError: a value is out of its range, or two exclude each other.
    """

    queries_per_round: int = 10
    top_k: int = 4
    fix_attempts: int = 5
    ideas: bool = True
    memory: Memory = Memory.ROUND
    diversity: Diversity = Diversity.GLOBAL_SORT
    per_branch: int = 1
    budget_check: BudgetCheck = BudgetCheck.QUERY
    fix_order: FixOrder = FixOrder.SAMPLE
    round_end: RoundEnd = RoundEnd.ALL
    quorum: float = 0.8
    seeding: Seeding = Seeding.BOTH
    duplicates: Duplicates = Duplicates.KEEP
    temperature: float = 0.8
    max_output_tokens: int = 32_000
    pacing: Pacing = Pacing.ROUNDS
    in_flight: int = 20
    first_attempts: int = 0
    library: LibraryKind = LibraryKind.POOL
    archive_size: int = 0
    selection: SelectionKind = SelectionKind.TOP_K
    exploration: float = 0.2
    exploitation: float = 0.7
    epsilon: float = 0.35
    root_children: int = 5
    failing_children: int = 3
    inspiration: InspirationKind = InspirationKind.NONE
    shown: int = 5
    relatives: int = 8
    repair: Repair = Repair.IMMEDIATE
    fixer: Fixer = Fixer.EFA
    repair_share: float = 0.5
    roles: Roles = Roles.OPTIMISE
    plan_temperature: float = 0.8
    code_temperature: float = 0.1
    debug_temperature: float = 0.1
    scope: ScopeKind = ScopeKind.ANY
    plateau: int = 20
    writer: Writer = Writer.MODELS
    recipe_seeds: bool = False
    evolution: EvolutionOptions = field(default_factory=EvolutionOptions)

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise UserError(f"Setting 'strategy.{name}' must be at least {least}, not {getattr(self, name)}")
        for name, most in _AT_MOST.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 <= value <= most):
                raise UserError(f"Setting 'strategy.{name}' must be between 0 and {most:g}, not {value}")
        if not 0.0 < self.quorum <= 1.0:
            raise UserError(f"Setting 'strategy.quorum' must be above 0 and at most 1, not {self.quorum}")
        if self.exploration + self.exploitation > 1.0 + 1e-9:
            raise UserError(
                f"Settings 'strategy.exploration' ({self.exploration}) and 'strategy.exploitation' "
                f"({self.exploitation}) must not exceed 1 together"
            )
        self._refuse_rounds_without_rounds()

    def _refuse_rounds_without_rounds(self) -> None:
        if self.pacing is not Pacing.STEADY:
            return
        for setting, value, instead, matters in (
            ("memory", Memory.ROUND, Memory.RUN, self.library is LibraryKind.POOL),
            ("round_end", RoundEnd.QUORUM, RoundEnd.ALL, True),
            ("budget_check", BudgetCheck.ROUND, BudgetCheck.QUERY, True),
        ):
            if matters and getattr(self, setting) is value:
                raise UserError(
                    f"Setting 'strategy.{setting}' cannot be '{value}' with strategy.pacing 'steady', which has no "
                    f"rounds: set it to '{instead}'"
                )

    @property
    def repairs(self) -> int:
        """Repairs of one sample at most, whenever they happen."""
        return 0 if self.repair is Repair.NONE else self.fix_attempts

    @property
    def at_once(self) -> int:
        """Repairs of one sample within it."""
        return self.repairs if self.repair is Repair.IMMEDIATE else 0

    @property
    def later(self) -> int:
        """Repairs of one sample by moves of their own."""
        return self.repairs if self.repair is Repair.DEFERRED else 0

    @property
    def move_queries(self) -> int:
        """What a new candidate costs of the query budget; such a move is not begun with less."""
        return 2 if self.roles is Roles.PLAN_CODE else 1

    @property
    def free(self) -> bool:
        """Whether steps cost no query: nobody is asked who would be paid."""
        return self.writer is Writer.RECIPES

    @property
    def fixing_role(self) -> Role:
        """Who repairs."""
        return Role.DEBUG if self.fixer is Fixer.DEBUG else Role.FIX

    def temperature_of(self, role: Role) -> float:
        """The sampling temperature of `role`."""
        own = {Role.PLAN: self.plan_temperature, Role.CODE: self.code_temperature, Role.DEBUG: self.debug_temperature}
        return own.get(role, self.temperature)

    def samples_to_wait_for(self, size: int) -> int:
        """How many of `size` samples must be closed before the next round begins."""
        if self.round_end is RoundEnd.ALL:
            return size
        return max(1, math.ceil(self.quorum * size - 1e-9))

    def most_queries(self, budget_queries: int) -> int:
        """The most queries that a run with this budget can ask for."""
        if self.free:
            return 0
        if self.budget_check is BudgetCheck.QUERY or budget_queries <= 0:
            return max(0, budget_queries)
        return budget_queries - 1 + self.queries_per_round * self.move_queries


_AT_LEAST = {
    "queries_per_round": 1,
    "top_k": 1,
    "fix_attempts": 0,
    "per_branch": 1,
    "max_output_tokens": 1,
    "in_flight": 1,
    "first_attempts": 0,
    "archive_size": 0,
    "root_children": 1,
    "failing_children": 0,
    "shown": 0,
    "relatives": 0,
    "plateau": 1,
}
_AT_MOST = {
    "temperature": 2.0,
    "plan_temperature": 2.0,
    "code_temperature": 2.0,
    "debug_temperature": 2.0,
    "exploration": 1.0,
    "exploitation": 1.0,
    "epsilon": 1.0,
    "repair_share": 1.0,
}
