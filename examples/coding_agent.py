"""Play a coding agent that uses PIKE as its judge, by the commands that any agent can run.

Shows the loop of `pike ask`, `pike tell` and `pike finish` with their JSON answers: the agent writes,
PIKE judges, and every judged file uses one query of the budget. An agent that speaks MCP has the same
moves as tools (`pike mcp`). Takes under a minute. Arguments are settings, for example
`evaluate.device=cpu`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parent / "models" / "row_by_row.py"

HEAD = """import torch

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
"""
DRAFTS = [
    HEAD + "        return self.linear(x - x.mean(1, keepdim=True))\n",
    HEAD + "        return self.linear((x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5))\n",
]
"""What this agent knows to write. A real one reads the prompt and the verdicts."""


def pike(*words: str) -> dict[str, Any]:
    """Run one command and give its JSON answer."""
    done = subprocess.run([sys.executable, "-m", "pike", *words, "--json"], stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main(settings: list[str]) -> None:
    """Begin a run, hand in each draft, and end the run when one is valid."""
    options = [word for setting in settings for word in ("--set", setting)]
    with tempfile.TemporaryDirectory() as work:
        run, draft = str(Path(work) / "run"), Path(work) / "draft.py"
        pike("optimize", str(MODEL), "--strategy", "agent", "--query-budget", "5", "--out", run, *options)
        print(f"the prompt has {len(pike('ask', run)['prompt']):,} characters")
        for source in DRAFTS:
            draft.write_text(source)
            told = pike("tell", run, str(draft), "--author", "the example")
            verdict = told["evaluation"]
            print(f"{told['candidate']}: {verdict['status']} {verdict['reason']} ({told['queries_left']} queries left)")
            if verdict["status"] == "valid":
                break
        print(f"reported speedup: {pike('finish', run)['speedup']}")


if __name__ == "__main__":
    main(sys.argv[1:])
