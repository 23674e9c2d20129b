"""The forms in which llama-bench prints its tests, each as rows by key.

Source: ``tools/llama-bench/llama-bench.cpp`` of llama.cpp (``csv_printer``,
``json_printer``, ``jsonl_printer``, ``markdown_printer``, ``sql_printer``). Columns
come and go from version to version: what is there is taken by its name.
"""

import csv
import re
from collections.abc import Iterator
from typing import Any

import msgspec

Row = dict[str, Any]
Line = tuple[int, Row | None]
"""Number of a row, from 1, and the row; of forms with a row per line, of the line."""

_TEXT_KEYS = frozenset(
    (
        "build_commit", "cpu_info", "gpu_info", "backends", "model_filename",
        "model_type", "cpu_mask", "type_k", "type_v", "split_mode", "devices",
        "tensor_split", "tensor_buft_overrides", "test_time", "load_mode", "lazy_mode",
        "size", "params",
    )
)  # fmt: skip
_MARKDOWN_KEYS = {
    "model": "model_type", "backend": "backends", "ngl": "n_gpu_layers",
    "threads": "n_threads", "sm": "split_mode", "nkvo": "no_kv_offload",
    "fa": "flash_attn", "lm": "load_mode", "embd": "embeddings",
    "nopo": "no_op_offload", "noh": "no_host", "rpk": "repack", "dev": "devices",
    "ts": "tensor_split", "ot": "tensor_buft_overrides", "fitt": "fit_target",
    "fitc": "fit_min_ctx", "mmap": "use_mmap", "dio": "use_direct_io",
    "mg": "main_gpu", "cpumask": "cpu_mask",
}  # fmt: skip
"""Short names of columns; all others stand as they are."""
_TEST = re.compile(r"(?:pp(?P<pp>\d+))?\+?(?:tg(?P<tg>\d+))?(?: *@ *d(?P<d>\d+))?")
_SPEED = re.compile(r"(?P<mean>\d+(?:\.\d+)?)(?: *(?:±|\+/-) *(?P<sd>\d+(?:\.\d+)?))?")
_BUILD = re.compile(r"^build: *(?P<commit>\w+) *\((?P<number>\d+)\)", re.MULTILINE)
_INSERT = re.compile(r"INSERT INTO \w+ \((?P<keys>[^)]*)\) VALUES \((?P<values>.*)\);")
_VALUE = re.compile(r"'((?:[^']|'')*)'(?:, |$)")
_FIRST_VALUE = re.compile(r'\{\s*"\w+"\s*:\s*[^\s\[{]')
"""Begin of an object of values, in any order of keys."""
_FAILS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def form_of(text: str) -> str:
    """Return the form of a text, "" where it is none of them."""
    bare = text.lstrip("\ufeff \t\r\n")
    if re.search(r"^\W?build_commit\W+build_number", text, re.MULTILINE):
        return "csv"
    if re.search(r"^INSERT INTO (llama_bench|test) \(", text, re.MULTILINE):
        return "sql"
    if '"avg_ts"' in text or '"samples_ts"' in text:
        if bare.startswith("["):
            return "json"
        if re.search(r'^\s*\{ *"', text, re.MULTILINE):
            return "jsonl"
        if '"model_filename"' in text and _FIRST_VALUE.match(bare):
            return "json"  # rows without their list
    if re.search(r"^\| *model .*\| *t/s *\|", text, re.MULTILINE):
        return "md"
    return ""


def rows_of(text: str, form: str) -> Iterator[Line]:
    """Yield the rows of a text; None for what looks like one and cannot be read."""
    match form:
        case "json":
            yield from _json(text)
        case "jsonl":
            yield from _json_lines(text)
        case "csv":
            yield from _csv(text)
        case "sql":
            yield from _sql(text)
        case "md":
            yield from _markdown(text)


def _json(text: str) -> Iterator[Line]:
    """Yield the objects of a list, or of none; of one that was cut, the whole ones."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        yield from _whole_objects(text.lstrip("\ufeff"))
        return
    begin = text.find("[")
    try:
        values = msgspec.json.decode(text[begin:].strip().encode())
    except _FAILS:
        yield from _whole_objects(text[begin + 1 :])
        return
    for number, value in enumerate(values if isinstance(values, list) else (), 1):
        yield number, (value if _is_row(value) else None)


def _whole_objects(text: str) -> Iterator[Line]:
    """Yield the objects that stand one after the other, also of several lists."""
    number = 0
    for part in re.split(r"(?<=\})[\s,\[\]]+(?=\{)", text.strip()):
        bare = part.strip("[] \r\n\t,")
        if not bare:
            continue
        number += 1
        try:
            value = msgspec.json.decode(bare.encode())
        except _FAILS:
            value = None
        yield number, (value if _is_row(value) else None)


def _json_lines(text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip().rstrip(",")
        if not stripped.startswith("{"):
            continue  # messages of the program stand between
        try:
            value = msgspec.json.decode(stripped.encode())
        except _FAILS:
            yield number, None
            continue
        if _is_row(value):
            yield number, value


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and ("avg_ts" in value or "samples_ts" in value)


def _csv(text: str) -> Iterator[Line]:
    keys: list[str] = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        try:
            fields = next(csv.reader([line]), [])
        except csv.Error:
            fields = ["", ""]
        if len(fields) > 1 and fields[0] == "build_commit":
            keys = fields  # of each file, where several were put together
        elif keys and len(fields) == len(keys):
            yield number, _numbered(dict(zip(keys, fields, strict=True)))
        elif keys and len(fields) > 1:
            yield number, None


def _sql(text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("INSERT INTO"):
            continue
        match = _INSERT.match(line)
        keys = [] if match is None else [k.strip() for k in match["keys"].split(",")]
        values = [] if match is None else _VALUE.findall(match["values"])
        if not keys or len(keys) != len(values):
            yield number, None
            continue
        texts = (value.replace("''", "'") for value in values)
        yield number, _numbered(dict(zip(keys, texts, strict=True)))


def _markdown(text: str) -> Iterator[Line]:
    build = _BUILD.search(text)
    about: Row = {}
    if build is not None:
        about = {"build_commit": build["commit"], "build_number": int(build["number"])}
    keys: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|") or set(line) <= set("|-: \t"):
            continue
        if cells[0] == "model":
            keys = [_MARKDOWN_KEYS.get(cell, cell) for cell in cells]
        elif keys and len(cells) == len(keys):
            yield number, _of_markdown(dict(zip(keys, cells, strict=True)), about)
        elif keys:
            yield number, None


def _of_markdown(cells: dict[str, str], about: Row) -> Row | None:
    speed = _SPEED.fullmatch(cells.pop("t/s", "").strip("* "))
    test = _TEST.fullmatch(cells.pop("test", "").strip("* "))
    if speed is None or test is None:
        return None
    row = _numbered(cells) | about
    row |= {"n_prompt": int(test["pp"] or 0), "n_gen": int(test["tg"] or 0)}
    row |= {"n_depth": int(test["d"] or 0), "avg_ts": float(speed["mean"])}
    if speed["sd"] is not None:
        row["stddev_ts"] = float(speed["sd"])
    return row


def _numbered(row: dict[str, str]) -> Row:
    return {
        key: value if key in _TEXT_KEYS else _number(value)
        for key, value in row.items()
        if not key.startswith("samples_")  # lists, which these forms cannot hold
    }


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
