"""Exit codes, as users' scripts know them."""

from ggscope.errors import AmbiguousFormatError, TraceError, UnknownFormatError

GOOD = 0
ERROR = 1
USAGE = 2
FORMAT = 3
"""Unknown or ambiguous format."""
DATA_LOSS = 4
"""Data was lost and ``--strict`` asked for an error then."""
INTERRUPTED = 130
SIGNALLED = 128
"""Plus the number of the signal that ended the program: 143 for SIGTERM."""


def code_of(error: TraceError) -> int:
    """Return the exit code that a failure stands for."""
    if isinstance(error, UnknownFormatError | AmbiguousFormatError):
        return FORMAT
    return ERROR
