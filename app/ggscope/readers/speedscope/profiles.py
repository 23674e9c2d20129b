"""The profiles of a speedscope file, part by part: large ones come in blocks.

Form: https://www.speedscope.app/file-format-schema.json.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I32, I64
from ggscope.readers.api import ReadContext
from ggscope.readers.common.json_cursor import Block, JsonCursor
from ggscope.readers.common.json_text import JsonSyntaxError, JsonTooLargeError
from ggscope.readers.common.json_walk import ValueDecoder, decimal_of, integer_of
from ggscope.readers.source import Source

BAD_FRAME = -1
READ_SHARE = 0.45
"""Of the time for a file; the rest goes to its spans, measured with 3 M samples."""
_MAX_FACTS = 200
_MAX_PROFILES = 10_000
_FARTHEST = 1 << 31
_FRAME_KEYS = ("name", "file", "line", "col")


@dataclass(slots=True)
class Profile:
    """One profile as it stands in the file.

    Attributes
    ----------
    facts : its plain values: type, name, unit, startValue, endValue.
    frames, depths : of samples, block by block: frames of all stacks one behind the
        other, outermost first, `BAD_FRAME` beyond all lists; and how many each has.
    weights : of samples.
    events : of evented profiles: (time, frame, whether it opens) of each.
    n_bad : samples and events that are none.
    """

    facts: dict[str, object] = field(default_factory=dict)
    frames: list[I32] = field(default_factory=list)
    depths: list[I64] = field(default_factory=list)
    weights: list[object] = field(default_factory=list)
    events: list[tuple[object, int, bool]] = field(default_factory=list)
    n_bad: int = 0

    @property
    def n_samples(self) -> int:
        """How many samples it has."""
        return sum(map(len, self.depths))

    def taken_stacks(self) -> Iterator[tuple[I32, I64]]:
        """Yield frames and depths of samples block by block, and drop the frames."""
        for depths in self.depths:
            yield self.frames.pop(0), depths

    def text(self, key: str) -> str:
        """Return a fact that is a text; else ""."""
        value = self.facts.get(key)
        return value[:200] if isinstance(value, str) else ""


@dataclass(slots=True)
class ProfileFile:
    """What a file holds.

    Attributes
    ----------
    frames : (name, file, line, column) of each, as they stand.
    fault : what ended reading early; None = nothing.
    has_frames : whether the list of frames was found.
    """

    facts: dict[str, object] = field(default_factory=dict)
    frames: list[tuple[str, str, object, object]] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    fault: JsonSyntaxError | None = None
    has_frames: bool = False


class ProfileWalk:
    """Reads a file once from its begin to its end."""

    def __init__(
        self, source: Source, context: ReadContext, builder: TraceBuilder
    ) -> None:
        self._source, self._context = source, context
        self._cursor = JsonCursor(source)
        self._values = ValueDecoder(builder)
        self.file = ProfileFile()

    def run(self) -> ProfileFile:
        """Return what the file holds up to its end or a fault.

        Raises
        ------
        LimitExceededError
            If a value is too large.
        """
        try:
            self._root()
        except JsonSyntaxError as fault:
            self.file.fault = fault
        except JsonTooLargeError as error:
            raise error.as_limit("Is this the right file?") from None
        return self.file

    def _root(self) -> None:
        cursor = self._cursor
        for key in cursor.members():
            if key == "shared" and cursor.peek() == b"{":
                self._shared()
            elif key == "profiles" and cursor.peek() == b"[":
                self._profiles()
            else:
                self._fact(self.file.facts, key)

    def _note_progress(self) -> None:
        """Say how far it is; what follows takes longer than reading."""
        size = self._source.size
        self._context.progress(int(READ_SHARE * self._cursor.position), size)

    def _fact(self, facts: dict[str, object], key: str) -> None:
        data, at = self._cursor.value()
        value = self._values.parsed(data, at, key[:80])
        if len(facts) < _MAX_FACTS and not isinstance(value, dict | list):
            facts[key[:80]] = value

    def _shared(self) -> None:
        cursor = self._cursor
        for key in cursor.members():
            if key != "frames" or cursor.peek() != b"[":
                cursor.value()
                continue
            self.file.has_frames = True
            for block in cursor.blocks():
                self._note_progress()
                for data, at in block.texts():
                    value = self._values.parsed(data, at, "shared.frames")
                    self.file.frames.append(_frame(value))

    def _profiles(self) -> None:
        cursor = self._cursor
        cursor.position += 1
        while cursor.peek() != b"]":
            if cursor.peek() == b"{" and len(self.file.profiles) < _MAX_PROFILES:
                profile = Profile()
                self.file.profiles.append(profile)
                self._profile(profile)
            else:
                cursor.value()
            following = cursor.peek()
            if following == b",":
                cursor.position += 1
            elif following != b"]":
                raise cursor.fault("Expecting ',' delimiter")
        cursor.position += 1

    def _profile(self, profile: Profile) -> None:
        cursor = self._cursor
        for key in cursor.members():
            if key not in _TAKES or cursor.peek() != b"[":
                self._fact(profile.facts, key)
                continue
            decoder, take = _TAKES[key]
            for block in cursor.blocks():
                self._note_progress()
                take(profile, self._elements(block, decoder, key))

    def _elements(
        self, block: Block, decoder: msgspec.json.Decoder[Any], place: str
    ) -> list[Any]:
        """Return the elements of a block, decoded in one call where they are sound."""
        values = block.decode_array(decoder)
        if values is None:
            texts = block.texts()
            values = [self._values.parsed(data, at, place) for data, at in texts]
        return values


def _frame(value: object) -> tuple[str, str, object, object]:
    if not isinstance(value, dict):
        return "", "", None, None
    name, file, line, column = (value.get(key) for key in _FRAME_KEYS)
    return (
        name if isinstance(name, str) else "",
        file if isinstance(file, str) else "",
        line,
        column,
    )


def _take_samples(profile: Profile, values: list[Any]) -> None:
    try:
        depths = np.fromiter(map(len, values), np.int64, len(values))
        frames = np.fromiter(chain.from_iterable(values), np.int64, int(depths.sum()))
    except (TypeError, ValueError, OverflowError):
        sound = [_numbers(value) for value in values]
        profile.n_bad += sum(one is None for one in sound)
        stacks = [one or [] for one in sound]
        depths = np.array([len(one) for one in stacks], np.int64)
        frames = np.array(list(chain.from_iterable(stacks)), np.int64)
    is_bad = (frames < 0) | (frames >= _FARTHEST)
    profile.depths.append(depths)
    profile.frames.append(np.where(is_bad, BAD_FRAME, frames).astype(np.int32))


def _numbers(value: object) -> list[int] | None:
    """Return the frames of a sample; None where it is no list of whole numbers."""
    if not isinstance(value, list):
        return None
    whole = [integer_of(frame) for frame in value]
    if any(frame is None for frame in whole):
        return None
    return [f if f is not None and 0 <= f < _FARTHEST else BAD_FRAME for f in whole]


def _take_weights(profile: Profile, values: list[Any]) -> None:
    profile.weights.extend(values)


def _take_events(profile: Profile, values: list[Any]) -> None:
    for value in values:
        kind = value.get("type") if isinstance(value, dict) else None
        frame = integer_of(value.get("frame")) if kind in ("O", "C") else None
        if frame is None:
            profile.n_bad += 1
            continue
        if not 0 <= frame < _FARTHEST:
            frame = BAD_FRAME
        profile.events.append((value.get("at"), frame, kind == "O"))


_TAKES: dict[str, tuple[msgspec.json.Decoder[Any], Callable[..., None]]] = {
    "samples": (msgspec.json.Decoder(list[list[int]]), _take_samples),
    "weights": (msgspec.json.Decoder(list[object], float_hook=decimal_of),
                _take_weights),
    "events": (msgspec.json.Decoder(list[object], float_hook=decimal_of),
               _take_events),
}  # fmt: skip
"""What decodes the elements of a list of a profile, and what takes them."""
