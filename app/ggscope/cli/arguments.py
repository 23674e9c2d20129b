"""The arguments of every command."""

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from ggscope import __version__
from ggscope.cli import output, values
from ggscope.sanitize import one_line

if TYPE_CHECKING:
    pass

NAMES = ("all", "sampled", "none")
COMMANDS = {
    "open": "open files in the window (also without the word)",
    "info": "say what a file holds",
    "check": "list every problem of a file",
    "stats": "totals, means and percentiles",
    "hot": "which tensors are read most, and which never",
    "cache": "what a page cache of some size would read from disk",
    "residency": "how much of a model file is in the page cache now",
    "show": "draw a timeline in the terminal",
    "export": "write a figure as PNG, SVG or PDF",
    "thumbnail": "draw a small picture of a file, for file managers",
    "convert": "write a trace in another format",
    "report": "write one HTML page that tells of a trace and opens anywhere",
    "live": "follow a program that runs: records, losses and lag, each second",
    "readers": "list the formats that can be read, or the op tables",
    "bench": "measure opening a file and moving through it",
    "self-test": "check that this installation works",
    "samples": "list the traces that come with ggscope, or copy them",
    "config": "print every setting, and where each one comes from",
    "completion": "print a script that completes ggscope in a shell",
    "man": "print the manual page",
}
EPILOG = """exit codes: 0 good, 1 error, 2 usage, 3 unknown or ambiguous format,
4 data loss with --strict, 130 interrupted, 128 + n ended by signal n. A closed pipe
is no error.
A file that is named like a command is opened as ./info."""
_REPLACES = "replace files that are there; "
_WRITING = ("export", "convert", "check", "report")
SHELLS = ("bash", "zsh", "fish")
_LOG_LEVELS = ("debug", "info", "warning", "error", "fatal", "warn", "critical")
_TABLE_FORMATS = ("table", "csv", "json")


class _Parser(argparse.ArgumentParser):
    """Complains in one line, whatever was typed, and where help cannot be printed."""

    def _print_message(self, message: str, file: object = None) -> None:
        # Python's own passes over what cannot be written.
        if message and file is sys.stdout:
            output.emit(message)
        elif message:
            output.tell(message)

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Asked for with every argument, to try its metavar.
        made = cast(type[argparse.HelpFormatter], self.formatter_class)
        return made(self.prog, width=_help_width())


@cache
def _help_width() -> int:
    """Return what argparse takes from shutil, which is slow to import."""
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdecimal() else 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(1).columns
        except OSError:
            columns = 80
    return (columns or 80) - 2


def parse(argv: Sequence[str]) -> Namespace:
    """Return the arguments; the command is in ``command``.

    Raises
    ------
    SystemExit
        With 0 after help or the version, with 2 after a usage message.

    Notes
    -----
    Of a command with ``--jobs`` what follows it is in ``words``, for processes that
    are to do a part.
    """
    first = argv[0] if argv else ""
    if first in ("-V", "--version"):
        return make_parser(()).parse_args(argv)
    if first in ("-h", "--help"):
        return make_parser().parse_args(argv)
    # Only behind options it has to be known which words are values of them.
    valued = _valued(make_parser()) if first.startswith("-") else set()
    command, others = _command(list(argv), valued)
    arguments = make_parser((command,)).parse_args([command, *others])
    if hasattr(arguments, "jobs"):
        arguments.words = others
    return arguments


def make_parser(commands: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return a parser of some commands; to make that of all takes its time."""
    common = _common()
    parser = _Parser(
        prog="ggscope",
        description="Viewer for inference traces of llama.cpp, ggml and NPUs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"ggscope {__version__}"
    )
    made = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog="ggscope"
    )
    for name in commands:
        text = COMMANDS[name]
        command = made.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            parents=[common],
            allow_abbrev=False,
        )
        if name in _READING:
            _add_reading(name, command)
        if name in _OWN:
            _OWN[name](command)
        if name == "open" and not set(COMMANDS) - set(commands):
            parser.epilog = f"{_window_options(command)}\n{EPILOG}"
    return parser


def _window_options(command: argparse.ArgumentParser) -> str:
    """Return the options of the window, which need no command."""
    formatter = command._get_formatter()
    formatter.start_section("options of the window (ggscope [FILE ...])")
    for group in command._action_groups:
        if group.title == "options":
            actions = (a for a in group._group_actions if a.dest != "help")
            formatter.add_arguments(actions)
    formatter.end_section()
    return formatter.format_help()


def _command(argv: list[str], valued: set[str]) -> tuple[str, list[str]]:
    """Return the command that is named, else "open", and the other arguments."""
    for place, word in _words(argv, valued):
        if word in COMMANDS:
            return word, [*argv[:place], *argv[place + 1 :]]
        is_name = not any(mark in word for mark in (os.sep, "/", ".", "\\"))
        if is_name and not os.path.lexists(word):
            import difflib  # only for a word that is wrong

            close = difflib.get_close_matches(word, COMMANDS, 1)
            guess = f" Did you mean {close[0]}?" if close else ""
            make_parser(()).error(f"{word!r} is neither a command nor a file.{guess}")
        break
    return "open", argv


def _words(argv: list[str], valued: set[str]) -> list[tuple[int, str]]:
    """Return (place, word) of the words that are no options and no values of them."""
    found: list[tuple[int, str]] = []
    i = 0
    while i < len(argv):
        if argv[i] == "--":
            return found + [(k, argv[k]) for k in range(i + 1, len(argv))]
        if not argv[i].startswith("-") or argv[i] == "-":
            found.append((i, argv[i]))
        elif argv[i] in valued:
            i += 1
        i += 1
    return found


def _valued(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of all commands that take a value."""
    (made,) = (
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {
        flag
        for command in made.choices.values()
        for action in command._actions
        for flag in action.option_strings
        if action.nargs != 0
    }


def _common() -> _Parser:
    """Return the options of every command."""
    common = _Parser(add_help=False, allow_abbrev=False)
    group = common.add_argument_group("for every command")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument(
        "--safe-mode", action="store_true", help="no plug-ins, default settings"
    )
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="say more; twice for everything",
    )
    group.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        help="a JSON file with settings, such as ggml-viz's; ggscope config --explain "
        "has its keys",
    )
    group.add_argument(
        "--log-level",
        type=str.lower,
        metavar="LEVEL",
        choices=_LOG_LEVELS,
        help="debug, info, warning, error or fatal",
    )
    for name, text in (("timestamp", "time"), ("thread-id", "thread")):
        group.add_argument(
            f"--log-{name}",
            action=argparse.BooleanOptionalAction,
            help=f"log lines with the {text}",
        )
    group.add_argument("--log-prefix", metavar="TEXT", help="what log lines begin with")
    group.add_argument(
        "-V", "--version", action="version", version=f"ggscope {__version__}"
    )
    for flag in ("--web", "--no-hook"):
        group.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    group.add_argument("--port", help=argparse.SUPPRESS)
    return common


def _add_reading(name: str, parser: _Parser) -> None:
    """Add the files and how to read them."""
    parser.add_argument(
        "files",
        nargs=_READING[name],
        type=Path,
        metavar="FILE",
    )
    group = parser.add_argument_group("reading")
    names = ["--reader"] if name == "stats" else ["--format", "--reader"]
    group.add_argument(
        *names,
        dest="reader",
        metavar="NAME",
        help="read as this format; see ggscope readers",
    )
    group.add_argument(
        "--ops",
        metavar="ERA",
        help="op table: an id (ggscope readers --ops), a date such as 2025-11, or auto",
    )
    # Where --range is free it means the same; elsewhere it is a range of time.
    flags = ["--records"]
    if name in ("info", "check"):
        flags.append("--range")
    group.add_argument(
        *flags,
        dest="records",
        type=values.records_text,
        metavar="FIRST:STOP",
        help="read only these records, by number or per cent, e.g. 0:1000000",
    )
    group.add_argument(
        "--names",
        choices=NAMES,
        help="read names of all records, of a sample, or none",
    )
    group.add_argument(
        "--force",
        action="store_true",
        help=(_REPLACES if name in _WRITING else "")
        + "read the file even if it will hardly fit into memory",
    )
    group.add_argument(
        "--with",
        dest="beside",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="read this file too, as part of the same session; may be repeated",
    )
    group.add_argument(
        "--gguf",
        dest="beside",
        action="append",
        type=Path,
        metavar="MODEL",
        help="the model file that was run: places and sizes of its tensors",
    )
    group.add_argument(
        "--shift",
        action="append",
        default=[],
        metavar="FILE=TIME",
        type=values.key_value,
        help="add this to the times of a file of the session, e.g. "
        "buffers.jsonl=-1.5ms, instead of what the clocks tell",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=values.key_value,
        help="option of the reader; may be repeated",
    )


def _add_open(parser: _Parser) -> None:
    parser.add_argument(
        "--theme", choices=("auto", "light", "dark"), help="auto follows the desktop"
    )
    parser.add_argument(
        "--software-gl", action="store_true", help="draw without the graphics card"
    )
    parser.add_argument("--range", metavar="A:B", help="show this part, e.g. 1ms:2ms")
    parser.add_argument("--layout", metavar="NAME", help="dual, grid or single")
    parser.add_argument(
        "-l",
        "--live",
        nargs="?",
        const="",
        metavar="RING|FILE|PID",
        help="follow a program that runs, in a window of its own; without a value the "
        "ring of GGSCOPE_RING, else the newest there is, or the next",
    )
    _add_poll_interval(parser)
    parser.add_argument(
        "--demo",
        action="store_true",
        help="trace a llama.cpp on a made model and follow it; both are brought where "
        "they are not there",
    )
    parser.add_argument(
        "--new-window",
        action="store_true",
        help="open a window of its own; else the files go to the window that is open, "
        "unless --theme, --layout, --software-gl or --safe-mode is given",
    )
    desktop = parser.add_mutually_exclusive_group()
    desktop.add_argument(
        "--install-desktop",
        action="store_true",
        help="tell the Linux desktop of this person about the program: double click, "
        "menu, icons and thumbnails, for installations without a package",
    )
    desktop.add_argument(
        "--uninstall-desktop", action="store_true", help="undo --install-desktop"
    )


def _add_info(parser: _Parser) -> None:
    parser.add_argument(
        "--formats", action="store_true", help="list the formats that can be read"
    )
    parser.add_argument(
        "--system",
        action="store_true",
        help="report versions and graphics, for bug reports",
    )


def _add_check(parser: _Parser) -> None:
    parser.add_argument(
        "--strict", action="store_true", help="exit with 4 where data was lost"
    )
    parser.add_argument(
        "--report",
        type=values.target,
        metavar="FILE",
        help="write a report too: .html, .md or .json; what is there is replaced only "
        "with --force",
    )


class _TimeOrRecords(argparse.Action):
    """Takes a range of time, as other commands do, or of records, as it always did."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: Namespace,
        value: object,
        option_string: str | None = None,
    ) -> None:
        """Put it where it belongs."""
        times = values.times(str(value))
        if times is not None:
            namespace.begin, namespace.end = times
            return
        try:
            namespace.records = values.records_text(str(value))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from error


def _add_stats(parser: _Parser) -> None:
    from ggscope.model.selection import BY

    parser.add_argument(
        "--by", choices=BY, default="op", metavar="WHAT", help=", ".join(BY)
    )
    parser.add_argument(
        "--where",
        default="",
        metavar="EXPR",
        help='only these, e.g. "layer=0-3 (source=disk or size>1MiB) not op=ADD"; '
        "the guide lists fields and signs",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="only spans that touch the time from here on, e.g. 1.5ms; durations are "
        "those of whole spans, what of them lies inside is the column 'in range'",
    )
    parser.add_argument("--to", dest="end", metavar="TIME", help="up to here")
    parser.add_argument(
        "--range",
        action=_TimeOrRecords,
        metavar="A:B",
        help="--from A --to B where they are times with a unit, e.g. 1ms:2ms; numbers "
        "alone and per cent are --records",
    )
    # Once made durations those of cut pieces; "in range" tells that now, always.
    parser.add_argument("--clip", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--limit",
        type=values.positive,
        metavar="N",
        help="only the first N rows; without --sort those are the longest",
    )
    parser.add_argument(
        "--sort",
        choices=values.Names(_stat_columns),
        metavar="COLUMN",
        help="largest first by this column; default: total, by token latency",
    )
    parser.add_argument(
        "--columns",
        choices=_COLUMNS,
        type=_COLUMNS.of,
        metavar="NAMES",
        help="columns of the table, like count,total,rate; default: all that say "
        "something, in a terminal as many as fit",
    )
    parser.add_argument(
        "-w",
        "--wide",
        action="store_true",
        help="all columns, however wide the terminal is",
    )
    parser.add_argument(
        "--include-estimated",
        action="store_true",
        help="count estimated and unfinished durations too",
    )
    parser.add_argument(
        "--format",
        default="table",
        metavar="table|csv|json",
        help="how to print; a reader's name is taken as --reader",
    )


def _add_hot(parser: _Parser) -> None:
    parser.add_argument(
        "--by",
        choices=("tensor", "layer", "component", "expert"),
        default="tensor",
        metavar="WHAT",
        help="tensor (default), layer, component or expert",
    )
    parser.add_argument("--range", metavar="A:B", help="this part, e.g. 1ms:2ms")
    parser.add_argument(
        "--limit",
        type=values.positive,
        metavar="N",
        default=20,
        help="lines, default 20",
    )


def _add_residency(parser: _Parser) -> None:
    parser.add_argument(
        "--limit",
        type=values.positive,
        metavar="N",
        default=20,
        help="lines, those that lack the most first; default 20",
    )


def _add_live(parser: _Parser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="RING|FILE|PID",
        help="a ring, a trace file that grows, or a process that is traced; none: the "
        "ring of GGSCOPE_RING, else the newest of a program that runs",
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="list the programs that run ggml now, and whether each can be followed",
    )
    parser.add_argument(
        "--seconds",
        type=values.watch_seconds,
        metavar="N",
        help="how long; without it until the program ends",
    )
    parser.add_argument(
        "--save",
        metavar="OUT.bin",
        help="then write what was recorded: records of 256 bytes with their sidecar, "
        "or a copy of the file that grew",
    )
    _add_poll_interval(parser)


def _add_cache(parser: _Parser) -> None:
    parser.add_argument(
        "--cache-size",
        type=values.bytes_of,
        action="append",
        metavar="SIZE",
        help="size of the page cache, e.g. 6GiB; several times for several sizes; "
        "default: eighths of what the run reads",
    )
    parser.add_argument(
        "--read-ahead",
        type=values.count,
        default=0,
        metavar="N",
        help="tensors that are read ahead after a miss, default 0",
    )
    parser.add_argument(
        "--pin",
        type=values.percent,
        default=90,
        metavar="N",
        help="pin experts for so many per cent of their hits, default 90",
    )
    parser.add_argument(
        "--with-row-reads",
        action="store_true",
        help="count GET_ROWS too, as if it read whole tensors",
    )
    parser.add_argument("--range", metavar="A:B", help="this part, e.g. 1ms:2ms")


def _add_show(parser: _Parser) -> None:
    from ggscope.analysis.rows.colorings import coloring_ids

    parser.add_argument(
        "--ascii",
        action="store_true",
        help="draw with letters, as it does in any case",
    )
    parser.add_argument(
        "--width", type=values.positive, metavar="N", help="columns of the picture"
    )
    parser.add_argument("--range", metavar="A:B", help="this part, e.g. 1ms:2ms")
    parser.add_argument(
        "--color-by",
        choices=coloring_ids(),
        default="family",
        metavar="WHAT",
        help="what letters mean: " + ", ".join(coloring_ids()),
    )


def _views() -> tuple[str, ...]:
    from ggscope.render.figures import FIGURES

    return tuple(FIGURES)


def _stat_columns() -> tuple[str, ...]:
    from ggscope.analysis.statistics.columns import table_columns

    return tuple(table_columns())


def _measures() -> tuple[str, ...]:
    from ggscope.analysis.statistics.columns import measures

    return tuple(measures())


_VIEWS = values.Names(_views, several=True, every="all")
_COLUMNS = values.Names(_stat_columns, several=True)


def _add_export(parser: _Parser) -> None:
    from ggscope.analysis.rows.colorings import coloring_ids

    views = _views()
    parser.add_argument(
        "--view",
        choices=_VIEWS,
        type=_VIEWS.of,
        default="timeline",
        metavar="VIEW",
        help=", ".join(views) + "; several like timeline,heatmap, or all, into a "
        "folder; default timeline",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="leave figures that are there as they are, and write the others",
    )
    parser.add_argument(
        "--jobs",
        type=values.positive,
        metavar="N",
        help="so many of several files at once, each in its own process, and never "
        "more than fit into memory; default: as many as there are cores",
    )
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")
    # Which of the files: said by the process that runs several of them.
    parser.add_argument("--only", type=values.count, help=argparse.SUPPRESS)
    parser.add_argument(
        "--rows",
        choices=("token", "pass", "time", "layer"),
        help="heatmap: what its rows are; default: what tells most",
    )
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="statistics: what a bar is, e.g. op, layer or token, as in ggscope stats; "
        "hot: tensor, layer, component or expert",
    )
    parser.add_argument(
        "--measure",
        choices=values.Names(_measures),
        metavar="COLUMN",
        help="statistics: what a bar is as long as, e.g. latency, rate or bytes; "
        "default total",
    )
    parser.add_argument(
        "--include-estimated",
        action="store_true",
        help="statistics: also times that are estimated or unfinished",
    )
    parser.add_argument(
        "--graph",
        type=values.count,
        default=0,
        metavar="N",
        help="graph: which one of several, from 0",
    )
    parser.add_argument(
        "--expanded", action="store_true", help="graph: every layer opened"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=values.target,
        required=True,
        metavar="FILE",
        help="figure (.png, .svg, .pdf; a graph also as .dot), or a folder for one PNG "
        "per file; what is there is replaced only with --force",
    )
    parser.add_argument(
        "--size",
        type=values.size,
        metavar="WxH",
        help="size in points of 1/96 inch; each view has a default",
    )
    parser.add_argument(
        "--dpi",
        type=values.dpi,
        metavar="N",
        help="dots per inch of a PNG; default that of the preset, else 96",
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark", "print"),
        help="default: that of the preset, else print",
    )
    _add_look(parser)
    parser.add_argument("--range", metavar="A:B", help="this part, e.g. 1ms:2ms")
    parser.add_argument(
        "--color-by",
        choices=coloring_ids(),
        default="family",
        metavar="WHAT",
        help=", ".join(coloring_ids()),
    )
    parser.add_argument(
        "--title", help='title line; default: the file\'s name, "" for none'
    )
    parser.add_argument(
        "--where",
        default="",
        metavar="EXPR",
        help="draw the spans outside this filter pale",
    )


def _add_look(parser: _Parser) -> None:
    """Add the options of a `FigureStyle` beside size, dpi and theme."""
    from ggscope.render.figure_style import PRESET_WORDS

    parser.add_argument(
        "--preset",
        choices=tuple(PRESET_WORDS),
        metavar="NAME",
        help="; ".join(f"{name}: {text}" for name, text in PRESET_WORDS.items()),
    )
    for side in ("width", "height"):
        parser.add_argument(
            f"--{side}",
            type=values.length,
            default=argparse.SUPPRESS,
            metavar="LENGTH",
            help="e.g. 88mm, 1600px (of the PNG) or 3.5in; auto: as the content needs",
        )
    parser.add_argument(
        "--font",
        type=values.font,
        default=argparse.SUPPRESS,
        metavar="PT",
        help="size of the usual letters, e.g. 7pt; auto: 8.25pt",
    )
    parser.add_argument(
        "--transparent", action="store_true", help="no paper behind a PNG or SVG"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--seen",
        action="store_true",
        help="with the selection, marks, notes and lanes that --options tells",
    )
    kind.add_argument(
        "--clean", action="store_true", help="without them; this is the default"
    )
    parser.add_argument(
        "--options",
        type=values.json_object,
        default={},
        metavar="JSON",
        help="what the window has set, as its figure dialog writes it",
    )
    for part in ("legend", "color-bar", "notes"):
        parser.add_argument(
            f"--no-{part}", action="store_true", help=f"leave out the {part}"
        )
    parser.add_argument(
        "--caption",
        type=values.target,
        metavar="FILE",
        help="write what the figure shows and leaves out, - prints it",
    )


_CONVERTS_TO = {
    "chrome-json": "trace events for Perfetto, Tracy and chrome://tracing",
    "csv": "spans as a table; also tsv, markdown, json, parquet (by duckdb)",
    "tsv": "",
    "json": "",
    "markdown": "",
    "parquet": "",
    "folded": "stacks with their time for flamegraph.pl and speedscope",
    "ggmlviz": "a trace of its own: begins and ends of ops and graphs",
    "tensor-256": "a trace of its own: ops and what they read, 256 bytes each",
    "perfetto": "packets of Perfetto; needs its Python package",
    "token-json": "one token-NNNNN.json per pass of a tensor-access trace",
}


def _add_convert(parser: _Parser) -> None:
    parser.add_argument(
        "--to",
        choices=tuple(_CONVERTS_TO),
        required=True,
        metavar="FORMAT",
        help="; ".join(f"{to}: {text}" for to, text in _CONVERTS_TO.items() if text),
    )
    parser.add_argument(
        "-o",
        "--output",
        type=values.target,
        required=True,
        metavar="FILE",
        help="the file; for token-json the folder for the files, which are written all "
        "or none, made where it is missing; what is there is replaced only with "
        "--force",
    )
    parser.add_argument(
        "--range",
        metavar="A:B",
        help="only spans that lie in this part of the time or reach into it, whole, "
        "e.g. 1ms:2ms; not for token-json",
    )
    parser.add_argument(
        "--where",
        default="",
        metavar="EXPR",
        help="only spans that match this filter; not for token-json",
    )
    parser.add_argument(
        "--sort",
        choices=("start", "duration", "wait", "bytes"),
        help="of tables: the rows with the most first, of start the earliest; default: "
        "as in the trace",
    )
    parser.add_argument(
        "--limit",
        type=values.positive,
        metavar="N",
        help="of tables: only the first N rows",
    )
    parser.add_argument(
        "--schema",
        choices=("128", "256", "1024"),
        help="schema of token-json, by the records it stands for; default: that of "
        "the trace",
    )


def _add_report(parser: _Parser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=values.target,
        required=True,
        metavar="FILE",
        help="the page (.html), below 5 MB; what is there is replaced only with "
        "--force",
    )
    parser.add_argument(
        "--view",
        choices=_VIEWS,
        type=_VIEWS.of,
        metavar="VIEW",
        help="figures of these views, like timeline,heatmap; default: of all that "
        "have something to show",
    )


def _add_bench(parser: _Parser) -> None:
    parser.add_argument(
        "--seconds",
        type=values.seconds,
        default=5.0,
        metavar="N",
        help="how long to pan and zoom, default 5",
    )
    parser.add_argument(
        "--rounds",
        type=values.positive,
        default=1,
        metavar="N",
        help="open the file so often, each time in a new process; print medians",
    )
    parser.add_argument(
        "--size",
        type=values.size,
        default=(1920, 1080),
        metavar="WxH",
        help="size of the timeline while it moves, default 1920x1080",
    )
    parser.add_argument(
        "--renderer",
        choices=("auto", "raster", "opengl"),
        default="auto",
        help="what draws: auto, raster or opengl",
    )
    parser.add_argument(
        "--panes",
        action="store_true",
        help="also measure the file heatmap, the graph and selecting; opens all panes",
    )


def _add_config(parser: _Parser) -> None:
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say what each setting means, and its flag, key and variable",
    )
    parser.add_argument(
        "-l",
        "--live",
        action="store_const",
        const="",
        help="as of ggscope open, to see where a value comes from",
    )
    _add_poll_interval(parser)


def _add_poll_interval(parser: _Parser) -> None:
    parser.add_argument(
        "--poll-interval",
        dest="poll_interval_ms",
        metavar="MS",
        help="read what is followed so often; 0, the default: as fast as news comes",
    )


def _add_readers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ops",
        action="store_true",
        help="list the op tables of ggml instead, which --ops of the other commands "
        "takes",
    )


def _add_completion(parser: _Parser) -> None:
    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish"
    )


def _add_samples(parser: _Parser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        metavar="FOLDER",
        help="copy them into this folder, which is made where it is missing",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files that are there"
    )


def _add_self_test(parser: _Parser) -> None:
    parser.add_argument("--probe-gl", action="store_true", help=argparse.SUPPRESS)


_READING: dict[str, str | int] = {
    "open": "*",
    "info": "*",
    "bench": 1,
    "convert": 1,
    "report": 1,
    **dict.fromkeys(("check", "stats", "hot", "cache", "show", "export"), "+"),
    "residency": "+",
}
"""Commands that read files, and how many."""


def _add_thumbnail(parser: _Parser) -> None:
    parser.add_argument("input", type=Path, metavar="IN")
    parser.add_argument("output", type=Path, metavar="OUT", help="a PNG")
    parser.add_argument(
        "pixels",
        type=values.thumbnail_size,
        nargs="?",
        default=256,
        metavar="SIZE",
        help="pixels of its longer side, 16 to 1024; 256 where it is not given",
    )


_OWN = {
    "open": _add_open,
    "info": _add_info,
    "check": _add_check,
    "stats": _add_stats,
    "show": _add_show,
    "export": _add_export,
    "thumbnail": _add_thumbnail,
    "convert": _add_convert,
    "report": _add_report,
    "hot": _add_hot,
    "cache": _add_cache,
    "residency": _add_residency,
    "live": _add_live,
    "bench": _add_bench,
    "config": _add_config,
    "readers": _add_readers,
    "completion": _add_completion,
    "self-test": _add_self_test,
    "samples": _add_samples,
}
"""What adds the arguments that only one command has."""


def is_table_format(text: str) -> bool:
    """Tell whether the value of ``stats --format`` says how to print."""
    return text in _TABLE_FORMATS
