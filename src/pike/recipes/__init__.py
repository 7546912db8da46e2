"""Candidates without an LLM: composable, readable rewrites."""
