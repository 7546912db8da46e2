"""Is it right, is it fast: the judge, the child it distrusts, and the clock that counts."""
