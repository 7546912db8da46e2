"""A simulated problem that answers a strategy's steps with programs, verdicts and costs.

Knows steps and outcomes. Does not know which strategy asks. Answers depend neither on the other
steps in flight nor on the order of outcomes: each has a generator named by its place.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pike.core.rng import stream
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Scope, Step
from pike.core.verdict.evaluation import Evaluation, Status, Timing
from pike.simulate.parameters import Model, Parameters
from pike.simulate.programs import SimulatedProgram, StepRequest, repair, write
from pike.simulate.tasks import SimulatedTask

REFERENCE_MS = 10.0
"""Time of one call of the original model."""
_ROLES = {role: index for index, role in enumerate(Role)}
_TEXT = "".join(chr(33 + 7 * index % 89) for index in range(700))
"""Sources are cut from it, so that they differ in length and characters."""
_BUILD_ERROR = Evaluation(Status.BUILD_ERROR, "simulated: it does not compile")
_WRONG = Evaluation(Status.WRONG_OUTPUT, "simulated: its outputs are wrong")


@dataclass(frozen=True, slots=True)
class Team:
    """The models that answer.

    Attributes:
        model: the model of every role that has none of its own.
        roles: the model of a role that has one of its own.
        named: models by the name that `Step.model` gives.
    """

    model: Model
    roles: Mapping[Role, Model] = field(default_factory=dict)
    named: Mapping[str, Model] = field(default_factory=dict)

    def of(self, step: Step) -> Model:
        """The model that answers a step."""
        if step.model:
            return self.named[step.model]
        return self.roles.get(step.role, self.model)


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a step.

    Attributes:
        program: the program that was written, None for ideas and plans.
        seconds: time that the model and the judge take.
    """

    outcome: Outcome
    program: SimulatedProgram | None
    seconds: float


class World:
    """One simulated run's problem.

    Attributes:
        programs: every program by its candidate's id, valid or not.
    """

    def __init__(self, parameters: Parameters, task: SimulatedTask, team: Team, seed: int) -> None:
        self.programs: dict[str, SimulatedProgram] = {ORIGINAL: SimulatedProgram(0.0, 0.0)}
        self._parameters = parameters
        self._task = task
        self._team = team
        self._ideas = {f"idea {index + 1}": top for index, top in enumerate(task.ideas)}
        self._seed = stream(seed, f"simulated run on {task.name}").getrandbits(60)
        self._rng = random.Random()
        self._asked: Counter[tuple[int, ...]] = Counter()

    def recipes(self) -> tuple[tuple[Candidate, Evaluation], ...]:
        """The recipes that work here, as seeds from outside."""
        found = []
        for index, (gain, top) in enumerate(self._task.recipes):
            self._rng.seed(hash((self._seed, index)))
            name = f"r-simulated-{index}"
            self.programs[name] = program = SimulatedProgram(gain, top)
            candidate = Candidate(name, _source(name, program), author="recipe", recipes=(f"simulated-{index}",))
            found.append((candidate, self._search_verdict(program)))
        return tuple(found)

    @property
    def finalists(self) -> int:
        """The number of candidates that are measured again at the end."""
        return self._parameters.judge.finalists

    def answer(self, step: Step) -> Answered:
        """The answer to a step; the steps that it refers to must have been answered before."""
        self._begin(step)
        model = self._team.of(step)
        tokens, speed = self._tokens_out(step.role), model.tokens_a_second
        usd = (tokens * model.usd_out + self._tokens_in(step) * model.usd_in) / 1e6
        if step.role is Role.BRAINSTORM:
            return Answered(Outcome(step.id, ideas=tuple(self._ideas), usd=usd), None, tokens / speed)
        if step.role is Role.PLAN:
            return Answered(Outcome(step.id, text=f"plan {step.id}", usd=usd), None, tokens / speed)
        program = self._program(step, model)
        name = f"c{step.id}"
        self.programs[name] = program
        verdict = self._search_verdict(program) if program.valid else _WRONG if program.compiles else _BUILD_ERROR
        seconds = tokens / speed + self._parameters.judge.seconds * self._rng.expovariate(1.0)
        candidate = Candidate(name, _source(name, program), step.seed, model.name, plan=step.plan)
        return Answered(Outcome(step.id, candidate, verdict, usd=usd), program, seconds)

    def final(self, name: str) -> float:
        """The gain of a valid candidate as a thorough measurement finds it, always the same."""
        self._rng.seed(hash((self._seed, len(name), *name.encode())))
        return self.programs[name].gain + self._parameters.judge.final_noise * self._rng.gauss(0.0, 1.0)

    def _begin(self, step: Step) -> None:
        """Set the generator for a step; a place that is asked again gets a new one."""
        place = (_ROLES[step.role], step.round, step.sample, step.attempt)
        self._asked[place] += 1
        self._rng.seed(hash((self._seed, *place, self._asked[place])))

    def _program(self, step: Step, model: Model) -> SimulatedProgram:
        if step.failing is not None:
            failing = self.programs[step.failing]
            return repair(self._rng, self._parameters, failing, step.attempt, model=model, planned=bool(step.plan))
        wish = StepRequest(
            plateau=self._ideas.get(step.idea) if step.idea else None,
            shown=self._best_shown(step),
            rewrite_share=self._rewrite_share(step.scope),
            planned=bool(step.plan),
            model=model,
        )
        return write(self._rng, self._parameters, self._task, self.programs[step.seed], wish)

    def _best_shown(self, step: Step) -> SimulatedProgram | None:
        if not step.inspirations:
            return None
        shown = [self.programs[name] for name in step.inspirations if name not in (ORIGINAL, step.seed)]
        return max((program for program in shown if program.valid), key=lambda each: each.gain, default=None)

    def _rewrite_share(self, scope: Scope) -> float:
        writing = self._parameters.writing
        if scope is Scope.TWEAK:
            return writing.rewrite_share * (1.0 - writing.obedience)
        if scope is Scope.REWRITE:
            return 1.0 - (1.0 - writing.rewrite_share) * (1.0 - writing.obedience)
        return writing.rewrite_share

    def _search_verdict(self, program: SimulatedProgram) -> Evaluation:
        noise = self._parameters.judge.search_noise
        return _valid(program.gain + noise * self._rng.gauss(0.0, 1.0), noise)

    def _tokens_in(self, step: Step) -> float:
        tokens = self._parameters.tokens
        shown = len(step.inspirations) + (step.seed != ORIGINAL or step.failing is not None)
        return tokens.prompt + tokens.program * shown + tokens.log * (step.failing is not None)

    def _tokens_out(self, role: Role) -> float:
        tokens = self._parameters.tokens
        if role in (Role.BRAINSTORM, Role.PLAN):
            mean = tokens.planned
        else:
            mean = tokens.repaired if role.repairs else tokens.written
        return mean * math.exp(tokens.spread * self._rng.gauss(0.0, 1.0) - 0.5 * tokens.spread**2)


def _valid(gain: float, noise: float) -> Evaluation:
    speedup = math.exp(gain)
    interval = (speedup * (1.0 - 2.0 * noise), speedup * (1.0 + 2.0 * noise))
    timing = Timing(REFERENCE_MS, REFERENCE_MS / speedup, speedup, interval, 10, 100, 0.0)
    return Evaluation(Status.VALID, timing=timing)


def _source(name: str, program: SimulatedProgram) -> str:
    """A text that differs for every candidate and is alike for programs of one approach."""
    begin = int(program.plateau * 1000.0) % 300
    return f"# {name}\n{_TEXT[begin : begin + 60 + int(40.0 * abs(program.gain))]}"
