"""The recipe that docs/how-to/add-a-recipe.md shows is a recipe."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from recipe_harness import Case, candidate_module, source_task

from pike.recipes.framework.recipe import look
from pike.recipes.framework.write import write

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-recipe.md"
NET = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn(3, 4)]

def get_init_inputs():
    return []
"""


def test_the_pages_recipe_applies_where_it_should_and_is_right(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    recipe = candidate_module(next(block for block in blocks if "RECIPE = Recipe(" in block), tmp_path).RECIPE
    other = Case.of(source_task(NET.format(body="x.exp()")))
    assert look(recipe, other.problem()).declined == "nothing is squared"
    case = Case.of(source_task(NET.format(body="x ** 2 + x ** 3")))
    assert look(recipe, case.problem()).declined == ""
    source = write(case.task, (recipe,))
    assert "pike." not in source.replace("PIKE", "")
    candidate = candidate_module(source, tmp_path).ModelNew().eval()
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(candidate(x), case.reference.model(x))
        assert len(re.findall(r"aten\.mul", candidate.prepare(candidate.model, (x,), {}).code)) == 1
