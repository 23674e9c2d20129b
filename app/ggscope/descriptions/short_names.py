"""Names cut in the middle: those of C++ functions fill pages."""

_TABLE_CHARS, _SENTENCE_CHARS = 80, 48


def short_name(text: str) -> str:
    """Return a name for a table."""
    return _cut(text, _TABLE_CHARS)


def name_in_sentence(text: str) -> str:
    """Return a name for a sentence."""
    return _cut(text, _SENTENCE_CHARS)


def _cut(text: str, n_chars: int) -> str:
    if len(text) <= n_chars:
        return text
    half = (n_chars - 1) // 2
    return f"{text[: n_chars - 1 - half]}…{text[-half:]}"
