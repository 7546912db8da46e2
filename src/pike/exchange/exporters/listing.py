"""The list of forms in which a run can be exported.

Lists every form once. Does not know any form.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.exchange.exporters import hf_dataset, jsonl, kernelbench, openevolve
from pike.exchange.exporters.exported import Exported
from pike.exchange.exporters.tracked import export_to
from pike.exchange.trackers.listing import TRACKERS

Export = Callable[[Path, Path | None], Exported]
"""Writes the run of a folder, by default inside that folder; raises `UserError` as a verb does."""

EXPORTERS: dict[str, Export] = {
    "jsonl": jsonl.export,
    "hf-dataset": hf_dataset.export,
    "openevolve": openevolve.export,
    "kernelbench": kernelbench.export,
    **{name: partial(export_to, name) for name in TRACKERS},
}


def export_run(folder: Path, to: str, out: Path | None = None) -> Exported:
    """Write the run in `folder` in a form.

    Raises:
        UserError: there is no such form or no run, a package is missing, or something else is in
            the way.
        BoundaryError: the journal cannot be read, or a tracker failed.
    """
    if to not in EXPORTERS:
        raise UserError(f"There is no form '{to}' for --to{nearest(to, EXPORTERS)}")
    return EXPORTERS[to](folder, out)
