"""The numbers of the simulator: tasks, writing, repairs, costs and the noise of measurements.

Knows their names and meaning, and where the fitted values are kept. Does not know how they act
(`programs`, `world`). Gains are natural logarithms of a speedup. A name that ends in `_odds` holds
log-odds. Fields marked *assumed* follow from no published figure, so the fit leaves them alone.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from pike.core.codec import decode

FITTED = "fitted.json"
"""The data file of fitted values, written by `benchmarks/fit_simulator.py`."""


@dataclass(frozen=True, slots=True)
class Terrain:
    """The differences between tasks, and what can be reached on them.

    Attributes:
        ceiling: the most that can be gained on the median task.
        ceiling_spread: standard deviation of the logarithm of the ceiling over tasks.
        hardness_spread: standard deviation over tasks of the log-odds of being right.
        approach_shape: an approach's plateau is ceiling x u**shape, u uniform; the larger, the
            rarer are good ones.
        habit: chance that a rewrite without an idea takes the task's obvious approach once more.
    """

    ceiling: float = 1.8
    ceiling_spread: float = 0.6
    hardness_spread: float = 0.7
    approach_shape: float = 0.7
    habit: float = 0.3


@dataclass(frozen=True, slots=True)
class Writing:
    """The effect of asking a model for a faster program.

    Attributes:
        rewrite_share: chance that a step on a working seed takes another approach.
        first: mean part of the way to its plateau that the first program of an approach reaches.
        keep: the part of the seed's gain that another approach starts with.
        improve: chance that a tweak helps.
        hurt: chance that a tweak hurts; otherwise it changes nothing.
        stride: the part of the way to the plateau that a helpful tweak of mean size goes.
        slip: mean loss of a tweak that hurts.
        caution: under a crossover prompt, the factor on step sizes and on `rewrite_share`.
        cross: under a crossover prompt, chance that a step takes over the best approach shown.
        obedience: how much of the other kind of step a wanted scope removes (assumed).
        planned: factor on `stride` for a step with a plan (assumed).
        surety: share of boldness that a plan takes away (assumed).
    """

    rewrite_share: float = 0.25
    first: float = 0.3
    keep: float = 0.5
    improve: float = 0.35
    hurt: float = 0.4
    stride: float = 0.3
    slip: float = 0.15
    caution: float = 0.5
    cross: float = 0.2
    obedience: float = 0.8
    planned: float = 1.3
    surety: float = 0.3


@dataclass(frozen=True, slots=True)
class Validity:
    """Whether a program compiles, is right, and can be repaired; a rewrite has boldness 1.

    Attributes:
        compile_odds: of compiling, at boldness 0.
        right_odds: of being right once it compiles, at boldness 0.
        boldness: what boldness 1 takes off both.
        fix_odds: of one repair of one defect, at boldness 0 and the first attempt.
        fix_boldness: what boldness 1 takes off it.
        stubborn: standard deviation over failing programs of their persistent difficulty.
        decline: what each further attempt takes off.
        fix_loss: mean part of its gain that a repaired program loses.
        informed: what a plan adds to the odds of a repair (assumed).
    """

    compile_odds: float = 2.0
    right_odds: float = 2.0
    boldness: float = 2.0
    fix_odds: float = 1.0
    fix_boldness: float = 1.5
    stubborn: float = 1.2
    decline: float = 0.2
    fix_loss: float = 0.1
    informed: float = 0.3


@dataclass(frozen=True, slots=True)
class Tokens:
    """The lengths of prompts and answers, in tokens; thinking is output.

    Attributes:
        prompt: instructions and the original model.
        program: one program shown in a prompt.
        log: the diagnostics shown to a role that repairs.
        written: mean answer with a program.
        repaired: mean answer of a role that repairs.
        planned: mean answer of a role that plans or brainstorms (assumed).
        spread: standard deviation of the logarithm of an answer's length (assumed).
    """

    prompt: float = 3000.0
    program: float = 2500.0
    log: float = 2500.0
    written: float = 14_000.0
    repaired: float = 10_000.0
    planned: float = 6000.0
    spread: float = 0.4


@dataclass(frozen=True, slots=True)
class Model:
    """A language model as the simulator sees it.

    Attributes:
        name: what `Step.model` calls it.
        usd_in: US dollars for a million input tokens.
        usd_out: US dollars for a million output tokens.
        valid_odds: what it adds to the odds of compiling and of being right.
        fix_odds: what it adds to the odds of a repair.
        insight: factor on the gain of its rewrites and tweaks.
        tokens_a_second: output tokens in a second.
    """

    name: str
    usd_in: float
    usd_out: float
    valid_odds: float = 0.0
    fix_odds: float = 0.0
    insight: float = 1.0
    tokens_a_second: float = 80.0


STRONG = Model("strong", 1.25, 10.0)
"""Gemini 2.5 Pro at its price of the paper."""
CHEAP = Model("cheap", 0.30, 2.50, -0.5, -0.5, 0.8, 200.0)
"""Gemini 2.5 Flash at its price of the paper; its repairs are published, the rest is assumed."""


@dataclass(frozen=True, slots=True)
class MeasurementNoise:
    """The noise of measurements: standard deviations of the logarithm of a time (assumed).

    Attributes:
        search_noise: while searching.
        final_noise: when finalists are measured again.
        finalists: the number of those.
        seconds: mean time of one evaluation.
    """

    search_noise: float = 0.03
    final_noise: float = 0.005
    finalists: int = 3
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Recipes:
    """Rewrites by recipes, free of queries.

    Attributes:
        count: how many are tried on a task.
        valid: chance that one works there.
        shape: one reaches u**shape of the ceiling.
        room: mean part of the way from there to the ceiling that can be gone from it by tweaks
            (assumed).
    """

    count: int = 4
    valid: float = 0.8
    shape: float = 0.6
    room: float = 0.3


@dataclass(frozen=True, slots=True)
class Parameters:
    """All numbers that decide a simulated run, beside its seed and its strategy."""

    terrain: Terrain = field(default_factory=Terrain)
    writing: Writing = field(default_factory=Writing)
    validity: Validity = field(default_factory=Validity)
    tokens: Tokens = field(default_factory=Tokens)
    strong: Model = STRONG
    cheap: Model = CHEAP
    judge: MeasurementNoise = field(default_factory=MeasurementNoise)
    recipes: Recipes = field(default_factory=Recipes)


@cache
def fitted(level: str = "level3") -> Parameters:
    """The values that were fitted to the published figures.

    Args:
        level: `level3` or `level5`, the suites of the paper (single models; long multi-block
            programs).

    Raises:
        KeyError: there is no such level.
    """
    stored = json.loads(resources.files(__package__).joinpath(FITTED).read_text("utf-8"))
    return decode(Parameters, stored[level])
