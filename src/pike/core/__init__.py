"""The words of PIKE: frozen records, budget arithmetic, errors, random streams, configuration.

Knows the vocabulary that every room shares. Does not know torch, files, clocks or networks.
"""
