"""How results look on a terminal: tables, sentences and live panels.

Knows Rich. Does not know any command.
"""
