"""Where a candidate's time goes: calls under a profiler, checked by the judge's clock."""
