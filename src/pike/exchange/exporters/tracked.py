"""`--to mlflow`, `wandb`, `trackio` and `tensorboard`: a run in the store of a tracker, afterwards.

Knows that it is the same as following a run that has ended. Does not know any tracker.
"""

from pathlib import Path

from pike.core.errors import BoundaryError, UserError
from pike.exchange.exporters.exported import Exported
from pike.exchange.trackers.follow import follow
from pike.exchange.trackers.listing import require


def export_to(name: str, folder: Path, out: Path | None) -> Exported:
    """Write a run into the store of the tracker `name`.

    Raises:
        UserError: there is no run in `folder`, or the tracker is not installed.
        BoundaryError: the tracker failed.
    """
    require([name])
    try:
        where = follow(folder, name, out, lambda: False)
    except (UserError, BoundaryError):
        raise
    except Exception as error:  # the boundary: a tracker raises anything
        raise BoundaryError(f"{name} did not take the run: {type(error).__name__}: {error}") from error
    return Exported(name, where.address, f"See it with:  {where.command}", {"command": where.command})
