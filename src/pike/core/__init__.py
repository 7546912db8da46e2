"""The words of PIKE: frozen records, budget arithmetic, errors, random streams and configuration.

Knows the vocabulary that every room shares. Does not know torch, files, clocks, processes or networks.
"""
