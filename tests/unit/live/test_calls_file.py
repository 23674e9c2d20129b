"""Calls of CUDA that are followed: what is followed is what reading the file gives."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import cuda_files
from call_facts import facts, problems, span_rows
from cuda_files import START_US, own_hook, own_hook_end, random_calls
from ggscope.errors import LiveError
from ggscope.live import calls_file, growing_text
from ggscope.live.calls_file import CallsSource
from ggscope.live.open_source import follow
from ggscope.live.source import State
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace

END_US = START_US + 10_000_000


def settle(source: CallsSource) -> None:
    """Let the source find that nothing has been written for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls_file, "_QUIET_NS", -1)
        for _ in range(3):
            source.poll()


def write(path: Path, data: bytes, mode: str = "ab") -> None:
    with path.open(mode) as file:
        file.write(data)


def followed(source: CallsSource, data: bytes, cuts: list[int]) -> Trace:
    """Return the trace of a file that is written in parts."""
    begin = 0
    for cut in [*cuts, len(data)]:
        write(source.path, data[begin:cut])
        begin = cut
        source.poll()
        if cut % 3 == 0:
            assert source.snapshot().check() == []
    settle(source)
    trace = source.snapshot()
    assert trace.check() == []
    return trace


def text_of(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def with_end(lines: list[str], n_dropped: int = 0) -> list[str]:
    return [*lines, own_hook_end(END_US, len(lines), n_dropped)]


def damaged(seed: int, n: int) -> list[str]:
    """Return lines of a hook with all that may be wrong in them."""
    rng = np.random.default_rng(seed)
    first, *lines = own_hook(random_calls(seed, n))
    out = [first]
    for line in lines:
        match int(rng.integers(20)):
            case 0:  # its partner has none
                continue
            case 1:
                out.append(line[: int(rng.integers(len(line)))])
            case 2:
                out += [line, line]
            case 3:
                out += ["nonsense", line]
            case 4:  # of a clock that goes back
                out.append(line.replace('"ts":98765', '"ts":98764', 1))
            case 5:
                out.append(line.replace('"ts":', '"tz":', 1))
            case 6:
                out.append(line.replace('"name":', '"nome":', 1))
            case 7:
                out.append(line + out[-1])
            case 8:
                out.append("\x00\ufffd" + line)
            case _:
                out.append(line)
    return out


def texts() -> dict[str, bytes]:
    made = {
        f"calls {seed}": text_of(with_end(own_hook(random_calls(seed, 60)), seed))
        for seed in range(3)
    }
    made |= {f"damaged {seed}": text_of(damaged(seed, 80)) for seed in range(4)}
    made["damaged with an end"] = text_of(with_end(damaged(9, 80), 3))
    made["killed"] = text_of(own_hook(random_calls(5, 60))[:-17])
    made["many threads"] = text_of(with_end(own_hook(random_calls(6, 80, 12))))
    made["two processes"] = made["calls 0"] + made["calls 1"]
    made["no calls"] = text_of(with_end(own_hook([])))
    made["line ends of Windows"] = made["calls 2"].replace(b"\n", b"\r\n")
    return made


@pytest.mark.parametrize("name", [*texts()])
@pytest.mark.parametrize("seed", range(4))
def test_followed_calls_are_what_reading_the_file_gives(tmp_path, name, seed):
    data = texts()[name]
    path, whole = tmp_path / "x.jsonl", tmp_path / "whole.jsonl"
    whole.write_bytes(data)
    rng = np.random.default_rng(seed)
    n = (0, 3, 30, 200)[seed]
    cuts = sorted(rng.integers(0, len(data), n).tolist())

    with closing(CallsSource(path)) as source:
        trace = followed(source, data, cuts)
        state = source.status().state

    has_end = b'"end":true' in data[data.rfind(b"\n", 0, -2) :]
    assert (state is State.ENDED) == has_end
    if name == "no calls":  # nothing that the reader opens
        assert trace.info.summary["events"]["calls"] == 0
        return
    read = open_trace(whole, reader_id="cuda-calls")
    assert facts(trace, has_end=has_end) == facts(read, has_end=has_end)


@pytest.mark.parametrize("seed", range(40))
def test_followed_garbage_is_what_reading_it_gives(tmp_path, seed):
    rng = np.random.default_rng(seed)
    values = bytearray(text_of(with_end(own_hook(random_calls(seed, 30)))))
    head = values.index(b"\n") + 1
    for _ in range(int(rng.integers(1, 12))):
        at = int(rng.integers(head, len(values) - 1))
        match int(rng.integers(4)):
            case 0:
                values[at] = int(rng.integers(256))
            case 1:
                values[at] = int(rng.choice(list(b'\n{}[]",:0-e.')))
            case 2:
                del values[at : at + int(rng.integers(1, 90))]
            case 3:
                values[at:at] = values[at - 40 : at]
    data = bytes(values).rstrip(b"\n") + b"\n"
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(data)
    cuts = sorted(rng.integers(0, len(data), 20).tolist())
    with closing(CallsSource(tmp_path / "x.jsonl")) as source:
        try:
            trace = followed(source, data, cuts)
        except LiveError:  # of a line that looks like another program's
            return
        has_end = source.status().state is State.ENDED
    read = open_trace(whole, reader_id="cuda-calls")
    assert facts(trace, has_end=has_end) == facts(read, has_end=has_end)


class Hook:
    """Writes as the hook does: lines behind the last whole one, then a last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._end = 0

    def lines(self, lines: list[str], rng: np.random.Generator) -> Iterator[None]:
        """Write lines, in parts with a pause after each."""
        data, done = text_of(lines), 0
        while done < len(data):
            n = int(rng.integers(1, len(data) - done + 1))
            os.pwrite(self._file, data[done : done + n], self._end + done)
            done += n
            yield
        self._end += done

    def last_line(self, us: int, n_lines: int, n_dropped: int) -> None:
        line = text_of([own_hook_end(us, n_lines, n_dropped)])
        os.pwrite(self._file, line, self._end)
        os.truncate(self._file, self._end + len(line))

    def take_back(self, n_bytes: int) -> None:
        """Give room up for a last line, as on a full disk."""
        data = self.path.read_bytes()[: self._end]
        self._end = data.rfind(b"\n", 0, max(len(data) - n_bytes, 1)) + 1

    def close(self) -> None:
        os.close(self._file)


@pytest.mark.parametrize("sees_all", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_calls_behind_the_last_line_take_its_place(tmp_path, seed, sees_all):
    """What is half written over a last line that was not seen is read anew."""
    rng = np.random.default_rng(seed)
    lines = own_hook(random_calls(seed, 60))
    path, whole = tmp_path / "x.jsonl", tmp_path / "whole.jsonl"
    with closing(Hook(path)) as hook, closing(CallsSource(path)) as source:
        at = 0
        while at < len(lines):
            n = int(rng.integers(1, 12))
            for _ in hook.lines(lines[at : at + n], rng):
                source.poll()
                assert source.snapshot().check() == []
            at += n
            if rng.random() < 0.5:
                hook.last_line(END_US + at, at, n_dropped=at)
                for _ in range(int(rng.integers(3)) + sees_all):
                    source.poll()
                assert not (sees_all and source.status().restarts)
        hook.last_line(END_US + at, len(lines), n_dropped=7)
        settle(source)
        trace = source.snapshot()
    assert trace.check() == []
    assert source.status().state is State.ENDED
    whole.write_bytes(path.read_bytes())
    assert facts(trace) == facts(open_trace(whole, reader_id="cuda-calls"))
    assert ("dropped_events", 7, "") in problems(trace, has_end=True)


def test_full_disk_takes_lines_back(tmp_path):
    lines = own_hook(random_calls(3, 60))
    rng = np.random.default_rng(1)
    path, whole = tmp_path / "x.jsonl", tmp_path / "whole.jsonl"
    with closing(Hook(path)) as hook, closing(CallsSource(path)) as source:
        for _ in hook.lines(lines, rng):
            source.poll()
        hook.take_back(1024)
        hook.last_line(END_US, len(lines) - 9, n_dropped=9)
        settle(source)
        trace = source.snapshot()
        assert source.status().restarts == 1
    whole.write_bytes(path.read_bytes())
    assert facts(trace) == facts(open_trace(whole, reader_id="cuda-calls"))


@pytest.mark.parametrize("way", ["cut", "replaced", "written anew"])
def test_another_file_of_that_name_begins_another_trace(tmp_path, way):
    path = tmp_path / "x.jsonl"
    first, second = (text_of(own_hook(random_calls(s, 40))) for s in (1, 2))
    with closing(CallsSource(path)) as source:
        write(path, first)
        source.poll()
        if way == "replaced":
            path.unlink()
            source.poll()
            assert "was removed" in source.status().message
        elif way == "cut":
            write(path, b"", "wb")
            source.poll()
        else:
            second = text_of(own_hook(random_calls(2, 90)))
        write(path, second, "wb")
        for _ in range(3):
            source.poll()
        trace = source.snapshot()
        assert source.status().restarts == 1
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(second)
    read = open_trace(whole, reader_id="cuda-calls")
    assert facts(trace, has_end=False) == facts(read, has_end=False)


def test_file_that_is_moved_is_followed_to_its_place(tmp_path):
    lines = own_hook(random_calls(1, 40))
    path, place = tmp_path / "calls.jsonl", tmp_path / "out" / "mine.jsonl"
    place.parent.mkdir()
    with closing(CallsSource(path)) as source:
        write(path, text_of(lines))
        source.poll()
        path.replace(place)
        write(place, text_of([own_hook_end(END_US, len(lines))]))
        settle(source)
        assert source.status().state is State.ENDED
        recording = source.status().recording
        assert (recording.place, recording.n_bytes) == (place, place.stat().st_size)
        trace = source.snapshot()
    assert trace.info.paths == (place,)
    assert trace.records is not None
    assert b'"op_id"' in trace.records.view(1).data


def test_call_lasts_until_it_returns(tmp_path):
    path = tmp_path / "x.jsonl"
    lines = own_hook(
        [
            cuda_files.Call(START_US + 5, START_US + 90, 7, "cuMemAlloc_v2", 0, 64),
            cuda_files.Call(START_US + 20, START_US + 40, 8, "cuInit"),
        ]
    )
    with closing(CallsSource(path)) as source:
        write(path, text_of(lines[:-1]))
        source.poll()
        trace = source.snapshot()
        assert trace.check() == []
        assert [trace.span_name(0)] == ["cuInit"]
        (row,) = span_rows(trace, trace.open_spans, None)
        assert row[:3] == ("thread 7", "cuMemAlloc_v2 · 64 B", "cuMemAlloc_v2")
        assert row[4:6] == ((START_US + 5) * 1000, (START_US + 40) * 1000)
        assert row[6] == int(SpanFlag.UNFINISHED)
        assert problems(trace, has_end=True) == []
        assert source.status().by_kind == {"calls": 1, "lines": 4}

        write(path, text_of(lines[-1:]))
        source.poll()
        trace = source.snapshot()
        assert len(trace.spans) == 2
        assert len(trace.open_spans) == 0


def test_broken_lines_count_once(tmp_path):
    path = tmp_path / "x.jsonl"
    lines = own_hook(random_calls(1, 20))
    with closing(CallsSource(path)) as source:
        write(path, text_of([*lines[:5], '{"op_id":']))
        for _ in range(3):
            source.poll()
            trace = source.snapshot()
            assert trace.info.summary["events"]["broken_lines"] == 1
            assert problems(trace, has_end=False) == [("broken_line", 1, "line 6")]
        write(path, text_of(lines[5:]))
        source.poll()
        source.snapshot()
        assert source.snapshot().info.summary["events"]["broken_lines"] == 1


def test_snapshots_stay_as_they_were(tmp_path):
    path = tmp_path / "x.jsonl"
    data = text_of(with_end(own_hook(random_calls(9, 120))))
    states = []
    with closing(CallsSource(path)) as source:
        for at in range(0, len(data), 500):
            write(path, data[at : at + 500])
            source.poll()
            trace = source.snapshot()
            if len(trace.spans):
                states.append((trace, facts(trace)))
    assert len(states) > 20
    for trace, before in states:
        assert facts(trace) == before
    for (first, _), (second, _) in pairwise(states):
        earlier = span_rows(first, first.spans, first.accesses.pattern)
        later = span_rows(second, second.spans, second.accesses.pattern)
        assert later[: len(earlier)] == earlier


def test_lines_of_another_program_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    write(path, text_of(own_hook(random_calls(1, 20))))
    with closing(follow(path)) as source:
        assert type(source) is CallsSource
        source.poll()
        write(path, cuda_files.text("probes"))
        with pytest.raises(LiveError, match=r"line 4\d is of another program"):
            source.poll()


def test_long_file_is_read_bit_by_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(growing_text, "_MAX_BYTES", 1000)
    path = tmp_path / "x.jsonl"
    write(path, text_of(with_end(own_hook(random_calls(1, 100)))))
    read = open_trace(path, reader_id="cuda-calls")
    n_polls = 0
    with closing(CallsSource(path)) as source:
        while source.poll():
            n_polls += 1
        settle(source)
        assert facts(source.snapshot()) == facts(read)
    assert n_polls > 10


def test_work_does_not_grow_with_the_calls_before(tmp_path):
    """Ten thousand calls before cost hardly more than a hundred."""
    took = []
    for n in (100, 10_000):
        path = tmp_path / f"{n}.jsonl"
        lines = own_hook(random_calls(1, n + 400))
        write(path, text_of(lines[:-800]))
        with closing(CallsSource(path)) as source:
            while source.poll():
                source.snapshot()
            begin = time.process_time()
            for at in range(len(lines) - 800, len(lines), 10):
                write(path, text_of(lines[at : at + 10]))
                source.poll()
                source.snapshot()
            took.append(time.process_time() - begin)

    assert took[1] < 4 * took[0] + 0.05
