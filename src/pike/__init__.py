"""PIKE: PyTorch Inference Kernel Evolution."""

__version__ = "0.1.0"
