"""`pike ask`, `pike tell` and `pike finish`: a run that is answered from outside.

Knows where prompts go, answers come from and how moves are printed. Does not make them (`api`).
"""

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pike.api import campaigns, external
from pike.api.external import ANSWER_BYTES, ExternalStatus, MoveReply, Question
from pike.cli import options as opt
from pike.cli.display import run as display
from pike.cli.display.progress import Watcher
from pike.cli.display.run import ELSEWHERE
from pike.cli.display.verdict import exit_code, show_verdict
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.errors import UserError, saying
from pike.core.query import Answer
from pike.core.text.printable import printable

StepId = Annotated[int | None, opt.option("N", "Which of several prompts.", "oldest", name="--step")]
Into = Annotated[
    Path | None, opt.option("FILE", "Write the prompt here; with --all, a folder.", "stdout", name="--out")
]
All = Annotated[
    bool,
    typer.Option("--all", help="Write every prompt that may be in flight into the folder --out, as step-N.prompt.md."),
]
AnswerFile = Annotated[
    str,
    typer.Argument(
        metavar="ANSWER",
        help="A candidate file (.py), any other file with the answer's text, - for stdin, or a folder with an answer "
        "step-N.py, step-N.md or step-N.txt for each of several prompts; or verdicts of pike judge.",
    ),
]
Parent = Annotated[str | None, opt.option("ID", "The candidate that the answer continues.", "the prompt's own seed")]
Author = Annotated[str | None, typer.Option(metavar="NAME", help="Who wrote it.", show_default="by-hand")]
Usd = Annotated[float | None, typer.Option(min=0.0, metavar="USD", help="What it cost.", show_default="unknown")]
Tokens = Annotated[int, typer.Option(min=0, metavar="N", show_default="estimated")]


def ask(run: opt.Run, step: StepId = None, every: All = False, out: Into = None, as_json: opt.Json = False) -> None:
    """Print the next prompt of a run that is answered from outside.

    Start one with pike optimize TASK --strategy agent. With --all, RUN may also be a campaign.
    """
    terminal = Terminal(as_json)
    if every:
        _ask_all(terminal, run, step, out)
        return
    question = external.ask(run, step=step)
    text = question.text
    if out is not None:
        with saying(UserError, f"The prompt cannot be written to {out}", "choose another file"):
            out.write_text(text)
    elif not as_json:
        sys.stdout.write(printable(text))
    terminal.note(f"Step {question.step.id} for {question.step.role.value}. {_left(question.status)}")
    terminal.note(f"Answer with:  pike tell {shlex.quote(str(run))} ANSWER --step {question.step.id}", style="bold")
    terminal.result(_asked(question))


def _ask_all(terminal: Terminal, run: Path, step: int | None, out: Path | None) -> None:
    if out is None or step is not None:
        raise UserError("--all writes many prompts: give the folder for them with --out, and no --step")
    asked = external.ask_all(run, out)
    count = sum(map(len, asked.values()))
    for name, several in asked.items():
        terminal.show(f"{name or run}: {figures.plural(len(several), 'prompt')}. {_left(several[0].status)}")
    terminal.note(f"{figures.plural(count, 'prompt')} in {out}. Answer step-N.prompt.md with step-N.py or .md")
    terminal.note(f"Then:  pike tell {shlex.quote(str(run))} {shlex.quote(str(out))}", style="bold")
    terminal.result({"prompts": [_asked(one) | {"run": name} for name, several in asked.items() for one in several]})


def tell(
    run: opt.Run,
    answer: AnswerFile,
    step: StepId = None,
    parent: Parent = None,
    author: Author = None,
    usd: Usd = None,
    input_tokens: Tokens = 0,
    output_tokens: Tokens = 0,
    profile: opt.Profile = False,
    as_json: opt.Json = False,
) -> None:
    """Answer a prompt: a candidate is judged at once and counts as one query.

    Verdicts of pike judge carry on a run, or a campaign, whose candidates were judged elsewhere.
    """
    terminal = Terminal(as_json)
    judged = answer != "-" and external.is_verdicts(Path(answer))
    if judged or (answer != "-" and Path(answer).is_dir()):
        options = (step, parent, usd, author if judged else None)
        if profile or input_tokens or output_tokens or any(one is not None for one in options):
            raise UserError("A folder of answers takes no option but --author, and verdicts none: leave the others out")
        if judged:
            _tell_judged(terminal, run, Path(answer))
        _tell_all(terminal, run, Path(answer), author or "")
    if campaigns.is_campaign(run):
        raise UserError(
            f"{run} is a campaign: give a folder of answers, the verdicts of pike judge, or one of its runs"
        )
    given = dataclasses.replace(
        _read(answer),
        parent=parent or "",
        model=author or "",
        usd=usd,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    with Watcher(terminal.notes) as watcher:
        reply = external.tell(run, given, step=step, profile=profile, observer=watcher)
    _show(terminal, reply)
    terminal.result(_told(reply))
    raise typer.Exit(_exit_code(reply))


def _tell_all(terminal: Terminal, run: Path, answers: Path, author: str) -> None:
    with Watcher(terminal.notes) as watcher:
        told = external.tell_all(run, answers, author=author, observer=watcher)
    rows = [(name, file, reply) for name, several in told.items() for file, reply in several]
    for _, file, reply in rows:
        before = " (answered before)" if reply.known else ""
        terminal.show(f"{file.path}: {_in_short(reply)}{before}")
    _end(terminal, run, {name: several[-1][1].status for name, several in told.items()})
    terminal.result({"answers": [_told(one) | {"run": name, "file": str(file.path)} for name, file, one in rows]})
    codes = [_exit_code(reply) for *_, reply in rows]
    raise typer.Exit(next((code for code in (130, 3, 0) if code in codes), 1))


def _tell_judged(terminal: Terminal, run: Path, verdicts: Path) -> None:
    with Watcher(terminal.notes) as watcher:
        told = external.tell_judged(run, verdicts, observer=watcher)
    rows = [(name, reply) for name, several in told.items() for reply in several]
    if not rows:
        terminal.show(f"{verdicts} holds no verdict yet: nothing was told")
    for name, reply in rows:
        step = reply.step.id if reply.step else ""
        terminal.show(f"{name or run} step {step}: {_in_short(reply)}")
    _end(terminal, run, {name: several[-1].status for name, several in told.items() if several})
    terminal.result({"answers": [_told(reply) | {"run": name} for name, reply in rows]})
    raise typer.Exit


def _end(terminal: Terminal, run: Path, stands: dict[str, ExternalStatus]) -> None:
    """Say of each run how it goes on."""
    for name, status in stands.items():
        after = f"finished: see pike report {status.result.folder}" if status.result.finished else _left(status)
        if status.result.stopped == ELSEWHERE and not status.result.finished:
            after += " Candidates wait for another machine: pike bundle"
        terminal.show(f"{name or run}: {after}")


def _in_short(reply: MoveReply) -> str:
    if reply.solution is None:
        said = f"{figures.plural(len(reply.ideas), 'idea')} taken" if reply.ideas else reply.failure
        return said or "the plan was taken"
    verdict = reply.solution.evaluation
    how = figures.times(verdict.speedup) if verdict.valid else verdict.reason
    return f"{reply.solution.candidate.id} {verdict.status.value}: {how}"


def _read(answer: str) -> Answer:
    if answer == "-":
        return external.answer_from(sys.stdin.buffer.read(ANSWER_BYTES + 1), "The answer on stdin", is_file=False)
    return external.read_answer(Path(answer))


def _show(terminal: Terminal, reply: MoveReply) -> None:
    if reply.solution is not None:
        terminal.show(reply.sentence, style="bold")
        show_verdict(terminal, reply.solution.evaluation)
    elif reply.ideas:
        terminal.show(f"{figures.plural(len(reply.ideas), 'idea')} taken.")
    else:
        terminal.show("The plan was taken." if reply.text else f"It brought nothing: {reply.failure}.")
    if reply.status.result.finished:
        terminal.show(*display.closing_lines(reply.status.result, Path(reply.status.result.folder) / "report.html"))
    else:
        terminal.show(_left(reply.status))


def _exit_code(reply: MoveReply) -> int:
    """As `pike evaluate` for a candidate, else 0 for a useful answer; 130 after Ctrl-C."""
    if reply.solution is None and reply.status.result.stopped == "interrupted":
        return 130
    if reply.solution is not None:
        return exit_code(reply.solution.evaluation)
    return 0 if reply.ideas or reply.text else 1


def finish(run: opt.Run, as_json: opt.Json = False) -> None:
    """End a run that is answered from outside: its best candidates are measured again."""
    terminal = Terminal(as_json)
    with Watcher(terminal.notes) as watcher:
        done = external.finish(run, observer=watcher)
    display.finish(terminal, done)


def _left(status: ExternalStatus) -> str:
    """What is left of the budget, and the best so far, in one sentence."""
    best = status.best
    fastest = f"best {figures.times(best.evaluation.speedup)} by {best.candidate.id}" if best else "none valid yet"
    return f"{status.left} of {figures.plural(status.budget.queries, 'query')} left, {fastest}."


def _asked(question: Question) -> dict[str, Any]:
    """A prompt, for programs."""
    return {
        "step": question.step.id,
        "role": question.step.role,
        "seed": question.step.seed,
        "failing": question.step.failing,
        "system": question.system,
        "prompt": question.prompt,
        **_stands(question.status),
    }


def _told(reply: MoveReply) -> dict[str, Any]:
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
        **_stands(reply.status),
    }


def _stands(status: ExternalStatus) -> dict[str, Any]:
    """Where a run stands, for programs."""
    best = status.best
    return {
        "finished": status.result.finished,
        "stopped": status.result.stopped,
        "queries_left": status.left,
        "waiting": [step.id for step in status.waiting],
        "best": best.candidate.id if best else None,
        "best_speedup": best.evaluation.speedup if best else None,
    }
