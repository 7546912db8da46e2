"""Figures of what candidates are written with, and how long they are."""
