"""One case: a file for a reader, and what may come of it.

A case passes where the reader gives a trace without contradictions, or refuses it by a
ReadError that says something and points into the file. Whatever else happens is a
finding: another exception, a warning of Python or numpy, more than 4 times the file
plus 500 MB of memory, more than 5 s of processor time, the end of the process.
"""

import contextlib
import io
import json
import os
import traceback
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from unittest import mock

from fuzzing.mutations import densely_mutated, mutated
from fuzzing.seeds import Seed, long_seeds_of, seeds_of, small_seeds_of
from ggscope import cli
from ggscope.cli import arguments
from ggscope.errors import ReadError
from ggscope.readers import registry
from ggscope.readers.api import HEAD_BYTES, EstimatingReader, Head, ReadContext, Reader
from ggscope.readers.source import Source
from support import ROOT

MEMORY_TIMES, MEMORY_MORE = 4, 500 << 20
CPU_SECONDS = 5.0
COMMAND_EVERY = 64
"""One case in so many goes through a command of the command line as well."""
DENSE_SHARE = 0.5
"""Of the cases of a reader of texts; in the others a fault hides behind no other."""
GENERATION = 3
"""Which cases the numbers mean: goes up with each change of what `case_of` returns."""
_SMALL_SHARE = 0.75
COMMANDS = (
    "info",
    "check",
    "stats --by op",
    "stats --by tensor",
    "stats --by token",
    "stats --by layer",
    "stats --by expert",
    "hot",
    "summary",
    "cache",
    "flags --vram 64KiB",
)
"""What the command line is asked: all of a sound file, one of a mutated one."""
_OPTION_VALUES = {
    "range": ("0:1", "1:3", "5%:50%", "3:", ":", "9:1", "x", "9" * 30, "-1:2", "%:%"),
    "names": ("all", "sampled", "none", "x"),
    "layout": ("auto", "c64", "c64-old", "packed28", "packed20", "c32", "c32-old",
               "var", "var-c", "1024", "256", "128", "buffer128", "64p", "64a", "x"),
    "ops": ("auto", "as-printed", "ggml-2025-06-30-86", "ggml-2025-11-25-95", "x"),
    "end_cycle": ("inclusive", "exclusive", "x"),
    "hz": ("1", "1000000000", "0", "-1", "1e308", "x", "9" * 40),
    "strict": ("true", "false", "x"),
    "header": ("walk", "x"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A file for a reader.

    Attributes
    ----------
    reader : id of the reader that reads it, whatever it looks like.
    name : of the file, without folders.
    options : of the reader.
    commands : of the command line that read the file as well.
    n_mutations : how many it went through that changed it.
    is_dense : they are of different parts of the file, many at once.
    """

    reader: str
    name: str
    data: bytes
    options: dict[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    n_mutations: int = 0
    is_dense: bool = False


@dataclass(frozen=True, slots=True)
class Seeds:
    """Sound files of a reader: as they are, small ones, long ones; the first two's
    contents."""

    whole: list[Seed]
    small: list[Seed]
    long: list[Seed]
    contents: list[bytes]


class CaseFailedError(Exception):
    """What must not happen: `kind` is stable for one fault, `detail` is for people."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def case_of(reader_id: str, number: int, seed: int = 0) -> Case:
    """Return the case with this number: the same for the same three arguments."""
    random = Random(f"{GENERATION}:{seed}:{reader_id}:{number}")
    seeds = all_seeds(reader_id)
    is_dense = bool(seeds.long) and random.random() < DENSE_SHARE
    if is_dense:
        name, data = random.choice(seeds.long)
        changed, n_mutations = densely_mutated(random, data)
    else:
        is_small = random.random() < _SMALL_SHARE
        name, data = random.choice(seeds.small if is_small else seeds.whole)
        changed, n_mutations = mutated(random, data, seeds.contents)
    options = {
        option.name: random.choice(_OPTION_VALUES[option.name])
        for option in reader_of(reader_id).info.known_options
        if option.name in _OPTION_VALUES and random.random() < 0.15
    }
    has_command = random.random() < 1 / COMMAND_EVERY
    commands = (random.choice(COMMANDS),) if has_command else ()
    return Case(reader_id, name, changed, options, commands, n_mutations, is_dense)


def sound_case(reader_id: str) -> Case:
    """Return a case without a mutation that goes through all commands."""
    name, data = all_seeds(reader_id).whole[0]
    return Case(reader_id, name, data, commands=COMMANDS)


def attempt(case: Case, folder: Path) -> str:
    """Read the case's file in `folder`; return "read" or "refused".

    Raises
    ------
    CaseFailedError
        Where anything but a sound trace or a clear refusal comes of it.
    """
    path = folder / case.name
    with open(path, "wb", buffering=0) as file:
        file.write(case.data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = _read(case, path)
            if case.commands:
                _ask(case.commands, path)
    except CaseFailedError:
        raise
    except BaseException as error:
        raise CaseFailedError(
            _kind_of(error), traceback.format_exc(limit=-6)
        ) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return result


def reader_of(reader_id: str) -> Reader:
    """Return the reader with this id; the planted one has faults on purpose."""
    if reader_id == "planted":
        from fuzzing.planted import PlantedReader

        return PlantedReader()
    return _readers()[reader_id]


@cache
def _is_estimating(reader_id: str) -> bool:
    return isinstance(reader_of(reader_id), EstimatingReader)


@cache
def _readers() -> dict[str, Reader]:
    return {reader.info.id: reader for reader in registry.readers()}


@cache
def all_seeds(reader_id: str) -> Seeds:
    """Return the sound files that the cases of a reader are made of."""
    if reader_id == "planted":
        seeds = [("t.planted", b"planted" + bytes(16))]
        return Seeds(seeds, seeds, [], [seeds[0][1]])
    whole, small = seeds_of(reader_id), small_seeds_of(reader_id)
    contents = [content for _, content in (*whole, *small)]
    return Seeds(whole, small, long_seeds_of(reader_id), contents)


def _read(case: Case, path: Path) -> str:
    reader = reader_of(case.reader)
    head = Head(case.name, len(case.data), case.data[:HEAD_BYTES])
    sniff = reader.sniff(head)
    if not 0 <= sniff.confidence <= 100:
        raise CaseFailedError("sniff", f"a confidence of {sniff.confidence}")
    if _is_estimating(case.reader):
        reader.estimate(head)  # type: ignore[attr-defined]  # an `EstimatingReader`
    try:
        with Source(path) as source:
            trace = reader.read(source, ReadContext(options=case.options))
    except ReadError as error:
        _check_refusal(error, len(case.data))
        return "refused"
    broken = trace.check()
    if broken:
        raise CaseFailedError(f"contradiction {broken[0]:.60}", "; ".join(broken))
    for warning in trace.warnings:
        if "\n" in warning.message or not warning.message.strip():
            raise CaseFailedError(f"wording {warning.code}", repr(warning.message))
    return "read"


def _check_refusal(error: ReadError, size: int) -> None:
    if not error.message.strip() or "\n" in error.message:
        raise CaseFailedError("wording of a refusal", repr(error.message))
    if error.offset is not None and not 0 <= error.offset <= size:
        raise CaseFailedError(
            f"offset outside of the file: {error.code}",
            f"{error.offset} of {size} bytes: {error.message}",
        )


def _ask(commands: tuple[str, ...], path: Path) -> None:
    """Let the command line answer, and hold it to its contract.

    Its parsers are made once: making one takes longer than all it is for here.
    """
    with mock.patch.object(arguments, "make_parser", _parser_of):
        for command in commands:
            _check_answer(command, path)


_parser_of = cache(arguments.make_parser)


def _check_answer(command: str, path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([*command.split(), str(path), "--json"])
    message = err.getvalue()
    if "internal error" in message or code not in (0, 1, 2, 3, 4):
        raise CaseFailedError(
            f"{command.split()[0]}: {message[:120]}", f"exit code {code}: {message}"
        )
    if code == 0:
        json.loads(out.getvalue())


def _kind_of(error: BaseException) -> str:
    """Return the exception and the line of the program that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_ours(Path(frame.filename))]
    place = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"
    return f"{type(error).__name__} in {place}"


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(ROOT) and ".venv" not in path.parts
