"""Small runs in the layouts of other tools, written here; nothing in them was copied."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.rand(4, 4)]


def get_init_inputs():
    return []
"""


def candidate(mark: str) -> str:
    return f"import torch\n\n\nclass ModelNew(torch.nn.Module):\n    # {mark}\n    def forward(self, x):\n        return x\n"


def put(path: Path, what: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(what if isinstance(what, str) else json.dumps(what))


def attempt(folder: Path, code: str, prompt: str, results: dict[str, Any] | None, usage: dict[str, Any]) -> None:
    """One attempt as PIKE's authors keep it."""
    put(folder / "code.py", code)
    put(folder / "prompt.md", prompt)
    put(folder / "response.md", f"Here it is\n```python\n{code}```")
    put(folder / "raw_response.json", usage)
    runtime = (results or {}).get("eval_results", {}).get("runtime")
    metrics = {"runtime": runtime, "combined_score": 1 / runtime} if runtime else {"error": "Eval failed"}
    put(folder / "metrics_artifacts.json", {"metrics": metrics, "artifacts": {"results": results}} if results else {})


def pike_data(root: Path) -> Path:
    """A data folder with one task, whose second line of work starts from the first."""
    task = root / "full-pike-runs/level_3-pike/h100_level_3-pike_pike-b/runs/runs/run_0/run/tasks/task8"
    put(task / "initial_program.py", f"# EVOLVE-BLOCK-START\n{TASK}\n# EVOLVE-BLOCK-END\n")
    put(task / "output/ideas/ideas.json", ["fuse it", "use half"])
    google = {"usage_metadata": {"prompt_token_count": 100, "total_token_count": 350}, "model_version": "gemini-x"}
    openai = {"usage": {"prompt_tokens": 10, "total_tokens": 15}, "model": "gemini-x"}
    iterations = task / "output/iter_output"
    wrong = {"stdout": "s", "stderr": "bad", "timed_out": False, "eval_results": {"loaded": True, "correct": False}}
    attempt(iterations / "iter_0/attempts/attempt_0", candidate("wrong"), TASK, wrong, google)
    good = {"stdout": "", "stderr": "", "timed_out": False, "eval_results": {"loaded": True, "correct": True}}
    fixed = {**good, "eval_results": {**good["eval_results"], "runtime": 2.0}}  # type: ignore[dict-item]
    attempt(iterations / "iter_0/attempts/attempt_1", candidate("fixed"), candidate("wrong"), fixed, openai)
    fast = {**good, "eval_results": {**good["eval_results"], "runtime": 0.5}}  # type: ignore[dict-item]
    attempt(iterations / "iter_1/attempts/attempt_0", candidate("fast"), f"Improve\n{candidate('fixed')}", fast, google)
    late = {"stdout": "", "stderr": "", "timed_out": True, "eval_results": {"loaded": False}}
    attempt(iterations / "iter_10/attempts/attempt_0", candidate("late"), TASK, late, google)
    attempt(iterations / "iter_2/attempts/attempt_0", candidate("lost"), "", None, {})
    for name, runtime in (("eager", 4.0), ("compile", 2.5)):
        times = {"title": name, "results": [{"problem_id": 8, "runtime": runtime}, {"problem_id": 9, "runtime": None}]}
        put(root / f"baseline-runtimes/h100_level_3-pike/{name}.json", times)
    return root


def checkpoint(folder: Path) -> Path:
    """A checkpoint of OpenEvolve: the original, two children and a copy on another island."""
    programs = [
        {"id": "root", "code": TASK, "metrics": {"combined_score": 0.25, "runtime": 4.0}, "timestamp": 100.0},
        {
            "id": "child",
            "code": candidate("child"),
            "parent_id": "root",
            "iteration_found": 1,
            "timestamp": 110.0,
            "metrics": {"combined_score": 0.5, "runtime": 2.0},
            "metadata": {"changes": "Full rewrite"},
            "prompts": {"full_rewrite_user": {"system": "be quick", "user": "make it fast", "responses": ["done"]}},
        },
        {
            "id": "copy",
            "code": candidate("child"),
            "parent_id": "child",
            "iteration_found": 0,
            "timestamp": 111.0,
            "metrics": {"combined_score": 0.5, "runtime": 2.0},
            "metadata": {"migrant": True},
        },
        {
            "id": "broken",
            "code": candidate("broken"),
            "parent_id": "copy",
            "iteration_found": 2,
            "timestamp": 130.0,
            "metrics": {"combined_score": 0.0, "error": "Eval failed"},
        },
    ]
    for program in programs:
        put(folder / "programs" / f"{program['id']}.json", program)
    put(folder / "metadata.json", {"islands": [["root", "child"], ["copy"]], "last_iteration": 2})
    return folder


def archipelago(folder: Path, count: int = 16) -> Path:
    """A checkpoint of OpenEvolve whose programs live on two islands; every fourth one is broken."""
    programs: list[dict[str, Any]] = [{"id": "root", "code": TASK, "metrics": {"runtime": 4.0}, "timestamp": 100.0}]
    islands: list[list[str]] = [["root"], []]
    for number in range(1, count):
        parent = islands[number % 2][-1:] or ["root"]
        broken = number % 4 == 3
        metrics = {"combined_score": 0.0, "error": "Eval failed"} if broken else {"runtime": 4.0 / (1 + 0.1 * number)}
        program = {"id": f"p{number}", "code": candidate("tile " * number), "parent_id": parent[0], "metrics": metrics}
        programs.append({**program, "iteration_found": number, "timestamp": 100.0 + 30 * number})
        islands[number % 2] += [] if broken else [f"p{number}"]
    for one in programs:
        put(folder / "programs" / f"{one['id']}.json", one)
    put(folder / "metadata.json", {"islands": islands, "last_iteration": count})
    return folder


def shinka(path: Path) -> Path:
    """A database of ShinkaEvolve with an original, a better program and a wrong one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE programs (id TEXT PRIMARY KEY, code TEXT NOT NULL, language TEXT NOT NULL, parent_id TEXT, "
        "generation INTEGER NOT NULL, timestamp REAL NOT NULL, combined_score REAL, public_metrics TEXT, "
        "text_feedback TEXT, correct BOOLEAN DEFAULT 0, metadata TEXT, island_idx INTEGER)"
    )
    better = json.dumps(
        {"model_name": "gpt-x", "api_costs": 0.25, "patch_name": "tiles", "patch_description": "bigger"}
    )
    rows = [
        ("a", TASK, None, 0, 100.0, 1.0, 1, "", "{}"),
        ("a2", TASK, None, 0, 100.5, 1.0, 1, "", "{}"),
        ("b", candidate("b"), "a2", 1, 120.0, 3.0, 1, "good", better),
        ("c", candidate("c"), "b", 2, 150.0, 0.0, 0, "outputs differ", better),
    ]
    connection.executemany(
        "INSERT INTO programs VALUES (?, ?, 'python', ?, ?, ?, ?, '{}', ?, ?, ?, 0)",
        [(id, code, parent, gen, at, score, log, ok, meta) for id, code, parent, gen, at, score, ok, log, meta in rows],
    )
    connection.commit()
    connection.close()
    return path
