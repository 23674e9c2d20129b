"""What a log says in words: memory of each device, build, model and settings."""

import re
from dataclasses import replace

from ggscope.model.requests import MemoryUse
from ggscope.model.tables import I64
from ggscope.readers.logs.lines import Kind, LineText, LogLines

_MIB = 1 << 20
_MAX_WORDS = 200
_MAX_LINES = 20_000
"""Of a kind that are looked at as text."""
_ROW = re.compile(
    r"\|\s*-\s*(?P<device>.+?)\s*\|"
    r"\s*(?:(?P<total>-?\d+)\s*=\s*(?P<free>-?\d+)\s*\+\s*\()?"
    r"\s*(?P<used>-?\d+)\s*=\s*(?P<model>-?\d+)\s*\+\s*(?P<context>-?\d+)\s*\+"
    r"\s*(?P<compute>-?\d+)\s*\)?"
    r"(?:\s*\+\s*(?P<unaccounted>-?\d+))?\s*\|"
)
_BUFFER = re.compile(
    r"(?P<device>[\w.-]+)\s+(?:(?P<part>model|KV|RS|compute|output)\s+)?"
    r"buffer size\s*=\s*(?P<size>\d{1,9}(?:\.\d+)?) MiB"
)
_PARTS = {
    "model": "model", "KV": "context", "RS": "context", "output": "context",
    "compute": "compute",
}  # fmt: skip
_MAX_DEVICES = 256
_METADATA = re.compile(
    r"- kv\s+\d+:\s*(?P<key>\S+)\s+(?P<type>\S+)\s*=\s*(?P<value>.*)"
)
_KEYS = re.compile(
    r"general\.(name|architecture|size_label|file_type)|"
    r".*\.(block_count|context_length|expert_count|expert_used_count|embedding_length)"
)
_MODEL = re.compile(r"loading model '(?P<path>[^']+)'|tensors from (?P<from>.+?) \(")
_BUILD = re.compile(r"(?:build_info:|build:|build =)\s*(?P<build>\S.*)")
_SYSTEM = re.compile(r"system_info:\s*(?P<system>.*)")
_DEVICE = re.compile(r"-\s*(?P<device>\S+)\s*:\s*(?P<about>.+)")


class LogFacts:
    """What the program says of itself, line by line as they come.

    Attributes
    ----------
    facts : the last value of each name.
    """

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self._blocks: dict[int, list[MemoryUse]] = {}
        self._buffers: dict[int, dict[str, MemoryUse]] = {}
        self._cache_run = -1

    def memory(self) -> tuple[MemoryUse, ...]:
        """Return the memory of each device and start of the program, in bytes.

        The last breakdown of a start; without one the sums of its lines on buffers.
        """
        uses: list[MemoryUse] = []
        for run in sorted(self._blocks.keys() | self._buffers.keys()):
            block = self._blocks.get(run)
            uses += block or self._buffers.get(run, {}).values()
        return tuple(uses)

    def add(self, text: LineText, lines: LogLines, run: I64) -> None:
        """Read the next lines; `run` is the start of the program of each."""
        for row in lines.rows(Kind.MEMORY)[-_MAX_LINES:].tolist():
            fields = lines.text(text, row)
            self._add_memory(fields, int(run[row]), int(lines.line[row]))
        kinds = (
            Kind.START, Kind.MODEL, Kind.METADATA, Kind.DEVICE, Kind.SPLITS,
            Kind.BUFFER, Kind.LOAD_TIME, Kind.ENGINE, Kind.KV_CACHE,
        )  # fmt: skip
        for row in lines.rows(*kinds)[-_MAX_LINES:].tolist():
            kind, fields = Kind(int(lines.kind[row])), lines.text(text, row, 4096)
            if kind is Kind.SPLITS and lines.n_values[row]:
                self.facts["graph splits"] = f"{lines.value[row, 0]:g}"
            elif kind is Kind.LOAD_TIME and lines.n_values[row]:
                self.facts["load time"] = f"{lines.value[row, 0]:,.2f} ms"
            elif kind is Kind.KV_CACHE:
                self._add_cache(fields, int(run[row]))
            elif kind is Kind.BUFFER:
                self._add_buffer(fields, int(run[row]), int(lines.line[row]))
            else:
                if kind is Kind.MODEL and fields.startswith("loading model"):
                    self._buffers.pop(int(run[row]), None)
                self._add_fact(kind, fields)

    def _add_memory(self, text: str, run: int, line: int) -> None:
        if "memory breakdown [MiB]" in text:
            self._blocks[run] = []
            return
        match = _ROW.search(text)
        if match is None:
            return
        bytes_of = {
            key: None if value is None else int(value) * _MIB
            for key, value in match.groupdict().items()
            if key != "device"
        }
        self._blocks.setdefault(run, []).append(
            MemoryUse(
                run=run,
                line=line,
                device=match["device"],
                total=bytes_of["total"],
                free=bytes_of["free"],
                used=bytes_of["used"] or 0,
                model=bytes_of["model"] or 0,
                context=bytes_of["context"] or 0,
                compute=bytes_of["compute"] or 0,
                unaccounted=bytes_of["unaccounted"],
            )
        )

    def _add_buffer(self, text: str, run: int, line: int) -> None:
        match = _BUFFER.search(text)
        if match is None:
            return
        devices = self._buffers.setdefault(run, {})
        use = devices.get(match["device"])
        if use is None:
            if len(devices) >= _MAX_DEVICES:
                return
            use = MemoryUse(
                run, line, match["device"], None, None, 0, 0, 0, 0, None, is_sum=True
            )
        size = round(float(match["size"]) * _MIB)
        part = _PARTS[match["part"] or "model"]
        devices[use.device] = replace(
            use, used=use.used + size, **{part: getattr(use, part) + size}
        )

    def _add_cache(self, text: str, run: int) -> None:
        """Note the first KV cache of a start: those of draft models come later."""
        if run != self._cache_run:
            self._cache_run = run
            field_text = " ".join(text.removeprefix("size =").split())
            self.facts["KV cache"] = field_text[:_MAX_WORDS]

    def _add_engine(self, text: str) -> None:
        """Note what vLLM says of itself."""
        if match := _ENGINE.search(text):
            self.facts["build"] = f"vLLM {match['build']}"
            if model := _ENGINE_MODEL.search(text):
                self.facts["model"] = model["model"]
            return
        for pattern, name in _ENGINE_FACTS.items():
            if text.startswith(pattern):
                self.facts[name] = text.removeprefix(pattern).strip()[:_MAX_WORDS]

    def _add_fact(self, kind: Kind, text: str) -> None:
        facts = self.facts
        if kind is Kind.START and (match := _BUILD.search(text)):
            facts["build"] = match["build"].strip()
        elif kind is Kind.START and (match := _SYSTEM.search(text)):
            facts["system"] = match["system"].strip(" |")
        elif kind is Kind.MODEL and (match := _MODEL.search(text)):
            facts["model"] = match["path"] or match["from"]
        elif kind is Kind.ENGINE:
            self._add_engine(text)
        elif kind is Kind.METADATA and (match := _METADATA.search(text)):
            if _KEYS.fullmatch(match["key"]):
                facts[match["key"]] = match["value"].strip()
        elif kind is Kind.DEVICE and (match := _DEVICE.search(text)):
            facts[f"device {match['device']}"] = match["about"].strip()


_ENGINE = re.compile(r"Initializing a .{0,40}?engine \((?P<build>v[^)]*)\)")
_ENGINE_MODEL = re.compile(r"\bmodel='(?P<model>[^']*)'")
_ENGINE_FACTS = {
    "Loading weights took": "load weights",
    "Model loading took": "model loading",
    "GPU KV cache size:": "KV cache",
    "Maximum concurrency for": "concurrency",
    "init engine": "init engine",
}
_CALL = re.compile(
    r"\|\s*(?P<status>\d{3})\s*\|\s*(?P<time>[0-9.hmnuµs]+)\s*\|.*\|\s*"
    r"(?P<method>[A-Z]+)\s+\"(?P<path>[^\"]*)\""
)
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_MAX_CALL_NS = 1 << 55
_UNITS = {
    "h": 3600e9, "m": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0,
}  # fmt: skip


def http_call(text: str) -> tuple[str, int] | None:
    """Return method, path and status, and the ns of a call that gin logs.

    None for other lines; -1 ns for a call that is longer than times can be.
    """
    match = _CALL.search(text)
    if match is None:
        return None
    parts = _PART.findall(match["time"])
    ns = sum(float(number) * _UNITS[unit] for number, unit in parts)
    path = match["path"].partition("?")[0]  # what is asked for is private
    name = f"{match['method']} {path} · {match['status']}"
    return name, round(ns) if ns < _MAX_CALL_NS else -1
