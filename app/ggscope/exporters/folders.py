"""Folders, which name people, left out of pages that are given to others.

Of facts that a file states (model, command, data set), of names of files, lanes and
problems the folders go; of names of spans and tensors only the folder of a user, which
becomes ``~``: paths within a program distinguish its functions.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ggscope.model.tables import StringTable
from ggscope.model.trace import Lanes, Trace, TraceInfo

_FOLDERS = re.compile(
    r"""(?<![\w.])(?:[A-Za-z]:|~)?[/\\](?=\S)"""
    r"""(?:(?:[^/\\"'|\s](?:[^/\\"'|]*[^/\\"'|\s])?)?[/\\])*(?=[^/\\"'\s])"""
)
"""What stands before the name of a file."""
_USER_FOLDER = re.compile(
    r"""(?<![\w.])(?:[A-Za-z]:)?[/\\]+(?:home|Users)[/\\]+"""
    r"""(?:[^/\\"'|:<>]+(?=[/\\])|[^\s/\\"'|:,;<>()]+)"""
)
"""The folder of a user on Linux, macOS and Windows."""
_WHOLE = frozenset(("model", "model_filename"))
"""Facts that are the path of one file, whatever is in it."""


def text_without_folders(text: str, key: str = "") -> str:
    """Return a text with the names of files alone, without their folders.

    Parameters
    ----------
    key : name of the fact, where the text is the value of one.
    """
    if key in _WHOLE:
        text = re.split(r"[/\\]", text)[-1]
    return _FOLDERS.sub("", text)


def text_without_users(text: str) -> str:
    """Return a text with ``~`` for the folders of users."""
    return _USER_FOLDER.sub("~", text)


def without_folders(trace: Trace) -> Trace:
    """Return the trace without folders of its files and of those that it names."""
    return replace(
        trace,
        info=_info(trace.info),
        parts=tuple(replace(part, info=_info(part.info)) for part in trace.parts),
        models=tuple(
            replace(
                model,
                name=text_without_folders(model.name, "model"),
                metadata=_facts(model.metadata),
            )
            for model in trace.models
        ),
        lanes=_lanes(trace.lanes),
        strings=_strings(trace.strings),
        ops=None
        if trace.ops is None
        else replace(trace.ops, names=tuple(map(text_without_users, trace.ops.names))),
        warnings=tuple(
            replace(
                warning,
                place=text_without_folders(warning.place),
                message=text_without_users(warning.message),
            )
            for warning in trace.warnings
        ),
        log=None
        if trace.log is None
        else replace(trace.log, facts=tuple(_facts(dict(trace.log.facts)).items())),
        importance=None
        if trace.importance is None
        else replace(
            trace.importance,
            datasets=tuple(map(text_without_folders, trace.importance.datasets)),
        ),
        bench=None
        if trace.bench is None
        else replace(
            trace.bench,
            columns={
                key: tuple(_value(key, value) for value in values)
                for key, values in trace.bench.columns.items()
            },
        ),
        storage=None
        if trace.storage is None
        else replace(
            trace.storage,
            files=tuple(
                replace(file, path=text_without_folders(file.path, "model"))
                for file in trace.storage.files
            ),
        ),
    )


def _info(info: TraceInfo) -> TraceInfo:
    return replace(
        info,
        producer=_facts(info.producer),
        paths=tuple(Path(replace(info, paths=(path,)).name) for path in info.paths),
        folder=None if info.folder is None else Path(info.folder.name),
    )


def _facts(facts: Mapping[str, str]) -> dict[str, str]:
    return {key: text_without_folders(text, key) for key, text in facts.items()}


def _value(key: str, value: Any) -> Any:
    return text_without_folders(value, key) if isinstance(value, str) else value


def _lanes(lanes: Lanes) -> Lanes:
    return Lanes(
        tuple(map(text_without_folders, lanes.names)),
        lanes.kinds,
        tuple(tuple(map(text_without_folders, group)) for group in lanes.groups),
        lanes.group,
        lanes.sort_keys,
        lanes.attributes,
    )


def _strings(strings: StringTable) -> StringTable:
    """Return the texts under their numbers; those of two users may be the same."""
    texts = strings.texts()
    shown = [text_without_users(text) for text in texts]
    if shown == texts:
        return strings
    table = StringTable()
    table.add_distinct(shown)
    return table
