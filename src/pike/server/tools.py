"""The tools of the MCP server: one function each, thin over the runs on offer.

Knows names, arguments and descriptions that agents read. Does not know transports (`serve`) or how
a run works. A `PikeError` becomes a tool error of one sentence. A bug stays a bug: the SDK logs it
and does not show it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field, ValidationError

import pike
from pike.api import external
from pike.api.views import Observer, Progress
from pike.core.errors import PikeError, UserError
from pike.core.query import Answer
from pike.server import views
from pike.server.runs import Runs

INSTRUCTIONS = Path(__file__).with_name("instructions.md")
"""What an agent is told when it connects."""
AUTHOR = "mcp"
"""The author of candidates whose agent does not name itself."""

Run = Annotated[str, Field(description="The name of a run; may be left out where there is only one.")]
Source = Annotated[str, Field(description="A whole Python file with a class ModelNew: every import, nothing left out.")]
Parent = Annotated[str, Field(description="Id of the candidate that you started from; empty for the best so far.")]
Author = Annotated[str, Field(description="Who you are, for example the name of your model.")]
Usd = Annotated[float | None, Field(ge=0, description="What writing it cost in US dollars, if you know.")]
StepId = Annotated[int | None, Field(description="Which prompt, where several are out.")]


def build(runs: Runs) -> MCPServer:
    """A server with every tool, ready for any transport."""
    server = _Server(
        "pike",
        version=pike.__version__,
        instructions=INSTRUCTIONS.read_text(),
        log_level="WARNING",
        subscriptions=False,
    )
    tools = _Tools(runs)
    looking = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    acting = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    for look in (tools.list_tasks, tools.read_task, tools.read_candidate, tools.lineage, tools.budget):
        _add(server, look, looking)
    for act in (tools.evaluate, tools.submit, tools.next_prompt, tools.answer_prompt, tools.finish_run):
        _add(server, act, acting)
    if runs.can_begin:
        _add(server, tools.start_run, acting)
    return server


def _add(server: MCPServer, tool: Callable[..., Awaitable[dict[str, Any]]], annotations: ToolAnnotations) -> None:
    """Offer a tool: without nulls in its answer, raising a tool error in place of a `PikeError`."""

    @functools.wraps(tool)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return views.without_nulls(await tool(*args, **kwargs))
        except PikeError as error:
            raise ToolError(str(error)) from error

    server.add_tool(guarded, description=inspect.getdoc(tool), annotations=annotations)


class _Server(MCPServer):
    """Says in words which arguments cannot be used; the SDK shows pydantic's own text."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.__cause__.errors())
            raise ToolError(f"{name} cannot take these arguments: {'; '.join(wrong)}") from error.__cause__


class _Tools:
    """The tools; agents read their docstrings."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def list_tasks(self) -> dict[str, Any]:
        """List the runs that you can work on and the tasks of which a run can be started."""
        rows = []
        for name in self._runs.names():
            _, summary = await self._runs.summary(name)
            rows.append(views.run_row(name, summary))
        return {"runs": rows, "tasks": [views.task_row(task) for task in self._runs.tasks()]}

    async def start_run(self, task: Annotated[str, Field(description="A task of list_tasks.")]) -> dict[str, Any]:
        """Begin a run of a task.

        Its budget, device and tolerance are the server's; read_task says what they are.
        """
        return await self._task_of_run(await self._runs.begin(task))

    async def read_task(
        self, run: Annotated[str, Field(description="The name of a run, or of a task that has no run yet.")] = ""
    ) -> dict[str, Any]:
        """Read a task: model, device, the form of a file, how it is judged, the best so far."""
        if run and run not in self._runs.names() and self._runs.can_begin:
            task = self._runs.task(run)
            return {**views.task_row(task), "source": task.source, "next": "start_run begins a run of this task"}
        return await self._task_of_run(run)

    async def read_candidate(
        self, candidate: Annotated[str, Field(description="Its id, for example c3.")], run: Run = ""
    ) -> dict[str, Any]:
        """Read a candidate of a run: its file, its verdict with diagnostics, its profile if any."""
        _, summary = await self._runs.summary(run)
        entrant = summary.entrant(candidate)
        if entrant is None:
            raise UserError(f"There is no candidate {candidate!r} in this run: lineage lists them")
        return views.candidate(entrant)

    async def lineage(self, run: Run = "") -> dict[str, Any]:
        """List every candidate of a run with its parent and its verdict, in order of appearance."""
        _, summary = await self._runs.summary(run)
        return {"candidates": [views.candidate_row(entrant) for entrant in summary.entrants]}

    async def budget(self, run: Run = "") -> dict[str, Any]:
        """Say what a run has spent and what is left of its budget."""
        return views.budget(await asyncio.to_thread(external.status, self._runs.folder(run)))

    async def evaluate(
        self, source: Source, ctx: Context, run: Run = "", parent: Parent = "", author: Author = "", usd: Usd = None
    ) -> dict[str, Any]:
        """Judge a candidate: is it right, how fast is it, what is wrong with it, where does its
        time go.

        Uses one query of the budget, unless the run has judged this very file before or it does
        not parse.
        """
        answer = replace(external.as_answer(source), parent=parent, model=author or AUTHOR, usd=usd)
        return await self._tell(ctx, run, answer, profile=True)

    async def submit(
        self, source: Source, ctx: Context, run: Run = "", parent: Parent = "", author: Author = "", usd: Usd = None
    ) -> dict[str, Any]:
        """Hand a candidate in. Judged and counted like evaluate, but quicker: without a profile."""
        answer = replace(external.as_answer(source), parent=parent, model=author or AUTHOR, usd=usd)
        return await self._tell(ctx, run, answer)

    async def next_prompt(self, run: Run = "", step: StepId = None) -> dict[str, Any]:
        """Ask what a run's strategy wants next (only needed for strategies other than agent).

        Uses one query.
        """
        question = await self._runs.external.ask(self._runs.folder(run), step)
        return {
            "step": question.step.id,
            "role": question.step.role.value,
            "system": question.system,
            "prompt": question.prompt,
            "budget": views.budget(question.status),
        }

    async def answer_prompt(
        self,
        text: Annotated[str, Field(description="The answer, in the form that the prompt asks for.")],
        ctx: Context,
        run: Run = "",
        step: StepId = None,
        author: Author = "",
        usd: Usd = None,
    ) -> dict[str, Any]:
        """Answer a prompt of next_prompt. A candidate in the answer is judged at once."""
        return await self._tell(ctx, run, Answer(text, model=author or AUTHOR, usd=usd), step=step)

    async def finish_run(self, run: Run = "") -> dict[str, Any]:
        """End a run before its budget is spent; says what was found, where it lies or why not.

        The best candidates are measured again, and that is the result.
        """
        folder = self._runs.folder(run)
        found = views.outcome(await self._runs.external.finish(folder))
        return {**found, **views.budget(await asyncio.to_thread(external.status, folder))}

    async def _tell(
        self, ctx: Context, run: str, answer: Answer, *, step: int | None = None, profile: bool = False
    ) -> dict[str, Any]:
        folder = self._runs.folder(run)
        told = await self._runs.external.tell(folder, answer, step=step, profile=profile, observer=_reporter(ctx))
        return views.reply(told)

    async def _task_of_run(self, run: str) -> dict[str, Any]:
        folder, summary = await self._runs.summary(run)
        return {
            "run": folder.name,
            **views.task_row(summary.task),
            **views.terms(summary),
            "brief": await asyncio.to_thread(external.brief, folder),
            "best": views.best_rows(summary),
            "budget": views.budget(await asyncio.to_thread(external.status, folder)),
        }


def _reporter(ctx: Context) -> Observer:
    """Report to the caller what is being done to its candidate, if it listens."""
    reports: set[asyncio.Task[None]] = set()
    said = ""

    async def report(words: str) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await ctx.report_progress(0.0, message=words)

    def observe(progress: Progress) -> None:
        nonlocal said
        words = ", ".join(f"{activity.name}: {activity.doing}" for activity in progress.active) or progress.phase
        if words != said:
            said = words
            task = asyncio.get_running_loop().create_task(report(words))
            reports.add(task)
            task.add_done_callback(reports.discard)

    return observe
