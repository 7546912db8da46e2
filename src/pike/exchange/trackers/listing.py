"""The list of trackers, and whether the package of one is there.

Lists every tracker once. Does not import any package before a run is tracked.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.exchange.trackers import mlflow, tensorboard, trackio, wandb
from pike.exchange.trackers.tracker import TrackedRun, Tracker

Open = Callable[[TrackedRun], Tracker]

TRACKERS: dict[str, Open] = {
    "mlflow": mlflow.open,
    "wandb": wandb.open,
    "trackio": trackio.open,
    "tensorboard": tensorboard.open,
}
"""How a run is opened in each tracker, by the name of its package and its extra."""


def require(names: Sequence[str]) -> None:
    """Refuse a tracker that is unknown or not installed.

    Raises:
        UserError: naming the tracker and what to do.
    """
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"There is no tracker '{name}'{nearest(name, TRACKERS)}")
        if find_spec(name) is None:
            raise UserError(f"The tracker {name} needs a package: pip install 'pike-torch[{name}]'")
