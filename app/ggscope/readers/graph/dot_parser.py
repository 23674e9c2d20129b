"""Statements of DOT files: nodes, edges, and what cannot be understood.

Follows the grammar of Graphviz (``graph``, ``digraph``, subgraphs, chains of edges,
default attributes, ports), and goes on with the next line where a statement breaks
it: one odd name must not cost the graph. ggml writes a statement per line and does not
escape names, so its own lines are taken as they stand: that is also quicker.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ggscope.errors import LimitExceededError

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
MAX_NESTING = 64
MAX_STATEMENT = 1 << 18
"""Nodes and edges of one statement: groups multiply, so a line can mean millions."""

_MAX_ATTRIBUTES = 64
_GGML_NODE = re.compile(
    r'"([^"\n]+)" \[ style = filled; fillcolor = (\w+); shape = record; '
    r'label="([^\n]*)"; \][ \t]*\r?\n'
)
_GGML_EDGE = re.compile(
    r'"([^"\n]+)"(?::\w+)? -> "([^"\n]+)"(?::\w+)? '
    r'\[(?: arrowhead = \w+; style = \w+;)? label = "([^"\n]*)"; \][ \t]*\r?\n'
)
_BARE_QUOTE = re.compile(r'(?<!\\)"')


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
        while (match := _TOKEN.match(text, self.at)) is not None:
            at, self.at = self.at, match.end()
            group = match.lastgroup
            if group == "blank":
                continue
            if group == "comment":
                end = text.find("*/", self.at)
                self.at = len(text) if end < 0 else end + 2
                continue
            if group == "html":
                return self._html(at)
            if group != "text":
                return Token(_KINDS[group or ""], match.group(), at)
            inner = match.group()[1:-1]
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
        for angle in _ANGLE.finditer(self._text, at, at + _MAX_HTML):
            depth += 1 if angle.group() == "<" else -1
            if depth == 0:
                self.at = angle.end()
                return Token(Kind.WORD, self._text[at : self.at], at, True)
        return Token(Kind.STRAY, "<", at)


_KINDS = {"word": Kind.WORD, "arrow": Kind.ARROW, "sign": Kind.SIGN}


def _unquoted(match: re.Match[str]) -> str:
    return '"' if match[1] == '"' else ""


@dataclass(frozen=True, slots=True)
class NodeStatement:
    """A node with attributes; an edge's ends do not declare nodes."""

    id: str
    attributes: Mapping[str, str]
    at: int


@dataclass(frozen=True, slots=True)
class EdgeStatement:
    """One edge; chains and groups are taken apart."""

    source: str
    target: str
    attributes: Mapping[str, str]
    is_directed: bool
    at: int


@dataclass(frozen=True, slots=True)
class GraphStart:
    """Another graph begins."""

    name: str
    at: int


@dataclass(slots=True)
class Faulty:
    """How often something occurs, and where first; -1 nowhere."""

    count: int = 0
    first: int = -1

    def add(self, at: int) -> None:
        """Count one more, at character `at`."""
        self.first = at if self.first < 0 else self.first
        self.count += 1


@dataclass(slots=True)
class Faults:
    """What was not understood.

    Attributes
    ----------
    statements : broken statements, by where they begin.
    quotes : labels that hold quotes, which breaks the syntax; they were understood
        all the same.
    unfinished : whether the text ends within a graph.
    trailing : where text behind the graph begins; -1 none.
    """

    statements: Faulty = field(default_factory=Faulty)
    quotes: Faulty = field(default_factory=Faulty)
    unfinished: bool = False
    trailing: int = -1


class _BrokenError(Exception):
    """The statement at hand cannot be understood."""


Statement = NodeStatement | EdgeStatement | GraphStart


class DotParser:
    """Goes through a text once.

    Parameters
    ----------
    text : of the whole file.

    Attributes
    ----------
    faults : complete once `statements` has come to its end.
    """

    def __init__(self, text: str) -> None:
        self.faults = Faults()
        self._text = text
        self._tokens = Tokens(text)
        self._now = self._tokens.next()
        self._depth = 0
        self._found: list[Statement] = []

    def statements(self) -> Iterator[Statement]:
        """Yield what the text says, in order."""
        while not self._at_end:
            start = self._start()
            if start is None:
                if self.faults.trailing < 0:
                    self.faults.trailing = self._now.at
                self._skip_line()
                continue
            yield start
            self._depth = 1
            while self._depth and not self._at_end:
                self._statement_or_skip()
                yield from self._found
                self._found.clear()
            self.faults.unfinished |= self._depth > 0

    def _start(self) -> GraphStart | None:
        """Take ``strict digraph NAME {``; None where no graph begins here."""
        at = self._now.at
        if self._is_keyword("strict"):
            self._next()
        if not self._is_keyword("graph", "digraph"):
            return None
        self._next()
        name = ""
        if self._now.kind is Kind.WORD:
            name = self._next().text
        if not self._is_sign("{"):
            # A file cut within its first line is a graph without anything.
            self.faults.unfinished |= self._now.kind is Kind.END
            return GraphStart(name, at) if self._now.kind is Kind.END else None
        self._next()
        return GraphStart(name, at)

    def _statement_or_skip(self) -> None:
        at = self._now.at
        if self._ggml_line(at):
            return
        try:
            self._statement()
        except _BrokenError:
            # What a group held before it broke is kept.
            self.faults.statements.add(at)
            self._skip_line()

    def _ggml_line(self, at: int) -> bool:
        """Take a line exactly as ggml writes it; return whether there was one."""
        if not self._now.is_quoted:
            return False
        if edge := _GGML_EDGE.match(self._text, at):
            statement: Statement = EdgeStatement(
                edge[1], edge[2], {"label": edge[3]}, True, at
            )
            end = edge.end()
        elif node := _GGML_NODE.match(self._text, at):
            statement = NodeStatement(
                node[1], {"fillcolor": node[2], "label": node[3]}, at
            )
            end = node.end()
            if '"' in node[3] and _BARE_QUOTE.search(node[3]):
                self.faults.quotes.add(at)
        else:
            return False
        self._found.append(statement)
        self._tokens.at = end
        self._now = self._tokens.next()
        return True

    def _statement(self) -> None:
        """Take one statement; nodes and edges go to ``self._found``."""
        if self._is_sign("}"):
            self._next()
            self._depth -= 1
            return
        if self._is_sign(";", ","):
            self._next()
            return
        if self._is_keyword("graph", "node", "edge"):
            self._next()
            self._attributes()
            return
        at = self._now.at
        is_node = not self._is_sign("{") and not self._is_keyword("subgraph")
        ends = self._end()
        if self._is_sign("=") and is_node:
            self._next()
            self._word()
        elif self._now.kind is Kind.ARROW:
            self._edges(ends, at)
        elif is_node:
            self._found.append(NodeStatement(ends[0], self._attributes(), at))

    def _edges(self, first: list[str], at: int) -> None:
        chain, arrows, n_edges = [first], [], 0
        while self._now.kind is Kind.ARROW:
            arrows.append(self._next().text == "->")
            chain.append(self._end())
            n_edges += len(chain[-2]) * len(chain[-1])
            self._check_size(n_edges)
        attributes = self._attributes()
        self._found.extend(
            EdgeStatement(source, target, attributes, is_directed, at)
            for i, is_directed in enumerate(arrows)
            for source in chain[i]
            for target in chain[i + 1]
        )

    def _end(self) -> list[str]:
        """Take one end of an edge: a node with its port, or a group of nodes."""
        if self._is_keyword("subgraph"):
            self._next()
            if self._now.kind is Kind.WORD:
                self._next()
            if not self._is_sign("{"):
                raise _BrokenError
        if self._is_sign("{"):
            return self._group()
        node = self._word()
        for _ in range(2):
            if self._is_sign(":"):
                self._next()
                self._word()
        return [node]

    def _group(self) -> list[str]:
        """Take ``{ … }``; return the nodes named in it."""
        if self._depth >= MAX_NESTING:
            raise _BrokenError
        self._next()
        outer, first = self._depth, len(self._found)
        self._depth += 1
        while self._depth > outer:
            if self._now.kind is Kind.END:
                raise _BrokenError
            self._statement()
            self._check_size(0)
        named: dict[str, None] = {}
        for statement in self._found[first:]:
            if isinstance(statement, NodeStatement):
                named[statement.id] = None
            elif isinstance(statement, EdgeStatement):
                named[statement.source] = named[statement.target] = None
        return list(named)

    def _attributes(self) -> dict[str, str]:
        """Take any number of ``[ key = value; … ]``."""
        attributes: dict[str, str] = {}
        while self._is_sign("["):
            self._next()
            while not self._is_sign("]"):
                if self._is_sign(";", ","):
                    self._next()
                    continue
                key, value = self._word(), ""
                if self._is_sign("="):
                    self._next()
                    value = self._word()
                if len(attributes) < _MAX_ATTRIBUTES:
                    attributes[key] = value
            self._next()
        return attributes

    def _check_size(self, n_more: int) -> None:
        """Refuse a statement of more than `MAX_STATEMENT` nodes and edges."""
        if len(self._found) + n_more > MAX_STATEMENT:
            raise LimitExceededError(
                f"a statement defines more than {MAX_STATEMENT:,} nodes and edges.",
                hint="Is this the graph of a model?",
            )

    def _word(self) -> str:
        """Take an identifier; ``"a" + "b"`` is one."""
        if self._now.kind is not Kind.WORD:
            raise _BrokenError
        text = self._next().text
        if not self._is_sign("+"):
            return text
        parts = [text]
        while self._is_sign("+"):
            self._next()
            if self._now.kind is not Kind.WORD:
                raise _BrokenError
            parts.append(self._next().text)
        return "".join(parts)

    @property
    def _at_end(self) -> bool:
        return self._now.kind is Kind.END

    def _is_sign(self, *signs: str) -> bool:
        return self._now.kind is Kind.SIGN and self._now.text in signs

    def _is_keyword(self, *keyword: str) -> bool:
        now = self._now
        return (
            now.kind is Kind.WORD and not now.is_quoted and now.text.lower() in keyword
        )

    def _next(self) -> Token:
        token = self._now
        if token.kind is not Kind.END:
            self._now = self._tokens.next()
        return token

    def _skip_line(self) -> None:
        """Go to the first token of the next line."""
        end = self._text.find("\n", self._now.at)
        self._tokens.at = len(self._text) if end < 0 else end
        self._now = self._tokens.next()
