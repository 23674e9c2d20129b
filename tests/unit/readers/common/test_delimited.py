"""Delimited tables against Python's csv module."""

import csv
import io
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.readers.api import ReadContext
from ggscope.readers.common.delimited import DelimitedTable, Header, header_of
from ggscope.readers.common.gathered import NONE
from ggscope.readers.common.objects import Kind
from ggscope.readers.common.packed_text import text_of
from ggscope.readers.source import Source

KINDS = {
    "a": Kind.INTEGER, "t": Kind.MICROSECONDS, "r": Kind.REAL, "name": Kind.TEXT,
}  # fmt: skip
MOST = 1 << 61

numbers = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=5).map(str),
    st.floats().map(str),
    st.sampled_from(["", "N/A", "1e400", "-", ".", "0x10", "1_000", " 7 ", "1\t"]),
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20).map(
    str.strip
)
rows = st.lists(st.tuples(numbers, numbers, numbers, texts, texts), max_size=8)


def table_of(data: bytes, path: Path) -> DelimitedTable:
    path.write_bytes(data)
    header = header_of(data)
    assert header is not None
    table = DelimitedTable(header, KINDS)
    with Source(path) as source:
        table.read(text_of(source), ReadContext(), source.size)
    return table


def whole(text: str, shift: int) -> int:
    """Return a number times a power of ten, as columns of numbers have it."""
    if "_" in text:
        return NONE
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return NONE
    if not number.is_finite():
        return NONE
    with localcontext() as context:
        context.prec = 2000
        value = int(number.scaleb(shift).to_integral_value(ROUND_HALF_UP))
    return value if abs(value) <= MOST else NONE


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=rows,
    delimiter=st.sampled_from([",", ";", "\t"]),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_rows_are_those_that_the_csv_module_wrote(
    rows, delimiter, end, quoting, tmp_path
):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([("a", "t", "r", "name", "other"), *rows])

    table = table_of(file.getvalue().encode(), tmp_path / "x.csv")

    assert table.n_stray == 0
    assert not table.has_open_end
    assert table.integers("a").tolist() == [whole(row[0], 0) for row in rows]
    assert table.integers("t").tolist() == [whole(row[1], 3) for row in rows]
    parts = [*table.texts, ""]
    values = [parts[number] for number in table.numbers_of_texts("name").tolist()]
    blank = " \t\n\v\f\r"
    assert values == [row[3].strip(blank) for row in rows]


@pytest.mark.parametrize(
    "text", ["0.1", "1234567.25", "-0.5", "9007199254740993", "1e3", "123.456e-2"]
)
def test_reals_are_the_nearest_floats(text, tmp_path):
    table = table_of(f"r,name\n{text},x\n".encode(), tmp_path / "x.csv")

    assert table.reals("r")[0] == pytest.approx(float(text), rel=1e-15)


def test_columns_that_are_not_there_are_unknown(tmp_path):
    table = table_of(b"b,c\n1,2\n3,4\n", tmp_path / "x.csv")

    assert table.integers("a").tolist() == [NONE, NONE]
    assert np.isnan(table.reals("r")).all()
    assert table.numbers_of_texts("name").tolist() == [-1, -1]


def test_many_texts_of_one_block_get_their_numbers(tmp_path):
    n = 300_000
    data = b"name,a\n" + b"".join(b"n%d,%d\n" % (i, i) for i in range(n))

    table = table_of(data, tmp_path / "x.csv")

    assert table.integers("a").tolist() == list(range(n))
    items = list(table.texts)
    numbers = table.numbers_of_texts("name").tolist()
    assert [items[i] for i in numbers] == [f"n{i}" for i in range(n)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (b"a\n1\n", None),
        (b"a,b", None),
        (b"\0a,b\n", None),
        (b"\n\r\na,b\n", Header(("a", "b"), ",", 7)),
        (b'\xef\xbb\xbf"a b";c\r\n', Header(("a b", "c"), ";", 12)),
    ],
)
def test_headers_name_two_columns_at_least(data, expected):
    assert header_of(data) == expected


def test_an_open_quote_costs_its_own_line(tmp_path):
    data = b'name,a\n"x,1\ny,2\n' + b"z,3\n" * 3

    table = table_of(data, tmp_path / "x.csv")

    assert table.integers("a").tolist() == [2, 3, 3, 3]
    assert table.n_stray == 1
    assert table.first_stray == 7


def test_a_field_of_a_megabyte_in_quotes_is_taken(tmp_path):
    long = "x" * ((1 << 20) - 9)
    data = f'name,a\n"{long}",1\n"{long}yyyyyyyyyyyy",2\nz,3\n'.encode()

    table = table_of(data, tmp_path / "x.csv")

    assert table.integers("a").tolist() == [1, 3]
    assert table.n_stray == 1
