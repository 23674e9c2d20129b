"""Parsing, describing and writing filters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.filters.text import (
    describe_filter,
    format_filter,
    parse_filter,
    parse_range,
)
from ggscope.errors import QueryError
from ggscope.model.ggml.ops import FAMILIES
from ggscope.model.selection import AnyOf, Filter, Not
from ggscope.model.tables import Phase, Quality, Space
from ggscope.model.units import TimeRange


def fs(*values):
    return frozenset(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Filter()),
        ("  and && ", Filter()),
        ("op=mul_mat,ADD", Filter(ops=fs("MUL_MAT", "ADD"))),
        ("op = MUL_MAT, add", Filter(ops=fs("MUL_MAT", "ADD"))),
        ("op=unknown", Filter(ops=fs("UNKNOWN"))),
        ("op=op#*,op#94", Filter(ops=fs("UNKNOWN", "OP_94?"))),
        ("op=OP_94?,ADD", Filter(ops=fs("OP_94?", "ADD"))),
        ("layer=0-3", Filter(layers=fs(0, 1, 2, 3))),
        ("layers=0..1,7,none", Filter(layers=fs(0, 1, 7, -1))),
        ("token=5", Filter(tokens=fs(5))),
        ("phase=generate", Filter(phases=fs(Phase.GENERATE))),
        ("phase=prefill,none", Filter(phases=fs(Phase.PROMPT, -1))),
        ("source=disk", Filter(spaces=fs(Space.FILE))),
        ("layer=5 & source=DISK", Filter(layers=fs(5), spaces=fs(Space.FILE))),
        ("layer=5 AND source==DISK", Filter(layers=fs(5), spaces=fs(Space.FILE))),
        ('thread="thread 0","a,b"', Filter(threads=fs("thread 0", "a,b"))),
        (r'thread="say \"hi\""', Filter(threads=fs('say "hi"'))),
        ("quality=measured", Filter(qualities=fs(Quality.MEASURED))),
        ("family=MatMul", Filter(families=fs("matmul"))),
        ("dur>10us", Filter(min_duration=10_001)),
        ("dur>=10us", Filter(min_duration=10_000)),
        ("dur<1ms", Filter(max_duration=999_999)),
        ("duration<=1ms", Filter(max_duration=1_000_000)),
        ("dur=5", Filter(min_duration=5, max_duration=5)),
        ("dur>=5 dur>=9 dur<=20 dur<=30", Filter(min_duration=9, max_duration=20)),
        ("layer=0-3 layer=2-9", Filter(layers=fs(2, 3))),
        ("name~/attn/", Filter(text="/attn/")),
        ("name~/a b=c&d/", Filter(text="/a b=c&d/")),
        ("name=attn", Filter(text="attn")),
        ("attn_q", Filter(text="attn_q")),
        ("/blk.[0-3]/c", Filter(text="/blk.[0-3]/c")),
        ('"two words"', Filter(text="two words")),
        ("time=1ms:2ms", Filter(time=TimeRange(1_000_000, 2_000_000))),
        ("tensor=blk.0.attn_q.weight", Filter(tensors=fs("blk.0.attn_q.weight"))),
        ('tensor="x[4]",blk.*', Filter(tensors=fs("x[4]", "blk.*"))),
        ("offset=0x100000:0x200000", Filter(offsets=(0x100000, 0x200000))),
        ("offset=0x10_0000:2MiB", Filter(offsets=(0x100000, 0x200000))),
        ("offset=1.5KiB+512", Filter(offsets=(1536, 2048))),
        (
            "bytes=0:10 offset=5:20",  # a span may touch both and not what they share
            Filter(offsets=(0, 10), clauses=(AnyOf((Filter(offsets=(5, 20)),)),)),
        ),
        ("bytes>=1MiB", Filter(min_size=1 << 20)),
        ("size>1.5KiB size<=4096", Filter(min_size=1537, max_size=4096)),
        ("size=0", Filter(min_size=0, max_size=0)),
        ("not op=ADD", Filter(clauses=(Not(Filter(ops=fs("ADD"))),))),
        ("!op=ADD", Filter(clauses=(Not(Filter(ops=fs("ADD"))),))),
        ("op!=ADD", Filter(clauses=(Not(Filter(ops=fs("ADD"))),))),
        ("name!~/attn/", Filter(clauses=(Not(Filter(text="/attn/")),))),
        ("not not op=ADD", Filter(ops=fs("ADD"))),
        ("op=ADD or op=MUL", Filter(ops=fs("ADD", "MUL"))),
        ("(op=ADD | op=MUL) layer=1", Filter(ops=fs("ADD", "MUL"), layers=fs(1))),
        (
            "op=ADD layer=1 or token=2",  # "and" binds more than "or"
            Filter(
                clauses=(
                    AnyOf((Filter(ops=fs("ADD"), layers=fs(1)), Filter(tokens=fs(2)))),
                )
            ),
        ),
        (
            "not (op=ADD or layer=1)",
            Filter(
                clauses=(
                    Not(
                        Filter(
                            clauses=(
                                AnyOf((Filter(ops=fs("ADD")), Filter(layers=fs(1)))),
                            )
                        )
                    ),
                )
            ),
        ),
        ("op=/ADD.*/", Filter(ops=fs("/ADD.*/"))),
        ("op=/A,B/,mul", Filter(ops=fs("/A,B/", "MUL"))),
        ("op~mul", Filter(ops=fs("/mul/"))),
        ("tensor~attn.q", Filter(tensors=fs(r"/attn\.q/"))),
        ("tensor~a/b", Filter(tensors=fs(r"/a\/b/"))),
        ("thread=/engine.*/c", Filter(threads=fs("/engine.*/c"))),
        ("thread=0-3", Filter(threads=fs("0-3"))),
        ("layer<3", Filter(layers=fs(0, 1, 2))),
        ("token>=2", Filter(clauses=(Not(Filter(tokens=fs(-1, 0, 1))),))),
        ("tensor=cache_k(view)", Filter(tensors=fs("cache_k(view)"))),
        ('"or" "not"', Filter(text="or", clauses=(AnyOf((Filter(text="not"),)),))),
        ("one two", Filter(text="one", clauses=(AnyOf((Filter(text="two"),)),))),
        (
            "op=MUL* op=*MAT",
            Filter(ops=fs("MUL*"), clauses=(AnyOf((Filter(ops=fs("*MAT")),)),)),
        ),
        ("time=1ms..2ms", Filter(time=TimeRange(1_000_000, 2_000_000))),
        ("expert=3,7", Filter(experts=fs(3, 7))),
        ("experts=0-2,none", Filter(experts=fs(0, 1, 2, -1))),
        ("buffer=0x55D0_0010,7", Filter(buffers=fs(0x55D00010, 7))),
        ("op=ADD attn", Filter(ops=fs("ADD"), text="attn")),
    ],
)
def test_parse_reads(text, expected):
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour=red", r"'colour' \(character 1\): unknown field; fields are"),
        ("laier=3", r"unknown field. Did you mean layer\?$"),
        ("op=ADD layer=x", r"'x' \(character 14\): expected a number, a range"),
        ("layer=9-3", "reversed"),
        ("layer=0-9999999", "too wide"),
        ("layer~3", "operators of layer are =, !=, <, <=, > or >="),
        ("layer>many", "expected a number"),
        ("layer>9999999", "at most 1,000,000"),
        ("not", r"'not' \(character 1\): incomplete"),
        ("op=ADD or", r"'or' \(character 8\): incomplete"),
        ("or op=ADD", r"'or' \(character 1\): a condition is missing before"),
        ("op=ADD and or op=MUL", "missing before it|no field before"),
        ("(op=ADD", r"'\(' \(character 1\): unclosed"),
        ("op=ADD)", r"'\)' \(character 7\): unmatched"),
        ("()", "missing before it|no field before"),
        ("op=(ADD)", "no value after"),
        ("(" * 50 + "a" + ")" * 50, "at most 40"),
        ("op=/(/", "invalid regular expression"),
        ("/(a+)+/", "nested quantifiers"),
        ("size>big", "'big' is not a size"),
        ("size~3", "operators of .* <"),
        ("dur~3", "operators of .* <"),
        ("dur>soon", r"'soon' \(character 5\): .*not a time"),
        ("dur>inf", "not a time"),
        ("phase=warmup", "values are prompt"),
        ("family=dance", "families are matmul"),
        ("op=", "no value after"),
        ("= 3", "missing before it|no field before"),
        ("op=ADD,,MUL", "empty item in the list"),
        ('thread="open', "unclosed quotation"),
        ("time=5", "range like 1ms:2ms"),
        ("time=5:1", "ends before it starts"),
        ("offset=5", "byte range like"),
        ("offset=9:5", "range reversed"),
        ("offset=here:5", "'here' is not a size"),
        ("offset=1.5:9", "not a size"),
        ("expert=first", "a number, a range"),
        ("buffer=mine", "'mine' is not an address"),
        ("buffer=99999999999999999999", "not an address"),
        ("tensor>x", "operators of tensor are ="),
    ],
)
def test_parse_refuses_and_says_where(text, message):
    with pytest.raises(QueryError, match=message):
        parse_filter(text)


def test_parse_refuses_seconds_of_a_cycle_trace():
    with pytest.raises(QueryError, match="counts cycles"):
        parse_filter("dur>1us", "cycle")
    with pytest.raises(QueryError, match="trace is in nanoseconds"):
        parse_filter("dur>10cyc", "ns")

    assert parse_filter("dur>=10cyc", "cycle").min_duration == 10


def test_describe_names_field_and_short_text():
    row_filter = Filter(
        ops=fs("MUL_MAT", "ADD"),
        layers=frozenset(range(22)),
        spaces=fs(0),
        text="attn",
        min_duration=12_340,
        time=TimeRange(0, 1_000_000),
    )

    assert describe_filter(row_filter) == (
        ("ops", "op ADD, MUL_MAT"),
        ("layers", "layer 0–21"),
        ("spaces", "source DISK"),
        ("text", "text “attn”"),
        ("min_duration", "dur ≥ 12.34 µs"),
        ("time", "time 0.000 ms – 1.000 ms"),
    )


def test_describe_of_things_is_short_and_grouped():
    row_filter = Filter(
        tensors=fs("c", "a", "b", "d"),
        offsets=(0x100000, 0x200000),
        experts=fs(3, 4, 7),
        buffers=fs(0x55D0),
    )

    assert describe_filter(row_filter) == (
        ("tensors", "tensor a, b and 2 more"),
        ("offsets", "offset 0x0010_0000 – 0x0020_0000 (1.0 MiB)"),
        ("experts", "expert 3–4, 7"),
        ("buffers", "buffer 0x55D0"),
    )


def test_describe_says_nothing_for_an_empty_set():
    assert describe_filter(Filter(layers=frozenset())) == (("layers", "layer nothing"),)


def test_written_filter_leaves_an_empty_set_out():
    assert format_filter(Filter(layers=frozenset(), ops=fs("ADD"))) == "op=ADD"


def test_describe_of_chips_can_be_taken_off_one_by_one():
    row_filter = parse_filter("op=ADD layer=none,3,4 dur<5us")

    for name, _ in describe_filter(row_filter):
        row_filter = row_filter.without(name)

    assert not row_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1ms:2ms", TimeRange(1_000_000, 2_000_000)),
        (":5", TimeRange(-3, 5)),
        ("7:", TimeRange(7, 100)),
        (":", TimeRange(-3, 100)),
    ],
)
def test_range_takes_the_extent_for_an_open_side(text, expected):
    assert parse_range(text, TimeRange(-3, 100)) == expected


@pytest.mark.parametrize("text", ["5", "9:1", "a:b"])
def test_range_refuses_nonsense(text):
    with pytest.raises(QueryError):
        parse_range(text, TimeRange(0, 10))


def sets(values):
    return st.none() | st.frozensets(values, min_size=1, max_size=5)


WORDS = (
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"])
        | st.just(" "),
        min_size=1,
        max_size=8,
    )
    .map(str.strip)
    .filter(bool)
)


def is_valid(text):
    try:
        parse_filter(f"name~{text}")
    except QueryError:
        return False
    return parse_filter(f"name~{text}") == Filter(text=text)


EXPRESSIONS = WORDS.map(lambda w: f"/{w}/").filter(is_valid)
PLAIN_FILTERS = st.builds(
    Filter,
    ops=sets(st.sampled_from(["MUL_MAT", "ADD", "OP_94?", "MUL*", "TE,1", "AND"])),
    families=sets(st.sampled_from(FAMILIES)),
    layers=sets(st.integers(-1, 40)),
    tokens=sets(st.integers(-1, 40)),
    threads=sets(WORDS | EXPRESSIONS),
    phases=sets(st.integers(-1, 1)),
    spaces=sets(st.integers(0, 4)),
    qualities=sets(st.integers(0, 3)),
    text=st.just("") | WORDS | EXPRESSIONS,
    min_duration=st.none() | st.integers(0, 10**12),
    max_duration=st.none() | st.integers(0, 10**12),
    time=st.none() | st.integers(0, 10**12).map(lambda t: TimeRange(t, 2 * t)),
    tensors=sets(WORDS),
    offsets=st.none()
    | st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted).map(tuple),
    experts=sets(st.integers(-1, 300)),
    buffers=sets(st.integers(0, 2**64 - 1)),
    min_size=st.none() | st.integers(0, 2**40),
    max_size=st.none() | st.integers(0, 2**40),
)


@settings(max_examples=60, deadline=None)
@given(PLAIN_FILTERS)
def test_written_filter_is_read_back_the_same(requested):
    assert parse_filter(format_filter(requested)) == requested


def test_clauses_are_chips_that_can_be_taken_off():
    row_filter = parse_filter("layer=3 not op=ADD (token=1 or op=MUL dur>5us)")

    assert describe_filter(row_filter) == (
        ("layers", "layer 3"),
        ("clauses:0", "not op ADD"),
        ("clauses:1", "token 1 or (op MUL and dur > 5 µs)"),
    )
    assert row_filter.without("clauses:0") == parse_filter(
        "layer=3 (token=1 or op=MUL dur>5us)"
    )


def test_merging_adds_clauses_once():
    first = parse_filter("not op=ADD")

    both = first.merged(parse_filter("not op=ADD not op=MUL layer=1"))

    assert both == parse_filter("not op=ADD not op=MUL layer=1")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("dur>100us", "dur > 100 µs"),
        ("dur>=100us", "dur ≥ 100 µs"),
        ("dur<1ms", "dur < 1 ms"),
        ("dur<=1ms", "dur ≤ 1 ms"),
        ("dur>0", "dur > 0 ns"),
        ("dur>=1234567", "dur ≥ 1.234567 ms"),
        ("dur>2.5s", "dur > 2.5 s"),
        ("wait>10us", "wait > 10 µs"),
        ("size>64KiB", "size > 64 KiB"),
        ("size>=1.5MiB", "size ≥ 1.5 MiB"),
        ("size<4096", "size < 4 KiB"),
        ("size>=1000", "size ≥ 1,000 bytes"),
    ],
)
def test_chip_of_an_amount_says_what_was_typed(typed, shown):
    assert [text for _, text in describe_filter(parse_filter(typed))] == [shown]


@settings(max_examples=200)
@given(
    st.sampled_from(["min_duration", "max_duration", "min_size", "max_size"]),
    st.integers(0, 2**40),
)
def test_chip_of_an_amount_means_the_amount(name, value):
    ((_, text),) = describe_filter(Filter(**{name: value}))
    field, sign, amount = text.split(" ", 2)
    plain = amount.replace(",", "").replace(" bytes", "").replace(" byte", "")
    typed = f"{field}{sign}{plain}".replace("≥", ">=").replace("≤", "<=")

    assert parse_filter(typed.replace(" ", "").replace("µ", "u")) == Filter(
        **{name: value}
    )
