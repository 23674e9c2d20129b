"""``ggscope readers`` and ``ggscope info --formats``: what can be read.

And ``ggscope readers --ops``: the op tables of ggml.
"""

from argparse import Namespace

from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.model.ggml.ops import eras
from ggscope.readers import plugins, registry

_SHOWN = 4
"""Changes of a table that are listed one by one."""


def run(arguments: Namespace) -> int:
    """List the readers, or the op tables; return the exit code."""
    if arguments.command == "readers" and arguments.ops:
        return _list_ops(as_json=arguments.json)
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


def _list_ops(*, as_json: bool) -> int:
    """List the op tables, newest first."""
    if as_json:
        output.emit_json(
            [
                {
                    "id": era.table.id,
                    "since": era.since,
                    "until": era.until,
                    "ops": list(era.table.names),
                }
                for era in eras()
            ]
        )
        return GOOD
    rows = [
        (era.table.id, era.since, era.until, str(len(era.table.names)), new)
        for era, new in zip(eras(), _news(), strict=True)
    ]
    head = ("id", "since", "until", "ops", "changes")
    output.emit(output.table(head, rows, left=(0, 1, 2, 4)))
    output.emit("\n--ops takes an id, or a date: 2025-11 is the table of that month.")
    return GOOD


def _news() -> list[str]:
    """Return what each table has and the one before it had not, and the reverse."""
    tables = [era.table.names for era in eras()]
    news = []
    for names, before in zip(tables, [*tables[1:], ()], strict=True):
        new = [name for name in names if name not in before]
        gone = [name for name in before if name not in names]
        if not before:
            news.append("")
            continue
        changes = [f"+{name}" for name in new] + [f"-{name}" for name in gone]
        if not changes:
            changes = ["another order"]
        more = len(changes) - _SHOWN
        news.append(
            " ".join(changes[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        )
    return news


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
