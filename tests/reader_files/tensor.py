"""Files of tensor-access, trace-json."""

import json
from dataclasses import replace

import tensor_files
import token_files
from reader_files import Names, ReaderFiles, Seed, from_sample
from tensor_files import (
    LAYOUTS,
    buffer_event,
    encode,
    llama_pass,
    llama_trace,
    one_source_each,
)


def _seeds(n_records: int = 1000, n_events: int = 12) -> list[Seed]:
    records = llama_pass(10**12, n_layers=2)[:n_records]
    made = []
    for layout in LAYOUTS:
        whole = records if layout in ("256", "1024") else one_source_each(records)
        made.append(("t.bin", encode(whole, layout)[: 1 << 14]))
    events = [buffer_event(10**12 + k, k % 2, 5, 99) for k in range(n_events)]
    return [*made, ("b.bin", b"".join(events))]


def _hostile_tensor_access(names: Names) -> bytes:
    return tensor_files.encode(_records(names), "256")


def _records(names: Names) -> list[tensor_files.Rec]:
    records = tensor_files.llama_trace(2, n_layers=1)
    known: dict[str, str] = {}

    def renamed(name: str) -> str:
        # What shows layers and passes stays, so that every view has something.
        return known.setdefault(name, f"{next(names)} {name}"[:100] if name else "")

    return [
        replace(
            r,
            dst=renamed(r.dst),
            sources=tuple(replace(s, name=renamed(s.name)) for s in r.sources),
        )
        for r in records
    ]


def _valid_tokens() -> bytes:
    return json.dumps(token_files.document(llama_trace(1))).encode()


def _hostile_tokens(names: Names) -> bytes:
    document = token_files.document(_records(names))
    for entry in document["entries"]:  # type: ignore[attr-defined]
        entry["operation_type"] = f"{entry['operation_type']} {next(names)}"
        entry["phase"] = next(names) if entry["entry_id"] % 3 == 2 else entry["phase"]
    return json.dumps(document).encode()


FILES = (
    ReaderFiles(
        "tensor-access",
        valid=from_sample("tinyllama-256.bin"),
        seeds=_seeds,
        small_seeds=lambda: [*_seeds(3, 2), *_seeds(6, 4)],
        hostile=(".bin", _hostile_tensor_access),
        session="folder",
    ),
    ReaderFiles(
        "trace-json",
        valid=("token-00000.json", _valid_tokens),
        hostile=(".json", _hostile_tokens),
        session="tokens",
    ),
)
