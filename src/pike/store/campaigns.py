"""The files of a campaign that are no journals: its plan, and why a run could not be carried out.

Knows names and formats of files. Does not know how a plan is made or carried out (`engine`);
everything that happened in a run is in the run's own journal.
"""

import json
import os
from pathlib import Path
from typing import Any

from pike.core.codec import decode, encode
from pike.core.comparison.campaign import CampaignPlan, upgraded
from pike.core.comparison.contender import ContenderKind
from pike.core.comparison.results import Result
from pike.core.errors import UserError
from pike.store.blobs import sync_to_disk
from pike.store.boundary import writing
from pike.store.results import results_in

PLAN = "plan.json"
RUNS = "runs"
_FAILURE = "failure.json"


def is_campaign(folder: Path) -> bool:
    """Whether there is a campaign in `folder`."""
    return (folder / PLAN).is_file()


def write_plan(folder: Path, plan: CampaignPlan) -> None:
    """Begin a campaign: from here on it can be resumed, also after a power cut.

    Raises:
        UserError: the folder holds one already.
        StoreError: the disk refuses.
    """
    if is_campaign(folder):
        raise UserError(
            f"'{folder}' already holds a campaign: continue it with 'pike campaign --resume {folder}', "
            "or choose another folder"
        )
    with writing(folder):
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        _replace(folder / PLAN, encode(plan))


def read_plan(folder: Path) -> CampaignPlan:
    """The plan of the campaign in `folder`.

    Raises:
        UserError: there is none, or another version wrote it.
    """
    try:
        return decode(CampaignPlan, _upgraded(json.loads((folder / PLAN).read_text())))
    except FileNotFoundError:
        raise UserError(f"There is no campaign in '{folder}': give a folder that contains {PLAN}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The plan '{folder / PLAN}' is not understood ({error}): it is damaged, or another PIKE wrote it"
        ) from error


def _upgraded(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan in today's form: older plans hold strategies only, as presets, and say no kind."""
    return plan | {
        "campaign": upgraded(plan["campaign"]),
        "contenders": [one if "kind" in one else one | {"kind": _kind_of(one)} for one in plan["contenders"]],
    }


def _kind_of(contender: dict[str, Any]) -> str:
    kind = ContenderKind.RECIPES if contender["strategy"]["preset"] == "recipes" else ContenderKind.RUN
    return kind.value


def results_of(campaign: Path) -> dict[str, Result]:
    """The newest result of each cell that has one, by the name of its folder."""
    return {result.folder: result for result in results_in(sorted(campaign.glob("results-*.jsonl")))}


def run_folder(campaign: Path, name: str) -> Path:
    """The folder of a run of the campaign."""
    return campaign / RUNS / name


def write_failure(campaign: Path, name: str, reason: str) -> None:
    """Keep why a run could not go on, beside its journal if it has one; empty when it can again."""
    path = run_folder(campaign, name) / _FAILURE
    with writing(campaign):
        if reason:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, {"reason": reason})
        else:
            path.unlink(missing_ok=True)


def read_failure(campaign: Path, name: str) -> str:
    """Why a run could not go on, empty if it could."""
    try:
        return str(json.loads((run_folder(campaign, name) / _FAILURE).read_text())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _replace(path: Path, value: Any) -> None:
    draft = path.with_suffix(".tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_to_disk(path.parent)
