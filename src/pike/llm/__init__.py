"""Talking to language models through one Client protocol."""
