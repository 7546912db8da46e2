"""A client that answers from a file: a first-class fake for tests, demonstrations and rehearsals of a run.

Knows the file format below. The answer is a pure function of (role, step id, prompt), so a resumed run gets the
same answers; only how many of an answer's `errors` were already raised is remembered, in memory. Does not know
any provider.

The file is TOML, JSON (the same tree, or just the list of answers) or JSON Lines (one answer a line)::

    model = "scripted-1"             # reported as the model; default: the file's name
    input_usd_per_mtok = 1.25        # price of every answer; default 0 (a script is free)
    output_usd_per_mtok = 10.0
    unpriced = false                 # true: the price is unknown, as with a local server

    [[answer]]
    role = "coa"                     # iba, coa, efa, plan, code or debug; left out: any
    contains = "BatchNorm2d"         # only for prompts with this text ...
    regex = "conv\\d"                # ... or that match this pattern (re.search)
    step = 3                         # only for this step
    text = "..."                     # the answer; or
    file = "fused.py"                # a file beside the script: a `.py` becomes one Python code block, others are text
    take = "BEGIN(.*?)END"           # what its one group matches in the prompt stands for "{taken}" in the text, after
    replace = [["\\d+", "N"]]         # these patterns were replaced in it; both with re.DOTALL, these re.MULTILINE too
    finish = "stop"                  # stop, length or refused
    input_tokens = 1200              # tokens and money; default: estimated from the texts, priced as above
    output_tokens = 800              # thinking included
    thinking_tokens = 0
    usd = 0.02
    delay_seconds = 0.5              # waited before the answer and before each error
    errors = [429, "timeout"]        # what the first attempts of a query end with: an HTTP status, "timeout" or
                                     # "dropped"; without a text the last one repeats for ever
    retry_after_seconds = 2          # what those errors ask to wait

Of the answers that fit a query, the most specific ones count (`step` before `contains` or `regex` before `role`),
and of n such answers the one at index (step id modulo n) is given. No fitting answer is a failure that no retry
mends. 401 and 403 (key refused), 402 (no credit) and 404 (unknown model) are errors of the user.
"""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from pike.core.codec import decode
from pike.core.errors import PikeError, ProviderError, UserError
from pike.core.query import Answer, Query
from pike.llm.client import Price
from pike.llm.script import Line, Script
from pike.llm.tokens import approximate_tokens

_KEY_STATUSES = {401: "refused the key", 402: "has no credit left", 403: "refused the key", 404: "has no such model"}


class ScriptedClient:
    """Answers from a script.

    Args:
        name: the name it was connected by.
        script: what to say.
    """

    def __init__(self, name: str, script: Script) -> None:
        self._name = name
        self._script = script
        self._raised: Counter[tuple[int, str]] = Counter()

    @classmethod
    def load(cls, name: str, path: str) -> ScriptedClient:
        """The client for a script file.

        Raises:
            UserError: the file does not exist or does not follow the format.
        """
        return cls(name, load_script(Path(path)))

    @property
    def name(self) -> str:
        """The name it was connected by."""
        return self._name

    async def complete(self, query: Query) -> Answer:
        """The scripted answer, or the scripted error.

        Raises:
            ProviderError: the script says so, or has no fitting answer.
            UserError: the script says so (401, 402, 403, 404).
        """
        line = self._script.pick(query.role.value, query.step_id, query.prompt)
        if line is None:
            raise ProviderError(
                f"'{self._name}' has no answer for role {query.role.value}, step {query.step_id}", transient=False
            )
        if line.delay_seconds > 0:
            await asyncio.sleep(line.delay_seconds)
        self._raise_scripted(query, line)
        return self._answer(query, line)

    def price(self) -> Price | None:
        """The scripted price; None where `unpriced`, or where answers state their own money."""
        script = self._script
        if script.unpriced or (not script.priced and any(line.usd is not None for line in script.lines)):
            return None
        return Price(script.input_usd_per_mtok, script.output_usd_per_mtok)

    async def check(self) -> None:
        """Nothing to verify: the script was read when the client was made."""

    async def aclose(self) -> None:
        """Nothing to close."""

    def _raise_scripted(self, query: Query, line: Line) -> None:
        if not line.errors:
            return
        key = (query.step_id, query.role.value)
        count = self._raised[key]
        if count >= len(line.errors):
            if line.text:
                return
            count = len(line.errors) - 1
        self._raised[key] += 1
        raise _error(self._name, line.errors[count], line.retry_after_seconds)

    def _answer(self, query: Query, line: Line) -> Answer:
        text, output = line.reply(query.prompt), line.output_tokens
        tokens_in = (
            line.input_tokens if line.input_tokens is not None else approximate_tokens(query.system + query.prompt)
        )
        tokens_out = output if output is not None else approximate_tokens(text) + line.thinking_tokens
        price = self.price()
        usd = line.usd if line.usd is not None else (price.usd(tokens_in, tokens_out) if price else None)
        return Answer(
            text=text,
            finish=line.finish,
            model=self._script.model,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            thinking_tokens=line.thinking_tokens,
            usd=usd,
            latency_seconds=line.delay_seconds,
        )


def load_script(path: Path) -> Script:
    """The script in a file.

    Raises:
        UserError: the file cannot be read or does not follow the format.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The script '{path}' cannot be read: {error}") from None
    try:
        tree = _tree(path, text)
        rows = tree.pop("answer", [])
        lines = tuple(decode(Line, _with_file(row, path.parent)) for row in rows)
        script = decode(Script, {"model": path.stem, **tree})
        return script.with_lines(lines)
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"The script '{path}' does not follow the format: {error}") from None


def _tree(path: Path, text: str) -> dict[str, Any]:
    if path.suffix == ".toml":
        return tomllib.loads(text)
    if path.suffix == ".jsonl":
        return {"answer": [json.loads(line) for line in text.splitlines() if line.strip()]}
    value = json.loads(text)
    return {"answer": value} if isinstance(value, list) else dict(value)


def _with_file(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    row = dict(row)
    name = row.pop("file", None)
    if name is None:
        return row
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"file '{name}' cannot be read ({error})") from None
    row["text"] = f"```python\n{text.rstrip()}\n```\n" if str(name).endswith(".py") else text
    return row


def _error(name: str, what: int | str, retry_after_seconds: float | None) -> PikeError:
    if isinstance(what, int) and what in _KEY_STATUSES:
        return UserError(f"'{name}' {_KEY_STATUSES[what]} (scripted {what})")
    transient = isinstance(what, str) or what in (408, 409, 425, 429) or what >= 500
    return ProviderError(
        f"'{name}' failed as scripted: {what}", transient=transient, retry_after_seconds=retry_after_seconds
    )
