"""Have a language model behind an OpenAI-compatible API rewrite a model that lives in a file.

Shows `--llm openai:MODEL@URL` in Python, the budget of calls, and the estimate before the run. A fake
server plays the language model, so that no key is needed: it brings an idea, a file that is wrong, and
one that is right. For a real one, leave out the server and set `LLM` to `openai:gpt-5` or the like.
Takes under a minute. Arguments are settings, for example `evaluate.device=cpu`.
"""

import sys
from pathlib import Path

import pike
from pike.llm.fake_server import FakeReply, FakeServer

MODEL = Path(__file__).parent / "models" / "row_by_row.py"

ALL_ROWS = """Normalise all rows at once.
```python
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        return self.linear(centred / (x.std(1, keepdim=True) + 1e-5))
```"""
FORGETS_THE_SCALE = ALL_ROWS.replace("centred / (x.std(1, keepdim=True) + 1e-5)", "centred")


def main(settings: list[str]) -> None:
    """Ask for three answers, and print what each candidate came to."""
    answers = [FakeReply(text) for text in ("1. Normalise all rows at once.", FORGETS_THE_SCALE, ALL_ROWS)]
    with FakeServer(answers, default=answers[-1]) as server:
        llm = f"openai:fake-model@{server.url}"
        expected = pike.estimate(MODEL, llm=llm, query_budget=2)
        print(f"expected: {expected.calls} calls, {expected.input_tokens:,} tokens in")
        done = pike.optimize(MODEL, llm=llm, query_budget=2, concurrency=1, settings=settings)

    print(done)
    for status, number in done.result.counts:
        print(f"{number} candidate(s): {status.value}")
    print(f"{done.result.spend.queries} queries, {done.result.spend.tokens} tokens")
    if done.result.best is not None:
        print(done.result.best.source)


if __name__ == "__main__":
    main(sys.argv[1:])
