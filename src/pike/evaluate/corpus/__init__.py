"""The corpus: candidates that cheat and candidates that only look odd, each with the verdict it is owed.

Samples are data: they are read, composed with the model of their task and judged like any candidate, never imported.
"""

from pike.evaluate.corpus.bait import Bait
from pike.evaluate.corpus.catalogue import Kind, Sample, catalogue
from pike.evaluate.corpus.trial import Outcome, judge_sample, obstacle

__all__ = ["Bait", "Kind", "Outcome", "Sample", "catalogue", "judge_sample", "obstacle"]
