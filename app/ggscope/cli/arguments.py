"""The arguments of every command."""

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn, cast

from ggscope import __version__
from ggscope.cli import output, values
from ggscope.sanitize import one_line

NAMES = ("all", "sampled", "none")
_EXAMPLES = """examples:
  ggscope trace.bin model.gguf  open a trace with its model in the window
  ggscope summary trace.bin     what limits the run
  ggscope requests server.log   the requests of a server
  ggscope COMMAND --help        the options of a command
"""
EPILOG = """exit codes: 0 success, 1 error, 2 usage, 3 unknown or ambiguous format,
4 data loss with --strict, 130 interrupted, 128 + n killed by signal n. A closed pipe
is not an error.
To open a file named like a command, write ./info."""
_REPLACES = "overwrite existing files; "
SHELLS = ("bash", "zsh", "fish")
_LOG_LEVELS = ("debug", "info", "warning", "error", "fatal", "warn", "critical")
_TABLE_FORMATS = ("table", "csv", "json")
NPU_TABLES = (
    "claims", "engines", "stalls", "windows", "banks", "bits", "traffic",
    "configuration",
)  # fmt: skip
"""As ``descriptions.npu.TABLES``, which takes long to import."""
PIVOT_CELLS = ("total", "share", "mean", "count", "ops", "bytes")
"""As ``analysis.statistics.pivot``, which takes long to import."""


class _Parser(argparse.ArgumentParser):
    """Parser that reports a usage error in one line."""

    def _print_message(self, message: str, file: object = None) -> None:
        # Python's own passes over what cannot be written.
        if message and file is sys.stdout:
            output.emit(message)
        elif message:
            output.write_stderr(message)

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Asked for with every argument, to try its metavar.
        made = cast(type[argparse.HelpFormatter], self.formatter_class)
        return made(self.prog, width=_help_width())


@cache
def _help_width() -> int:
    """Return what argparse takes from shutil, which is slow to import."""
    return output.width() - 2


def parse(argv: Sequence[str]) -> Namespace:
    """Return the arguments; the command is in ``command``.

    Raises
    ------
    SystemExit
        With 0 after help or the version, with 2 after a usage message.

    Notes
    -----
    Of a command with ``--jobs`` what follows it is in ``forwarded``, for processes that
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
        arguments.forwarded = others
    return arguments


def make_parser(commands: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Return a parser of some commands, default all: to make that takes its time."""
    common = _common()
    parser = _Parser(
        prog="ggscope",
        description="Viewer for inference traces of llama.cpp, ggml, GPUs and NPUs.",
        epilog=f"{_EXAMPLES}\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"ggscope {__version__}"
    )
    made = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog="ggscope"
    )
    for name in COMMANDS if commands is None else commands:
        text = COMMANDS[name].text
        command = made.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            parents=[common],
            allow_abbrev=False,
        )
        if COMMANDS[name].files is not None:
            _add_reading(name, command)
        COMMANDS[name].add_options(command)
        if name == "open" and commands is None:
            parser.epilog = f"{_window_options(command)}\n{_EXAMPLES}\n{EPILOG}"
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
    for place, word in _positionals(argv, valued):
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


def _positionals(argv: list[str], valued: set[str]) -> list[tuple[int, str]]:
    """Return (place, word) of the words that are no options and no values of them."""
    positionals: list[tuple[int, str]] = []
    i = 0
    while i < len(argv):
        if argv[i] == "--":
            return positionals + [(k, argv[k]) for k in range(i + 1, len(argv))]
        if not argv[i].startswith("-") or argv[i] == "-":
            positionals.append((i, argv[i]))
        elif argv[i] in valued:
            i += 1
        i += 1
    return positionals


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
    _add_flag(group, "--json", text="print JSON")
    _add_flag(group, "--safe-mode", text="no plug-ins, default settings")
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log more; twice for everything",
    )
    group.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        help="JSON file with settings, e.g. of ggml-viz; ggscope config --explain "
        "lists the keys",
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
        _add_flag(group, flag, text=argparse.SUPPRESS)
    group.add_argument("--port", help=argparse.SUPPRESS)
    return common


def _add_reading(name: str, parser: _Parser) -> None:
    """Add the files and how to read them."""
    parser.add_argument(
        "files",
        nargs=COMMANDS[name].files,
        type=Path,
        metavar="FILE",
        help="trace, log, profile, model, or a folder of these",
    )
    group = parser.add_argument_group("reading")
    names = ["--reader"] if name == "stats" else ["--format", "--reader"]
    group.add_argument(
        *names,
        dest="reader",
        metavar="NAME",
        help="format of the file; see ggscope readers",
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
        help="read only these records, by number or percentage, e.g. 0:1000000",
    )
    group.add_argument(
        "--names",
        choices=NAMES,
        help="read names of all records, of a sample, or none",
    )
    _add_flag(
        group,
        "--force",
        text=(_REPLACES if COMMANDS[name].is_writing else "")
        + "read the file even if it may not fit into memory",
    )
    group.add_argument(
        "--with",
        dest="beside",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="another file of the same session; may be repeated",
    )
    group.add_argument(
        "--gguf",
        dest="beside",
        action="append",
        type=Path,
        metavar="MODEL",
        help="the model file of the run, for offsets and sizes of tensors",
    )
    group.add_argument(
        "--shift",
        action="append",
        default=[],
        metavar="FILE=TIME",
        type=values.key_value,
        help="time offset of a file of the session, e.g. buffers.jsonl=-1.5ms; "
        "default: from the clocks",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=values.key_value,
        help="option of the reader; may be repeated",
    )


def _add_flag(parser: argparse._ActionsContainer, *names: str, text: str) -> None:
    """Add an option without a value."""
    parser.add_argument(*names, action="store_true", help=text)


def _add_limit(parser: _Parser, text: str, default: int | None = None) -> None:
    parser.add_argument(
        "--limit", type=values.positive, metavar="N", default=default, help=text
    )


def _add_output(parser: _Parser, text: str, *, required: bool = False) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=values.target,
        required=required,
        metavar="FILE",
        help=text,
    )


def _add_where(parser: _Parser, text: str) -> None:
    parser.add_argument("--where", default="", metavar="EXPR", help=text)


def _add_by(parser: _Parser) -> None:
    from ggscope.model.selection import BY

    parser.add_argument(
        "--by", choices=BY, default="op", metavar="WHAT", help=", ".join(BY)
    )


def _add_color_by(parser: _Parser, text: str = "") -> None:
    """Add ``--color-by``; `text` goes before its default and all names."""
    from ggscope.analysis.rows.colorings import coloring_ids

    ids = coloring_ids()
    parser.add_argument(
        "--color-by",
        choices=ids,
        metavar="WHAT",
        help=f"{text}default: family, of calls category: {', '.join(ids)}",
    )


def _add_range(parser: _Parser) -> None:
    parser.add_argument("--range", metavar="A:B", help="this part, e.g. 1ms:2ms")


def _add_poll_interval(parser: _Parser) -> None:
    parser.add_argument(
        "--poll-interval",
        dest="poll_interval_ms",
        metavar="MS",
        help="poll interval; 0, the default: as soon as data arrives",
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
_EXPORTED = values.Names(_views, several=True, every="all", more=("compare",))
_COLUMNS = values.Names(_stat_columns, several=True)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program.

    Attributes
    ----------
    text : what it does, for the help.
    module : where its `run` is, below ``ggscope.cli``.
    add_options : adds the arguments that it alone has.
    files : how many files it reads, as argparse counts; None = it reads none.
    is_writing : whether it may write a file, and ``--force`` overwrites one.
    """

    text: str
    module: str
    add_options: Callable[[_Parser], None]
    files: str | int | None
    is_writing: bool


COMMANDS: dict[str, Command] = {}
"""All commands by name, in the order of the help."""


def _declare(
    name: str,
    text: str,
    *,
    files: str | int | None = None,
    module: str = "",
    is_writing: bool = False,
) -> Callable[[Callable[[_Parser], None]], Callable[[_Parser], None]]:
    """Declare a command by the function that adds its options.

    `module` is named where it is not called as the command is.
    """

    def declare(add_options: Callable[[_Parser], None]) -> Callable[[_Parser], None]:
        code = module or name.replace("-", "_")
        COMMANDS[name] = Command(text, code, add_options, files, is_writing)
        return add_options

    return declare


@_declare(
    "open",
    "open files in the window (the default)",
    files="*",
    module="window",
)
def _open_options(parser: _Parser) -> None:
    parser.add_argument(
        "--theme", choices=("auto", "light", "dark"), help="auto follows the desktop"
    )
    _add_flag(parser, "--software-gl", text="render without the GPU")
    parser.add_argument("--range", metavar="A:B", help="show this part, e.g. 1ms:2ms")
    parser.add_argument("--layout", metavar="NAME", help="dual, grid or single")
    parser.add_argument(
        "-l",
        "--live",
        nargs="?",
        const="",
        metavar="RING|FILE|PID",
        help="follow a running program, in a new window; without a value the ring of "
        "GGSCOPE_RING, else the newest ring, or the next one",
    )
    _add_flag(
        parser,
        "--follow",
        text="follow the file named as it grows, such as the log of a server: the same "
        "as --live FILE",
    )
    _add_poll_interval(parser)
    _add_flag(
        parser,
        "--demo",
        text="trace llama.cpp on a generated model and follow it; fetches what is "
        "missing",
    )
    _add_flag(
        parser,
        "--new-window",
        text="open a new window; by default files open in the running window, unless "
        "--theme, --layout, --software-gl or --safe-mode is given",
    )
    desktop = parser.add_mutually_exclusive_group()
    _add_flag(
        desktop,
        "--install-desktop",
        text="register with the Linux desktop of the current user: file types, menu, "
        "icons and thumbnails; for installations without a package",
    )
    _add_flag(desktop, "--uninstall-desktop", text="undo --install-desktop")


@_declare("info", "show what a file contains", files="*", module="info.info")
def _info_options(parser: _Parser) -> None:
    _add_flag(parser, "--formats", text="list the supported formats")
    _add_flag(parser, "--system", text="report versions and graphics, for bug reports")


@_declare("check", "list every problem of a file", files="+", is_writing=True)
def _check_options(parser: _Parser) -> None:
    _add_flag(parser, "--strict", text="exit with 4 if data was lost")
    parser.add_argument(
        "--report",
        type=values.target,
        metavar="FILE",
        help="also write a report: .html, .md or .json; --force overwrites an existing "
        "file",
    )


@_declare(
    "summary",
    "show tokens/s, top ops, busy threads, and what limits the run",
    files="+",
)
def _summary_options(parser: _Parser) -> None:
    parser.add_argument(
        "--peak",
        type=values.byte_rate,
        metavar="RATE",
        help="peak memory bandwidth, e.g. 50GiB/s; default: what ggscope machine "
        "measured, for traces of the same processor",
    )
    parser.add_argument(
        "--gaps",
        type=values.positive,
        metavar="N",
        help="list the N longest idle gaps of threads and engines, and the ops around "
        "them",
    )
    parser.add_argument(
        "--tokens",
        type=values.positive,
        metavar="N",
        help="list the N slowest tokens, with work, wait and idle time of each thread",
    )


@_declare(
    "critical-path",
    "find the longest chain of dependent ops of a token, and slack",
    files="+",
)
def _critical_path_options(parser: _Parser) -> None:
    parser.add_argument(
        "--token",
        metavar="N",
        help="number of the token, ubatch or graph pass, or its name, e.g. "
        "'decode 5'; default: the slowest",
    )


class _TimeOrRecords(argparse.Action):
    """A range of time, as in other commands, or of records, as in older versions."""

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


@_declare("stats", "show totals, means and percentiles", files="+")
def _stats_options(parser: _Parser) -> None:
    from ggscope.model.selection import BY

    _add_by(parser)
    _add_where(
        parser,
        'only these, e.g. "layer=0-3 (source=disk or size>1MiB) not op=ADD"; '
        "the guide lists fields and operators",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="only spans that end after this time, e.g. 1.5ms; durations are those of "
        "whole spans, the column 'in range' is the part inside",
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="TIME",
        help="only spans that begin before this time",
    )
    parser.add_argument(
        "--range",
        action=_TimeOrRecords,
        metavar="A:B",
        help="--from A --to B where they are times with a unit, e.g. 1ms:2ms; numbers "
        "alone and per cent are --records",
    )
    # Older versions cut durations at the range; the column "in range" replaces that.
    _add_flag(parser, "--clip", text=argparse.SUPPRESS)
    _add_limit(parser, "only the first N rows, by default the longest")
    parser.add_argument(
        "--sort",
        choices=values.Names(_stat_columns),
        metavar="COLUMN",
        help="sort by this column, largest first; default: total, by token latency",
    )
    parser.add_argument(
        "--columns",
        choices=_COLUMNS,
        type=_COLUMNS.of,
        metavar="NAMES",
        help="columns of the table, e.g. count,total,rate; default: all with data, in "
        "a terminal as many as fit",
    )
    _add_flag(
        parser, "-w", "--wide", text="all columns, whatever the width of the terminal"
    )
    parser.add_argument(
        "--pivot",
        choices=BY,
        metavar="WHAT",
        help="a table of two groupings: rows by --by, columns by this, e.g. --by layer "
        "--pivot op",
    )
    parser.add_argument(
        "--cells",
        choices=PIVOT_CELLS,
        default="total",
        metavar="MEASURE",
        help=f"--pivot: what its cells are: {', '.join(PIVOT_CELLS)}; default total",
    )
    _add_flag(
        parser, "--include-estimated", text="include estimated and unfinished durations"
    )
    parser.add_argument(
        "--format",
        default="table",
        metavar="table|csv|json",
        help="output format; the name of a reader works as --reader",
    )


def is_table_format(text: str) -> bool:
    """Return whether the value of ``stats --format`` says how to print."""
    return text in _TABLE_FORMATS


@_declare("diff", "compare two runs: what takes longer, by how much", files=2)
def _diff_options(parser: _Parser) -> None:
    from ggscope.model.selection import ALIGN_BY

    _add_by(parser)
    parser.add_argument(
        "--align",
        choices=ALIGN_BY,
        metavar="HOW",
        help="compare tokens of the same number (token), the phases of both (phase) "
        "or whole runs (start); default: token where both have tokens",
    )
    parser.add_argument(
        "--tol",
        type=values.tolerance,
        default="",
        metavar="LIMITS",
        help="changes that do not count, e.g. latency=1%%,bw=1%%",
    )
    _add_limit(parser, "only the N rows of largest effect, default 30")
    parser.epilog = (
        "exit codes: 0 equal, 1 different, 2 not comparable, not readable or wrong "
        "usage. A folder of several recordings is one side of several runs; their "
        "ranges distinguish a change from noise."
    )


@_declare(
    "runs", "list the runs of a folder: tokens/s, time by op family, what differs"
)
def _runs_options(parser: _Parser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--sort",
        default="run",
        metavar="COLUMN",
        help="run (default), generated_per_s, prompt_per_s, size, date, time_matmul …",
    )
    _add_flag(
        parser, "--quick", text="read no events: times of op families stay unknown"
    )
    _add_flag(
        parser, "--no-cache", text="neither use nor write what was summed up before"
    )


@_declare(
    "tensors",
    "list the tensors of a model: type, shape, size, offset, totals",
    files="+",
)
def _tensors_options(parser: _Parser) -> None:
    parser.add_argument(
        "--by",
        choices=("tensor", "layer", "component", "name", "type", "file"),
        default="tensor",
        metavar="WHAT",
        help="tensor (default), or totals by layer, component, name (over layers), "
        "type or file",
    )
    parser.add_argument(
        "--find",
        metavar="TEXT",
        help="only tensors whose name has this text, or matches this /regex/",
    )
    parser.add_argument(
        "--sort",
        choices=(
            "offset",
            "name",
            "size",
            "elements",
            "accesses",
            "time",
            "importance",
        ),
        default="offset",
        metavar="BY",
        help="offset (default), name, size, elements, accesses, time or importance "
        "(of an imatrix)",
    )
    _add_limit(parser, "number of lines")
    _add_flag(parser, "--metadata", text="list the metadata of the files, too")


@_declare("requests", "list the requests of a server's log", files="+")
def _requests_options(parser: _Parser) -> None:
    parser.add_argument(
        "--sort",
        choices=("queued_ms", "first_token_ms", "per_token_ms", "generated_per_s"),
        help="sort by this column, largest first; default: as in the log",
    )
    _add_limit(parser, "print N rows, default 40")
    _add_flag(
        parser,
        "--follow",
        text="print requests as a server writes them to its log, until Ctrl-C, then "
        "their sums; with --json a line each",
    )
    parser.add_argument(
        "--seconds",
        type=values.watch_seconds,
        metavar="N",
        help="with --follow: stop after N seconds",
    )


@_declare(
    "backends",
    "list ops by backend, splits and their copies, ops on the CPU",
    files="+",
)
def _backends_options(parser: _Parser) -> None:
    parser.add_argument(
        "--by",
        choices=("ops", "splits", "cpu"),
        action="append",
        help="print this table; default: all that the file has",
    )
    _add_limit(parser, "print N rows, default 40")


@_declare(
    "npu",
    "show engines, stalls and banks of an NPU, and check its file's claims",
    files="+",
)
def _npu_options(parser: _Parser) -> None:
    parser.add_argument(
        "--csv",
        choices=NPU_TABLES,
        help="print this table as CSV, with plain values",
    )
    _add_limit(parser, "print N rows of each table, default 40")


@_declare(
    "bench-table",
    "show results of llama-bench as one table, or compare two files",
    files="+",
)
def _bench_table_options(parser: _Parser) -> None:
    _add_flag(
        parser,
        "--compare",
        text="compare two files, test by test: where all configuration keys agree",
    )
    _add_flag(parser, "--markdown", text="print Markdown, as llama-bench does")
    _add_limit(parser, "print N rows, default 200")


@_declare("sql", "query the tables of a trace in SQL", files=1)
def _sql_options(parser: _Parser) -> None:
    parser.add_argument(
        "query",
        nargs="?",
        metavar="QUERY",
        help='e.g. "select op, sum(duration_ns) from spans group by op"',
    )
    _add_flag(parser, "--tables", text="list the tables and their columns")
    _add_flag(parser, "--csv", text="print CSV, all rows")
    _add_limit(
        parser, "rows at most; default 1000 in the terminal, all as JSON and CSV"
    )


@_declare(
    "load",
    "show how a model was read: rates, request sizes, queue depth, causes",
    files="+",
)
def _load_options(parser: _Parser) -> None:
    parser.add_argument(
        "--level",
        choices=("device", "call", "fault", "file", "op"),
        help="what reads were recorded as; default: what is nearest to storage",
    )
    parser.add_argument(
        "--file", metavar="NAME", help="the reads of one file, by the end of its path"
    )
    _add_limit(parser, "print N rows, default 20")


@_declare("hot", "list the most-read and never-read tensors", files="+")
def _hot_options(parser: _Parser) -> None:
    parser.add_argument(
        "--by",
        choices=("tensor", "layer", "component", "expert"),
        default="tensor",
        metavar="WHAT",
        help="tensor (default), layer, component or expert",
    )
    _add_range(parser)
    _add_limit(parser, "number of lines, default 20", default=20)


@_declare("cache", "simulate a page cache: disk reads for a given size", files="+")
def _cache_options(parser: _Parser) -> None:
    parser.add_argument(
        "--cache-size",
        type=values.bytes_of,
        action="append",
        metavar="SIZE",
        help="size of the page cache, e.g. 6GiB; may be repeated; default: eighths of "
        "the bytes that the run reads",
    )
    parser.add_argument(
        "--read-ahead",
        type=values.count,
        default=0,
        metavar="N",
        help="tensors to read ahead after a miss, default 0",
    )
    parser.add_argument(
        "--pin",
        type=values.percent,
        default=90,
        metavar="N",
        help="pin the experts that cover N per cent of the hits, default 90",
    )
    _add_flag(
        parser,
        "--with-row-reads",
        text="count GET_ROWS too, as a read of the whole tensor",
    )
    _add_range(parser)


@_declare(
    "flags",
    "write flags of llama.cpp: -ot, --n-cpu-moe, threads, a cache profile",
    files=1,
    is_writing=True,
)
def _flags_options(parser: _Parser) -> None:
    parser.add_argument(
        "--vram",
        type=values.bytes_of,
        metavar="SIZE",
        help="memory of the device that weights may take, e.g. 8GiB",
    )
    _add_output(
        parser,
        "write the experts that tokens chose as FILE.csv, which "
        "--moe-cache-profile of the fork thecodacus/llama.cpp reads; --force "
        "overwrites an existing file",
    )


@_declare("residency", "show how much of a model file is in the page cache", files="+")
def _residency_options(parser: _Parser) -> None:
    _add_limit(
        parser,
        "number of lines, those with most missing bytes first; default 20",
        default=20,
    )


@_declare("show", "draw a timeline in the terminal", files="+")
def _show_options(parser: _Parser) -> None:
    _add_flag(parser, "--ascii", text="draw with characters; this is the default")
    parser.add_argument(
        "--width", type=values.positive, metavar="N", help="width in characters"
    )
    _add_range(parser)
    _add_color_by(parser, "what the characters mean; ")


@_declare("export", "write a figure as PNG, SVG or PDF", files="+", is_writing=True)
def _export_options(parser: _Parser) -> None:
    views = _views()
    parser.add_argument(
        "--view",
        choices=_EXPORTED,
        type=_EXPORTED.of,
        default="timeline",
        metavar="VIEW",
        help=", ".join(views) + "; several, e.g. timeline,heatmap, or all, into a "
        "folder; default timeline; compare: of two files, or folders of runs",
    )
    _add_flag(parser, "--resume", text="keep existing figures, and write the others")
    parser.add_argument(
        "--jobs",
        type=values.positive,
        metavar="N",
        help="number of files in parallel, each in its own process, limited by memory; "
        "default: number of cores",
    )
    _add_flag(parser, "--quiet", text="print errors only")
    # Index of the file; set by the process that runs several.
    parser.add_argument("--only", type=values.count, help=argparse.SUPPRESS)
    parser.add_argument(
        "--rows",
        choices=("token", "pass", "time", "layer"),
        help="heatmap: what a row is; default: depends on the trace",
    )
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="statistics: what a bar is, e.g. op, layer or token, as in ggscope stats; "
        "hot: tensor, layer, component or expert; compare: as in ggscope diff",
    )
    parser.add_argument(
        "--measure",
        choices=values.Names(_measures),
        metavar="COLUMN",
        help="statistics: what the length of a bar is, e.g. latency, rate or bytes; "
        "default total",
    )
    _add_flag(
        parser,
        "--include-estimated",
        text="statistics: include estimated and unfinished durations",
    )
    parser.add_argument(
        "--graph",
        type=values.count,
        default=0,
        metavar="N",
        help="graph: index, from 0",
    )
    _add_flag(parser, "--expanded", text="graph: all layers expanded")
    _add_output(
        parser,
        "figure (.png, .svg, .pdf; a graph also as .dot), or a folder for one PNG "
        "per file; --force overwrites existing files",
        required=True,
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
        help="dots per inch of a PNG; default: from the preset, else 96",
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark", "print"),
        help="default: from the preset, else print",
    )
    _add_look(parser)
    _add_range(parser)
    _add_color_by(parser)
    parser.add_argument(
        "--title", help='title; default: the name of the file, "" = none'
    )
    _add_where(parser, "draw spans outside this filter pale")


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
            help="e.g. 88mm, 1600px (of the PNG) or 3.5in; auto: fit to content",
        )
    parser.add_argument(
        "--font",
        type=values.font,
        default=argparse.SUPPRESS,
        metavar="PT",
        help="font size, e.g. 7pt; auto: 8.25pt",
    )
    _add_flag(parser, "--transparent", text="transparent background")
    kind = parser.add_mutually_exclusive_group()
    _add_flag(kind, "--seen", text="with the selection, marks and lanes of --options")
    _add_flag(kind, "--clean", text="without them; this is the default")
    parser.add_argument(
        "--options",
        type=values.json_object,
        default={},
        metavar="JSON",
        help="settings of the window, as the figure dialog writes them",
    )
    for part, label in (
        ("legend", "the legend"),
        ("color-bar", "the colour bar"),
        ("notes", "the bookmarks that are stored with the trace"),
    ):
        _add_flag(parser, f"--no-{part}", text=f"leave out {label}")
    parser.add_argument(
        "--caption",
        type=values.target,
        metavar="FILE",
        help="write the caption to this file, - prints it",
    )


@_declare("thumbnail", "draw a thumbnail of a file, for file managers")
def _thumbnail_options(parser: _Parser) -> None:
    parser.add_argument("input", type=Path, metavar="IN")
    parser.add_argument("output", type=Path, metavar="OUT", help="a PNG")
    parser.add_argument(
        "pixels",
        type=values.thumbnail_size,
        nargs="?",
        default=256,
        metavar="SIZE",
        help="pixels of the longer side, 16 to 1024; default 256",
    )


_CONVERTS_TO = {
    "chrome-json": "trace events for Perfetto, Tracy and chrome://tracing",
    "csv": "spans as a table; also tsv, markdown, json, parquet (by duckdb)",
    "tsv": "",
    "json": "",
    "markdown": "",
    "parquet": "",
    "folded": "stacks with their time for flamegraph.pl and speedscope",
    "ggmlviz": "a trace file: begins and ends of ops and graphs",
    "tensor-256": "a trace file: ops and what they read, 256 bytes each",
    "perfetto": "Perfetto packets, with the arrows between spans",
    "token-json": "one token-NNNNN.json per pass of a tensor-access trace",
}


@_declare("convert", "write a trace in another format", files=1, is_writing=True)
def _convert_options(parser: _Parser) -> None:
    parser.add_argument(
        "--to",
        choices=tuple(_CONVERTS_TO),
        required=True,
        metavar="FORMAT",
        help="; ".join(f"{to}: {text}" for to, text in _CONVERTS_TO.items() if text),
    )
    _add_output(
        parser,
        "output file, packed by gzip where it ends in .gz; for token-json a "
        "folder, created if missing, in which all files are written or none; --force "
        "overwrites existing files",
        required=True,
    )
    parser.add_argument(
        "--range",
        metavar="A:B",
        help="only spans that touch this range, e.g. 1ms:2ms; not for token-json",
    )
    _add_where(parser, "only spans that match this filter; not for token-json")
    parser.add_argument(
        "--sort",
        choices=("start", "duration", "wait", "bytes"),
        help="tables: largest rows first, by start the earliest; default: order of the "
        "trace",
    )
    _add_limit(parser, "tables: only the first N rows")
    parser.add_argument(
        "--schema",
        choices=("128", "256", "1024"),
        help="token-json: schema, by record size; default: that of the trace",
    )


@_declare("report", "write an HTML report of a trace", files=1, is_writing=True)
def _report_options(parser: _Parser) -> None:
    _add_output(
        parser,
        "the page (.html), below 5 MB; --force overwrites an existing file",
        required=True,
    )
    parser.add_argument(
        "--view",
        choices=_VIEWS,
        type=_VIEWS.of,
        metavar="VIEW",
        help="figures of these views, e.g. timeline,heatmap; default: all with data",
    )
    _add_flag(
        parser,
        "--with-folders",
        text="name the folders of files too: they may contain user names",
    )


@_declare("live", "follow a running program: records, losses and lag, each second")
def _live_options(parser: _Parser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="RING|FILE|PID",
        help="a ring, a growing trace file, or the id of a traced process; default: "
        "the ring of GGSCOPE_RING, else the newest of a running program",
    )
    _add_flag(
        parser,
        "--list",
        text="list the running ggml programs, and whether each can be followed",
    )
    parser.add_argument(
        "--seconds",
        type=values.watch_seconds,
        metavar="N",
        help="stop after N seconds; default: when the program ends",
    )
    parser.add_argument(
        "--save",
        metavar="OUT.bin",
        help="save the recording: 256-byte records with their sidecar, or a copy of "
        "the growing file",
    )
    _add_poll_interval(parser)


@_declare("readers", "list the supported formats, or the op tables")
def _readers_options(parser: argparse.ArgumentParser) -> None:
    _add_flag(
        parser,
        "--ops",
        text="list the op tables of ggml, the values of --ops in other commands",
    )


@_declare("machine", "measure the memory bandwidth and arithmetic of this machine")
def _machine_options(parser: _Parser) -> None:
    parser.add_argument(
        "--threads",
        type=values.positive,
        metavar="N",
        help="threads to use; default: as many as the process may use at once",
    )
    _add_flag(parser, "--show", text="print what was measured before")


@_declare("bench", "measure opening, panning and zooming", files=1)
def _bench_options(parser: _Parser) -> None:
    parser.add_argument(
        "--seconds",
        type=values.seconds,
        default=5.0,
        metavar="N",
        help="time to pan and zoom, default 5",
    )
    parser.add_argument(
        "--rounds",
        type=values.positive,
        default=1,
        metavar="N",
        help="open the file N times, each in a new process; print medians",
    )
    parser.add_argument(
        "--size",
        type=values.size,
        default=(1920, 1080),
        metavar="WxH",
        help="size of the timeline, default 1920x1080",
    )
    parser.add_argument(
        "--renderer",
        choices=("auto", "raster", "opengl"),
        default="auto",
        help="renderer: auto, raster or opengl",
    )
    _add_flag(
        parser,
        "--panes",
        text="also measure the file heatmap, the graph and selection; opens all panes",
    )


@_declare("self-test", "check this installation")
def _self_test_options(parser: _Parser) -> None:
    _add_flag(parser, "--probe-gl", text=argparse.SUPPRESS)


@_declare("samples", "list or copy the bundled sample traces")
def _samples_options(parser: _Parser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        metavar="FOLDER",
        help="copy them into this folder, created if missing",
    )
    _add_flag(parser, "--force", text="overwrite existing files")


@_declare("config", "print every setting and its source")
def _config_options(parser: _Parser) -> None:
    _add_flag(
        parser,
        "--explain",
        text="describe each setting with its flag, key and environment variable",
    )
    parser.add_argument(
        "-l",
        "--live",
        action="store_const",
        const="",
        help="as in ggscope open, to show the resulting values",
    )
    _add_poll_interval(parser)


@_declare("completion", "print a shell completion script")
def _completion_options(parser: _Parser) -> None:
    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish"
    )


@_declare("man", "print the manual page", module="manual")
def _man_options(_: _Parser) -> None:
    """Add nothing."""
