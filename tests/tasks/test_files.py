"""A task knows the files that it rests on."""

from pathlib import Path

import torch

from pike import tasks
from pike.core.task import Task

MODEL = """import torch
import layers.blocks
from scales import FACTOR
class Model(torch.nn.Module): ...
def get_inputs(): return []
def get_init_inputs(): return []
"""


def names(task: Task, folder: Path) -> set[str]:
    return {str(Path(file.path).relative_to(folder.resolve())) for file in task.files if file.digest}


def test_a_task_file_brings_what_it_imports_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "layers").mkdir()
    for name, text in {
        "model.py": MODEL,
        "scales.py": "FACTOR = 2\n",
        "unrelated.py": "",
        "layers/__init__.py": "",
        "layers/blocks.py": "from . import norms\nfrom .attention import heads\n",
        "layers/norms.py": "",
        "layers/attention.py": "import scales, layers.blocks\n",
    }.items():
        (tmp_path / name).write_text(text)
    task = tasks.resolve(str(tmp_path / "model.py"))
    layers = {"layers/__init__.py", "layers/blocks.py", "layers/norms.py", "layers/attention.py"}
    assert names(task, tmp_path) == {"model.py", "scales.py", *layers}


def test_a_live_module_brings_its_payload(tmp_path: Path) -> None:
    task = tasks.from_module(torch.nn.Linear(2, 2), (torch.ones(2),), {}, folder=tmp_path)
    assert [file.path for file in task.files] == [task.payload_path]
