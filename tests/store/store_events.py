"""One event of every kind, with short, long and awkward texts; the journal files among the assets hold exactly these."""

from __future__ import annotations

from pike.core.device import DeviceFacts
from pike.core.events import (
    Admitted,
    Asked,
    Event,
    Finished,
    Judged,
    Proposed,
    QueryAnswered,
    QueryFailed,
    QuerySent,
    Resumed,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.query import Answer, Finish, Query
from pike.core.settings.config import EngineConfig, RunConfig, StrategyConfig
from pike.core.step import Candidate, Role, Step
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, OutputError, Status, Timing, Weights

LONG = "class ModelNew(torch.nn.Module):\n    pass  # ünïcödé 🚀\r\n" * 40
AWKWARD = "\x00 nul, lone \ud800 surrogate, \u2028 separator" + "x" * 600
VALID = Evaluation(
    Status.VALID,
    timing=Timing(2.0, 1.0, 2.0, (1.9, 2.1), 12, 480, 0.03),
    error=OutputError(1e-6, 1e-7, 1e-5, 1e-6),
    weights=Weights.STATE_DICT,
    seconds=(("build", 1.5), ("time", 3.0)),
)
REFUSED = Evaluation(
    Status.WRONG_OUTPUT, reason="output 0 is off", error=OutputError(float("nan"), float("inf"), 1e-5, 1e-6)
)

EVERY_KIND: tuple[Event, ...] = (
    RunStarted(
        Task("demo/net", "Net", TaskKind.SOURCE, LONG, "net.py"),
        RunConfig(
            task="net.py",
            strategy=StrategyConfig("pike-b", {"top_k": 2, "ideas": False}),
            evaluate=EvaluateOptions(max_timing_seconds=20.0),
            engine=EngineConfig(concurrency=10),
        ),
        DeviceFacts("cpu", "a CPU", compilers=("g++",), versions=(("torch", "2.13"),)),
        "0.1.0",
    ),
    Admitted(Candidate("r-compile", LONG, recipes=("compile",)), VALID),
    Asked(Step(0, Role.BRAINSTORM, queries=0)),
    QuerySent(Query(0, Role.BRAINSTORM, "system", LONG + "prompt", 0.8, 32_000), 1, "openai:x", 0.25, 40_000),
    QueryFailed(0, 1, "429 too many requests", True),
    QueryAnswered(0, 2, Answer(AWKWARD, Finish.LENGTH, "x-1", 10, 20, 5, 0.01, 1.25)),
    Told(0, ideas=("fuse", "f" * 513, "use channels-last")),
    Asked(Step(1, Role.OPTIMISE, idea="fuse")),
    Proposed(1, Candidate("c1", LONG, author="x-1")),
    Judged("c1", REFUSED),
    Judged("c1", VALID, Effort.FINAL),
    Told(1, "c1"),
    Resumed("0.1.1"),
    Told(2, failure="declined"),
    Stopped("queries"),
    Finished("c1"),
    Finished(None),
)
