"""`pike serve` over HTTP: who may do what, and that a writer never waits for a reader."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from report_runs import TOKEN, attempt, started_run, valid

from pike.core.step import Role, Step
from pike.store import Journal


def test_without_the_token_a_server_may_only_be_read(url: str, runs: Path) -> None:
    assert httpx.post(f"{url}/api/run/whole/stop").status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}x"}
    assert httpx.post(f"{url}/api/run/whole/resume", headers=headers).status_code == 401
    told = httpx.post(f"{url}/api/run/whole/resume", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (told.status_code, told.text) == (409, "This run is finished: there is nothing to resume")
    assert httpx.get(url, headers={"Host": "evil.example"}).status_code == 403
    assert httpx.get(f"{url}/api/run/..%2F..%2Fetc/details?id=x").status_code == 404
    shown = httpx.get(url)
    assert "default-src 'none'; script-src 'sha256-" in shown.headers["content-security-policy"]
    assert "unsafe" not in shown.headers["content-security-policy"]


def test_a_run_is_stopped_as_ctrl_c_does(url: str, runs: Path) -> None:
    code = (
        "import signal, sys, time; sys.path.insert(0, sys.argv[2])\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell's background ignores it\n"
        "from pathlib import Path\nfrom report_runs import started_run\nfrom pike.store import Journal\n"
        "journal = Journal.create(Path(sys.argv[1])); journal.append(started_run())\n"
        "print('ready', flush=True)\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(runs / "worked"), str(Path(__file__).parent)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    told = httpx.post(f"{url}/api/run/worked/stop", headers={"Authorization": f"Bearer {TOKEN}"})
    assert told.status_code == 200, told.text
    assert worker.communicate(timeout=20)[0] == "interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [(["", "--host", "0.0.0.0"], "--allow-host"), (["nowhere"], "give the folder in which runs are")],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: list[str], cure: str) -> None:
    command = [sys.executable, "-m", "pike", "serve", str(tmp_path / arguments[0]), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert cure in done.stderr


def test_watching_does_not_keep_a_writer_waiting(url: str, runs: Path) -> None:
    with Journal.create(runs / "watched") as journal, httpx.stream("GET", f"{url}/api/run/watched/events") as stream:
        journal.append(started_run())
        lines = stream.iter_lines()
        slowest = 0.0
        for number in range(30):
            began = time.monotonic()
            journal.append(*attempt(Step(number, Role.OPTIMISE), "x", valid(1.1)))
            slowest = max(slowest, time.monotonic() - began)
        seen = set()
        for line in lines:
            if line.startswith("data: "):
                event = json.loads(line[6:])
                seen |= {row["id"] for row in event.get("rows", event.get("view", {}).get("rows", ()))}
            if len(seen) == 30:
                break
        assert slowest < 20.0, "a lock of the reader would hold the writer for SQLite's thirty seconds"


def test_why_a_resume_could_not_begin_is_told(url: str, runs: Path) -> None:
    with Journal.create(runs / "lost") as journal:
        journal.append(started_run())
    told = httpx.post(f"{url}/api/run/lost/resume", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60.0)
    assert (told.status_code, told.text.count("\n")) == (409, 0)
    assert told.text == (runs / "lost" / "resume.log").read_text().strip()
    assert "openai:model-a" in told.text
