"""A client for any program that reads a prompt and prints an answer: coding agents in print mode.

Knows how such a program is run and bounded. Does not know how its output is read (`printed`) or
what is hidden from it (`confinement`). The program is the user's own: it runs in the current
directory with the whole environment.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Sequence

from pike.core.errors import ProviderError, UserError
from pike.core.query import Answer, Finish, Query
from pike.llm import printed
from pike.llm.client import LocalClient
from pike.llm.confinement import Confinement
from pike.llm.redact import redact
from pike.llm.tokens import approximate_tokens

OUTPUT_BYTES = 8 * 1024 * 1024
"""The most that is read from one stream of the program."""


class CommandClient(LocalClient):
    """Runs a program once for each query.

    Where the program reports no tokens, they are estimated from the texts, so that a token budget
    still holds. Money counts only where the program reports it.

    Args:
        timeout_seconds: limit on one run; then its whole process group is killed.
    """

    def __init__(self, name: str, argv: Sequence[str], timeout_seconds: float) -> None:
        super().__init__(name)
        self._argv = tuple(argv)
        self._timeout_seconds = timeout_seconds
        self._confinement: Confinement | None = None

    def confine(self, confinement: Confinement) -> None:
        """Run the program so from now on."""
        self._confinement = confinement

    async def complete(self, query: Query) -> Answer:
        """Run the program on the query; the system prompt goes before the prompt."""
        started = time.monotonic()
        text = f"{query.system}\n\n{query.prompt}" if query.system else query.prompt
        output = await self._run(text.encode())
        return self._answer(text, output.strip(), time.monotonic() - started)

    async def check(self) -> None:
        """Verify that the program exists; nothing is run.

        Raises:
            UserError: it does not.
        """
        if shutil.which(self._argv[0]) is None:
            raise UserError(
                f"'{self.name}' names a program that is not found: {self._argv[0]}; install it or give its path"
            )

    async def _run(self, prompt: bytes) -> str:
        await self.check()
        process = await asyncio.create_subprocess_exec(
            *(self._confinement.wrap(self._argv) if self._confinement else self._argv),
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
                f"'{self.name}' did not answer within {self._timeout_seconds:g} seconds", transient=True
            ) from None
        finally:
            await _kill(process)
        if status != 0:
            said = redact((complaint.strip() or output.strip())[-400:]) or "nothing"
            raise ProviderError(f"'{self.name}' ended with status {status} and said: {said}", transient=True)
        return output

    def _answer(self, prompt: str, output: str, latency_seconds: float) -> Answer:
        said = printed.read(output)
        if said.error and not said.usd:
            raise ProviderError(f"'{self.name}' reported: {redact(said.error[-400:])}", transient=True)
        if not said.text.strip() and not said.usd:
            raise ProviderError(f"'{self.name}' printed no answer", transient=True)
        return Answer(
            text=said.text or said.error,
            finish=_finish(said),
            model=said.model or self.name,
            input_tokens=said.input_tokens or approximate_tokens(prompt),
            output_tokens=said.output_tokens or approximate_tokens(said.text),
            thinking_tokens=said.thinking_tokens,
            usd=said.usd,
            latency_seconds=latency_seconds,
        )


def _finish(said: printed.Printed) -> Finish:
    if said.error or not said.text.strip():
        # A failed attempt counts as free, and this one was paid for.
        return Finish.REFUSED
    return Finish.LENGTH if said.cut_off else Finish.STOP


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
    # The whole group, so that nothing which the program started is left running.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
