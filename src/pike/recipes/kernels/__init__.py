"""Kernels in Triton, CUDA and C++, and the operators that put them into a graph."""
