"""Manual pages of both programs: made from their parsers."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ggscope_capture import __version__

_SHARED = "settings"
EXAMPLES = (
    ("ggscope-capture run -o run.bin -- llama-cli -m model.gguf", "record a program"),
    ("ggscope-capture save PID -o sofar.bin", "save a trace of the records so far"),
    ("ggscope-capture recover RING -o run.bin", "save a trace of a killed program"),
    ("ggscope-capture cuda -o calls.jsonl -- llama-cli -m model.gguf",
     "record calls of the CUDA driver"),
    ("ggscope-capture doctor llama-server", "check whether a program can be traced"),
)  # fmt: skip
STATUS = (
    ("0", "success; run exits with the program's code"),
    ("1", "an error"),
    ("2", "wrong usage"),
    ("125", "run or cuda --require: the program cannot be traced"),
)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes
    ----------
    flags : all of its spellings.
    value : what it takes, as help prints it; "" = nothing.
    group : title of the group of options that it is in.
    """

    flags: tuple[str, ...]
    value: str
    help: str
    group: str


def commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, str, list[Option]]]:
    """Yield name, help and options of the commands of a parser."""
    (action,) = (
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    for choice in action._choices_actions:
        options = [
            _option(option, group.title or "")
            for group in action.choices[choice.dest]._action_groups
            for option in group._group_actions
            if option.option_strings and option.help is not argparse.SUPPRESS
        ]
        yield choice.dest, choice.help or "", options


def _option(action: argparse.Action, group: str) -> Option:
    value = ""
    if action.nargs != 0:
        value = str(action.metavar or "|".join(action.choices or [action.dest.upper()]))
    text = (action.help or "").replace("%%", "%")
    return Option(tuple(action.option_strings), value, text, group)


def manual(parser: argparse.ArgumentParser) -> str:
    """Return the manual page in the language of ``man(7)``."""
    text = parser.description or ""
    lines = [
        f'.TH GGSCOPE\\-CAPTURE 1 "" "ggscope {__version__}" "User commands"',
        ".SH NAME",
        f"ggscope\\-capture \\- {roff(text[0].lower() + text[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B ggscope\\-capture\n.I COMMAND\n.RI [ options ]",
        ".br\n.B ggscope\\-capture run",
        ".RI [ options ]\n.B \\-\\-\n.I PROGRAM ARGS ...",
        ".SH COMMANDS",
    ]
    shared: dict[tuple[str, ...], Option] = {}
    for name, text, options in commands(parser):
        lines += [f".SS {roff(name)}", roff(sentence(text))]
        for option in options:
            if option.group == _SHARED or "--help" in option.flags:
                shared.setdefault(option.flags, option)
            else:
                lines += option_lines(option)
    lines += [".SH OPTIONS OF SEVERAL COMMANDS"]
    lines += ["ggscope\\-capture config \\-\\-explain has keys, variables and values."]
    for option in shared.values():
        lines += option_lines(option)
    lines += section("EXAMPLES", EXAMPLES) + section("EXIT STATUS", STATUS)
    lines += [".SH SEE ALSO", ".BR ggscope (1)"]
    return "\n".join(lines) + "\n"


def section(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines of a section of terms and what they mean."""
    lines = [f".SH {title}"]
    for name, text in rows:
        lines += [".TP", f"\\fB{roff(name)}\\fR", roff(sentence(text))]
    return lines


def option_lines(option: Option) -> list[str]:
    """Return the lines of an option."""
    flags = ", ".join(f"\\fB{roff(flag)}\\fR" for flag in option.flags)
    value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
    return [".TP", flags + value, roff(sentence(option.help or option.flags[-1]))]


def sentence(text: str) -> str:
    """Return `text` with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def roff(text: str) -> str:
    """Return `text` so that troff prints it as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    # Not every troff reads UTF-8.
    escaped = re.sub(r"[^\x00-\x7f]", lambda m: f"\\[u{ord(m[0]):04X}]", escaped)
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)
