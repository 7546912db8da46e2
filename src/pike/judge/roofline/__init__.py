"""The time below which no right candidate can lie."""
