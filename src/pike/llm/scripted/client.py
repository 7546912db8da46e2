"""A client that answers from a file, for tests, demonstrations and rehearsals of a run.

Knows the file format below. The answer is a pure function of role, step id and prompt, so a resumed
run gets the same answers. It remembers only how many `errors` it has raised. Does not know any
provider.

The file is TOML, JSON (the same tree, or the list of answers) or JSON Lines (one answer a line)::

    model = "scripted-1"             # reported as the model; default: the file's name
    input_usd_per_mtok = 1.25        # price of every answer; default 0 (a script is free)
    output_usd_per_mtok = 10.0
    unpriced = false                 # true: the price is unknown, as with a local server

    [[answer]]
    role = "coa"            # iba, coa, efa, plan, code or debug; left out: any
    contains = "BatchNorm"  # only for prompts with this text ...
    regex = "conv\\d"       # ... or that match this pattern (re.search)
    step = 3                # only for this step
    text = "..."            # the answer; or
    file = "fused.py"       # a file beside the script: a `.py` becomes a Python code block
    take = "BEGIN(.*?)END"  # the text for "{taken}": the match of this one group in the prompt,
    replace = [["\\d+", "N"]]  # after these replacements (both re.DOTALL, these re.MULTILINE too)
    finish = "stop"         # stop, length or refused
    input_tokens = 1200     # tokens and money; default: estimated, priced as above
    output_tokens = 800     # thinking included
    thinking_tokens = 0
    usd = 0.02
    delay_seconds = 0.5     # waited before the answer and before each error
    errors = [429, "timeout"]  # failures of the first attempts: an HTTP status, "timeout" or
                            # "dropped"; without a text the last one repeats for ever
    retry_after_seconds = 2  # the wait that those errors ask for

The most specific answers that fit a query count: `step` before `contains` or `regex`, and these
before `role`. Of n such answers the one at index (step id modulo n) is given. Without a fitting
answer the query fails for good. 401 and 403 (key refused), 402 (no credit) and 404 (unknown model)
are user errors.
"""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from pike.core.codec import decode
from pike.core.errors import PikeError, ProviderError, UserError, saying
from pike.core.query import Answer, Query
from pike.llm.client import LocalClient, Price
from pike.llm.scripted.script import Line, Script
from pike.llm.tokens import approximate_tokens

_KEY_STATUSES = {401: "refused the key", 402: "has no credit left", 403: "refused the key", 404: "has no such model"}


class ScriptedClient(LocalClient):
    """Answers from a script."""

    def __init__(self, name: str, script: Script) -> None:
        super().__init__(name)
        self._script = script
        self._raised: Counter[tuple[int, str]] = Counter()

    @classmethod
    def load(cls, name: str, path: str) -> ScriptedClient:
        """The client for a script file.

        Raises:
            UserError: the file does not exist or does not follow the format.
        """
        return cls(name, load_script(Path(path)))

    async def complete(self, query: Query) -> Answer:
        """The scripted answer, or the scripted error.

        Raises:
            ProviderError: the script says so, or has no fitting answer.
            UserError: the script says so (401, 402, 403, 404).
        """
        line = self._script.pick(query.role.value, query.step_id, query.prompt)
        if line is None:
            raise ProviderError(
                f"'{self.name}' has no answer for role {query.role.value}, step {query.step_id}", transient=False
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
        raise _error(self.name, line.errors[count], line.retry_after_seconds)

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
    with saying(UserError, f"The script '{path}' cannot be read"):
        text = path.read_text(encoding="utf-8")
    try:
        tree = _tree(path, text)
        rows = tree.pop("answer", [])
        lines = tuple(decode(Line, _with_file(row, path.parent)) for row in rows)
        return replace(decode(Script, {"model": path.stem, **tree}), lines=lines)
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
