/* Chrome trace events from JSON text into rows, and how events belong together.
 *
 * The text is taken as writers leave it: control characters in strings, NaN, commas too
 * many or too few, an end that is missing. Times are decimal digits and become whole
 * nanoseconds, never by way of a float. Nothing here allocates or keeps state.
 */
#include "lenient_json.h"

/* readers/chrome/events.py: Mark and Status */
enum {
    HAS_TIME = 1, HAS_DURATION = 2, HAS_ID = 4, BINDS_ENCLOSING = 8, OF_PROCESS = 16,
    OF_ALL = 32, IS_NEGATIVE = 64, IS_CPU_TIME = 128,
};
enum { TEXTS_PER_ROW = 6, MAX_LOOKED_AT = 64 };
#define UNKNOWN (-1)

/* One row per event. */
typedef struct {
    int64_t *offset, *time, *duration; /* of the event in the text; ns */
    int64_t *id;
    int64_t *number;             /* args.sort_index, else args.bytes; -1: none */
    int64_t *correlation, *external; /* -1: none */
    int32_t *pid, *tid, *name, *category, *text; /* numbers of texts, -1: none */
    int32_t *word;               /* text of args.op, else args.detail, -1: none */
    int32_t *layer, *token, *core, *numa, *span; /* args of those names; -1: none */
    uint8_t *phase, *flags;
} ChromeRows;

/* One row per value of a counter. */
typedef struct {
    int64_t capacity, count;
    int32_t *row, *key;
    double *value;
} ChromeValues;

typedef struct {
    int64_t n_events;
    int64_t n_bare, first_bare;  /* objects without a phase */
    int64_t phases[128];
} ChromeTally;

typedef struct {
    Piece name, category, pid, tid, text, word, args;
    int64_t time, duration, id, number, correlation, external;
    int32_t layer, token, core, numa, span;
    uint8_t phase, flags;
} Event;

/* An id is a number, a hexadecimal number as a string, or any text, by its hash. */
static int64_t id_of(Piece piece, uint64_t secret)
{
    int64_t number;
    const uint8_t *p = piece.at;
    if (decimal(piece, 0, &number))
        return number;
    if (piece.end - p > 2 && piece.end - p <= 18 && p[0] == '0' && (p[1] | 0x20) == 'x') {
        uint64_t value = 0;
        for (p += 2; p < piece.end; p++) {
            const uint8_t low = *p | 0x20;
            if (!is_digit(*p) && !(low >= 'a' && low <= 'f'))
                break;
            value = value << 4 | (uint64_t)(is_digit(*p) ? *p - '0' : low - 'a' + 10);
        }
        if (p == piece.end)
            return (int64_t)value;
    }
    return (int64_t)hashed(piece.at, piece.end - piece.at, secret);
}

/* ---- an event ---- */

/* A number that is not negative; else what was there before. */
static int32_t small_number(Piece value, int32_t before)
{
    int64_t number;
    return decimal(value, 0, &number) && number >= 0 && number <= INT32_MAX
        ? (int32_t)number : before;
}

static void set_argument(Event *e, Piece key, Piece value)
{
    int64_t number;
    switch (*key.at) {
    case 'n':
        if (IS(key, "name") && value.is_string)
            e->text = value;
        else if (IS(key, "numa"))
            e->numa = small_number(value, e->numa);
        return;
    case 'l':
        if (IS(key, "labels") && value.is_string)
            e->text = value;
        else if (IS(key, "layer"))
            e->layer = small_number(value, e->layer);
        return;
    case 't':
        if (IS(key, "token"))
            e->token = small_number(value, e->token);
        else if (IS(key, "time") && value.is_string)
            e->text = value;
        return;
    case 'o':
        if (IS(key, "op_name") && value.is_string)
            e->text = value;
        else if (IS(key, "op") && value.is_string)
            e->word = value;
        return;
    case 'd':
        if (IS(key, "detail") && value.is_string && e->word.at == NULL)
            e->word = value;
        return;
    case 's':
        if (IS(key, "sort_index") && decimal(value, 0, &number))
            e->number = number;
        else if (IS(key, "span"))
            e->span = small_number(value, e->span);
        return;
    case 'b':
        if ((IS(key, "bytes")) && decimal(value, 0, &number) && number >= 0)
            e->number = number;
        return;
    case 'c':
        if (IS(key, "core"))
            e->core = small_number(value, e->core);
        else if ((IS(key, "correlation") || IS(key, "correlation_id")) &&
            decimal(value, 0, &number))
            e->correlation = number;
        return;
    case 'E':
        if (IS(key, "External id") && decimal(value, 0, &number))
            e->external = number;
        return;
    case 'e':
        if (IS(key, "external id") && decimal(value, 0, &number))
            e->external = number;
        return;
    }
}

static int take_arguments(Cursor *c, Event *e)
{
    Piece key, value;
    e->args.at = c->at++;
    for (;;) {
        const int follows = next_member(c);
        if (follows != 1) {
            e->args.end = c->at;
            return follows;
        }
        if (!take_key(c, &key) || !take_value(c, &value))
            return 0;
        if (key.at < key.end)
            set_argument(e, key, value);
    }
}

static void set_field(Event *e, Piece key, Piece value, uint64_t secret)
{
    switch (*key.at) {
    case 'p':
        if (IS(key, "ph")) {
            if (value.is_string && value.end - value.at == 1 && *value.at < 128)
                e->phase = *value.at;
        } else if (IS(key, "pid")) {
            e->pid = value;
        }
        return;
    case 't':
        if (IS(key, "tid")) {
            e->tid = value;
        } else if (IS(key, "ts")) {
            if (decimal(value, 3, &e->time))
                e->flags |= HAS_TIME;
        } else if (IS(key, "tdur") && !(e->flags & HAS_DURATION)) {
            if (decimal(value, 3, &e->duration))
                e->flags |= IS_CPU_TIME;
        }
        return;
    case 'd':
        if (IS(key, "dur") && decimal(value, 3, &e->duration)) {
            e->flags = (uint8_t)((e->flags & ~IS_CPU_TIME) | HAS_DURATION);
        }
        return;
    case 'n':
        if (IS(key, "name") && value.is_string)
            e->name = value;
        return;
    case 'c':
        if (IS(key, "cat") && value.is_string)
            e->category = value;
        return;
    case 'i':
        if (IS(key, "id") || IS(key, "id2")) {
            if (*value.at == '{' && !value.is_string) {
                /* {"local": "0x10"} or {"global": …} */
                Cursor inner = {value.at + 1, value.end};
                Piece scope;
                if (!more(&inner) || !take_key(&inner, &scope) ||
                    !take_value(&inner, &value))
                    return;
            }
            e->id = id_of(value, secret);
            e->flags |= HAS_ID;
        }
        return;
    case 'b':
        if (IS(key, "bp") && IS(value, "e"))
            e->flags |= BINDS_ENCLOSING;
        return;
    case 's':
        if (IS(key, "s") && value.is_string)
            e->flags |= IS(value, "p") ? OF_PROCESS : IS(value, "g") ? OF_ALL : 0;
        return;
    }
}

/* Take the object that begins here; 0 where it is damaged or the text ends. */
static int take_event(Cursor *c, Event *e, uint64_t secret)
{
    Piece key, value;
    memset(e, 0, sizeof *e);
    e->number = e->correlation = e->external = UNKNOWN;
    e->layer = e->token = e->core = e->numa = e->span = UNKNOWN;
    c->at++;
    for (;;) {
        const int follows = next_member(c);
        if (follows != 1)
            return follows;
        if (!take_key(c, &key))
            return 0;
        if (*c->at == '{' && IS(key, "args")) {
            if (!take_arguments(c, e))
                return 0;
        } else if (!take_value(c, &value)) {
            return 0;
        } else if (key.at < key.end) {
            set_field(e, key, value, secret);
        }
    }
}

/* ---- rows ---- */

static int32_t piece_number(Piece piece, const uint8_t *data, TextTable *texts)
{
    return piece.at == NULL ? UNKNOWN
        : text_number(piece.at, piece.end - piece.at, data, texts);
}

/* The value of a counter, of which some are true or false. 0 where it is none. */
static int counted(Piece piece, double *value)
{
    if (!IS(piece, "true") && !IS(piece, "false"))
        return real(piece, value);
    *value = *piece.at == 't';
    return 1;
}

/* Add the values of a counter; 0 where there is no room. */
static int add_values(const Event *e, const uint8_t *data, int64_t row,
                      ChromeValues *values, TextTable *texts)
{
    Cursor c = {e->args.at + 1, e->args.end};
    Piece key, value;
    const int64_t before = values->count;
    while (c.at < c.end && next_member(&c) == 1) {
        double number;
        if (!take_key(&c, &key) || !take_value(&c, &value))
            break;
        if (!counted(value, &number))
            continue;
        if (values->count == values->capacity || texts->count == texts->capacity) {
            values->count = before;
            return 0;
        }
        values->row[values->count] = (int32_t)row;
        values->key[values->count] = piece_number(key, data, texts);
        values->value[values->count++] = number;
    }
    return 1;
}

/* Whether the event states something: when it is, or what something is called. */
static int has_use(const Event *e)
{
    if (e->phase == 'M')
        return e->text.at != NULL || e->number != UNKNOWN;
    return (e->flags & HAS_TIME) != 0;
}

/* Counters, and what PyTorch records of each allocation. */
static int has_values(const Event *e)
{
    return e->phase == 'C' ||
        (e->phase == 'i' && e->name.at != NULL && IS(e->name, "[memory]"));
}

static int add_event(const Event *e, const uint8_t *data, int64_t offset, int64_t row,
                     const ChromeRows *rows, ChromeValues *values, TextTable *texts)
{
    if (texts->count + TEXTS_PER_ROW > texts->capacity)
        return 0;
    if (e->args.at != NULL && has_values(e) &&
        !add_values(e, data, row, values, texts))
        return 0;
    if (texts->count + TEXTS_PER_ROW > texts->capacity)
        return 0;
    rows->offset[row] = offset;
    rows->time[row] = e->time;
    rows->duration[row] = larger(e->duration, 0);
    rows->id[row] = e->id;
    rows->number[row] = e->number;
    rows->correlation[row] = e->correlation;
    rows->external[row] = e->external;
    rows->pid[row] = piece_number(e->pid, data, texts);
    rows->tid[row] = piece_number(e->tid, data, texts);
    rows->name[row] = piece_number(e->name, data, texts);
    rows->category[row] = piece_number(e->category, data, texts);
    rows->text[row] = piece_number(e->text, data, texts);
    rows->word[row] = piece_number(e->word, data, texts);
    rows->span[row] = e->span;
    rows->layer[row] = e->layer;
    rows->token[row] = e->token;
    rows->core[row] = e->core;
    rows->numa[row] = e->numa;
    rows->phase[row] = e->phase;
    rows->flags[row] = (uint8_t)(e->flags | (e->duration < 0 ? IS_NEGATIVE : 0));
    return 1;
}

/* Read events from a place in their list. Returns the number of rows. */
EXPORT int64_t ggscope_chrome_scan(const uint8_t *data, int64_t size, int64_t at,
                                   int64_t is_last, int64_t capacity,
                                   const ChromeRows *rows, ChromeValues *values,
                                   TextTable *texts, ListTally *list,
                                   ChromeTally *tally)
{
    Cursor c = {data + at, data + size};
    int64_t n = 0;
    Event e;
    memset(tally, 0, sizeof *tally);
    tally->first_bare = -1;
    texts->count = values->count = 0;
    begin_list(list);
    while (next_object(&c, data, is_last != 0, list)) {
        if (n == capacity) {
            list->status = FULL;
            return n;
        }
        const uint8_t *const begin = c.at;
        if (!take_event(&c, &e, texts->secret)) {
            if (!skip_damage(&c, data, begin, list))
                return n;
            continue;
        }
        if (!e.phase) {
            tally->n_bare++;
            if (tally->first_bare < 0)
                tally->first_bare = begin - data;
            continue;
        }
        if (!has_use(&e)) {
            if (e.phase != 'M')
                note_broken(list, begin - data);
        } else if (add_event(&e, data, begin - data, n, rows, values, texts)) {
            n++;
        } else if (n) {
            list->status = FULL;
            return n;
        } else { /* a single event with more texts than there is room for */
            note_broken(list, begin - data);
        }
        tally->n_events++;
        tally->phases[e.phase]++;
    }
    return n;
}

/* ---- what belongs together ---- */

/* Pair begins and ends of a track like brackets; those with another name than the
 * innermost begin look for theirs further out. Events are by track and time. `below` is
 * scratch. Returns how many ends close a begin of another name. */
EXPORT int64_t ggscope_chrome_pair(int64_t n, const int32_t *track,
                                   const uint8_t *is_begin, const int32_t *name,
                                   int32_t *below, int32_t *partner)
{
    int64_t n_mismatched = 0;
    int32_t top = -1;
    for (int64_t i = 0; i < n; i++) {
        if (i && track[i] != track[i - 1])
            top = -1;
        partner[i] = -1;
        if (is_begin[i]) {
            below[i] = top;
            top = (int32_t)i;
            continue;
        }
        int32_t found = top, above = -1;
        for (int k = 0; found >= 0 && name[i] >= 0 && name[found] != name[i]; k++) {
            above = found;
            found = k == MAX_LOOKED_AT ? -1 : below[found];
        }
        if (found < 0) {
            if (top < 0)
                continue;
            n_mismatched += name[top] >= 0;
            found = top;
            above = -1;
        }
        if (above >= 0)
            below[above] = below[found];
        else
            top = below[found];
        partner[i] = found;
        partner[found] = (int32_t)i;
    }
    return n_mismatched;
}

/* Say what surrounds each span: spans are by lane, start, and longer ones first.
 * Returns how many reach out of what surrounds them, by more than a tick. */
EXPORT int64_t ggscope_chrome_nest(int64_t n, const int32_t *lane, const int64_t *start,
                                   const int64_t *end, int32_t *parent,
                                   uint8_t *reaches_out)
{
    int64_t count = 0;
    int32_t top = -1;
    for (int64_t i = 0; i < n; i++) {
        if (i && lane[i] != lane[i - 1])
            top = -1;
        while (top >= 0 && end[top] <= start[i])
            top = parent[top];
        reaches_out[i] = top >= 0 && end[i] > end[top] + 1;
        count += reaches_out[i];
        parent[i] = top;
        top = (int32_t)i;
    }
    return count;
}

/* Find the innermost span around each place, -1 none. Places are by lane and time;
 * those marked in `is_next` take the span that begins there, or the one behind. */
EXPORT void ggscope_chrome_enclosing(int64_t n, const int32_t *lane,
                                     const int64_t *start, const int64_t *end,
                                     const int32_t *parent, int64_t n_places,
                                     const int32_t *on, const int64_t *time,
                                     const uint8_t *is_next, int32_t *found)
{
    int64_t next = 0;
    int32_t top = -1;
    for (int64_t i = 0; i < n_places; i++) {
        const int64_t t = time[i];
        if (i && on[i] != on[i - 1])
            top = -1;
        while (next < n && lane[next] < on[i])
            next++;
        while (next < n && lane[next] == on[i] && start[next] <= t)
            top = (int32_t)next++;
        while (top >= 0 && (end[top] < t || (end[top] == t && start[top] != t)))
            top = parent[top];
        found[i] = top;
        if (is_next[i] && (top < 0 || start[top] != t))
            found[i] = next < n && lane[next] == on[i] ? (int32_t)next : -1;
    }
}
