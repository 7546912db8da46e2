"""What carries evaluations out: judges here, an instant fake, or an earlier run's verdicts. Also what
explores models for recipes.

Knows the seam between the run loop and what judges. Does not judge (`judge`).
"""
