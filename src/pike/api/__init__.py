"""The verbs of PIKE for Python, and what the command line and the server need beside them.

Knows what people can ask for and in which words; `pike` names what is public. Does not know how
anything is done (`engine`) nor terminals (`cli`).
"""
