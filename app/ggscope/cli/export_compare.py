"""``ggscope export --view compare A B``: a figure of two files, or folders of runs."""

import os
from argparse import Namespace
from pathlib import Path

from ggscope.atomic_write import check_folder, check_target, make_folder, refuse_inputs
from ggscope.cli import output
from ggscope.cli.export import make_figure, need_no_display, style_of, write_captions
from ggscope.cli.output import GOOD, USAGE, code_of, message_of
from ggscope.cli.reading import load
from ggscope.errors import TraceError
from ggscope.readers.discovery import runs_of_side
from ggscope.sanitize import file_name


def run(arguments: Namespace) -> int:
    """Write the figure; return the exit code."""
    if arguments.view != ("compare",) or len(arguments.files) != 2:
        output.complain(
            "compare is a figure of two sides: ggscope export --view compare A B"
        )
        return USAGE
    target = _target(arguments)
    for path in (target, arguments.caption):
        if path is not None and path != Path("-"):
            refuse_inputs(path, arguments.files)
            check_target(path, overwrite=arguments.force)
    if arguments.resume and os.path.lexists(target):
        output.say(f"{target} is there already.")
        return GOOD
    try:
        caption = _export(target, arguments)
    except TraceError as error:
        output.complain(message_of(error))
        if arguments.json:
            output.emit_json({"error": message_of(error)})
        return code_of(error)
    if not arguments.quiet:
        output.say(f"{target} written.")
    if arguments.caption is not None:
        write_captions(f"{caption}\n", arguments)
    if arguments.json:
        paths = [str(path) for path in arguments.files]
        output.emit_json({"paths": paths, "output": str(target), "caption": caption})
    return GOOD


def _target(arguments: Namespace) -> Path:
    """Return the file to write: in a folder, one called after both sides."""
    target: Path = arguments.output
    if os.path.isdir(target) or (not target.suffix and not os.path.lexists(target)):
        check_folder(target)
        make_folder(target)
        stems = "-".join(path.stem for path in arguments.files)
        return target / file_name(stems, ".compare.png")
    from ggscope.render.export import check_suffix

    check_suffix(target)
    return target


def _export(target: Path, arguments: Namespace) -> str:
    """Write the figure of both sides; return its caption."""
    need_no_display()
    a, b = (
        [load(path, arguments) for path in runs_of_side(side)]
        for side in arguments.files
    )
    figure = make_figure(
        a[0], "compare", arguments, lambda text: output.say(f"note: {text}"),
        more_a=tuple(a[1:]), b=tuple(b),
    )  # fmt: skip
    return figure.write(target, style_of(arguments), overwrite=arguments.force)
