"""Write the log of a server with four slots for the benchmarks, in the form of b9172.

The first line of timings has a time, those behind it have none. Files depend on their
number of lines alone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

N_SLOTS = 4
TOKENS_PER_RATE = 100
"""A slot logs its rate once in so many tokens."""
_LINES = 20_000
_HEAD = (
    "build_info: b9172-0123abcde",
    "srv          main: loading model",
    "srv    load_model: loading model '/models/bench-8b-q8_0.gguf'",
    "srv          main: server is listening on http://127.0.0.1:8080",
)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request; times in µs, the start since that of the program."""

    slot: int
    task: int
    start: int
    n_cached: int
    n_prompt: int
    prompt: int
    n_generated: int
    generated: int
    n_drafted: int
    n_accepted: int

    @property
    def first_token(self) -> int:
        return self.start + self.prompt

    @property
    def end(self) -> int:
        return self.first_token + self.generated

    @property
    def front(self) -> str:
        return f"id  {self.slot} | task {self.task} | "


def write_log(path: Path, n: int) -> None:
    """Write `n` lines, some 100 bytes each; the last request may be cut off."""
    lines = islice(_lines(), n)
    with path.open("w", encoding="ascii", newline="\n") as file:
        while part := "".join(f"{line}\n" for line in islice(lines, _LINES)):
            file.write(part)


def _lines() -> Iterator[str]:
    """Yield lines without end: rounds of requests, one on each slot at once."""
    for i, text in enumerate(_HEAD):
        yield f"{_clock(1_000 * i)} I {text}"
    rng, start, task = random.Random(1), 15_000_000, 0
    sums = [0, 0, 0, 0, 0]
    while True:
        requests = []
        for slot in range(N_SLOTS):
            request = _request(rng, slot, task, start + slot * 50)
            task += 1 + request.n_generated
            requests.append(request)
        timed: list[tuple[int, str | _Request]] = [(r.end, r) for r in requests]
        timed += [pair for r in requests for pair in _running(r)]
        # Lines of the same time stay in the order of the slots.
        for time, line in sorted(timed, key=lambda pair: pair[0]):
            if isinstance(line, _Request):
                yield from _finished(line, sums)
            else:
                yield f"{_clock(time)} I {line}"
        start = max(r.end for r in requests) + 90
        yield f"{_clock(start)} I srv  update_slots: all slots are idle"
        start += 2_000


def _request(rng: random.Random, slot: int, task: int, start: int) -> _Request:
    n_prompt, n_generated = rng.randint(16, 2_000), rng.randint(50, 700)
    n_drafted = rng.randint(20, n_generated)
    return _Request(
        slot=slot,
        task=task,
        start=start,
        n_cached=rng.randint(0, 2_000),
        n_prompt=n_prompt,
        prompt=n_prompt * rng.randint(200, 900),
        n_generated=n_generated,
        generated=n_generated * rng.randint(8_000, 30_000),
        n_drafted=n_drafted,
        n_accepted=rng.randint(0, n_drafted),
    )


def _running(r: _Request) -> Iterator[tuple[int, str]]:
    """Yield the lines of a request up to its timings, with their times."""
    whole, at = r.n_cached + r.n_prompt, r.start
    chosen = f"sim_best = {r.n_cached / whole:.3f} (> 0.100 thold), f_keep = 0.910"
    by = f"id  {r.slot} | task -1 | selected slot by LCP similarity"
    yield at, f"slot get_availabl: {by}, {chosen}"
    yield at, f"slot launch_slot_: {r.front}processing task, is_child = 0"
    update = f"slot update_slots: {r.front}"
    sizes = f"n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {whole}"
    yield at, f"{update}new prompt, {sizes}"
    yield at, f"{update}n_tokens = {r.n_cached}, memory_seq_rm [{r.n_cached}, end)"
    yield (
        r.first_token,
        (
            f"{update}prompt processing done, n_tokens = {whole}, "
            f"batch.n_tokens = {r.n_prompt % 512}"
        ),
    )
    rate = r.n_generated * 1e6 / r.generated
    for n in range(TOKENS_PER_RATE, r.n_generated, TOKENS_PER_RATE):
        yield (
            r.first_token + r.generated * n // r.n_generated,
            (f"slot print_timing: {r.front}n_decoded = {n:6d}, tg = {rate:6.2f} t/s"),
        )


def _finished(r: _Request, sums: list[int]) -> Iterator[str]:
    """Yield the timings of a request; adds its drafts to `sums`, those of all.

    Parameters
    ----------
    sums : requests, rounds, rounds with an accepted token, tokens, accepted tokens.
    """
    rounds = r.n_drafted // 4 + 1
    more = (1, rounds, min(rounds, r.n_accepted), r.n_drafted, r.n_accepted)
    sums[:] = [a + b for a, b in zip(sums, more, strict=True)]
    calls, rounds, right, tokens, hits = sums
    n, took = r.n_prompt + r.n_generated, r.prompt + r.generated
    clock = _clock(r.end)
    yield f"{clock} I slot print_timing: {r.front}"
    yield f"prompt eval time = {_rates(r.prompt, r.n_prompt)}"
    yield f"       eval time = {_rates(r.generated, r.n_generated)}"
    yield f"      total time = {took / 1e3:10.2f} ms / {n:5d} tokens"
    yield (
        f"draft acceptance rate = {r.n_accepted / r.n_drafted:.5f} "
        f"({r.n_accepted:5d} accepted / {r.n_drafted:5d} generated)"
    )
    yield (
        f"{clock} I statistics draft-mtp: #calls(b,g,a) = {calls} {rounds} {rounds}, "
        f"#gen drafts = {rounds}, #acc drafts = {right}, #gen tokens = {tokens}, "
        f"#acc tokens = {hits}, dur(b,g,a) = 0.011, {rounds * 16}.250, 0.050 ms"
    )
    yield (
        f"{clock} I slot      release: {r.front}stop processing: "
        f"n_tokens = {r.n_cached + n}, truncated = 0"
    )
    yield (
        f"{clock} I srv  log_server_r: done request: POST /v1/chat/completions "
        "127.0.0.1 200"
    )


def _rates(us: int, n: int) -> str:
    return (
        f"{us / 1e3:10.2f} ms / {n:5d} tokens ({us / 1e3 / n:8.2f} ms per token, "
        f"{n * 1e6 / us:8.2f} tokens per second)"
    )


def _clock(us: int) -> str:
    """Return a time as llama.cpp writes it: minutes, seconds, ms and µs."""
    minutes, us = divmod(us, 60_000_000)
    seconds, us = divmod(us, 1_000_000)
    return f"{minutes}.{seconds:02}.{us // 1000:03}.{us % 1000:03}"
