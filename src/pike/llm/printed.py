"""The output of a coding agent in print mode, taken apart: the answer, and its stated cost.

Knows plain text and the JSON of common agents, by the fields that each documents or prints. Does
not run anything and guesses nothing: money and tokens that are not stated stay unknown.

The JSON is one object, a list of events, or one event a line. Three forms are known:

- `claude -p --output-format json` or `stream-json`: `result`, `total_cost_usd`, `usage`,
  `modelUsage` and `is_error`. Any other program may print this form: `{"result": "...",
  "total_cost_usd": 0.12}`.
- `codex exec --json`: events `item.completed` with an `agent_message`, `turn.completed` with the
  session's `usage` so far, and `turn.failed`.
- `gemini --output-format json`: `response`, `stats.models.*.tokens` and `error`.
"""

import json
from dataclasses import dataclass
from typing import Any

_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")
_LENGTH_REASONS = frozenset({"length", "max_tokens"})

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Printed:
    """An answer as a program printed it.

    Attributes:
        text: the answer.
        error: what went wrong, where the program says so.
        model: which model answered, empty where not stated.
        input_tokens: 0 where not stated.
        output_tokens: thinking included, 0 where not stated.
        thinking_tokens: the part of them that was thinking.
        usd: None where not stated.
        cut_off: the output limit ended the answer.
    """

    text: str
    error: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    usd: float | None = None
    cut_off: bool = False


def read(output: str) -> Printed:
    """The answer in a program's output; text in no known form is the answer itself."""
    rows = _rows(output)
    for form in (_result, _events, _response):
        found = form(rows)
        if found is not None:
            return found
    return Printed(output)


def _rows(output: str) -> list[Row]:
    """The JSON objects of an output that holds nothing else, else empty."""
    if not output.startswith(("{", "[")):
        return []
    try:
        value = json.loads(output)
    except ValueError:
        return _lines(output)
    return [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]


def _lines(output: str) -> list[Row]:
    rows = []
    for line in output.splitlines():
        try:
            row = json.loads(line) if line.strip() else {}
        except ValueError:
            return []
        rows += [row] if isinstance(row, dict) else []
    return rows


def _result(rows: list[Row]) -> Printed | None:
    reports = [row for row in rows if "result" in row or "is_error" in row]
    if not reports:
        return None
    report = reports[-1]
    usage, models = _table(report.get("usage")), _table(report.get("modelUsage"))
    text = str(report.get("result") or "")
    return Printed(
        text=text,
        error=(text or str(report.get("subtype") or "an error")) if report.get("is_error") else "",
        model=str(report.get("model") or ", ".join(models)),
        input_tokens=_count(usage, "input_tokens", *_CACHED),
        output_tokens=_count(usage, "output_tokens"),
        usd=_money(report.get("total_cost_usd")),
        cut_off=report.get("stop_reason") in _LENGTH_REASONS,
    )


def _events(rows: list[Row]) -> Printed | None:
    kinds = [row.get("type") for row in rows]
    if "turn.completed" not in kinds and "turn.failed" not in kinds:
        return None
    items = [_table(row.get("item")) for row in rows if row.get("type") == "item.completed"]
    said = [str(item.get("text") or "") for item in items if item.get("type") == "agent_message"]
    turns = [row for row in rows if row.get("type") in ("turn.completed", "turn.failed")]
    failed = turns[-1].get("type") == "turn.failed"
    # Each turn reports the totals of the whole session, so the last one counts and nothing is added up.
    usage = _table([row.get("usage") for row in turns][-1])
    return Printed(
        text=said[-1] if said else "",
        error=str(_table(turns[-1].get("error")).get("message") or "the turn failed") if failed else "",
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        thinking_tokens=_count(usage, "reasoning_output_tokens"),
    )


def _response(rows: list[Row]) -> Printed | None:
    # An answer may be JSON of its own, so a field that is called `response` is not enough.
    if len(rows) != 1 or not ("stats" in rows[0] and ("response" in rows[0] or "error" in rows[0])):
        return None
    models = _table(_table(rows[0].get("stats")).get("models"))
    tokens = [_table(_table(model).get("tokens")) for model in models.values()]
    thinking = sum(_count(each, "thoughts") for each in tokens)
    error = rows[0].get("error")
    return Printed(
        text=str(rows[0].get("response") or ""),
        error=str(_table(error).get("message") or error) if error else "",
        model=", ".join(models),
        input_tokens=sum(_count(each, "prompt", "tool") for each in tokens),
        output_tokens=sum(_count(each, "candidates") for each in tokens) + thinking,
        thinking_tokens=thinking,
    )


def _table(value: object) -> Row:
    return value if isinstance(value, dict) else {}


def _count(usage: Row, *keys: str) -> int:
    values = [usage.get(key) for key in keys]
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)


def _money(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
