"""``ggscope man``: the manual page, made from the parser."""

from argparse import ArgumentParser, Namespace

from ggscope import __version__
from ggscope.cli import output
from ggscope.cli.arguments import EPILOG, make_parser
from ggscope.cli.output import GOOD
from ggscope_capture.manual import (
    Option,
    commands,
    option_lines,
    roff,
    section,
    sentence,
)

_EVERY = "for every command"
_TITLES = {
    _EVERY: "OPTIONS OF EVERY COMMAND",
    "reading": "OPTIONS OF COMMANDS THAT READ FILES",
}
"""What groups of options that commands share are called."""
EXAMPLES = (
    ("ggscope run.bin", "open a trace in the window, with what belongs to it"),
    ("ggscope info run.bin", "say what it holds"),
    ("ggscope check run.bin --strict", "exit with 4 where data was lost"),
    ("ggscope stats run.bin --by token", "the slowest token first"),
    (
        'ggscope stats run.bin --where "op=MUL_MAT layer=0-3" --by layer',
        "multiplications of four layers",
    ),
    (
        "ggscope convert run.bin --to csv --sort duration --limit 10 -o -",
        "the ten longest spans",
    ),
    ("ggscope convert run.bin --to chrome-json -o run.trace.json", "for Perfetto"),
    (
        "ggscope export run.bin --preset single -o column.pdf --caption -",
        "a figure for a column of a paper, and its caption",
    ),
    ("ggscope report run.bin -o page.html", "one page about a trace"),
    ("ggscope hot experiment/ --by expert", "which experts are read most"),
    ("ggscope --live", "follow a program that is traced"),
)
_FILTERS = """Conditions that stand side by side, or have \\fBand\\fR or \\fB&\\fR
between them, must all hold; \\fBor\\fR or \\fB|\\fR parts alternatives and binds less;
parentheses group, \\fBnot\\fR or \\fB!\\fR turns the next one around. A condition is a
field, a sign and a value: \\fB= != ~ !~\\fR, of numbers also \\fB< <= > >=\\fR. Values
may be lists (0,2,5), ranges (0\\-3), \\fBnone\\fR, and of names hold \\fB*\\fR or be
\\fB/regular expressions/\\fR; those with blanks stand in quotes."""
FIELDS = (
    ("op", "op=MUL_MAT,ADD", "names of ops, as ggml has them"),
    ("family", "family=matmul", "matmul, attention, norm and so on, as in the legend"),
    ("layer", "layer=0-3", "numbers, or none"),
    ("token", "token>=2", "numbers (of ubatches in recordings), or none"),
    ("thread", "thread=0", "numbers that lanes show, or their names"),
    ("phase", "phase=generate", "prompt, generate, mixed or none"),
    ("source", "source=disk", "disk, buffer, dram, spm or unknown"),
    ("quality", "quality=measured", "measured, derived, estimated or unfinished"),
    ("dur", "dur>100us", "durations, with ns, us, ms, s or cyc"),
    ("wait", "wait>10us", "times at the barrier behind ops"),
    ("time", "time=1ms:2ms", "a range that spans touch"),
    ("size", "size>=64KiB", "known bytes of all that an op accesses"),
    ("traffic", "traffic>=1MiB", "known bytes that an op moves, as statistics have"),
    ("rate", "rate<1GiB/s", "traffic by the time of the op"),
    ("tensor", "tensor=blk.*.ffn_up.weight", "tensors that spans are or access"),
    ("offset", "offset=4MiB:8MiB", "bytes of the model file that are accessed"),
    ("expert", "expert=3,7", "experts that are accessed or chosen"),
    ("buffer", "buffer=0x55d0", "backend buffers that are accessed"),
    ("core", "core=3", "processor cores on which ops began"),
    ("numa", "numa=0", "NUMA nodes of these"),
    ("category", "category=kernel", "kinds of calls and events"),
    ("group", "group=type:F16", "a row of statistics by type, shape, name and so on"),
    ("name", "name~attn", "text in names of spans, ops, lanes and tensors; or alone"),
)
"""The fields of filters: name, example, meaning."""
FILES = (
    ("run.bin, run.json", "a recording of ggscope-capture and its sidecar: keep both"),
    ("~/.config/ggscope/ggscope.ini", "settings of the window"),
    ("~/.config/ggscope/keys.json", "keys of your own"),
    ("~/.local/share/ggscope/bookmarks/", "bookmarks of traces"),
    ("~/.local/share/ggscope/readers/", "readers of your own, a Python file each"),
    ("/dev/shm/ggscope-*", "rings of programs that are traced"),
    (
        "/usr/share/doc/ggscope/guide/",
        "the guide; also Help > Guide in the window",
    ),
)
ENVIRONMENT = (
    ("GGSCOPE_CONFIG, GGML_VIZ_CONFIG", "a JSON file with settings, as --config"),
    ("GGML_VIZ_OUTPUT", "the event stream that --live follows"),
    ("GGSCOPE_RING", "the ring that --live follows"),
    ("GGSCOPE_RINGS", "the folder of rings, instead of /dev/shm"),
    ("GGSCOPE_PLUGIN_PATH", "folders of plug-ins"),
    ("GGSCOPE_SAFE_MODE", "1: no plug-ins, default settings"),
    ("NO_COLOR", "no colours in a terminal"),
    ("COLUMNS", "width of the terminal"),
    ("QT_SCALE_FACTOR", "size of everything in the window"),
)


def manual(parser: ArgumentParser) -> str:
    """Return the manual page in the language of ``man(7)``."""
    description = parser.description or ""
    lines = [
        f'.TH GGSCOPE 1 "" "ggscope {__version__}" "User commands"',
        ".SH NAME",
        f"ggscope \\- {roff(description[0].lower() + description[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B ggscope\n.RI [ COMMAND ]\n.RI [ options ]\n.RI [ FILE \\ ...]",
        ".SH DESCRIPTION",
        "Opens traces in a window, or answers questions about them in the terminal. "
        "In place of a file, a folder of an experiment may be named.",
        ".SH COMMANDS",
    ]
    shared: dict[str, dict[tuple[str, ...], Option]] = {}
    for name, text, options in commands(parser):
        lines += [f".SS {roff(name)}", roff(sentence(text))]
        for option in options:
            title = _EVERY if "--help" in option.flags else option.group
            if title == "options":
                lines += option_lines(option)
            else:
                # Of the commands that share a group some lack a flag of an option.
                group = shared.setdefault(title, {})
                known = group.get(option.flags[-1:])
                if known is None or len(known.flags) < len(option.flags):
                    group[option.flags[-1:]] = option
    for title, group in shared.items():
        lines.append(f".SH {_TITLES.get(title, title.upper())}")
        for option in group.values():
            lines += option_lines(option)
    filters = section("FILTERS (\\-\\-where)", [row[1:] for row in FIELDS])
    filters.insert(1, " ".join(_FILTERS.split()))
    lines += filters + section("EXAMPLES", EXAMPLES) + section("FILES", FILES)
    lines += section("ENVIRONMENT", ENVIRONMENT)
    lines += [".SH EXIT STATUS", roff(" ".join(EPILOG.split()))]
    lines += [".SH SEE ALSO", ".BR ggscope\\-capture (1),\nthe guide (Help > Guide)."]
    return "\n".join(lines) + "\n"


def run(arguments: Namespace) -> int:
    """Print the page; return the exit code."""
    output.emit(manual(make_parser()))
    return GOOD
