"""Selections: the ways to choose the next move."""
