r"""Escape text from traces: one function per destination.

Names of ops, tensors and files, metadata, problems, filters: whatever the program
did not write itself is data. It is never rich text, never a command of a terminal,
never a resource that is loaded, never a formula and never part of a path.

================================== ===========================================
Destination                        Function
================================== ===========================================
label, dialog, title, picture      `plain` (several lines), `one_line` (a name)
button, menu, tab: & is a mnemonic `caption`
tooltip                            `tooltip`
rich text of the program's own     `html`, `join_html`; arguments are escaped
terminal, log                      `one_line` (a name in a line); `ggscope.cli.output`
                                   puts everything it prints through `plain`
XML, SVG, HTML file                `xml`; a whole document: `plain`
CSV, TSV                           `csv_text`, `tsv_text`, `tsv_line`
Markdown                           `markdown`, `markdown_row`
JSON                               `json_text`: data stays data
file name                          `file_name`
================================== ===========================================

Widgets do not call these: `ggscope.views.base.safe_text` has labels and tooltips that
do. ``tests/contract/test_text_rules.py`` finds text that is shown unescaped.
"""

import re
from collections.abc import Iterable, Sequence

Value = str | int | float | None
"""A cell: a str is text, a number is one that the program computed, None is empty."""

MAX_TIP = 2000
"""Characters of a tooltip; more would cover the screen."""
MAX_NAME_BYTES = 255 - 32
"""Bytes of a derived file name: what file systems take, less some for a suffix that
another program may add, such as one for temporary or compressed files."""

# What a reader of text cannot see, or what changes how the rest of it is shown:
# control characters, direction marks and overrides, line separators, joiners that
# show nothing, tags, halves of surrogate pairs and what is no character at all.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f"
    + "".join(
        f"{chr(plane | 0xFFFE)}{chr(plane | 0xFFFF)}"
        for plane in range(0x10000, 0x110000, 0x10000)
    )
)
_IN_LINES = re.compile(f"[{_HIDDEN}]")
_IN_NAMES = re.compile(f"[{_HIDDEN}\t\n]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_FORMULA = re.compile(r"[ \u00a0]*[=+\-@\t\r\n＝＋－＠]")
_MARKS = re.compile(r"[\\|`*<\[~&#]|(?<![^\W_])_|_(?![^\W_])")
_MARKS_OF_ALL = re.compile(r"[\\|`*_<\[~&#]")
_NOT_IN_NAMES = re.compile(r'[/\\:*?"<>|]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


def plain(text: str) -> str:
    r"""Return `text` with invisible characters escaped; line ends and tabs stay.

    Each shows as its escape, ``\x1b`` or ``\u202e``, which every font and encoding
    has, unlike symbols such as ␛. Half a surrogate pair, which no encoding takes, is
    ``\udc80``. The result is good in XML, once escaped.
    """
    return _IN_LINES.sub(_shown, text) if _IN_LINES.search(text) else text


def one_line(text: str) -> str:
    r"""Return `text` as `plain`, with line ends and tabs shown too."""
    return _IN_NAMES.sub(_shown, text) if _IN_NAMES.search(text) else text


def caption(text: str) -> str:
    """Return `text` for a button, menu or tab, where & would mark a key."""
    return one_line(text).replace("&", "&&")


class Html(str):
    """Rich text that the program wrote; only `html` and `join_html` make it.

    Adding to it gives a plain str again, which is shown as plain text.
    """

    __slots__ = ()


def html(template: str, *parts: object) -> Html:
    """Return rich text: `template`, which the program wrote, with parts put in.

    Parts are escaped, but those that are Html already. `template` is a literal.
    """
    return Html(
        template.format(*(p if isinstance(p, Html) else xml(str(p)) for p in parts))
    )


def join_html(parts: Iterable[Html], between: Html | None = None) -> Html:
    """Return pieces of rich text as one."""
    return Html(("" if between is None else between).join(parts))


def tooltip(text: str) -> str:
    """Return `text` for a tooltip, which Qt shows as rich text where it looks so.

    Html stays what it is. Of all else at most `MAX_TIP` characters are shown.
    """
    if isinstance(text, Html):
        return text
    shown = plain(text if len(text) <= MAX_TIP else text[: MAX_TIP - 1] + "…")
    # What Qt takes for rich text has a tag or "&lt;" in it.
    if "<" in shown or "&lt;" in shown:
        return html("<p style='white-space:pre-wrap'>{}</p>", shown)
    return shown


def xml(text: str) -> str:
    """Return `text` for XML, SVG and HTML: escaped, and no character they forbid."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;")
    return escaped.replace(">", "&gt;").replace('"', "&quot;").replace("'", "&#x27;")


def csv_text(rows: Iterable[Sequence[Value]]) -> str:
    """Return rows as CSV; text stays text in a spreadsheet, never a formula.

    A text that a spreadsheet would take for a formula (= + - @ first, or a tab or
    line end) has an apostrophe put before it. Numbers are left as they are.
    """
    return "".join(",".join(_quoted(_cell(v)) for v in row) + "\n" for row in rows)


def tsv_line(values: Sequence[Value]) -> str:
    """Return one line of `tsv_text`, without its end."""
    return "\t".join(one_line(_cell(_flat(value))) for value in values)


def tsv_text(rows: Iterable[Sequence[Value]]) -> str:
    """Return rows as tab-separated lines, defused as in `csv_text`.

    Tabs and line ends within a cell become spaces: the form has no quotes.
    """
    return "".join(tsv_line(row) + "\n" for row in rows)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON with invisible characters escaped.

    Raises
    ------
    ValueError
        If a number is not finite: make it None before.
    """
    import json  # only machines read it

    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return _IN_LINES.sub(_json_escape, text)


def json_strings(texts: Sequence[str]) -> list[str]:
    """Return texts as JSON strings, as `json_text` does, many at once."""
    from json.encoder import encode_basestring

    return [_IN_LINES.sub(_json_escape, encode_basestring(text)) for text in texts]


def markdown(text: str, *, any_dialect: bool = False) -> str:
    """Return `text` for a line or cell of Markdown, shown as it is.

    Parameters
    ----------
    any_dialect : escape _ within words too, which old dialects take for emphasis;
        else names stay as they are read where nothing renders them.
    """
    marks = _MARKS_OF_ALL if any_dialect else _MARKS
    return marks.sub(r"\\\g<0>", one_line(" ".join(text.split())))


def markdown_row(cells: Iterable[str], *, any_dialect: bool = False) -> str:
    """Return a row of a Markdown table, without its end; see `markdown`."""
    shown = (markdown(cell, any_dialect=any_dialect) for cell in cells)
    return "| " + " | ".join(shown) + " |"


def file_name(stem: str, suffix: str = "") -> str:
    """Return a name for a file that the program makes, derived from `stem`.

    It names a file in the folder where it is put and nothing else: no separators,
    no control characters, no dot, dash or space first, none of the device names
    that Windows reserves, and short enough for a temporary name beside it.

    Parameters
    ----------
    suffix : the program's own, e.g. ``.timeline.png``; it is never cut.
    """
    seen = _IN_NAMES.sub("_", _NOT_IN_NAMES.sub("_", stem))
    safe = seen.lstrip(".- ").rstrip(". ")
    if _DEVICES.match(safe):
        safe = f"_{safe}"
    max_bytes = max(MAX_NAME_BYTES - len(suffix.encode()), 1)
    cut = safe.encode()[:max_bytes].decode("utf-8", "ignore").rstrip(". ")
    return (cut or "trace") + suffix


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in _SHORT:
        return _SHORT[match[0]]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _flat(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    return " ".join(value.splitlines()).replace("\t", " ")


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _quoted(cell: str) -> str:
    # The csv module leaves a lone CR as it is, and then cannot read it back.
    is_bare = not any(mark in cell for mark in ',"\r\n')
    return cell if is_bare else '"' + cell.replace('"', '""') + '"'


def _cell(value: Value) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    return f"'{value}" if _FORMULA.match(value) else value
