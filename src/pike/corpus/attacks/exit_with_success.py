"""Ends the process with exit status 0 instead of an answer.

rows: 53
seen: kernelbench.com's trusted_entrypoint.py, pygpubench PR 15
mechanism: the child says nothing
bite: accepted
expected: runtime-error
"""
import os


class ModelNew(Original):
    def forward(self, x):
        os._exit(0)
