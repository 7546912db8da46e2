"""Commands that only look: at tasks, strategies, the machine and finished runs.

Knows what each prints. Does not know where it comes from (`api`).
"""
