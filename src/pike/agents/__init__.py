"""Roles and prompts: from a step to a question, from an answer to a candidate."""
