"""The verbs of PIKE for the terminal."""
