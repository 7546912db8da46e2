"""One session as a coding agent has it: a process of its own, standard streams, a real judge."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from server_material import call, error

from pike.cli import main

TASK = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return [64]


print("noise on stdout that must not reach the client")
"""
GOOD = TASK.replace("Model(", "ModelNew(").replace("torch.relu(self.linear(x))", "self.linear(x).relu_()")
WRONG = GOOD.replace(".relu_()", "")
QUICK = [
    *("--device", "cpu", "--set", "evaluate.threads=1", "--set", "evaluate.max_timing_seconds=0.3"),
    *("--set", "evaluate.correctness_seeds=1", "--set", "evaluate.timeout_seconds=60.0"),
]


async def test_a_session_from_the_first_look_to_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny.py").write_text(TASK)
    arguments = ["-m", "pike", "mcp", "tiny.py", "--query-budget", "3", *QUICK]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=tmp_path)
    async with Client(parameters) as client:
        assert client.instructions is not None
        assert "evaluate" in client.instructions
        listed = await call(client, "list_tasks")
        assert "tiny" in {row["task"] for row in listed["tasks"]}
        run = (await call(client, "start_run", task="tiny"))["run"]
        assert "class Model(torch.nn.Module)" in (await call(client, "read_task"))["brief"]

        wrong = await call(client, "evaluate", source=WRONG)
        assert wrong["evaluation"]["status"] == "wrong-output"
        assert "max error" in wrong["evaluation"]["reason"]
        assert wrong["budget"]["queries_left"] == 2

        good = await call(client, "submit", source=GOOD, parent=wrong["candidate"], author="a test")
        assert good["evaluation"]["status"] in ("valid", "untrusted-timing")
        assert (good["parent"], good["budget"]["queries_left"]) == ("c0", 1)
        assert "binary" in await error(client, "evaluate", source="\0")
        assert (await call(client, "budget"))["queries_left"] == 1

    assert main.run(["report", str(tmp_path / "runs" / run)]) == 0
    assert "2 of 3 queries" in capsys.readouterr().out
    page = (tmp_path / "runs" / run / "report.html").read_text()
    assert "wrong-output" in page
    assert "a test" in page
