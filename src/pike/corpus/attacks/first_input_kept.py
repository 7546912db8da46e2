"""Keeps the first input object and reads that one for ever, whatever it is called with.

Right as long as every input lies where the first one lay; a model that runs elsewhere gets the wrong answer.

rows: 20, 16
seen: kernelbench.com PR 7 (a stale pointer in a captured graph)
mechanism: inputs change their place (finalists)
effort: final
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = x
        return super().forward(self.kept)
