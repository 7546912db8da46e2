"""A client for any program that reads a prompt on stdin and prints an answer: the print mode of coding agents.

Knows how such a program is run, bounded and read: plain text, or one JSON object (or a list of events that ends
in one) with `result`, `total_cost_usd`, `usage` and `is_error`, as print-mode coding agents write. Does not know
what the program does; it runs in the current directory with the whole environment, because it is the user's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from typing import Any

from pike.core.errors import ProviderError, UserError
from pike.core.query import Answer, Finish, Query
from pike.llm.client import Price
from pike.llm.redact import redact
from pike.llm.tokens import approximate_tokens

OUTPUT_BYTES = 8 * 1024 * 1024
"""The most that is read from one stream of the program."""
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")
_LENGTH_REASONS = frozenset({"length", "max_tokens"})


class CommandClient:
    """Runs a program once for each query.

    Where the program reports no tokens they are estimated from the texts, so that a token budget still holds;
    money is counted only where it is reported.

    Args:
        name: the name it was connected by.
        argv: the program and its arguments.
        timeout_seconds: limit on one run; then its whole process group is killed.
    """

    def __init__(self, name: str, argv: Sequence[str], timeout_seconds: float) -> None:
        self._name = name
        self._argv = tuple(argv)
        self._timeout_seconds = timeout_seconds

    @property
    def name(self) -> str:
        """The name it was connected by."""
        return self._name

    async def complete(self, query: Query) -> Answer:
        """Run the program on the query; the system prompt goes before the prompt.

        Raises:
            ProviderError: it failed, printed nothing or took too long (all transient: programs do not say why).
            UserError: it does not exist.
        """
        started = time.monotonic()
        text = f"{query.system}\n\n{query.prompt}" if query.system else query.prompt
        output = await self._run(text.encode())
        return self._answer(text, output.strip(), time.monotonic() - started)

    def price(self) -> Price | None:
        """None: what a run costs is known only when the program reports it."""
        return None

    async def check(self) -> None:
        """Verify that the program exists; nothing is run.

        Raises:
            UserError: it does not.
        """
        if shutil.which(self._argv[0]) is None:
            raise UserError(
                f"'{self._name}' names a program that is not found: {self._argv[0]}; install it or give its path"
            )

    async def aclose(self) -> None:
        """Nothing to close: every run ends with its query."""

    async def _run(self, prompt: bytes) -> str:
        await self.check()
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_seconds):
                _, output, complaint = await asyncio.gather(
                    _feed(process.stdin, prompt), _read(process.stdout), _read(process.stderr)
                )
                status = await process.wait()
        except TimeoutError:
            raise ProviderError(
                f"'{self._name}' did not answer within {self._timeout_seconds:g} seconds", transient=True
            ) from None
        finally:
            await _kill(process)
        if status != 0:
            said = redact((complaint.strip() or output.strip())[-400:]) or "nothing"
            raise ProviderError(f"'{self._name}' ended with status {status} and said: {said}", transient=True)
        return output

    def _answer(self, prompt: str, output: str, latency_seconds: float) -> Answer:
        report = _report(output)
        if report.get("is_error"):
            raise ProviderError(f"'{self._name}' reported: {redact(str(report.get('result')))}", transient=True)
        text = str(report.get("result") or "") if report else output
        if not text.strip():
            raise ProviderError(f"'{self._name}' printed no answer", transient=True)
        usage = report.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        length = report.get("stop_reason") in _LENGTH_REASONS
        return Answer(
            text=text,
            finish=Finish.LENGTH if length else Finish.STOP,
            model=str(report.get("model") or self._name),
            input_tokens=_count(usage, "input_tokens", *_CACHED) or approximate_tokens(prompt),
            output_tokens=_count(usage, "output_tokens") or approximate_tokens(text),
            usd=_money(report.get("total_cost_usd")),
            latency_seconds=latency_seconds,
        )


async def _feed(pipe: asyncio.StreamWriter | None, data: bytes) -> None:
    assert pipe is not None
    # A program may answer without reading all of its prompt.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader | None) -> str:
    assert pipe is not None
    kept = bytearray()
    while chunk := await pipe.read(65_536):
        kept += chunk[: max(0, OUTPUT_BYTES - len(kept))]
    return kept.decode("utf-8", "replace")


async def _kill(process: asyncio.subprocess.Process) -> None:
    # What the program left running goes with it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _report(output: str) -> dict[str, Any]:
    """The JSON object that a print-mode agent wrote, empty when the output is the answer itself."""
    if not output.startswith(("{", "[")):
        return {}
    try:
        value = json.loads(output)
    except ValueError:
        return {}
    rows = value if isinstance(value, list) else [value]
    found = [row for row in rows if isinstance(row, dict) and ("result" in row or "is_error" in row)]
    return found[-1] if found else {}


def _count(usage: dict[str, Any], *keys: str) -> int:
    values = [usage.get(key) for key in keys]
    return sum(value for value in values if isinstance(value, int) and value > 0)


def _money(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
