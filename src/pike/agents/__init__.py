"""Roles and prompts: from a step to a question, from an answer to a candidate.

Knows the prompts of each role (Markdown templates) and how to read its answer. Does not know
clients, money, or how a strategy uses the result.
"""

from pike.agents.llm_agent import LlmAgent, query_for
from pike.agents.prompts.estimate import estimate, sample
from pike.agents.prompts.fences import fence
from pike.agents.prompts.templates import version as prompts_version
from pike.agents.reading.extract import extract
from pike.agents.reading.originals import original_file

__all__ = ["LlmAgent", "estimate", "extract", "fence", "original_file", "prompts_version", "query_for", "sample"]
