"""What is in progress in a run, told from its journal alone: stopped, carried on, with steps in flight."""

from __future__ import annotations

from pathlib import Path

from pike.core.device import DeviceFacts
from pike.core.events import Asked, Assigned, Event, Judged, Proposed, Resumed, RunStarted, Stopped, Told
from pike.core.settings.config import RunConfig
from pike.core.step import Candidate, Role, Step
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation, Status
from pike.engine.state.progress import Progress
from pike.engine.state.watching import WatchedRun
from pike.store import Journal

STARTED = RunStarted(
    Task("t", "t", TaskKind.SOURCE, "class Model: ...", "t.py"), RunConfig("t.py"), DeviceFacts("cpu", "a CPU"), "0.1.0"
)
TWO_ASKED = (STARTED, Asked(Step(0, Role.OPTIMISE)), Asked(Step(1, Role.OPTIMISE)))
FIRST_PROPOSED = Proposed(0, Candidate("c0", "x = 1"))
FIRST_JUDGED = (Judged("c0", Evaluation(Status.WRONG_OUTPUT, "off")), Told(0, "c0"))


def seen_after(folder: Path, *events: Event) -> Progress:
    """What a watcher shows once these events have come, too."""
    begin = Journal.open if (folder / "journal.sqlite").exists() else Journal.create
    with begin(folder) as journal:
        journal.append(*events)
    seen: list[Progress] = []
    WatchedRun(folder).until_it_ends(seen.append)
    return seen[-1]


def doing(progress: Progress) -> dict[str, str]:
    return {one.name: one.doing for one in progress.active}


def test_steps_in_flight_go_on_after_asking_stopped_for_good(tmp_path: Path) -> None:
    stopped = seen_after(tmp_path, *TWO_ASKED, FIRST_PROPOSED, Stopped("hours"))
    assert (stopped.phase, doing(stopped)) == ("searching", {"c0": "judged", "c1": "asking"})
    later = seen_after(tmp_path, Proposed(1, Candidate("c1", "x = 2")), *FIRST_JUDGED)
    assert (later.phase, doing(later)) == ("searching", {"c1": "judged"})
    assert later.refusals == (("c0", "wrong-output: off"),)
    last = seen_after(tmp_path, Judged("c1", Evaluation(Status.BUILD_ERROR)), Told(1, "c1"))
    assert (last.phase, doing(last)) == ("measuring", {})


def test_calls_that_an_interruption_gave_up_are_made_again_by_a_resume(tmp_path: Path) -> None:
    stopped = seen_after(tmp_path, *TWO_ASKED, FIRST_PROPOSED, Stopped("interrupted"))
    assert doing(stopped) == {"c0": "judged"}, "candidates are still judged"
    assert doing(seen_after(tmp_path, *FIRST_JUDGED)) == {}
    assert doing(seen_after(tmp_path, Resumed("0.1.0"))) == {"c1": "asking"}
    assert doing(seen_after(tmp_path, Proposed(1, Candidate("c1", "x = 2")))) == {"c1": "judged"}


def test_the_worker_that_has_a_candidate_is_named_until_its_process_ends(tmp_path: Path) -> None:
    taken = seen_after(tmp_path, *TWO_ASKED, FIRST_PROPOSED, Assigned("c0", "worker 2 on GPU 1"))
    assert [(one.name, one.doing, one.worker) for one in taken.active] == [
        ("c0", "judged", "worker 2 on GPU 1"),
        ("c1", "asking", ""),
    ]
    again = seen_after(tmp_path, Stopped("interrupted"), Resumed("0.1.0"))
    assert [one.worker for one in again.active if one.name == "c0"] == [""], "another process knows nothing of it"
