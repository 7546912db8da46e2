"""What suites and campaigns compare: contenders, the plan of their cells, and results."""
