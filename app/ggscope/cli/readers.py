"""``ggscope readers`` and ``ggscope info --formats``: what can be read."""

from argparse import Namespace

from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.readers import plugins, registry


def run(arguments: Namespace) -> int:
    """List the readers; return the exit code."""
    listed = registry.statuses()
    if arguments.json:
        output.emit_json([_json(status) for status in listed])
        return GOOD
    rows = []
    for status in listed:
        info = status.info
        rows.append(
            (
                "–" if info is None else info.id,
                status.path if info is None else info.title,
                "" if info is None else " ".join(info.suffixes),
                status.origin,
                status.status,
            )
        )
    head = ("id", "title", "suffixes", "origin", "status")
    output.emit(output.table(head, rows, left=range(5)))
    for status in listed:
        if status.info is not None and (status.info.doc or status.info.options):
            output.emit(f"\n{status.info.id}: {status.info.doc}")
            for option in status.info.known_options:
                output.emit(f"  --option {option.name}=…  {option.doc}")
    for status in listed:
        if status.changes:
            name = status.path if status.info is None else status.info.id
            output.emit(f"\nnote: {name}: {'; '.join(status.changes)}")
    output.emit(f"\n{_where()}")
    return GOOD


def _where() -> str:
    if plugins.is_safe_mode():
        return "Plug-ins are off (safe mode)."
    return "Plug-ins are looked for in: " + ", ".join(map(str, plugins.folders()))


def _json(status: registry.ReaderStatus) -> dict[str, object]:
    info = status.info
    return {
        "id": None if info is None else info.id,
        "title": None if info is None else info.title,
        "suffixes": [] if info is None else list(info.suffixes),
        "doc": "" if info is None else info.doc,
        "options": {} if info is None else {o.name: o.doc for o in info.known_options},
        "origin": status.origin,
        "status": status.status,
        "path": status.path,
        "changes": list(status.changes),
    }
