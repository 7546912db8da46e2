"""How many tokens a text has, without a tokenizer.

Knows two rules of thumb over characters and bytes. Does not know any model's tokenizer: figures
that a provider reports replace these.
"""

CHARACTERS_PER_TOKEN = 4
"""English prose has 4 to 5 characters a token, Python and CUDA source 3 to 4."""
BYTES_PER_TOKEN_AT_LEAST = 2
"""Dense source (indices, operators) stays above 2 bytes a token in every tokenizer we looked at."""
MESSAGE_TOKENS = 64
"""Room for the framing that chat protocols add to a system prompt and a user prompt."""


def approximate_tokens(text: str) -> int:
    """The likely token count of `text`: one token for 4 characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def most_tokens(*texts: str) -> int:
    """An upper bound of the prompt tokens of one call with these texts, for reserving money."""
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return -(-size // BYTES_PER_TOKEN_AT_LEAST) + MESSAGE_TOKENS
