"""Recipes that hand a graph to a compiler or record it as a CUDA graph."""
