"""Files of npu-json."""

import json

import npu_files
from npu_files import (
    access,
    as_lines,
    command,
    document,
    engine,
    marker,
    sample,
    stall,
    token,
)
from reader_files import Names, ReaderFiles, Seed, from_sample


def _seeds() -> list[Seed]:
    events = [
        engine(100, 250, color_hint="#123456"), access(110), token(100, 300),
        stall(120, 130), command(90, "START"), command(95, "END"),
        marker(99, "M", details={"q": '\\"}'}),
        engine(260, 300, engine="DMA", deps=[1]),
    ]  # fmt: skip
    whole = document(
        *events,
        run_metadata={"run_id": "r"},
        bandwidth_samples=[sample(0), sample(64)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 64}},
        summary_metrics={"cycles_total": 300, "te_utilization": 0.5},
    )
    lines = as_lines({"version": "1.0"}, *events)
    return [("t.json", json.dumps(whole).encode()), ("t.jsonl", lines.encode())]


def _hostile(names: Names) -> bytes:
    events = []
    for i in range(12):
        at = 100 * i
        fields = {key: next(names) for key in ("tile_id", "op", "layer_id")}
        if i % 3 == 2:
            fields["engine"] = next(names)
        events += [
            npu_files.engine(at, at + 50, **fields, details={next(names): next(names)}),
            npu_files.access(at + 10, source_engine=next(names)),
            npu_files.token(at, at + 90, token_index=i),
            npu_files.stall(at + 20, at + 30, reason=next(names), master=next(names)),
            npu_files.command(at + 5, "START", source=next(names), phase=next(names)),
            npu_files.marker(at + 40, next(names)),
            {"type": next(names), "cycle": at},
        ]
    samples = [npu_files.sample(100 * i) for i in range(8)]
    root = npu_files.document(
        *events,
        bandwidth_samples=samples,
        model=next(names),
        config={next(names): next(names)},
    )
    return json.dumps(root).encode()


FILES = (
    ReaderFiles(
        "npu-json",
        valid=from_sample("npu-prefill-decode.json"),
        seeds=_seeds,
        hostile=(".json", _hostile),
    ),
)
