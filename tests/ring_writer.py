"""A made-up program that writes a ring: as fast as asked, with graphs and losses.

As a script it writes for a while and prints what it did:
``python tests/ring_writer.py PATH --rate 1000000 --seconds 5 --megabytes 64``.
"""

import argparse
import json
import mmap
import os
import shutil
import struct
import sys
import time
from pathlib import Path

import numpy as np

from ggscope_capture.ring import CONTROL, DTYPES, LANE, RECORD
from ggscope_capture.ring_format import FrameType, RingFlag, RingState

OPS = ((1, "MUL_MAT"), (2, "ADD"), (3, "ROPE"), (4, "SOFT_MAX"), (5, "RMS_NORM"))
N_NODES = 100
MAPPED_AT = 0x7000_0000
EVENT_BYTES = 1 << 20


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<H", len(raw)) + raw


def frame(kind: int, body: bytes, at: int = 0) -> bytes:
    body += b"\0" * (-len(body) % 8)
    return struct.pack("<IHHQ", 16 + len(body), kind, 0, at) + body


def definitions(identity: bytes, model: Path | None = None) -> bytes:
    parts = [b"GGSDEFS1" + struct.pack("<II", 1, 0x01020304) + identity]
    if model is not None:
        size, name = model.stat().st_size, text(str(model))
        parts.append(
            frame(FrameType.MODEL, struct.pack("<IIQQ", 0, 1, 4096, size) + name)
        )
        body = struct.pack("<QQQ", MAPPED_AT, size, 0) + name
        parts.append(frame(FrameType.MAPPING, body))
    parts += [frame(FrameType.OP, struct.pack("<I", n) + text(name)) for n, name in OPS]
    weight = struct.pack("<IIII4QQQ", 0, 0, 8, 2, 64, 64, 1, 1, 4096, 9000)
    parts.append(frame(FrameType.WEIGHT, weight + text("blk.0.ffn_up.weight")))
    body = struct.pack("<IIIIIIQ", 0, N_NODES, N_NODES + 1, N_NODES, 0, 0, 7)
    for i in range(N_NODES + 1):
        tensor = np.zeros(1, DTYPES["def_tensor"])
        tensor["op"], tensor["layer"] = i % 5 + 1, i // 10
        tensor["sources"] = 0xFFFFFFFF
        tensor["offset"], tensor["bytes"] = (1 << 64) - 1, 256
        tensor["sources"][0, 0] = N_NODES
        if i == N_NODES:
            tensor["flags"], tensor["offset"], tensor["bytes"] = 4, 4096, 9000
            tensor["sources"] = 0xFFFFFFFF
            tensor["data"] = MAPPED_AT + 4096
        name = "blk.0.ffn_up.weight" if i == N_NODES else f"node-{i // 10}-{i}"
        body += tensor.tobytes() + text(name)
        body += b"\0" * (-len(body) % 8)
    parts.append(frame(FrameType.BUILD, body))
    return b"".join(parts)


class Writer:
    """Writes records of `n_lanes` threads that compute one graph after the other."""

    def __init__(
        self,
        path: Path,
        *,
        n_lanes: int = 4,
        capacity: int = 1 << 10,
        overwrites: bool = False,
        is_ready: bool = True,
        model: Path | None = None,
    ) -> None:
        self.path, self.capacity, self.overwrites = path, capacity, overwrites
        records_at = 4096 + n_lanes * LANE.itemsize
        events_at = records_at + n_lanes * capacity * RECORD.itemsize
        size = events_at + EVENT_BYTES
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.posix_fallocate(descriptor, 0, size)
        self._map = mmap.mmap(descriptor, size)
        os.close(descriptor)
        self.control = np.frombuffer(self._map, CONTROL, 1)
        self.lanes = np.frombuffer(self._map, LANE, n_lanes, 4096)
        records = np.frombuffer(self._map, RECORD, n_lanes * capacity, records_at)
        self._records = records.reshape(n_lanes, capacity)
        self._events_at = events_at
        identity = os.urandom(16)
        for name, value in {
            "version": 1,
            "byte_order": 0x01020304,
            "header_size": 4096,
            "record_size": RECORD.itemsize,
            "lane_size": LANE.itemsize,
            "n_lanes": n_lanes,
            "lanes_offset": 4096,
            "lane_capacity": capacity,
            "records_offset": records_at,
            "events_offset": events_at,
            "events_capacity": EVENT_BYTES,
            "file_size": size,
            "pid": os.getpid(),
            "flags": RingFlag.OVERWRITE if overwrites else 0,
            "t0_mono": time.monotonic_ns(),
            "t0_real": time.time_ns(),
            "start_time": start_time(),
            "program": b"made-up",
            "state": RingState.RUNS,
        }.items():
            self.control[name] = value
        self.control["identity"] = np.frombuffer(identity, np.uint8)
        defs = path.with_name(path.name + ".defs")
        defs.write_bytes(definitions(identity, model))
        self.lanes["state"] = 1
        self.lanes["ith"] = np.arange(n_lanes)
        self.n_graphs = self.written = self.dropped = 0
        if is_ready:
            self.make_ready()

    def make_ready(self) -> None:
        self._map[:8] = b"GGSRING1"

    def event(self, kind: int, body: bytes, at: int) -> None:
        data = frame(kind, body, at)
        head = int(self.control["events_head"][0])
        place = head % EVENT_BYTES
        if place + len(data) > EVENT_BYTES:
            rest = EVENT_BYTES - place
            pad = struct.pack("<IHH", rest, 0, 0)
            self._map[self._events_at + place : self._events_at + place + 8] = pad
            head, place = head + rest, 0
        begin = self._events_at + place
        self._map[begin : begin + len(data)] = data
        self.control["events_head"] = head + len(data)

    def graph(
        self, n: int = N_NODES, begin: int | None = None, backend: int = 0
    ) -> None:
        """Compute a graph: n records in each lane, a microsecond each."""
        begin = time.monotonic_ns() if begin is None else begin
        number = self.n_graphs
        self.n_graphs += 1
        lanes = len(self.lanes)
        head = struct.pack(
            "<IIIHHHHIQQQ", number, 0, number // 2, 0, lanes, 2, 0, n, 0, 0, backend
        )
        self.event(FrameType.GRAPH_BEGIN, head, begin)
        node = np.arange(n) % N_NODES
        made = np.zeros(n, RECORD)
        made["t0"] = begin + np.arange(n) * 1000
        made["op_ns"], made["wait_ns"] = 700, 100
        made["node"], made["graph"], made["op"] = node, number, node % 5 + 1
        for lane in range(lanes):
            made["lane"] = lane
            # The core of the first lane is not known; the others' nodes have two each.
            made["extra"] = lane + 10 | lane // 2 << 12 if lane else 0xFFF
            self.put(lane, made)
        end = begin + n * 1000
        self.event(FrameType.GRAPH_END, struct.pack("<IiQ", number, 0, n * lanes), end)

    def put(self, lane: int, records: np.ndarray) -> None:
        head = int(self.lanes["head"][lane])
        if not self.overwrites:
            capacity = self.capacity - (head - int(self.lanes["tail"][lane]))
            self.lanes["dropped"][lane] += max(len(records) - capacity, 0)
            self.dropped += max(len(records) - capacity, 0)
            records = records[:capacity]
        for at in range(0, len(records), self.capacity):
            part = records[at : at + self.capacity]
            low = head % self.capacity
            first = part[: self.capacity - low]
            self._records[lane, low : low + len(first)] = first
            self._records[lane, : len(part) - len(first)] = part[len(first) :]
            head += len(part)
            self.lanes["head"][lane] = head
        self.written += len(records)

    def end(self) -> None:
        self.control["state"] = RingState.ENDED

    def close(self) -> None:
        del self.control, self.lanes, self._records
        self._map.close()


def start_time() -> int:
    text = Path("/proc/self/stat").read_text()
    return int(text.rpartition(")")[2].split()[19])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("--rate", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--megabytes", type=float, default=64)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--overwrite", action="store_true")
    expected = parser.parse_args()
    capacity = int(expected.megabytes * (1 << 20)) // RECORD.itemsize // expected.lanes
    capacity = 1 << (capacity.bit_length() - 1)
    free = shutil.disk_usage(expected.path.parent).free - EVENT_BYTES
    while capacity * expected.lanes * RECORD.itemsize > free:
        capacity //= 2
    writer = Writer(
        expected.path,
        n_lanes=expected.lanes,
        capacity=capacity,
        overwrites=expected.overwrite,
    )
    per_graph = expected.rate // 1000 // expected.lanes
    began = time.monotonic()
    length = per_graph * 1000
    ended = time.monotonic_ns()
    for i in range(int(expected.seconds * 1000)):
        # A graph that is late begins no sooner than the one before has ended: the
        # ops of a thread do not overlap. It is written when its last record ends.
        due = max(began + i / 1000, (ended + length) / 1e9)
        time.sleep(max(due - time.monotonic(), 0))
        writer.graph(per_graph, max(ended, time.monotonic_ns() - length))
        ended = time.monotonic_ns()
    writer.end()
    print(
        json.dumps(
            {
                "written": writer.written,
                "dropped": writer.dropped,
                "graphs": writer.n_graphs,
                "seconds": time.monotonic() - began,
                "cpu_seconds": time.process_time(),
            }
        ),
        file=sys.stdout,
    )


if __name__ == "__main__":
    main()
