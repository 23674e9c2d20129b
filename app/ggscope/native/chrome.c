/* Chrome trace events from JSON text into rows, and how events belong together.
 *
 * The text is taken as writers leave it: control characters in strings, NaN, commas too
 * many or too few, an end that is missing. Times are decimal digits and become whole
 * nanoseconds, never by way of a float. Nothing here allocates or keeps state.
 */
#include <string.h>

#include "native.h"

/* readers/chrome/events.py: Mark and Status */
enum {
    HAS_TIME = 1, HAS_DURATION = 2, HAS_ID = 4, BINDS_ENCLOSING = 8, OF_PROCESS = 16,
    OF_ALL = 32, IS_NEGATIVE = 64, IS_CPU_TIME = 128,
};
enum { MORE, CLOSED, FULL };
enum { MOST_DIGITS = 27, FAR_EXPONENT = 64, TEXTS_PER_ROW = 5, MOST_LOOKED_AT = 64 };
#define FARTHEST (INT64_C(1) << 61)
#define UNKNOWN (-1)

/* One row per event. */
typedef struct {
    int64_t *offset, *time, *duration; /* of the event in the text; ns */
    int64_t *id;
    int64_t *number;             /* args.sort_index, else args.bytes; -1: none */
    int64_t *correlation, *external; /* -1: none */
    int32_t *pid, *tid, *name, *category, *text; /* numbers of texts, -1: none */
    int32_t *layer, *token, *core, *numa; /* args of those names; -1: none */
    uint8_t *phase, *flags;
} ChromeRows;

/* One row per value of a counter. */
typedef struct {
    int64_t capacity, count;
    int32_t *row, *key;
    double *value;
} ChromeValues;

/* Every text once, as it stands in the block. */
typedef struct {
    int64_t count, capacity, n_slots; /* a power of two, more than `capacity` */
    uint64_t secret;
    int32_t *slots;              /* number + 1; 0 = free */
    int64_t *offset;
    int32_t *length;
} ChromeTexts;

typedef struct {
    int64_t consumed, status, n_events;
    int64_t n_broken, first_broken; /* in the block; -1: none */
    int64_t n_other;             /* elements that are no objects */
    int64_t n_bare, first_bare;  /* objects without a phase */
    int64_t phases[128];
} ChromeTally;

typedef struct {
    const uint8_t *at, *end;
} Cursor;

typedef struct {
    const uint8_t *at, *end;     /* between the quotes, of a string */
    int is_string;
} Piece;

typedef struct {
    Piece name, category, pid, tid, text, args;
    int64_t time, duration, id, number, correlation, external;
    int32_t layer, token, core, numa;
    uint8_t phase, flags;
} Event;

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline int is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int more(Cursor *c)
{
    while (c->at < c->end && is_blank(*c->at))
        c->at++;
    return c->at < c->end;
}

/* ---- values ---- */

/* Go behind the string that begins here; 0 where the text ends before. */
static int skip_string(Cursor *c)
{
    for (const uint8_t *p = c->at + 1; p < c->end; p++) {
        if (*p == '"') {
            c->at = p + 1;
            return 1;
        }
        p += *p == '\\';
    }
    c->at = c->end;
    return 0;
}

/* Go behind the object or array that begins here. */
static int skip_nested(Cursor *c)
{
    int64_t depth = 0;
    while (c->at < c->end) {
        const uint8_t byte = *c->at;
        if (byte == '"') {
            if (!skip_string(c))
                return 0;
            continue;
        }
        c->at++;
        if (byte == '{' || byte == '[')
            depth++;
        else if ((byte == '}' || byte == ']') && !--depth)
            return 1;
    }
    return 0;
}

/* Take any value; numbers and words as they stand. 0: the text ends, or no value. */
static int take_value(Cursor *c, Piece *piece)
{
    piece->at = c->at;
    piece->is_string = *c->at == '"';
    if (piece->is_string) {
        if (!skip_string(c))
            return 0;
        piece->at++;
        piece->end = c->at - 1;
        return 1;
    }
    if (*c->at == '{' || *c->at == '[') {
        if (!skip_nested(c))
            return 0;
    } else {
        while (c->at < c->end && *c->at != ',' && *c->at != '}' && *c->at != ']' &&
               *c->at != '"' && *c->at != '{' && *c->at != '[' && *c->at != ':' &&
               !is_blank(*c->at))
            c->at++;
        if (c->at == piece->at || c->at == c->end)
            return 0;
    }
    piece->end = c->at;
    return 1;
}

/* A decimal number times 10^shift, rounded half away from zero; 0 where it is none. */
static int decimal(Piece piece, int shift, int64_t *value)
{
    const uint8_t *p = piece.at, *end = piece.end;
    unsigned __int128 whole = 0;
    int n = 0, any = 0, behind = 0, half = 0;
    int64_t scale = shift, exponent = 0;
    while (p < end && is_blank(*p))
        p++;
    const int negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    for (; p < end && (is_digit(*p) || (*p == '.' && !behind)); p++) {
        if (*p == '.') {
            behind = 1;
            continue;
        }
        any = 1;
        if (n == MOST_DIGITS) {
            scale += !behind;
            continue;
        }
        whole = whole * 10 + (unsigned)(*p - '0');
        n += n || *p != '0';
        scale -= behind;
    }
    if (!any)
        return 0;
    if (p < end && (*p | 0x20) == 'e') {
        const int is_small = ++p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        if (p == end || !is_digit(*p))
            return 0;
        for (; p < end && is_digit(*p); p++)
            exponent = smaller(exponent * 10 + (*p - '0'), INT32_MAX);
        scale += is_small ? -exponent : exponent;
    }
    while (p < end && is_blank(*p))
        p++;
    if (p != end)
        return 0;
    if (!whole) {
        *value = 0;
        return 1;
    }
    if (scale > FAR_EXPONENT)
        return 0;
    for (; scale > 0; scale--) {
        whole *= 10;
        if (whole > FARTHEST)
            return 0;
    }
    for (; scale < 0 && whole; scale++) {
        half = whole % 10 >= 5;
        whole /= 10;
    }
    whole += (unsigned)(half && !scale);
    if (whole > FARTHEST)
        return 0;
    *value = negative ? -(int64_t)whole : (int64_t)whole;
    return 1;
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
    const unsigned __int128 product =
        (unsigned __int128)(a ^ UINT64_C(0x9E3779B97F4A7C15)) *
        (b ^ UINT64_C(0xD6E8FEB86659FD93));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hashed(const uint8_t *p, int64_t n, uint64_t secret)
{
    uint64_t hash = secret ^ (uint64_t)n, word = 0;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        hash = mixed(hash, word);
    }
    word = 0;
    memcpy(&word, p, (size_t)n);
    return mixed(hash, word);
}

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

static inline int is_key(Piece key, const char *word, int64_t n)
{
    return key.end - key.at == n && !memcmp(key.at, word, (size_t)n);
}
#define IS(key, word) is_key(key, word, sizeof word - 1)

/* A key and its colon. Behind it a value begins. */
static int take_key(Cursor *c, Piece *key)
{
    if (*c->at != '"' || !take_value(c, key) || !more(c) || *c->at != ':')
        return 0;
    c->at++;
    return more(c);
}

/* Go behind the comma, or to the end of the object; 1: a key follows, 2: it ended. */
static int next_member(Cursor *c)
{
    while (more(c) && *c->at == ',')
        c->at++;
    if (c->at >= c->end)
        return 0;
    if (*c->at != '}')
        return 1;
    c->at++;
    return 2;
}

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
        return;
    case 's':
        if (IS(key, "sort_index") && decimal(value, 0, &number))
            e->number = number;
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
    e->layer = e->token = e->core = e->numa = UNKNOWN;
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

static int32_t text_number(Piece piece, const uint8_t *data, ChromeTexts *texts)
{
    if (piece.at == NULL)
        return UNKNOWN;
    const int64_t n = piece.end - piece.at;
    const uint64_t mask = (uint64_t)texts->n_slots - 1;
    for (uint64_t slot = hashed(piece.at, n, texts->secret) & mask;;
         slot = (slot + 1) & mask) {
        const int32_t number = texts->slots[slot] - 1;
        if (number < 0) {
            const int64_t new = texts->count++;
            texts->slots[slot] = (int32_t)new + 1;
            texts->offset[new] = piece.at - data;
            texts->length[new] = (int32_t)n;
            return (int32_t)new;
        }
        if (texts->length[number] == n &&
            !memcmp(data + texts->offset[number], piece.at, (size_t)n))
            return number;
    }
}

/* A number as a float: a counter's value, never a time. 0 where it is none. */
static int real(Piece piece, double *value)
{
    int64_t number;
    for (int shift = 9; shift >= 0; shift -= 3)
        if (decimal(piece, shift, &number)) {
            const double scales[] = {1, 1e3, 1e6, 1e9};
            *value = (double)number / scales[shift / 3];
            return 1;
        }
    if (IS(piece, "true") || IS(piece, "false")) {
        *value = *piece.at == 't';
        return 1;
    }
    return 0;
}

/* Add the values of a counter; 0 where there is no room. */
static int add_values(const Event *e, const uint8_t *data, int64_t row,
                      ChromeValues *values, ChromeTexts *texts)
{
    Cursor c = {e->args.at + 1, e->args.end};
    Piece key, value;
    const int64_t before = values->count;
    while (c.at < c.end && next_member(&c) == 1) {
        double number;
        if (!take_key(&c, &key) || !take_value(&c, &value))
            break;
        if (!real(value, &number))
            continue;
        if (values->count == values->capacity || texts->count == texts->capacity) {
            values->count = before;
            return 0;
        }
        values->row[values->count] = (int32_t)row;
        values->key[values->count] = text_number(key, data, texts);
        values->value[values->count++] = number;
    }
    return 1;
}

/* Whether the event tells something: when it is, or what something is called. */
static int has_use(const Event *e)
{
    if (e->phase == 'M')
        return e->text.at != NULL || e->number != UNKNOWN;
    return (e->flags & HAS_TIME) != 0;
}

/* Counters, and what PyTorch tells of each allocation. */
static int has_values(const Event *e)
{
    return e->phase == 'C' ||
        (e->phase == 'i' && e->name.at != NULL && IS(e->name, "[memory]"));
}

static int add_event(const Event *e, const uint8_t *data, int64_t offset, int64_t row,
                     const ChromeRows *rows, ChromeValues *values, ChromeTexts *texts)
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
    rows->pid[row] = text_number(e->pid, data, texts);
    rows->tid[row] = text_number(e->tid, data, texts);
    rows->name[row] = text_number(e->name, data, texts);
    rows->category[row] = text_number(e->category, data, texts);
    rows->text[row] = text_number(e->text, data, texts);
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
                                   ChromeTexts *texts, ChromeTally *tally)
{
    Cursor c = {data + at, data + size};
    int64_t n = 0;
    Event e;
    memset(tally, 0, sizeof *tally);
    tally->first_broken = tally->first_bare = -1;
    texts->count = values->count = 0;
    tally->status = MORE;
    for (;;) {
        while (more(&c) && *c.at == ',')
            c.at++;
        tally->consumed = c.at - data;
        if (c.at >= c.end)
            return n;
        if (*c.at == ']') {
            tally->consumed++;
            tally->status = CLOSED;
            return n;
        }
        if (n == capacity) {
            tally->status = FULL;
            return n;
        }
        const uint8_t *const begin = c.at;
        if (*c.at != '{') {
            Piece other;
            if (!take_value(&c, &other)) {
                if (c.at >= c.end && !is_last)
                    return n;
                /* A byte that begins no value. */
                tally->n_broken++;
                if (tally->first_broken < 0)
                    tally->first_broken = begin - data;
                c.at = begin + 1;
                while (c.at < c.end && *c.at != '{' && *c.at != ']')
                    c.at++;
                continue;
            }
            tally->n_other++;
            continue;
        }
        if (!take_event(&c, &e, texts->secret)) {
            if (c.at >= c.end)
                return n; /* more may come; at the end of the file it is cut */
            tally->n_broken++;
            if (tally->first_broken < 0)
                tally->first_broken = begin - data;
            c.at += c.at == begin;
            while (c.at < c.end && *c.at != '{')
                c.at++;
            continue;
        }
        if (!e.phase) {
            tally->n_bare++;
            if (tally->first_bare < 0)
                tally->first_bare = begin - data;
            continue;
        }
        if (!has_use(&e)) {
            if (e.phase != 'M') {
                tally->n_broken++;
                if (tally->first_broken < 0)
                    tally->first_broken = begin - data;
            }
        } else if (add_event(&e, data, begin - data, n, rows, values, texts)) {
            n++;
        } else if (n) {
            c.at = begin;
            tally->status = FULL;
            return n;
        } else { /* a single event with more texts than there is room for */
            tally->n_broken++;
            if (tally->first_broken < 0)
                tally->first_broken = begin - data;
        }
        tally->n_events++;
        tally->phases[e.phase]++;
    }
}

/* Where the next member of an outer object begins and its value: the key between the
 * quotes, and the first byte of the value. 0: the text ends before; -1: no member. */
EXPORT int64_t ggscope_chrome_member(const uint8_t *data, int64_t size, int64_t at,
                                     int64_t *place)
{
    Cursor c = {data + at, data + size};
    Piece key;
    const int follows = next_member(&c);
    if (follows != 1)
        return follows ? -1 : 0;
    if (!take_key(&c, &key))
        return c.at >= c.end ? 0 : -1;
    place[0] = key.at - data;
    place[1] = key.end - data;
    place[2] = c.at - data;
    return 1;
}

/* Go on with a value over blocks; `state` is depth, whether within a string, whether
 * behind a backslash, and whether it began. Returns how far; the value ended where
 * state[3] is 2. */
EXPORT int64_t ggscope_chrome_skip(const uint8_t *data, int64_t size, int64_t *state)
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
            found = k == MOST_LOOKED_AT ? -1 : below[found];
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
