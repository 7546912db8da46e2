"""Commands that compare strategies, baselines and recipes on many tasks.

Knows what they print. Does not know how anything is measured (`api`).
"""
