"""How fast: interleaved blocks by the judge's clock, and what could have disturbed them."""
