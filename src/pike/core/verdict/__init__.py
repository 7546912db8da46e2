"""What a judge says of a candidate, as frozen records."""
