"""The right answers of a task: its reference model, its inputs, and answers in float64."""
