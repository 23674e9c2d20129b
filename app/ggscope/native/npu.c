/* Decodes the timeline events and bandwidth samples of NPU traces into columns.
 *
 * The one decoder of what simulators write: it takes an event only where the format's
 * rules (schema.py) have nothing to say about it, calls it ODD where it is sound JSON
 * that they have to judge, and gives up (STRANGE) before anything it is not sure about.
 * Tests hold it against the rules, which take everything.
 *
 * Nothing is allocated here and no state is kept. Bytes are read only in
 * [data, data + size), rows are written only below the capacities that Python gives,
 * and texts are hashed with a secret of the caller, so that nobody can forge a file
 * of collisions.
 */
#include <math.h>

#include "json_repeats.h"
#include "json_text.h"
#include "native.h"
#include "text_arena.h"

/* Why a scan came to its end; scan.py says the same. */
enum { MORE, CLOSED, FULL, STRANGE };

/* Kinds of events, as in scan.py; STUB has a known type without columns. */
enum { ENGINE, ACCESS, TOKEN, STALL, COMMAND, SAMPLE, STUB, ODD };

/* What a text is made of; the same numbers in scan.py. */
enum { EVENTS, LINES, LAST_LINES, SAMPLES };

/* Where the events go, one row each; `Rows` in scan.py says what is what. */
typedef struct {
    int64_t capacity, deps_capacity;
    int64_t n_rows, n_deps;      /* written by the scan */
    int64_t length;              /* bytes of the text that the rows take up */
    int64_t n_lines;             /* line breaks among them */
    int64_t status;
    uint8_t *kind, *word, *way;
    int32_t *begin, *finish, *line, *unit, *dep_count;
    int64_t *time, *until, *number, *size, *address;
    int64_t *detail[5];          /* of an engine; -1 = not stated */
    double *amount[4];           /* of a sample; NaN = not stated */
    int32_t *text[4];
    int64_t *deps;
} EventRows;

/* ---- events ---- */

enum {
    OP, TYPE, ADDR, DEPS, CYCLE, PHASE, BYTES, EVENT, ENGINE_NAME, MASTER, REASON,
    SOURCE, CMD_ID, CMDQ_ID, TILE_ID, DETAILS, LAYER_ID, MEM_TYPE, KV_BYTES, ENGINE_ID,
    END_CYCLE, DIRECTION, MASTER_ID, COLOR_HINT, START_CYCLE, TOKEN_INDEX,
    STALL_CYCLES, SOURCE_ENGINE, WINDOW_CYCLES, DRAM_READ_BYTES, DRAM_WRITE_BYTES,
    SOURCE_ENGINE_ID, N_FIELDS
};
enum { LONGEST_KEY = 16 };

/* In order of length; FIRST_KEY says where those of a length begin. */
static const char *const KEYS[N_FIELDS] = {
    "op", "type", "addr", "deps", "cycle", "phase", "bytes", "event", "engine",
    "master", "reason", "source", "cmd_id", "cmdq_id", "tile_id", "details", "layer_id",
    "mem_type", "kv_bytes", "engine_id", "end_cycle", "direction", "master_id",
    "color_hint", "start_cycle", "token_index", "stall_cycles", "source_engine",
    "window_cycles", "dram_read_bytes", "dram_write_bytes", "source_engine_id",
};
static const int8_t FIRST_KEY[LONGEST_KEY + 2] = {
    0, 0, 0, 1, 1, 4, 8, 13, 16, 19, 23, 24, 26, 27, 29, 29, 30, 32,
};

static int field_of(const Text *key)
{
    if (key->length > LONGEST_KEY)
        return -1;
    for (int i = FIRST_KEY[key->length]; i < FIRST_KEY[key->length + 1]; i++)
        if (!memcmp(key->start, KEYS[i], (size_t)key->length))
            return i;
    return -1;
}

typedef struct {
    uint32_t seen;               /* one bit for each field; others are not set */
    Value fields[N_FIELDS];
} Event;

enum { MAX_OTHERS = 32 }; /* keys of an event that are no fields */

/* Note a key that is no field; 0 where it has been there, or there are too many. */
static int is_new(Text *others, int *n_others, const Text *key)
{
    for (int i = 0; i < *n_others; i++)
        if (is_text(&others[i], (const char *)key->start, key->length))
            return 0;
    if (*n_others == MAX_OTHERS)
        return 0;
    others[(*n_others)++] = *key;
    return 1;
}

/* Take the object that begins here. A key that occurs twice in it, or in what it
 * holds, is STRANGE. */
static int take_event(Cursor *c, Event *event)
{
    Value ignored;
    Text key, others[MAX_OTHERS];
    int n_others = 0;
    int64_t place[2];
    event->seen = 0;
    c->at++;
    if (!skip_space(c))
        return 0;
    if (*c->at == '}') {
        c->at++;
        return 1;
    }
    for (;;) {
        if (!take_key(c, &key))
            return 0;
        const int field = field_of(&key);
        Value *const value = field < 0 ? &ignored : &event->fields[field];
        if (field >= 0) {
            if (event->seen >> field & 1)
                return lost(c, 1);
            event->seen |= (uint32_t)1 << field;
        } else if (!is_new(others, &n_others, &key)) {
            return lost(c, 1);
        }
        if (*c->at == '{' || *c->at == '[') {
            value->what = *c->at == '[' ? LIST : OBJECT;
            value->text.start = c->at;
            if (!skip_nested(c))
                return 0;
            const int64_t length = c->at - value->text.start;
            if (memchr(value->text.start, '{', (size_t)length) &&
                ggscope_json_repeats(value->text.start, length, place))
                return lost(c, 1);
        } else if (!take_scalar(c, value)) {
            return 0;
        }
        if (!skip_space(c))
            return 0;
        if (*c->at != ',' && *c->at != '}')
            return lost(c, 1);
        if (*c->at++ == '}')
            return 1;
    }
}

/* What a field holds; a string with escapes is OTHER: its bytes are not its text. */
static int what(const Event *event, int field)
{
    if (!(event->seen >> field & 1))
        return MISSING;
    const Value *const value = &event->fields[field];
    return value->what == STRING && value->text.is_escaped ? OTHER : value->what;
}

/* Read a number that must be there; 0 where the event is ODD. */
static int needed(const Event *event, int field, int64_t low, int64_t high,
                  int64_t *number)
{
    *number = event->fields[field].number;
    return what(event, field) == INTEGER && *number >= low && *number <= high;
}

/* The same where it may be missing. */
static int number_or(const Event *event, int field, int64_t low, int64_t high,
                     int64_t missing, int64_t *number)
{
    if (event->seen >> field & 1)
        return needed(event, field, low, high, number);
    *number = missing;
    return 1;
}

/* Read one of some words as its number among them. */
static int one_of(const Event *event, int field, const char *const *words,
                  int n_words, uint8_t *number)
{
    if (what(event, field) != STRING)
        return 0;
    for (int i = 0; i < n_words; i++)
        if (is_text(&event->fields[field].text, words[i], (int32_t)strlen(words[i]))) {
            *number = (uint8_t)i;
            return 1;
        }
    return 0;
}

/* Read a text that may be null or missing (-1); 0 is "", others count from 1. */
static int text_or(const Event *event, int field, TextArena *texts, int32_t *number)
{
    const int found = what(event, field);
    const Text *const text = &event->fields[field].text;
    *number = -1;
    if (found == STRING)
        *number = text->length ? copied_text(texts, text->start, text->length) + 1 : 0;
    return found == STRING || found == NONE || found == MISSING;
}

/* ---- rows ---- */

static const int64_t MAX_CYCLE = INT64_C(1) << 61, MAX_LONG = INT64_MAX >> 1,
                     MAX_ID = INT32_MAX;
static const char *const MASTERS[] = {
    "DMA", "TE", "VE", "CTRL", "HOST", "OTHER", "BUS", "TRACE",
};
enum { N_MASTERS = 8, N_ENGINES = 6 }; /* engines are the first of the masters */
static const char *const MEMORIES[] = {"DRAM", "SPM"};
static const char *const DIRECTIONS[] = {"read", "write"};
static const char *const PHASES[] = {"PREFILL", "DECODE"};
static const char *const COMMANDS[] = {"ENQUEUE", "START", "END", "ERROR"};

static int put_unit(EventRows *rows, int64_t row, const Event *event, int field)
{
    int64_t unit;
    const int is_good = number_or(event, field, 0, MAX_ID, 0, &unit);
    rows->unit[row] = (int32_t)unit;
    return is_good;
}

static int put_times(EventRows *rows, int64_t row, const Event *event)
{
    return needed(event, START_CYCLE, 0, MAX_CYCLE, &rows->time[row]) &&
           needed(event, END_CYCLE, 0, MAX_CYCLE, &rows->until[row]);
}

/* Write the numbers of a list; -1 more than fit, 0 where the event is ODD. */
static int put_deps(EventRows *rows, int64_t row, const Event *event, const uint8_t *end)
{
    rows->dep_count[row] = 0;
    const int found = what(event, DEPS);
    if (found != LIST)
        return found == NONE || found == MISSING;
    Cursor c = {event->fields[DEPS].text.start + 1, end, 0};
    Value value;
    int64_t n = rows->n_deps;
    while (skip_space(&c) && *c.at != ']') {
        if (!take_scalar(&c, &value) || value.what != INTEGER || value.number < -1)
            return 0;
        if (n == rows->deps_capacity)
            return -1;
        rows->deps[n++] = value.number;
        if (skip_space(&c) && *c.at == ',')
            c.at++;
    }
    rows->dep_count[row] = (int32_t)(n - rows->n_deps);
    return 1;
}

enum { MOVED, BITS, BANK, OFFSET, ROLE, N_DETAILS };
static const int64_t MOST[N_DETAILS] = {INT64_MAX >> 1, 127, INT16_MAX, INT64_MAX >> 1, -1};

/* What is moved by its word, as ROLES in schema.py; the last one for other words. */
static int64_t role_of(const Text *word)
{
    static const struct { const char *word; int64_t role; } ROLES[] = {
        {"weight", 0}, {"weights", 0}, {"kv", 1}, {"kv_cache", 1},
        {"activation", 2}, {"activations", 2},
    };
    for (int i = 0; i < 6; i++)
        if (is_text(word, ROLES[i].word, (int32_t)strlen(ROLES[i].word)))
            return ROLES[i].role;
    return 3;
}

/* Which detail a key names; -1 for others. Of bits those of weights come first, then
 * those of what is moved, then those of activations: `rank`, the lower the better. */
static int detail_of(const Text *key, int *rank)
{
    static const struct { const char *key; int detail, rank; } NAMES[] = {
        {"bytes", MOVED, 0}, {"qbits_weight", BITS, 0}, {"qbits", BITS, 1},
        {"qbits_activation", BITS, 2}, {"spm_bank", BANK, 0}, {"spm_offset", OFFSET, 0},
        {"tensor_role", ROLE, 0},
    };
    for (int i = 0; i < 7; i++)
        if (is_text(key, NAMES[i].key, (int32_t)strlen(NAMES[i].key))) {
            *rank = NAMES[i].rank;
            return NAMES[i].detail;
        }
    return -1;
}

/* Write what the details of an engine event state; 0 where the event is ODD. */
static int put_details(EventRows *rows, int64_t row, const Event *event,
                       const uint8_t *end)
{
    int best[N_DETAILS] = {3, 3, 3, 3, 3}, rank = 0;
    for (int i = 0; i < N_DETAILS; i++)
        rows->detail[i][row] = -1;
    if (what(event, DETAILS) != OBJECT)
        return 1;
    Cursor c = {event->fields[DETAILS].text.start + 1, end, 0};
    Value value;
    Text key;
    while (skip_space(&c) && *c.at != '}') {
        if (!take_key(&c, &key))
            return 0;
        const int detail = detail_of(&key, &rank);
        value.what = NONE;
        if (*c.at == '{' || *c.at == '[' ? !skip_nested(&c) : !take_scalar(&c, &value))
            return 0;
        if (detail >= 0 && value.what == OTHER)
            return 0;
        if (detail == ROLE && value.what == STRING) {
            if (value.text.is_escaped)
                return 0;
            rows->detail[ROLE][row] = role_of(&value.text);
        }
        if (detail >= 0 && value.what == INTEGER && rank < best[detail] &&
            value.number >= 0 && value.number <= MOST[detail]) {
            best[detail] = rank;
            rows->detail[detail][row] = value.number;
        }
        if (skip_space(&c) && *c.at == ',')
            c.at++;
    }
    return c.at != NULL;
}

static int put_engine(EventRows *rows, int64_t row, const Event *event, TextArena *texts)
{
    return put_times(rows, row, event) &&
           one_of(event, ENGINE_NAME, MASTERS, N_ENGINES, &rows->word[row]) &&
           what(event, OP) != MISSING &&
           put_unit(rows, row, event, ENGINE_ID) &&
           number_or(event, CMDQ_ID, -1, MAX_LONG, -1, &rows->number[row]) &&
           text_or(event, OP, texts, &rows->text[0][row]) &&
           text_or(event, LAYER_ID, texts, &rows->text[1][row]) &&
           text_or(event, TILE_ID, texts, &rows->text[2][row]) &&
           text_or(event, COLOR_HINT, texts, &rows->text[3][row]);
}

static int put_access(EventRows *rows, int64_t row, const Event *event, TextArena *texts)
{
    rows->address[row] = -1;
    const int has_address = what(event, ADDR) != MISSING && what(event, ADDR) != NONE;
    return needed(event, CYCLE, 0, MAX_CYCLE, &rows->time[row]) &&
           one_of(event, MEM_TYPE, MEMORIES, 2, &rows->word[row]) &&
           one_of(event, DIRECTION, DIRECTIONS, 2, &rows->way[row]) &&
           number_or(event, BYTES, 0, MAX_LONG, -1, &rows->size[row]) &&
           (!has_address ||
            needed(event, ADDR, 0, INT64_MAX, &rows->address[row])) &&
           put_unit(rows, row, event, SOURCE_ENGINE_ID) &&
           number_or(event, CMDQ_ID, -1, MAX_LONG, -1, &rows->number[row]) &&
           text_or(event, SOURCE_ENGINE, texts, &rows->text[0][row]);
}

/* Write a bandwidth sample; figures that it does not state are NaN. */
static int put_sample(EventRows *rows, int64_t row, const Event *event)
{
    static const int FIGURES[] = {
        DRAM_READ_BYTES, DRAM_WRITE_BYTES, STALL_CYCLES, KV_BYTES,
    };
    if (!needed(event, CYCLE, 0, MAX_CYCLE, &rows->time[row]) ||
        !needed(event, WINDOW_CYCLES, 1, MAX_CYCLE, &rows->until[row]))
        return ODD;
    for (int i = 0; i < 4; i++) {
        const Value *const value = &event->fields[FIGURES[i]];
        const int found = what(event, FIGURES[i]);
        const int is_stated = found == INTEGER && value->number >= 0;
        if (!is_stated && found != MISSING && found != NONE)
            return ODD;
        rows->amount[i][row] = is_stated ? (double)value->number : NAN;
    }
    return SAMPLE;
}

/* Write the columns of an event; return its kind, ODD where it wants a look. */
static int put_event(EventRows *rows, int64_t row, const Event *event, TextArena *texts)
{
    static const char *const TYPES[] = {
        "ENGINE_EVENT", "MEM_ACCESS_EVENT", "TOKEN_EVENT", "STALL_EVENT", "CMD_EVENT",
        "MARKER_EVENT", "BUS_EVENT", "POWER_ESTIMATE", "ERROR_EVENT",
    };
    uint8_t kind;
    int is_good = one_of(event, TYPE, TYPES, 9, &kind);
    if (!is_good)
        return ODD;
    switch (kind) {
    case ENGINE:
        is_good = put_engine(rows, row, event, texts);
        break;
    case ACCESS:
        is_good = put_access(rows, row, event, texts);
        break;
    case TOKEN:
        is_good = put_times(rows, row, event) &&
                  one_of(event, PHASE, PHASES, 2, &rows->word[row]) &&
                  needed(event, TOKEN_INDEX, 0, MAX_ID, &rows->number[row]);
        break;
    case STALL:
        is_good = put_times(rows, row, event) &&
                  one_of(event, MASTER, MASTERS, N_MASTERS, &rows->word[row]) &&
                  put_unit(rows, row, event, MASTER_ID) &&
                  text_or(event, REASON, texts, &rows->text[0][row]);
        break;
    case COMMAND:
        is_good = needed(event, CYCLE, 0, MAX_CYCLE, &rows->time[row]) &&
                  one_of(event, EVENT, COMMANDS, 4, &rows->word[row]) &&
                  number_or(event, CMD_ID, -1, MAX_LONG, -1, &rows->number[row]) &&
                  text_or(event, SOURCE, texts, &rows->text[0][row]) &&
                  text_or(event, PHASE, texts, &rows->text[1][row]);
        break;
    default:
        return STUB;
    }
    return is_good ? kind : ODD;
}

/* ---- scanning ---- */

/* Go to the next element of an array; return MORE where there is one to take. */
static int next_element(Cursor *c, int wants_comma, int *is_there)
{
    *is_there = 0;
    if (!skip_space(c))
        return MORE;
    if (*c->at == ']')
        return CLOSED;
    if (wants_comma) {
        if (*c->at != ',')
            return STRANGE;
        c->at++;
        if (!skip_space(c))
            return MORE;
    }
    *is_there = *c->at == '{';
    return *is_there ? MORE : STRANGE;
}

/* Go to the next line that is not empty; as above. */
static int next_line(Cursor *c, EventRows *rows, const uint8_t *data, int *is_there)
{
    *is_there = 0;
    while (c->at < c->end) {
        const int n = *c->at == '\n' ? 1
                    : c->end - c->at > 1 && c->at[0] == '\r' && c->at[1] == '\n' ? 2
                    : 0;
        if (!n) {
            *is_there = *c->at == '{';
            return *is_there ? MORE : STRANGE;
        }
        c->at += n;
        rows->n_lines++;
        rows->length = c->at - data;
    }
    return MORE;
}

/* Go behind the end of a line; 0 where it is not here. */
static int end_line(Cursor *c, const uint8_t *begin, int is_last, EventRows *rows)
{
    if (memchr(begin, '\n', (size_t)(c->at - begin)))
        return lost(c, 1);
    if (c->at < c->end && *c->at == '\r')
        c->at++;
    if (c->at < c->end && *c->at == '\n') {
        c->at++;
        rows->n_lines++;
        return 1;
    }
    if (c->at < c->end)
        return lost(c, 1);
    return is_last && c->at[-1] == '}' ? 1 : lost(c, 0);
}

/* Write one event as the next row; return MORE, or why it is not written. */
static int add_row(EventRows *rows, TextArena *texts, const Event *event,
                   const uint8_t *data, const uint8_t *begin, const uint8_t *finish,
                   int form)
{
    const int64_t row = rows->n_rows;
    const int has_room = texts->count + 4 <= texts->capacity &&
                         finish - begin <= texts->size - texts->used;
    if (!has_room && texts->count)
        return FULL;
    int kind = !has_room ? ODD
             : form == SAMPLES ? put_sample(rows, row, event)
             : put_event(rows, row, event, texts);
    if (kind == ENGINE) {
        const int put = put_deps(rows, row, event, finish);
        if (put < 0 && row)
            return FULL;
        kind = put > 0 && put_details(rows, row, event, finish) ? ENGINE : ODD;
    }
    if (kind == ODD && (form == LINES || form == LAST_LINES))
        return STRANGE; /* perhaps a header */
    rows->kind[row] = (uint8_t)kind;
    rows->begin[row] = (int32_t)(begin - data);
    rows->finish[row] = (int32_t)(finish - data);
    rows->n_deps += kind == ENGINE ? rows->dep_count[row] : 0;
    rows->n_rows++;
    return MORE;
}

/* Take the events at the start of a text, as many as are whole and fit.
 *
 * form: EVENTS or SAMPLES of an array, LINES of events, or LAST_LINES, of which the
 * last needs no break.
 * is_first: whether no comma stands before the first element.
 * size must be below 2**31. */
EXPORT void ggscope_npu_scan(const uint8_t *data, int64_t size, int32_t form,
                             int32_t is_first, EventRows *rows, TextArena *texts)
{
    Event event;
    Cursor c = {data, data + size, 0};
    const int lines = form == LINES || form == LAST_LINES;
    int is_there;
    rows->n_rows = rows->n_deps = rows->length = rows->n_lines = 0;
    for (;;) {
        c.at = data + rows->length;
        rows->status = lines ? next_line(&c, rows, data, &is_there)
                             : next_element(&c, !is_first || rows->n_rows, &is_there);
        if (rows->status == CLOSED)
            rows->length = c.at - data;
        if (!is_there)
            return;
        const int64_t line = rows->n_lines;
        const uint8_t *const begin = c.at;
        const uint8_t *finish = NULL;
        rows->status = rows->n_rows < rows->capacity ? MORE : FULL;
        if (rows->status == FULL)
            return;
        if (take_event(&c, &event)) {
            finish = c.at;
            if (lines)
                end_line(&c, begin, form == LAST_LINES, rows);
        }
        rows->status = c.at ? add_row(rows, texts, &event, data, begin, finish, form)
                            : c.broken ? STRANGE : MORE;
        if (!c.at || rows->status != MORE) {
            rows->n_lines = line;
            return;
        }
        if (lines)
            rows->line[rows->n_rows - 1] = (int32_t)line;
        rows->length = c.at - data;
    }
}
