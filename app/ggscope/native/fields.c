/* Fields of JSON objects and of rows of delimited tables into columns.
 *
 * Integers stay integers, times are decimal digits and become whole nanoseconds, never by
 * way of a float. Nothing here allocates or keeps state.
 */
#include "lenient_json.h"

/* readers/common/objects.py: Kind */
enum { SKIPPED, INTEGER, MICROSECONDS, REAL, TEXT, LIST };
enum { MAX_PATHS = 32, MAX_DEPTH = 4 };
enum { LONGEST_FIELD = 1 << 20 };
#define NO_NUMBER INT64_MIN

/* ---- objects ---- */

/* What is looked for in each object: paths of keys, "dispatch_info.agent_id.handle". */
typedef struct {
    int64_t n;
    const uint8_t *keys;         /* all keys of all paths, one behind the other */
    const int32_t *begin, *length; /* of each key, MAX_DEPTH for each path */
    const uint8_t *depth, *kind; /* of each path */
} FieldPaths;

/* What a scan gives: `n` values in a row; of a TEXT its begin << 32 | its length. */
typedef struct {
    int64_t *number, *offset;    /* offset: of the object in the text */
    double *real;                /* one in a row, of the last REAL */
} FieldRows;

typedef struct {
    int64_t *number;
    double real;
    Piece list;
} Taken;

static uint32_t matches(const FieldPaths *paths, uint32_t alive, int depth, Piece key)
{
    uint32_t matching = 0;
    for (uint32_t left = alive; left; left &= left - 1) {
        const int i = __builtin_ctz(left), k = i * MAX_DEPTH + depth;
        if (is_key(key, (const char *)paths->keys + paths->begin[k], paths->length[k]))
            matching |= 1u << i;
    }
    return matching;
}

static void set_number(const FieldPaths *paths, int i, Piece value, const uint8_t *data,
                       Taken *taken)
{
    int64_t *const number = &taken->number[i];
    switch (paths->kind[i]) {
    case TEXT:
        *number = value.is_string
            ? (value.at - data) << 32 | (value.end - value.at) : NO_NUMBER;
        return;
    case REAL:
        if (!real(value, &taken->real))
            taken->real = __builtin_nan("");
        return;
    case LIST:
        taken->list = value;
        return;
    default:
        if (!decimal(value, 0, number))
            *number = NO_NUMBER;
    }
}

/* Take the object that begins here; 0 where it is damaged or the text ends. */
static int take_object(Cursor *c, const FieldPaths *paths, uint32_t alive, int depth,
                       const uint8_t *data, Taken *taken)
{
    Piece key, value;
    c->at++;
    for (;;) {
        const int follows = next_member(c);
        if (follows != 1)
            return follows;
        if (!take_key(c, &key))
            return 0;
        const uint32_t matching = matches(paths, alive, depth, key);
        uint32_t deeper = 0, here = 0;
        for (uint32_t left = matching; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            if (paths->depth[i] > depth + 1)
                deeper |= 1u << i;
            else
                here |= 1u << i;
        }
        if (deeper && *c->at == '{') {
            if (!take_object(c, paths, deeper, depth + 1, data, taken))
                return 0;
            continue;
        }
        if (!take_value(c, &value))
            return 0;
        for (; here; here &= here - 1)
            set_number(paths, __builtin_ctz(here), value, data, taken);
    }
}

static uint32_t all_of(const FieldPaths *paths)
{
    return paths->n >= MAX_PATHS ? UINT32_MAX : (1u << paths->n) - 1;
}

static void clear(const FieldPaths *paths, Taken *taken)
{
    for (int64_t i = 0; i < paths->n; i++)
        taken->number[i] = NO_NUMBER;
    taken->real = __builtin_nan("");
    taken->list.at = taken->list.end = NULL;
}

/* Add a row for each object of a list within an object. Returns the new number of rows;
 * -1 where there is no room. */
static int64_t add_inner(const FieldPaths *paths, const FieldPaths *inner,
                         const uint8_t *data, int64_t n, int64_t capacity,
                         const Taken *outer, int64_t offset, const FieldRows *rows)
{
    const int64_t width = paths->n + inner->n;
    Cursor c = {outer->list.at + 1, outer->list.end};
    while (more(&c)) {
        if (*c.at != '{') {
            c.at++;
            continue;
        }
        if (n == capacity)
            return -1;
        Taken taken = {rows->number + n * width + paths->n, 0, {0}};
        clear(inner, &taken);
        if (!take_object(&c, inner, all_of(inner), 0, data, &taken))
            break;
        memcpy(rows->number + n * width, outer->number, (size_t)paths->n * 8);
        rows->real[n] = taken.real;
        rows->offset[n++] = offset;
    }
    return n;
}

/* Read objects from a place in their list: a row each or, where one of the paths is a
 * LIST, a row for each object in that, with the `inner` fields behind those around it.
 * Returns the number of rows; n_objects[0] counts objects. */
EXPORT int64_t ggscope_json_fields(const uint8_t *data, int64_t size, int64_t at,
                                   int64_t is_last, int64_t capacity,
                                   const FieldPaths *paths, const FieldPaths *inner,
                                   const FieldRows *rows, int64_t *n_objects,
                                   ListTally *list)
{
    Cursor c = {data + at, data + size};
    int64_t n = 0, outer[MAX_PATHS];
    const int is_nested = inner->n > 0;
    begin_list(list);
    *n_objects = 0;
    while (next_object(&c, data, is_last != 0, list)) {
        if (n == capacity) {
            list->status = FULL;
            return n;
        }
        const uint8_t *const begin = c.at;
        Taken taken = {is_nested ? outer : rows->number + n * paths->n, 0, {0}};
        clear(paths, &taken);
        if (!take_object(&c, paths, all_of(paths), 0, data, &taken)) {
            if (!skip_damage(&c, data, begin, list))
                return n;
            continue;
        }
        if (!is_nested) {
            rows->real[n] = taken.real;
            rows->offset[n++] = begin - data;
        } else if (taken.list.at != NULL && *taken.list.at == '[') {
            const int64_t more_rows = add_inner(paths, inner, data, n, capacity, &taken,
                                                begin - data, rows);
            if (more_rows < 0 && n) {
                list->status = FULL;
                return n;
            }
            if (more_rows < 0) /* more than there is room for */
                note_broken(list, begin - data);
            else
                n = more_rows;
        }
        ++*n_objects;
    }
    return n;
}

/* Where the next member of an object begins and its value: the key between the quotes,
 * and the first byte of the value. 2: the object ends, behind place[2]; 0: the text ends
 * before; -1: no member. */
EXPORT int64_t ggscope_json_member(const uint8_t *data, int64_t size, int64_t at,
                                   int64_t *place)
{
    Cursor c = {data + at, data + size};
    Piece key = {c.at, c.at, 0};
    const int follows = next_member(&c);
    const int has_key = follows == 1 && take_key(&c, &key);
    place[0] = key.at - data;
    place[1] = key.end - data;
    place[2] = c.at - data;
    if (has_key || follows == 2)
        return follows;
    return follows == 0 || c.at >= c.end ? 0 : -1;
}

/* Go on with a value over blocks; `state` is depth, whether within a string, whether
 * behind a backslash, and whether it began. Returns how far; the value ended where
 * state[3] is 2. */
EXPORT int64_t ggscope_json_skip(const uint8_t *data, int64_t size, int64_t *state)
{
    int64_t at = 0;
    for (; at < size && state[3] != 2; at++) {
        const uint8_t byte = data[at];
        if (state[1]) {
            if (state[2])
                state[2] = 0;
            else if (byte == '\\')
                state[2] = 1;
            else if (byte == '"') {
                state[1] = 0;
                state[3] = state[0] ? 1 : 2;
            }
        } else if (byte == '"') {
            state[1] = state[3] = 1;
        } else if (byte == '{' || byte == '[') {
            state[0]++;
            state[3] = 1;
        } else if (byte == '}' || byte == ']') {
            if (!state[0]) { /* behind a number: the object around it ends */
                state[3] = 2;
                break;
            }
            state[3] = --state[0] ? 1 : 2;
        } else if (byte == ',' && !state[0]) {
            state[3] = 2;
            break;
        }
    }
    return at;
}

/* ---- rows of tables ---- */

/* The fields of a row: what each is, and the column of its kind that it goes to. */
typedef struct {
    int64_t n_fields, n_texts, delimiter;
    const uint8_t *kind;
    const int32_t *column;
} TableLayout;

/* Columns of `capacity` values each, one behind the other. */
typedef struct {
    int64_t capacity;
    int64_t *offset, *number;    /* INTEGER and MICROSECONDS, of these ns */
    double *real;
    int32_t *text;               /* numbers of texts, -1: empty */
} TableRows;

typedef struct {
    int64_t consumed, status;
    int64_t n_stray, first_stray; /* rows with another number of fields; -1: none */
    int64_t has_open_end;        /* whether the last line has no line end */
} TableTally;

/* Take the field that begins here, up to the delimiter or the end of the line. 0: the
 * text ends before; -1: a quote is not closed in good time. */
static int take_field(Cursor *c, uint8_t delimiter, Piece *field)
{
    const uint8_t *p = c->at, *const end = c->end;
    field->at = p;
    if (p < end && *p == '"') {
        const uint8_t *const most = end - p > LONGEST_FIELD ? p + LONGEST_FIELD : end;
        field->at = ++p;
        for (;;) {
            while (p < most && *p != '"')
                p++;
            if (p + 1 >= most)
                return p + 1 < end ? -1 : 0;
            if (p[1] != '"')
                break;
            p += 2;
        }
        field->end = p++;
        while (p < end && *p != delimiter && *p != '\n')
            p++;
    } else {
        while (p < end && *p != delimiter && *p != '\n')
            p++;
        field->end = p - (p < end && *p == '\n' && p > field->at && p[-1] == '\r');
    }
    c->at = p;
    return p < end;
}

static void set_field(const TableLayout *layout, const TableRows *rows, int64_t row,
                      int64_t i, Piece field, const uint8_t *data, TextTable *texts)
{
    const int64_t place = layout->column[i] * rows->capacity + row;
    switch (layout->kind[i]) {
    case INTEGER:
    case MICROSECONDS:
        if (!decimal(field, layout->kind[i] == MICROSECONDS ? 3 : 0,
                     &rows->number[place]))
            rows->number[place] = NO_NUMBER;
        return;
    case REAL:
        if (!real(field, &rows->real[place]))
            rows->real[place] = __builtin_nan("");
        return;
    case TEXT:
        while (field.at < field.end && is_blank(*field.at))
            field.at++;
        while (field.at < field.end && is_blank(field.end[-1]))
            field.end--;
        rows->text[place] = field.at == field.end ? -1
            : text_number(field.at, field.end - field.at, data, texts);
        return;
    }
}

/* Take the row that begins here. 1: it has its fields; 0: the text ends before; -1: it
 * has others. */
static int take_row(Cursor *c, const TableLayout *layout, const TableRows *rows,
                    int64_t row, const uint8_t *data, TextTable *texts)
{
    const uint8_t *const begin = c->at;
    Piece field = {c->at, c->at, 0};
    for (int64_t i = 0;; i++) {
        const int state = take_field(c, (uint8_t)layout->delimiter, &field);
        if (state < 0) { /* what seems quoted is not: go on with the next line */
            const uint8_t *const next = memchr(begin, '\n', (size_t)(c->end - begin));
            c->at = next == NULL ? c->end : next + 1;
            return -1;
        }
        if (!state)
            return 0;
        if (i < layout->n_fields)
            set_field(layout, rows, row, i, field, data, texts);
        if (*c->at++ == '\n')
            return i + 1 == layout->n_fields ? 1 : -1;
    }
}

/* Read the rows of a table from the begin of a line. Returns how many. */
EXPORT int64_t ggscope_table_rows(const uint8_t *data, int64_t size, int64_t is_last,
                                  const TableLayout *layout, const TableRows *rows,
                                  TextTable *texts, TableTally *tally)
{
    Cursor c = {data, data + size};
    int64_t n = 0;
    memset(tally, 0, sizeof *tally);
    tally->first_stray = -1;
    tally->status = MORE;
    texts->count = 0;
    for (;;) {
        while (c.at < c.end && (*c.at == '\n' || *c.at == '\r'))
            c.at++;
        tally->consumed = c.at - data;
        if (c.at >= c.end)
            return n;
        if (n == rows->capacity || texts->count + layout->n_texts > texts->capacity) {
            tally->status = FULL;
            return n;
        }
        const uint8_t *const begin = c.at;
        const int state = take_row(&c, layout, rows, n, data, texts);
        if (state > 0) {
            rows->offset[n++] = begin - data;
            continue;
        }
        if (!state) {
            if (!is_last)
                return n;
            /* An open quote takes all that follows: not more than its own line. */
            const uint8_t *const next = memchr(begin, '\n', (size_t)(c.end - begin));
            tally->has_open_end |= next == NULL;
            c.at = next == NULL ? c.end : next + 1;
            if (next == NULL)
                continue;
        }
        tally->n_stray++;
        if (tally->first_stray < 0)
            tally->first_stray = begin - data;
    }
}
