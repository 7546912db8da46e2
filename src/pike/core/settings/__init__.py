"""What a user may set: configuration, budgets and campaign files, as frozen records."""
