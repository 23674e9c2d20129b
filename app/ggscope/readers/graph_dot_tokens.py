"""Tokens of a DOT text, where they stand, and what is no token."""

import re
from dataclasses import dataclass
from enum import IntEnum

_TOKEN = re.compile(
    r"(?P<blank>\s+|//[^\n]*|(?<![^\n])\#[^\n]*)"
    # ggml never breaks a line within a string; a stray quote must not swallow the
    # rest of the file, so only a backslash carries a string into the next line.
    # Possessive: a group that may give back keeps 170 bytes for every character.
    r'|(?P<text>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")'
    r"|(?P<arrow>->|--)"
    r"|(?P<sign>[\[\]{};=,:+])"
    r"|(?P<word>-?(?:\.\d+|\d+(?:\.\d*)?)|[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)"
    r"|(?P<html><)"
    r"|(?P<comment>/\*)",
    re.DOTALL,
)
_QUOTED_PIECE = re.compile(r'\\(["\n])')
_ANGLE = re.compile("[<>]")
_MAX_HTML = 4096


class Kind(IntEnum):
    """What a token is."""

    WORD = 0
    """An identifier, number or quoted text."""
    ARROW = 1
    SIGN = 2
    """One of ``[ ] { } ; = , : +``."""
    STRAY = 3
    """A character that begins no token, or a text without an end."""
    END = 4


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes
    ----------
    text : without quotes; escapes other than that of the quote are kept.
    at : number of its first character.
    is_quoted : whether it stood in quotes, and so is no keyword.
    """

    kind: Kind
    text: str
    at: int
    is_quoted: bool = False


class Tokens:
    """The tokens of a text, one after the other.

    Parameters
    ----------
    text : of the whole file.

    Attributes
    ----------
    at : number of the character that is looked at next; may be moved.
    """

    def __init__(self, text: str) -> None:
        self.at = 0
        self._text = text

    def next(self) -> Token:
        """Return the next token; END, again and again, behind the last one."""
        text = self._text
        while (found := _TOKEN.match(text, self.at)) is not None:
            at, self.at = self.at, found.end()
            group = found.lastgroup
            if group == "blank":
                continue
            if group == "comment":
                end = text.find("*/", self.at)
                self.at = len(text) if end < 0 else end + 2
                continue
            if group == "html":
                return self._html(at)
            if group != "text":
                return Token(_KINDS[group or ""], found.group(), at)
            inner = found.group()[1:-1]
            if "\\" in inner:
                inner = _QUOTED_PIECE.sub(_unquoted, inner)
            return Token(Kind.WORD, inner, at, True)
        if self.at >= len(text):
            return Token(Kind.END, "", len(text))
        self.at += 1
        return Token(Kind.STRAY, text[self.at - 1], self.at - 1)

    def _html(self, at: int) -> Token:
        """Return the balanced ``<…>`` that begins at `at`."""
        depth = 0
        for found in _ANGLE.finditer(self._text, at, at + _MAX_HTML):
            depth += 1 if found.group() == "<" else -1
            if depth == 0:
                self.at = found.end()
                return Token(Kind.WORD, self._text[at : self.at], at, True)
        return Token(Kind.STRAY, "<", at)


_KINDS = {"word": Kind.WORD, "arrow": Kind.ARROW, "sign": Kind.SIGN}


def _unquoted(found: re.Match[str]) -> str:
    return '"' if found[1] == '"' else ""
