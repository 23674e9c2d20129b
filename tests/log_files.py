"""Logs of servers in the forms of llama.cpp, ik_llama.cpp and what stands around them.

Written after the lines of real logs: before b9172 without times, since then with times
in the first line of a block or in every line; ik_llama.cpp; old JSON lines; and behind
the prefixes of Docker, journald, compose and Kubernetes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

START_NS = 1_767_225_600_000_000_000
"""2026-01-01, UTC."""


@dataclass(frozen=True)
class Request:
    """What a log states about a request; times in ms, -1 = the line is not there."""

    slot: int
    task: int
    n_prompt: int
    prompt_ms: float
    n_generated: int
    generated_ms: float
    cached: int = -1
    past: int = -1
    is_forced: bool = False
    drafted: int = -1
    accepted: int = -1


@dataclass(frozen=True)
class Line:
    """A line without a prefix; `ms` since the start; `is_bare`: never with a prefix."""

    ms: float
    text: str
    is_bare: bool = False
    level: str = "I"
    request: Request | None = None


HEAD = (
    "build_info: b9010-d05fe1d7d",
    "srv    load_model: loading model '/models/tiny.gguf'",
    "llama_model_loader: - kv   0:   general.architecture str   = llama",
    "common_memory_breakdown_print: | memory breakdown [MiB] | total  free  self  "
    "model  context  compute  unaccounted |",
    "common_memory_breakdown_print: |   - GPU0 (a card) | 1000 = 300 + (600 = 500 + "
    "60 + 40) + -100 |",
    "common_memory_breakdown_print: |   - Host | 57 = 50 + 0 + 7 |",
)


def random_requests(seed: int, n: int, n_slots: int = 4) -> list[Request]:
    """Return requests, some of which lack a part."""
    rng = np.random.default_rng(seed)
    requests = []
    for task in range(n):
        cached = int(rng.integers(-1, 50))
        is_forced = cached >= 0 and rng.random() < 0.3
        drafted = int(rng.integers(1, 90)) if rng.random() < 0.4 else -1
        requests.append(
            Request(
                slot=int(rng.integers(n_slots)),
                task=7 * task,
                n_prompt=int(rng.integers(1, 4000)),
                prompt_ms=int(rng.integers(1, 10**6)) / 100,
                n_generated=int(rng.integers(1, 900)),
                generated_ms=int(rng.integers(1, 10**6)) / 100,
                cached=0 if is_forced else cached,
                past=int(rng.integers(0, 80)) if is_forced else -1,
                is_forced=is_forced,
                drafted=drafted,
                accepted=int(rng.integers(0, drafted + 1)) if drafted >= 0 else -1,
            )
        )
    return requests


def lines_of(requests: Sequence[Request]) -> Iterator[Line]:
    """Yield the lines of requests that are computed one after the other."""
    ms = 100.0
    for r in requests:
        slot = f"id  {r.slot} | task {r.task} | "
        whole = r.n_prompt + max(r.cached, 0)
        yield Line(
            ms, f"slot launch_slot_: {slot}processing task, is_child = 0", request=r
        )
        if r.cached >= 0:
            yield Line(
                ms,
                f"slot update_slots: {slot}new prompt, n_ctx_slot = 4096, n_keep = 0, "
                f"task.n_tokens = {whole}",
                request=r,
            )
            if r.past >= 0:
                yield Line(
                    ms,
                    f"slot update_slots: {slot}n_past = {r.past}, "
                    "slot.prompt.tokens.size() = 90, seq_id = 0, pos_min = 9",
                    level="W",
                    request=r,
                )
            if r.is_forced:
                yield Line(
                    ms,
                    f"slot update_slots: {slot}forcing full prompt re-processing due "
                    "to lack of cache data (likely due to SWA)",
                    level="W",
                    request=r,
                )
            yield Line(
                ms,
                f"slot update_slots: {slot}n_tokens = {r.cached}, "
                f"memory_seq_rm [{r.cached}, end)",
                request=r,
            )
        ms += r.prompt_ms + r.generated_ms + 5
        yield Line(ms, f"slot print_timing: {slot}", request=r)
        yield Line(ms, _prompt_text(r), is_bare=True, request=r)
        yield Line(ms, _eval_text(r), is_bare=True, request=r)
        total = r.prompt_ms + r.generated_ms
        n = r.n_prompt + r.n_generated
        yield Line(
            ms, f"      total time = {total:10.2f} ms / {n:5d} tokens", is_bare=True,
            request=r,
        )  # fmt: skip
        if r.drafted >= 0:
            rate = r.accepted / r.drafted
            yield Line(
                ms,
                f"draft acceptance rate = {rate:.5f} ( {r.accepted:4d} accepted / "
                f"{r.drafted:5d} generated)",
                is_bare=True,
                request=r,
            )
        yield Line(
            ms,
            f"slot      release: {slot}stop processing: n_tokens = {n}, truncated = 0",
            request=r,
        )  # fmt: skip
        ms += 20
    yield Line(ms, "srv  update_slots: all slots are idle")


def _prompt_text(r: Request) -> str:
    per, rate = r.prompt_ms / r.n_prompt, r.n_prompt * 1e3 / r.prompt_ms
    return (
        f"prompt eval time = {r.prompt_ms:10.2f} ms / {r.n_prompt:5d} tokens "
        f"({per:8.2f} ms per token, {rate:8.2f} tokens per second)"
    )


def _eval_text(r: Request) -> str:
    per, rate = r.generated_ms / r.n_generated, r.n_generated * 1e3 / r.generated_ms
    return (
        f"       eval time = {r.generated_ms:10.2f} ms / {r.n_generated:5d} tokens "
        f"({per:8.2f} ms per token, {rate:8.2f} tokens per second)"
    )


def own_clock(ms: float) -> str:
    """Return a time as llama.cpp writes it: minutes, seconds, ms and µs."""
    us = round(ms * 1000)
    minutes, us = divmod(us, 60_000_000)
    seconds, us = divmod(us, 1_000_000)
    return f"{minutes}.{seconds:02}.{us // 1000:03}.{us % 1000:03}"


def iso_time(ms: float) -> str:
    """Return a moment in UTC with ms, 2026-01-01 at the start."""
    day, rest = divmod(round(ms), 86_400_000)
    return (
        f"2026-01-{day + 1:02}T{rest // 3_600_000:02}:{rest // 60_000 % 60:02}:"
        f"{rest // 1000 % 60:02}.{rest % 1000:03}Z"
    )


def _plain(line: Line) -> str:
    return line.text


def _b(line: Line) -> str:
    front = "" if line.is_bare else f"{own_clock(line.ms)} {line.level} "
    return front + line.text


def _c(line: Line) -> str:
    text = line.text
    if line.is_bare and line.request is not None:
        r = line.request
        text = f"slot print_timing: id  {r.slot} | task {r.task} | {text}"
    return f"{own_clock(line.ms)} {line.level} {text}"


def _docker(line: Line) -> str:
    return f"{iso_time(line.ms)} {line.text}"


def _docker_json(line: Line) -> str:
    entry = {"log": line.text + "\n", "stream": "stderr", "time": iso_time(line.ms)}
    return json.dumps(entry, separators=(",", ":"))


def _journald(line: Line) -> str:
    clock = iso_time(line.ms)[11:19]
    return f"Jan  1 {clock} box llama-server[4711]: {line.text}"


def _compose(line: Line) -> str:
    return f"llama-1  | {line.text}"


def _cri(line: Line) -> str:
    return f"{_cri_time(line.ms)} stderr F {line.text}"


def _cri_time(ms: float) -> str:
    return iso_time(ms)[:-1] + "000321Z"


def _kubectl(line: Line) -> str:
    return f"[pod/llama-7d9f8-x2x5k/server] {line.text}"


def _kubectl_times(line: Line) -> str:
    return f"[pod/llama-7d9f8-x2x5k/server] {_cri_time(line.ms)} {line.text}"


def _colour(line: Line) -> str:
    return f"\x1b[32m{own_clock(line.ms)}\x1b[0m {line.level} \x1b[1m{line.text}\x1b[0m"


FORMS: dict[str, Callable[[Line], str]] = {
    "no clock": _plain,
    "clock": _b,
    "clock in every line": _c,
    "docker": _docker,
    "docker json": _docker_json,
    "journald": _journald,
    "compose": _compose,
    "cri": _cri,
    "kubectl": _kubectl,
    "kubectl with times": _kubectl_times,
    "colours": _colour,
}
CLOCKED = {
    "clock",
    "clock in every line",
    "docker",
    "docker json",
    "journald",
    "cri",
    "kubectl with times",
    "colours",
}


def log(requests: Sequence[Request], form: str = "clock") -> bytes:
    """Return a log of requests in one of `FORMS`."""
    write = FORMS[form]
    lines = [write(Line(float(i), text)) for i, text in enumerate(HEAD)]
    lines += [write(line) for line in lines_of(requests)]
    return ("\n".join(lines) + "\n").encode()


def cut_by_cri(requests: Sequence[Request], seed: int = 0) -> bytes:
    """Return `log` in the form "cri" with lines that the runtime has cut into pieces.

    Timings and what announces them are whole. Between the pieces the program writes to
    its other stream.
    """
    rng = np.random.default_rng(seed)
    lines = [Line(float(i), text) for i, text in enumerate(HEAD)]
    written = []
    for line in (*lines, *lines_of(requests)):
        time, text, pieces = _cri_time(line.ms), line.text, []
        if not line.is_bare and not text.endswith("| "):
            for _ in range(rng.integers(0, 4)):
                at = int(rng.integers(0, len(text) + 1))
                pieces.append(text[:at])
                text = text[at:]
        for piece in pieces:
            written.append(f"{time} stderr P {piece}")
            if rng.random() < 0.3:
                written.append(f"{time} stdout F something else")
        tags = "F:x" if pieces else "F"
        written.append(f"{time} stderr {tags} {text}")
    return ("\n".join(written) + "\n").encode()


def interleaved(requests: Sequence[Request], form: str = "clock") -> bytes:
    """Return a log of requests of which up to four are computed at once."""
    write = FORMS[form]
    rng = np.random.default_rng(len(requests))
    by_slot: dict[int, list[list[Line]]] = {}
    for r in requests:
        whole = list(lines_of([r]))[:-1]
        # The block of timings stays together.
        at = next(i for i, line in enumerate(whole) if line.text.endswith("| "))
        parts = [[line] for line in whole[:at]] + [whole[at:-1], whole[-1:]]
        by_slot.setdefault(r.slot, []).extend(parts)
    lines, ms = [Line(float(i), text) for i, text in enumerate(HEAD)], 100.0
    while by_slot:
        slot = int(rng.choice(list(by_slot)))
        for line in by_slot[slot].pop(0):
            lines.append(replace(line, ms=ms))
        ms += float(rng.integers(1, 400))
        if not by_slot[slot]:
            del by_slot[slot]
    return ("\n".join(map(write, lines)) + "\n").encode()


def log_with_draft_sums(
    requests: Sequence[Request], *, by_slot: bool = False, form: str = "clock"
) -> bytes:
    """Return a log with sums of drafts behind the timings, over all slots or each.

    A request with a draft of n tokens has n // 4 + 1 rounds, of which n // 8 are
    accepted, and drafts for n / 2 ms.
    """
    sums: dict[object, list[float]] = {}
    lines = []
    for line in lines_of(requests):
        lines.append(line)
        r = line.request
        if r is None or not line.text.startswith("draft acceptance"):
            continue
        total = sums.setdefault(r.slot if by_slot else None, [0.0] * 6)
        n, accepted = r.drafted, r.accepted
        more = (1, n // 4 + 1, n // 8, n, accepted, n / 2)
        total[:] = [a + b for a, b in zip(total, more, strict=True)]
        calls, rounds, right, tokens, hits, ms = total
        lines.append(
            Line(
                line.ms,
                f"statistics draft-mtp: #calls(b,g,a) = {calls:.0f} {rounds:.0f} "
                f"{rounds:.0f}, #gen drafts = {rounds:.0f}, #acc drafts = {right:.0f}, "
                f"#gen tokens = {tokens:.0f}, #acc tokens = {hits:.0f}, "
                f"dur(b,g,a) = 0.011, {ms:.3f}, 0.050 ms",
            )
        )
    return ("\n".join(map(FORMS[form], lines)) + "\n").encode()


def command_line_log(n: int) -> bytes:
    """Return a log of a command-line program that ran several times."""
    front = "llama_perf_context_print: "
    return "".join(
        f"{front}       load time =    3957.46 ms\n"
        f"{front}prompt eval time =  {100 + i}.97 ms /    12 tokens\n"
        f"{front}       eval time =  9343.15 ms /   {900 + i} runs (1)\n"
        f"{front}      total time = 10595.15 ms /  1011 tokens\n"
        "a line of the answer\n"
        for i in range(n)
    ).encode()


LOADING = [
    (0, "srv          main: loading model"),
    (1, "srv    load_model: loading model '/models/tiny.gguf'"),
    (100, "llama_model_loader: - kv   0:   general.architecture str   = llama"),
    (200, "llama_model_loader: - kv   1:   general.name str   = tiny"),
    (300, "load_tensors:      CUDA0 model buffer size = 20583.34 MiB"),
    (310, "load_tensors:  CUDA_Host model buffer size =   515.31 MiB"),
    (5000, "llama_context:  CUDA_Host  output buffer size =     7.58 MiB"),
    (5010, "llama_kv_cache:      CUDA0 KV buffer size =   640.00 MiB"),
    (5020, "llama_memory_recurrent:    CUDA0 RS buffer size =   502.50 MiB"),
    (5500, "sched_reserve:      CUDA0 compute buffer size =   501.00 MiB"),
    (5600, "sched_reserve: graph splits = 2"),
    (5700, "common_init_from_params: warming up the model with an empty run"),
    (6000, "srv          main: server is listening on http://127.0.0.1:1"),
]


def loading_log(form: str = "clock") -> bytes:
    """Return the lines of loading a model."""
    lines = [Line(float(ms), text) for ms, text in LOADING]
    return ("\n".join(map(FORMS[form], lines)) + "\n").encode()


def vllm_log(n: int = 12, engines: int = 1) -> bytes:
    """Return a log of vLLM: every 10 s what each engine did on average.

    In interval i an engine k has i + k prompt tokens/s, twice as many generated ones, i
    running and k waiting requests, half i % of the KV cache, and 10 + i % hits.
    """
    front = "(EngineCore pid=12) "
    lines = [
        f"{front}INFO 08-01 20:59:16 [core.py:114] Initializing a V1 LLM engine "
        "(v0.25.1) with config: model='me/tiny', dtype=x",
        f"{front}INFO 08-01 20:59:17 [gpu_model_runner.py:5306] Model loading took "
        "95.63 GiB memory and 595.5 seconds",
        f"{front}WARNING 08-01 20:59:18 [vllm.py:1648] something is odd",
        f"{front}INFO 08-01 20:59:19 [kv_cache_utils.py:2146] GPU KV cache size: "
        "94,135 tokens",
    ]
    front = "(APIServer pid=7) "
    for i in range(n):
        time = f"INFO 08-01 21:{i // 6:02}:{10 * (i % 6):02}"
        for k in range(engines):
            lines.append(
                f"{front}{time} [loggers.py:273] Engine {k:03}: Avg prompt throughput: "
                f"{i + k}.5 tokens/s, Avg generation throughput: {2 * (i + k)}.5 "
                f"tokens/s, Running: {i} reqs, Waiting: {k} reqs, GPU KV cache usage: "
                f"{i / 2:.1f}%, Prefix cache hit rate: {10 + i}.0%"
            )
        lines.append(
            f"{front}{time} [metrics.py:120] SpecDecoding metrics: Mean acceptance "
            f"length: 3.{i:02}, Accepted throughput: 2.87 tokens/s, "
            f"Drafted throughput: {i}.42 tokens/s, Accepted: 76 tokens, "
            "Drafted: 435 tokens, Per-position acceptance rate: 0.793, 0.552, "
            f"Avg Draft acceptance rate: {i}.5%"
        )
        lines.append(f'{front}INFO:     1.2.3.4:5 - "POST /v1/x HTTP/1.1" 200 OK')
    return ("\n".join(lines) + "\n").encode()


def ik_log(requests: Sequence[Request]) -> bytes:
    """Return a log as ik_llama.cpp writes it: whole seconds, and fields behind."""
    lines, seconds = [], START_NS // 10**9

    def add(function: str, text: str, r: Request, **fields: object) -> None:
        tail = " ".join(f"{key}={value}" for key, value in fields.items())
        lines.append(
            f'INFO [{function:>24}] {text} | tid="128" timestamp={seconds} '
            f"id_slot={r.slot} id_task={r.task} {tail}"
        )

    for r in requests:
        add("launch_slot_with_task", "slot is processing task", r)
        if r.cached >= 0:
            add("update_slots", "kv cache rm [p0, end)", r, p0=r.cached)
        seconds += round((r.prompt_ms + r.generated_ms) / 1000) + 1
        prompt = _prompt_text(r).replace("eval time =", "eval time     =")
        add("print_timings", prompt, r, t_prompt_processing=r.prompt_ms)
        runs = _eval_text(r).strip().replace(" tokens (", " runs   (")
        add("print_timings", f"generation {runs}", r, n_decoded=r.n_generated)
        add("update_slots", "slot released", r, n_ctx=4096)
    return ("\n".join(lines) + "\n").encode()


def json_log(requests: Sequence[Request]) -> bytes:
    """Return a log of JSON lines, as servers of 2023 and 2024 write them."""
    lines, seconds = [], START_NS // 10**9

    def add(function: str, text: str, r: Request) -> None:
        entry = {
            "tid": "1", "timestamp": seconds, "level": "INFO", "function": function,
            "line": 7, "msg": text, "id_slot": r.slot, "id_task": r.task,
        }  # fmt: skip
        lines.append(json.dumps(entry, separators=(",", ":")))

    for r in requests:
        add("launch_slot_with_task", "slot is processing task", r)
        seconds += round((r.prompt_ms + r.generated_ms) / 1000) + 1
        add("print_timings", _prompt_text(r), r)
        add("print_timings", _eval_text(r), r)
    return ("\n".join(lines) + "\n").encode()


def ollama_log() -> bytes:
    """Return a log of ollama: slog, gin, and lines of llama.cpp between."""
    r = Request(0, 3, 12, 100.5, 40, 800.25)
    return "\n".join(
        [
            "time=2026-01-01T00:00:01.000Z level=INFO source=server.go:444 "
            'msg="starting runner" cmd="/usr/bin/ollama runner --port 1"',
            "time=2026-01-01T00:00:02.500Z level=WARN source=types.go:60 "
            'msg="low memory"',
            *(line.text for line in lines_of([r])),
            "[GIN] 2026/01/01 - 01:00:04 | 200 |  1.5s |       127.0.0.1 | POST     "
            '"/api/generate"',
            "[GIN] 2026/01/01 - 01:00:05 | 404 |      90.987µs |       127.0.0.1 | GET"
            '      "/x"',
            "",
        ]
    ).encode()
