"""Results of llama-bench as the Markdown that llama-bench itself prints.

Source: ``markdown_printer`` in ``tools/llama-bench/llama-bench.cpp`` of llama.cpp. It
hides columns at their default; files of other forms do not say what was asked for, so
a column is shown where it varies or is not at the default.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ggscope.analysis.bench.comparison import speed_of, varying_keys
from ggscope.model.bench import BUILD, RESULTS, BenchRuns
from ggscope.sanitize import markdown

_GIB, _MIB = 1 << 30, 1 << 20
_CPU = ("CPU", "BLAS", "ZenDNN")
_UNSHOWN = BUILD | RESULTS | {
    "cpu_info", "gpu_info", "model_filename", "model_type", "model_size",
    "model_n_params", "backends", "size", "params", "n_prompt", "n_gen", "n_depth",
}  # fmt: skip
"""Keys that other columns or the last line stand for, or that it never prints."""
_NARROW = 10
"""Characters of a column that states no width."""


@dataclass(frozen=True, slots=True)
class _Option:
    """A column of an option.

    Attributes
    ----------
    key : llama-bench's key.
    title : heading; "" = the key.
    width : characters; negative = to the left, 0 = as those without one.
    default : values that hide it; () = `_options` decides.
    """

    key: str
    title: str = ""
    width: int = 0
    default: tuple[Any, ...] = ()

    @property
    def column(self) -> "_Column":
        return _Column(self.title or self.key, self.width or _width(self.key, False))


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    width: int

    def cell(self, text: str) -> str:
        n = abs(self.width)
        return text.ljust(n) if self.width < 0 else text.rjust(n)

    @property
    def rule(self) -> str:
        return "-" * (abs(self.width) - 1) + ("-" if self.width < 0 else ":")


_OPTIONS = (
    _Option("n_gpu_layers", "ngl", 3),
    _Option("n_cpu_moe", default=(0,)),
    _Option("n_threads", "threads", 7),
    _Option("cpu_mask", width=-10, default=("0x0",)),
    _Option("cpu_strict", default=(0,)),
    _Option("poll", default=(50,)),
    _Option("n_batch", width=7, default=(2048,)),
    _Option("n_ubatch", width=8, default=(512,)),
    _Option("type_k", width=6, default=("f16",)),
    _Option("type_v", width=6, default=("f16",)),
    _Option("main_gpu", default=(0,)),
    _Option("split_mode", "sm", 6, ("layer",)),
    _Option("no_kv_offload", "nkvo", default=(0,)),
    _Option("flash_attn", "fa", 3),
    _Option("devices", "dev", -12, ("auto",)),
    _Option("tensor_split", "ts", -12),
    _Option("tensor_buft_overrides", "ot", -21, ("none",)),
    _Option("load_mode", "lm", 10, ("mmap",)),
    _Option("use_mmap", "mmap", 4, (1,)),
    _Option("use_direct_io", "dio", 3, (0,)),
    _Option("embeddings", "embd", default=(0,)),
    _Option("no_op_offload", "nopo", 4, (0,)),
    _Option("no_host", "noh", 4, (0,)),
    _Option("fit_target", "fitt", default=(0,)),
    _Option("fit_min_ctx", "fitc", default=(0,)),
)
"""In the order of the columns."""
_KNOWN = frozenset(option.key for option in _OPTIONS)


def bench_markdown(runs: BenchRuns) -> Iterator[str]:
    """Yield the lines of a table for each build: heading, rule, tests, build."""
    is_first = True
    for build, rows in groupby(range(len(runs)), lambda i: _build(runs.row(i))):
        if not is_first:
            yield ""
        is_first = False
        yield from _table(runs.take(list(rows)), runs.form == "md")
        if build:
            yield ""
            yield build


def _table(runs: BenchRuns, shows_all: bool) -> Iterator[str]:
    columns: list[tuple[_Column, Callable[[int], str]]] = [
        (_Column("model", -30), lambda i: _text(runs.row(i).get("model_type"))),
        (_Column("size", 10), lambda i: _size(runs.row(i))),
        (_Column("params", 10), lambda i: _parameters(runs.row(i))),
        (_Column("backend", -_NARROW), lambda i: _text(runs.row(i).get("backends"))),
    ]
    for option in _options(runs, shows_all):
        texts = tuple(map(_text, runs.columns[option.key]))
        columns.append((option.column, texts.__getitem__))
    columns.append((_Column("test", 15), runs.test))
    columns.append((_Column("t/s", 20), lambda i: _speed(runs, i)))
    yield _row([column.cell(column.title) for column, _ in columns])
    yield _row([column.rule for column, _ in columns])
    for i in range(len(runs)):
        yield _row([column.cell(markdown(text(i))) for column, text in columns])


def _options(runs: BenchRuns, shows_all: bool) -> Sequence[_Option]:
    """Return the options to show, those of keys that it does not know last."""
    varying = frozenset(varying_keys([runs]))
    backends = {str(name) for name in runs.columns.get("backends", ())}
    is_cpu = any(cpu in name for name in backends for cpu in _CPU)

    def is_shown(option: _Option) -> bool:
        if shows_all or option.key in varying:
            return True
        match option.key:
            case "n_gpu_layers":
                return not is_cpu
            case "n_threads":
                return is_cpu
        values = runs.columns[option.key]
        return not all(_is_default(value, option) for value in values)

    known = [o for o in _OPTIONS if o.key in runs.columns and is_shown(o)]
    others = [
        key
        for key in runs.columns
        if key not in _KNOWN | _UNSHOWN and (shows_all or key in varying)
    ]
    return [*known, *(_unknown(key, runs.columns[key]) for key in others)]


def _is_default(value: Any, option: _Option) -> bool:
    """Return whether a value is what llama-bench takes where nothing is asked for."""
    if option.key == "flash_attn":  # false in builds before -1; 0 was asked for
        return value is False or value in (-1, "auto")
    if option.key == "tensor_split":
        return set(str(value)) <= set("0./")
    return value is None or value in option.default


def _unknown(key: str, values: Sequence[Any]) -> _Option:
    is_text = any(isinstance(value, str) for value in values)
    return _Option(key, width=_width(key, is_text))


def _width(key: str, is_text: bool) -> int:
    width = max(len(key), _NARROW)
    return -width if is_text else width


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: Any) -> str:
    return "" if value is None else str(int(value) if value in (True, False) else value)


def _size(row: dict[str, Any]) -> str:
    size = row.get("model_size")
    if not isinstance(size, int | float):
        return _text(row.get("size"))
    if size < _GIB:
        return f"{size / _MIB:.2f} MiB"
    return f"{size / _GIB:.2f} GiB"


def _parameters(row: dict[str, Any]) -> str:
    n = row.get("model_n_params")
    if not isinstance(n, int | float):
        return _text(row.get("params"))
    return f"{n / 1e6:.2f} M" if n < 1e9 else f"{n / 1e9:.2f} B"


def _speed(runs: BenchRuns, i: int) -> str:
    speed = speed_of(runs, i)
    text = f"{speed.mean:.2f}"
    return text if speed.stddev is None else f"{text} ± {speed.stddev:.2f}"


def _build(row: dict[str, Any]) -> str:
    """Return the last line, "build: 8a3b1c2d (6865)"; "" where no row has it."""
    commit, number = (row.get(key) for key in ("build_commit", "build_number"))
    if commit is None and number is None:
        return ""
    return f"build: {markdown(_text(commit))} ({_text(number)})"
