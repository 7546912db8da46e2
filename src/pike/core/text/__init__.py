"""Texts that others wrote: parsed, and made safe to show."""
