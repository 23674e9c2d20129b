"""What ``ggscope info`` says about the model that a trace or a side file names."""

from typing import Any

from ggscope.cli.output import styled, table
from ggscope.descriptions.tensors import bits_text, element_text
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_offset,
    format_share,
)
from ggscope.sanitize import one_line

_MAX_ROWS = 16
_FACTS = (
    ("general.architecture", "architecture"),
    ("file_type", "file type"),
    ("n_layers", "layers"),
    ("n_embd", "embedding length"),
    ("n_vocab", "vocabulary"),
    ("n_experts", "experts"),
    ("n_experts_used", "experts used"),
    ("n_ctx", "context length"),
)


def model_text(facts: dict[str, Any]) -> str:
    """Return the section for people; `facts` is what ``--json`` prints."""
    model = facts["model"]
    files = model["files"]
    names = _model_names(files)
    rows = [("name", model["name"] or NOT_AVAILABLE)]
    if len(names) > 1:
        rows = [("names", f"{', '.join(names)} (counted together)")]
    known: dict[str, str] = {}
    for file in files:
        known = {**file["metadata"], **known}
    rows += [(label, known[key]) for key, label in _FACTS if key in known]
    rows.append(("tensors", _tensors_text(model)))
    if model["elements"]:
        rows.append(("elements", _elements_text(model)))
    # A map beside the model file is one more file, but no part of a split model.
    if files[0]["parts"] > 1:
        n_parts = sum(file["parts"] == files[0]["parts"] for file in files)
        rows.append(("parts", f"{n_parts} of {files[0]['parts']} at hand"))
    if files[0]["data_offset"] >= 0 and files[0]["parts"] == 1 and len(names) < 2:
        place = files[0]["data_offset"]
        rows.append(("data section", f"from {format_offset(place)} ({place:,})"))
    width = max(len(label) for label, _ in rows)
    lines = [styled("Models" if len(names) > 1 else "Model", "bold")]
    lines += [f"  {label.ljust(width)}  {one_line(text)}" for label, text in rows]
    parts = ["\n".join(lines)]
    # Side files do not state types; a table of one row "N/A" says nothing.
    if set(model["by_type"]) - {NOT_AVAILABLE}:
        parts.append(_table("type", model["by_type"], model["bytes"]))
    if model["tensors"]:
        parts.append(_table("component", model["by_component"], model["bytes"]))
    return "\n\n".join(parts)


def _model_names(files: list[dict[str, Any]]) -> list[str]:
    """Return the models that are whole by themselves, such as one and its draft."""
    return list(
        dict.fromkeys(
            file["name"]
            for file in files
            if file["data_offset"] >= 0 and file["parts"] == 1
        )
    )


def _tensors_text(model: dict[str, Any]) -> str:
    text = f"{format_count(model['tensors'])}, {format_bytes(model['bytes'])}"
    if model["slices"]:
        text += f" ({format_count(model['slices'])} slices of experts listed)"
    if model["layers"]:
        text += f", in {format_count(model['layers'])} layers"
    if model["repaired_sizes"]:
        text += f"; {format_count(model['repaired_sizes'])} sizes repaired"
    if model["unknown_sizes"]:
        text += f"; {format_count(model['unknown_sizes'])} of unknown size"
    return text


def _elements_text(model: dict[str, Any]) -> str:
    text = element_text(model["elements"])
    bits = model["bits_per_element"]
    return text if bits is None else f"{text}, {bits_text(bits)} bits each"


def _table(what: str, groups: dict[str, dict[str, int]], total: int) -> str:
    rows = [
        (
            name,
            format_count(group["tensors"]),
            format_bytes(group["bytes"]),
            format_share(group["bytes"] / total) if total else NOT_AVAILABLE,
        )
        for name, group in list(groups.items())[:_MAX_ROWS]
    ]
    more = len(groups) - _MAX_ROWS
    text = table((what, "tensors", "bytes", "share"), rows)
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")
