"""What a text states that another one does not, in whatever words."""

import re


def new_statements(text: str, other: str) -> list[str]:
    """Return the statements of `text` that `other` lacks, numbers left out of account.

    A statement is a sentence, a line or a part of one between semicolons or dots; two
    that differ in their numbers alone are the same.
    """
    known = {_form(statement) for statement in _statements(other)}
    return [s for s in _statements(text) if _form(s) not in known]


def new_statement(text: str, other: str) -> str:
    """Return the only statement of `text` that `other` lacks."""
    (statement,) = new_statements(text, other)
    return statement


def _statements(text: str) -> list[str]:
    parts = re.split(r"\n+|<br>|(?<=[.;])\s+|\s·\s|\s\|\s", text)
    return list(dict.fromkeys(filter(None, (part.strip(" .;") for part in parts))))


def _form(statement: str) -> str:
    return re.sub(r"\d[\d,.]*", "#", statement)
