"""What a graph is called, and which token it belongs to."""

import re
from pathlib import Path

from ggscope.readers.json_walk import integer_of

_TOKEN_NAME = re.compile(r"(?:^|[-_.])token[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_MAX_TOKEN = (1 << 31) - 1


def title_of(path: Path, stated: object = None) -> tuple[int, str]:
    """Return (token, title) of a graph file.

    Parameters
    ----------
    stated : what the file says its token is; wins over the name of the file.

    Returns
    -------
    Token -1 and the file's name where neither tells one.
    """
    token = -1
    number = integer_of(stated)
    if number is not None:
        token = number if 0 <= number <= _MAX_TOKEN else -1
    elif found := _TOKEN_NAME.search(path.stem):
        token = int(found[1])
    return token, f"token {token}" if token >= 0 else path.name
