"""The corpus: candidates that cheat or only look odd, each with its expected verdict.

Samples are data: they are read, composed with the model of their task and judged like any
candidate. They are never imported.
"""

from pike.corpus.bait import Bait
from pike.corpus.catalogue import CorpusSample, SampleKind, catalogue
from pike.corpus.judging import SampleOutcome, judge_sample, obstacle

__all__ = ["Bait", "CorpusSample", "SampleKind", "SampleOutcome", "catalogue", "judge_sample", "obstacle"]
