"""What a program printed when it failed, cut down to what its author can mend.

Knows the form of Python's tracebacks and of a compiler's output. Keeps the candidate's own frames
and leaves out folders of the machine. Does not know verdicts.
"""

import re

_FRAME = re.compile(r'^  File "(?P<path>[^"\n]*)", line \d+.*\n(?:    .*\n?)*', re.MULTILINE)
_EMPTY = re.compile(
    r"^Traceback \(most recent call last\):\n(?P<error>\S.*\n)"
    r"\n(?:The above exception was the direct cause|During handling of the above exception).*\n\n",
    re.MULTILINE,
)
_NO_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?=\S)", re.MULTILINE)
_OWN = re.compile(r"(?:^|/)candidate\.py$")
_NOISE = (
    re.compile(r"^(?:In file included from|\s+from) .*:\d+[,:](?:\n|\Z)", re.MULTILINE),
    re.compile(r" -(?:isystem|I) ?\S+"),
)
_FOLDERS = (
    (re.compile(r"(?<![\w.])/[^\s\"':]*/pike-\d+-\w+/(?:now/)?(?:extensions/)?"), ""),
    (re.compile(r"(?<![\w.])/[^\s\"':]*/(?=(?:site|dist)-packages/)"), ""),
    (re.compile(r"(?<![\w.])/[^\s\"':]*/(?=lib/python\d)"), ""),
)
_ERROR = re.compile(r"^[A-Za-z_][\w.]*: .+")
EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: |$)")
"""How a reason begins that Python's own exception gave."""


def without_folders(text: str) -> str:
    """`text` without the folders of the machine in front of file names."""
    for pattern, put in _FOLDERS:
        text = pattern.sub(put, text)
    return text


def own_part(text: str) -> str:
    """A log with the candidate's own frames only and each error once, without folders."""
    text = _FRAME.sub(lambda frame: frame[0] if _OWN.search(frame["path"]) else "", text)
    text = _NO_FRAMES.sub("", _EMPTY.sub("", text))
    for pattern in _NOISE:
        text = pattern.sub("", text)
    seen: set[str] = set()
    kept = []
    for line in without_folders(text).splitlines():
        error = line.strip() if _ERROR.match(line) else ""
        if not error or error not in seen:
            kept.append(line)
        seen.add(error)
    return "\n".join(kept).strip()
