"""Runs in the forms of other tools: one file a form."""
