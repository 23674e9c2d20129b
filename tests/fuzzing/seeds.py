"""Valid files of every reader, small enough for thousands of mutations a second."""

import json
import math
from random import Random

from reader_files import Seed, reader_files

SMALL_OF_EACH = 6
LONG_LINES, LONG_BYTES = 200, 32 << 10
"""A text in which many lines are mutated at once has so many, or is about so large."""


def seeds_of(reader_id: str) -> list[Seed]:
    """Return valid files of a built-in reader; some of them have several pages."""
    files = reader_files()[reader_id]
    if files.seeds is not None:
        return files.seeds()
    name, make = files.valid
    return [(name, make())]


def small_seeds_of(reader_id: str) -> list[Seed]:
    """Return valid files with a few rows each, in which nearly every byte matters.

    They are read in a fraction of the time, and a mutation seldom misses what counts.
    """
    files = reader_files()[reader_id]
    if files.small_seeds is not None:
        return files.small_seeds()
    return _thinned(Random(reader_id), seeds_of(reader_id))


def long_seeds_of(reader_id: str) -> list[Seed]:
    """Return valid texts in which many mutations at once leave much to be read.

    JSON documents as they are, other texts with their rows repeated behind the first;
    nothing for a binary file.
    """
    made = []
    for name, data in seeds_of(reader_id):
        if _is_json(data):
            made.append((name, data))
        elif _is_text(data):
            first, *rows = data.splitlines(keepends=True)
            times = min(LONG_LINES / max(len(rows), 1), LONG_BYTES / len(data))
            made.append((name, b"".join([first, *rows * max(math.ceil(times), 1)])))
    return made


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _thinned(random: Random, seeds: list[Seed]) -> list[Seed]:
    """Return texts with a few of their rows, or of the members of their lists."""
    made = []
    for name, data in seeds:
        for _ in range(SMALL_OF_EACH):
            if name.endswith(".json"):
                text = json.dumps(_few_of_each(random, json.loads(data))).encode()
            else:
                first, *rows = data.splitlines(keepends=True)
                keeps_last = rows[-1:] if name.endswith(".dot") else []
                text = b"".join([first, *_few(random, rows), *keeps_last])
            made.append((name, text))
    return made


def _few(random: Random, rows: list[bytes]) -> list[bytes]:
    at = random.randrange(max(len(rows) - 6, 1))
    return rows[at : at + random.randint(1, 12)]


def _few_of_each(random: Random, value: object) -> object:
    """Return a JSON value whose long lists have one to three members left."""
    if isinstance(value, dict):
        return {key: _few_of_each(random, part) for key, part in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > 4:
        at = random.randrange(len(value) - 3)
        value = value[at : at + random.randint(1, 3)]
    return [_few_of_each(random, part) for part in value]


def reader_ids() -> tuple[str, ...]:
    """Return the ids of the readers there are seeds for."""
    return tuple(reader_files())
