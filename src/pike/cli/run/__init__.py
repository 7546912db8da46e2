"""Commands that carry out a run or judge a candidate.

Knows what they ask before money is spent and what they print. Does not know how a run works.
"""
