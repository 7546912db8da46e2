"""Runs whose answers come from outside: a coding agent, a person, another program."""
