"""Experiment trackers: one file each, all with the same names and numbers."""
