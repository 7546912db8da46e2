"""`--to hf-dataset`: the traces of a run as a data set that `datasets.load_from_disk` opens.

Knows the package `datasets`. Does not know what a row holds (`traces`), and uploads nothing.
"""

import json
from pathlib import Path

from pike.core import figures
from pike.core.errors import needing
from pike.exchange.exporters.exported import MARK, Exported, replace_folder
from pike.exchange.exporters.traces import traces

FOLDER = "hf-dataset"


def export(folder: Path, out: Path | None) -> Exported:
    """Write the folder `OUT/hf-dataset`, by default inside the run's folder."""
    with needing("--to hf-dataset", "hf"):
        import datasets
    rows = traces(folder)
    path = (out or folder) / FOLDER
    data = datasets.Dataset.from_list(rows)

    def write(draft: Path) -> None:
        datasets.disable_progress_bars()
        data.save_to_disk(str(draft))
        (draft / MARK).write_text(json.dumps({"task": rows[0]["task"], "traces": len(rows)}) + "\n")

    replace_folder(path, write)
    sentence = f"{figures.plural(len(rows), 'trace')} with {len(data.column_names)} columns."
    return Exported("hf-dataset", str(path), sentence, {"traces": len(rows), "columns": len(data.column_names)})
