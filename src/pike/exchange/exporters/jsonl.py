"""`--to jsonl`: the traces of a run, one JSON object a line.

Knows the file. Does not know what a row holds (`traces`).
"""

import json
from pathlib import Path

from pike.core import figures
from pike.core.errors import UserError, saying
from pike.exchange.exporters.exported import Exported
from pike.exchange.exporters.traces import traces

FILE = "traces.jsonl"


def export(folder: Path, out: Path | None) -> Exported:
    """Write `OUT/traces.jsonl`, by default inside the run's folder."""
    rows = traces(folder)
    path = (out or folder) / FILE
    draft = path.with_suffix(".tmp")
    with saying(UserError, f"The file {path} cannot be written", "choose another --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(path)
    valid = sum(row["status"] == "valid" for row in rows)
    sentence = f"{figures.plural(len(rows), 'trace')}, {valid} of a valid candidate."
    return Exported("jsonl", str(path), sentence, {"traces": len(rows), "valid": valid})
