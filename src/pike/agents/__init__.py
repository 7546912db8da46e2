"""Roles and prompts: from a step to a question, from an answer to a candidate.

Knows what each role is told (Markdown templates) and how its answer is read. Does not know clients, money, or what a
strategy does with the result.
"""

from pike.agents.estimate import QueryEstimate, estimate
from pike.agents.extract import Extraction, extract
from pike.agents.ideas import MOST_IDEAS, parse_ideas
from pike.agents.llm_agent import Asker, LlmAgent, query_for
from pike.agents.prompting import Prompt, render

__all__ = [
    "MOST_IDEAS",
    "Asker",
    "Extraction",
    "LlmAgent",
    "Prompt",
    "QueryEstimate",
    "estimate",
    "extract",
    "parse_ideas",
    "query_for",
    "render",
]
