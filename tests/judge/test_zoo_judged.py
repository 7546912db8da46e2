"""Models of the zoo as their users have them are judged: what they take, return and hold."""

import pytest

from pike import tasks
from pike.baselines.catalogue import EAGER
from pike.baselines.write import source
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Status

JUDGED = {
    "bert_base": "keywords, a mask, and a ModelOutput",
    "gpt2_decode": "a cache that grows by a token in each call",
    "gat": "edges, that is indices of nodes",
    "lstm_3_layers": "a tuple in a tuple",
    "hubert_base": "parametrised weights",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JUDGED)
def test_the_model_itself_is_a_valid_candidate(verdict, name):
    try:
        task = tasks.resolve(f"zoo/{name}:small")
    except UserError as missing:
        pytest.skip(str(missing))
    found = verdict(source(EAGER, task), task, max_timing_seconds=0.2, lint=False)
    assert found.status is Status.VALID, found.reason
    assert found.error is not None and found.error.max_abs == pytest.approx(0.0, abs=1e-5)
