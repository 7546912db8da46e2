"""The figures of runs, campaigns and suites, each with the values that it is drawn from.

Used through `choice`, which loads all kinds; `entry` is what it returns. Matplotlib is imported only
when something is drawn.
"""
