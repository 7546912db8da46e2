"""Campaigns as chains of jobs on a real Slurm: whatever cuts them, they end whole and pay nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from campaign_material import SOURCE
from engine_material import coa, events, write_script
from slurm_cluster import Cluster, missing

import pike
from pike.api.campaigns import Shared
from pike.core.events import Event, Judged, QueryAnswered, Resumed
from pike.engine.executors.instant import InstantExecutor
from pike.engine.external.external_run import is_run
from pike.engine.tools import slurm
from pike.store.campaigns import is_campaign

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]
QUERIES = 160
REQUEUES = 10
DRIVER = [sys.executable, str(Path(__file__).with_name("slurm_driver.py"))]
RAY = """#!/bin/bash
# Stands for Ray: it says how it was called, and runs what comes after -- on the first node.
echo "$@" >> "$0.log"
case "$1" in
    symmetric-run)
        [ -z "$IS_OLD" ] || exit 2
        until [ "$1" = -- ] || [ "$1" = --help ]; do shift; done
        if [ "$1" = -- ] && [ "$SLURM_NODEID" = 0 ]; then "${@:2}"; fi ;;
    status) printf ' %s\\n' $(grep -c ^start "$0.log" | xargs seq -f 'node_%g') ;;
    start) sleep 600 ;;
esac
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    one = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        one.start()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        one.stop()
        pytest.skip(f"Slurm cannot work here: {error}")
    yield one
    one.stop()


@pytest.fixture(scope="module", autouse=True)
def settled(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where jobs work; they inherit the environment of the one who sends them."""
    here, before = tmp_path_factory.mktemp("studies"), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", cluster.env["SLURM_CONF"])
        patch.setenv("PYTHONPATH", str(Path(slurm.__file__).parents[3]))
        os.chdir(here)
        yield here
        os.chdir(before)


@pytest.fixture(scope="module")
def array(cluster: Cluster, settled: Path) -> tuple[Path, Path]:
    """Two campaigns that go on while others are cut; the second outlives its limit of a minute."""
    studies = study(settled, "brief", 6, 0.6), study(settled, "long", 200, 0.6)
    send(studies, slurm.Allocation(1, 0, "1", 10, ("--nodelist=n2",)))
    return studies[0].with_suffix(""), studies[1].with_suffix("")


def study(folder: Path, name: str, queries: int, delay_seconds: float = 0.3) -> Path:
    (folder / "relu.py").write_text(SOURCE.format(name="relu"))
    kinds = [f"valid {2 + i}ms" if i % 3 else "build-error boom" for i in range(31)]
    answers = [coa(kind, f"coa {i}", delay_seconds=delay_seconds) for i, kind in enumerate(kinds)]
    script = write_script(folder / f"{name}.json", answers)
    path = folder / f"{name}.toml"
    path.write_text(
        f'[campaign]\ntasks = ["{folder / "relu.py"}"]\ncontenders = ["best-of-n"]\n'
        f'[llm]\ncoa = "{script}"\n[budget]\nqueries = {queries}\n[engine]\nconcurrency = 2\n'
    )
    return path


def send(studies: Sequence[Path], wanted: slurm.Allocation, command: Sequence[str] = DRIVER) -> str:
    pairs = [(one, one.with_suffix("")) for one in studies]
    return slurm.submit_script(slurm.write_script(pairs, wanted, command=command))


def found(out: Path) -> list[Event]:
    runs = list((out / "runs").glob("*")) if is_campaign(out) else []
    return [event for run in runs if is_run(run) for event in events(run)]


def resumed(out: Path) -> int:
    return sum(isinstance(event, Resumed) for event in found(out))


def verdicts(out: Path) -> Counter[Any]:
    judged = [event for event in found(out) if isinstance(event, Judged)]
    return Counter((one.candidate_id, one.effort, one.evaluation.status, one.evaluation.speedup) for one in judged)


def answered(out: Path) -> list[int]:
    """How often each query was answered."""
    return list(Counter(event.step_id for event in found(out) if isinstance(event, QueryAnswered)).values())


def said(log: Path, text: str) -> bool:
    return log.exists() and text in log.read_text()


def ended(cluster: Cluster, log: Path, text: str = "The study is complete") -> None:
    """Wait for the end of a chain: no job of it may be left."""
    cluster.wait(lambda: said(log, text))
    name = slurm.job_name(log.with_name(log.name.split(".slurm.")[0] + ".slurm.sh"))
    cluster.wait(lambda: not cluster.ask("squeue", "--noheader", "--name", name))


def test_a_study_that_is_cut_in_every_way_ends_as_one_that_is_not(
    cluster: Cluster, settled: Path, array: tuple[Path, Path]
) -> None:
    path, out = study(settled, "cut", QUERIES), settled / "cut"
    send([path], slurm.Allocation(1, 0, "30", 10, ("--nodelist=n1",)))
    cuts = {
        "a signal": lambda job: cluster.ask("scancel", "--batch", "--signal=TERM", job),
        "a kill": lambda job: cluster.ask("scancel", "--full", "--signal=KILL", job),
        **{f"requeue {i}": lambda job: cluster.ask("scontrol", "requeue", job) for i in range(REQUEUES)},
        "a lost node": lambda job: cluster.kill_node("n1", job),  # last: Slurm does not signal there for a while
    }
    for why, cut in cuts.items():
        began, before = resumed(out), len(found(out))
        cluster.wait(lambda before=before: len(found(out)) > before + 4 and cluster.jobs_on("n1"))
        for job in cluster.jobs_on("n1"):
            cut(job)
        if why == "a lost node":
            cluster.wait(lambda: not cluster.jobs_on("n1"))
            cluster.start_node("n1")
        cluster.wait(lambda began=began: resumed(out) > began)
    ended(cluster, settled / "cut.slurm.log")
    whole = pike.campaign(
        study(settled, "whole", QUERIES, 0.0), out=settled / "whole", shared=Shared(InstantExecutor())
    )
    assert verdicts(out) == verdicts(whole.folder)
    assert max(verdicts(out).values()) == 1
    assert answered(out) == [1] * QUERIES


def test_each_element_of_an_array_is_a_chain_of_its_own(
    cluster: Cluster, settled: Path, array: tuple[Path, Path]
) -> None:
    brief, long = array
    ended(cluster, settled / "brief-and-1-more.slurm.0.log")
    ended(cluster, settled / "brief-and-1-more.slurm.1.log")
    assert "was cut and goes on in job" in (settled / "brief-and-1-more.slurm.1.log").read_text()
    assert resumed(brief) == 0 < resumed(long)
    assert (answered(brief), answered(long)) == ([1] * 6, [1] * 200)


@pytest.mark.parametrize("is_old", ["", "yes"])
def test_on_several_nodes_a_study_is_signalled_through_ray(
    is_old: str, cluster: Cluster, settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = settled / f"programs{is_old}" / "ray"
    fake.parent.mkdir()
    fake.write_text(RAY)
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("IS_OLD", is_old)
    path = study(settled, f"rays{is_old}", 20)
    out, log = path.with_suffix(""), path.with_suffix(".slurm.log")
    job = send([path], slurm.Allocation(2, 0, "30", 10))
    cluster.wait(lambda: len(found(out)) > 8)
    cluster.ask("scancel", "--batch", "--signal=TERM", job)
    ended(cluster, log)
    assert resumed(out) == 1
    assert answered(out) == [1] * 20
    calls = Path(f"{fake}.log").read_text()
    assert ("--min-nodes 2 -- bash" in calls, "start --head" in calls) == (not is_old, bool(is_old))


def test_a_study_that_cannot_begin_leaves_no_job_behind(cluster: Cluster, settled: Path) -> None:
    path = settled / "bad.toml"
    path.write_text("[campaign]\ncontenders = []\n")
    send([path], slurm.Allocation(1, 0, "1", 10), (sys.executable, "-m", "pike"))
    ended(cluster, settled / "bad.slurm.log", "ended by itself with code 2")


def test_what_slurm_refuses_is_said_in_one_sentence(cluster: Cluster, settled: Path) -> None:
    wanted = slurm.Allocation(1, 0, "1", 10, ("--partition=none",))
    with pytest.raises(pike.UserError, match=r"^Slurm refuses .*partition[^\n]*$"):
        send([study(settled, "refused", 1)], wanted)
