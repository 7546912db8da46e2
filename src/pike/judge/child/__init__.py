"""Runs beside the candidate: standard library and torch, nothing of ours but `core`."""
