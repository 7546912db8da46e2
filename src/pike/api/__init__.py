"""The verbs of PIKE for Python."""
