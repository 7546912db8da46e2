"""What pages show of a run, a campaign and a folder, as plain values, and the file that holds it.

Knows the words of a page. Does not know how they are laid out (`assets`) or sent (`server`).
"""
