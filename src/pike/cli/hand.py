"""Commands for a run that is answered by hand: `pike ask`, `pike tell` and `pike finish`.

Knows how a prompt and what became of an answer look on a terminal. Does not know how a move is made (`api.byhand`).
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from pike.api import byhand
from pike.api.byhand import Question, Reply, Standing
from pike.cli import judging, running, show
from pike.cli import options as opt
from pike.cli.progress import Watcher
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.errors import UserError
from pike.core.query import Answer

AnswerFile = Annotated[
    str,
    typer.Argument(
        metavar="ANSWER",
        help="A candidate file (.py), any other file with the answer's text, or - for stdin.",
        show_default=False,
    ),
]
StepId = Annotated[
    int | None, typer.Option("--step", metavar="N", help="Which of several prompts.", show_default="oldest")
]
Parent = Annotated[
    str | None,
    typer.Option(metavar="ID", help="The candidate that the answer continues.", show_default="the prompt's own seed"),
]
Author = Annotated[str | None, typer.Option(metavar="NAME", help="Who wrote it.", show_default="by-hand")]
Usd = Annotated[float | None, typer.Option(min=0.0, metavar="USD", help="What it cost.", show_default="unknown")]
Tokens = Annotated[int, typer.Option(min=0, metavar="N", show_default="estimated")]
Into = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write the prompt here.", show_default="stdout", dir_okay=False),
]


def ask(run: opt.Run, step: StepId = None, out: Into = None, as_json: opt.Json = False) -> None:
    """Print the next prompt of a run that is answered by hand (start one with pike optimize TASK --strategy agent)."""
    terminal = Terminal(as_json)
    question = byhand.ask(run, step=step)
    text = f"{question.system}\n\n{question.prompt}\n"
    if out is not None:
        _write(out, text)
    elif not as_json:
        sys.stdout.write(text)
    terminal.note(Text(f"Step {question.step.id} for {question.step.role.value}. {_left(question.standing)}"))
    terminal.note(
        Text(f"Answer with:  pike tell {shlex.quote(str(run))} ANSWER --step {question.step.id}", style="bold")
    )
    terminal.result(_asked(question))


def tell(
    run: opt.Run,
    answer: AnswerFile,
    step: StepId = None,
    parent: Parent = None,
    author: Author = None,
    usd: Usd = None,
    input_tokens: Tokens = 0,
    output_tokens: Tokens = 0,
    profile: judging.Profile = False,
    as_json: opt.Json = False,
) -> None:
    """Answer a prompt: a candidate is judged at once and counts as one query."""
    terminal = Terminal(as_json)
    given = dataclasses.replace(
        _read(answer),
        parent=parent or "",
        model=author or "",
        usd=usd,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    with Watcher(terminal.notes) as watcher:
        reply = byhand.tell(run, given, step=step, profile=profile, observer=watcher)
    _show(terminal, reply)
    terminal.result(told(reply))
    raise typer.Exit(_exit_code(reply))


def finish(run: opt.Run, as_json: opt.Json = False) -> None:
    """End a run by hand before its budget is spent: its best candidates are measured again."""
    terminal = Terminal(as_json)
    with Watcher(terminal.notes) as watcher:
        done = byhand.finish(run, observer=watcher)
    running.finish(terminal, done)


def _read(answer: str) -> Answer:
    if answer == "-":
        return byhand.answer_from(sys.stdin.buffer.read(byhand.ANSWER_BYTES + 1), "The answer on stdin", is_file=False)
    path = Path(answer)
    try:
        with path.open("rb") as file:
            data = file.read(byhand.ANSWER_BYTES + 1)
    except OSError as error:
        raise UserError(f"The answer {path} cannot be read: {error.strerror}; give a file, or - for stdin") from error
    return byhand.answer_from(data, f"The answer {path}", is_file=path.suffix == ".py")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"The prompt cannot be written to {path}: {error.strerror}; choose another file") from error


def _show(terminal: Terminal, reply: Reply) -> None:
    verdict = reply.solution.evaluation if reply.solution else None
    if reply.solution is not None and verdict is not None:
        again = ", as judged before: nothing was judged and no query was used" if reply.known else ""
        terminal.show(Text(f"{reply.solution.candidate.id}{again}", style="bold"))
        judging.show_verdict(terminal, verdict)
    elif reply.ideas:
        terminal.show(Text(f"{figures.plural(len(reply.ideas), 'idea')} taken."))
    else:
        terminal.show(Text("The plan was taken." if reply.text else f"It brought nothing: {reply.failure}."))
    if reply.standing.result.finished:
        terminal.show(*show.closing_lines(reply.standing.result, Path(reply.standing.result.folder) / "report.html"))
    else:
        terminal.show(Text(_left(reply.standing)))


def _left(standing: Standing) -> str:
    best = standing.best
    fastest = f"best {figures.times(best.evaluation.speedup)} by {best.candidate.id}" if best else "none valid yet"
    return f"{standing.left} of {figures.plural(standing.budget.queries, 'query')} left, {fastest}."


def _exit_code(reply: Reply) -> int:
    """As `pike evaluate` for a candidate, else 0 if the answer brought something; 130 where Ctrl-C came first."""
    if reply.solution is None and reply.standing.result.stopped == "interrupted":
        return 130
    if reply.solution is not None:
        return judging.exit_code(reply.solution.evaluation)
    return 0 if reply.ideas or reply.text else 1


def _asked(question: Question) -> dict[str, Any]:
    return {
        "step": question.step.id,
        "role": question.step.role,
        "seed": question.step.seed,
        "failing": question.step.failing,
        "system": question.system,
        "prompt": question.prompt,
        **stands(question.standing),
    }


def told(reply: Reply) -> dict[str, Any]:
    """What became of an answer, for programs."""
    solution = reply.solution
    return {
        "step": reply.step.id if reply.step else None,
        "candidate": solution.candidate.id if solution else None,
        "parent": solution.candidate.parent if solution else None,
        "known": reply.known,
        "evaluation": solution.evaluation.flat() if solution else None,
        "ideas": list(reply.ideas),
        "failure": reply.failure,
        **stands(reply.standing),
    }


def stands(standing: Standing) -> dict[str, Any]:
    """Where a run stands, for programs."""
    best = standing.best
    return {
        "finished": standing.result.finished,
        "stopped": standing.result.stopped,
        "queries_left": standing.left,
        "waiting": [step.id for step in standing.waiting],
        "best": best.candidate.id if best else None,
        "best_speedup": best.evaluation.speedup if best else None,
    }
