"""Capturing a model as a graph, and editing that graph."""
