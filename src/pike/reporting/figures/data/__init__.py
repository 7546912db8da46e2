"""Runs, campaigns and suites as plain records, and the figures that others published."""
