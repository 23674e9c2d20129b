/* Lines of traces of CUDA calls: JSON objects of call hooks, the text of bpftrace and of
 * strace. One row per event.
 *
 * JSON is taken as far as it is sound: what stands before damage counts where it tells
 * what happened when. Several objects may stand in one line, behind anything.
 *
 * Nothing here allocates or keeps state; the caller gives whole lines. Texts are numbered
 * in a table of the caller, hashed with a secret of it.
 */
#define _GNU_SOURCE
#include <string.h>

#include "json_text.h"
#include "native.h"

/* readers/cuda/lines.py: Form, Clock and the constants */
enum { HOOK, PROBE, ENTRY, NUMBERED, PROBE_TEXT, STRACE };
enum { OF_FILE, OF_DAY, SINCE_EPOCH, SINCE_LINE_BEFORE, OF_ROW_BEFORE };
enum { IS_REPAIRED = 1, IS_FAILED = 2, IS_CUT = 4 };
enum { DIGITS = 18, TEXTS_PER_ROW = 3, LOOKED_AT = 4096 };
#define UNKNOWN INT64_MIN
#define NO_RESULT INT32_MIN

/* One row per event. */
typedef struct {
    int64_t *line, *offset;      /* of the line in the block, of the event */
    int32_t *length;
    int64_t *whole;              /* time, in the unit of the file */
    int32_t *nano;               /* its billionths, never negative */
    uint8_t *clock, *form, *phase, *flags;
    int64_t *id, *pid, *tid;     /* UNKNOWN where there is none */
    int16_t *depth;              /* -1: none */
    int32_t *name, *type, *way;  /* numbers of texts, -1: none */
    int32_t *result;             /* NO_RESULT where there is none */
    int64_t *size;               /* bytes, -1: unknown */
    uint64_t *address;           /* 0: none */
    double *rate, *duration;     /* GB/s and ns as the file states them, -1: not */
} CallRows;

/* Every text once, as it stands in the block. */
typedef struct {
    int64_t count, capacity, n_slots; /* a power of two, more than `capacity` */
    uint64_t secret;
    int32_t *slots;              /* number + 1; 0 = free */
    int64_t *offset;
    int32_t *length;
} CallTexts;

typedef struct {
    int64_t n_rows, n_lines, consumed;
    int64_t n_broken, n_repaired, n_other; /* lines */
    int64_t first_broken, first_repaired, first_other; /* in the block; -1: none */
} CallTally;

typedef struct {
    const uint8_t *at, *end;
} Piece;

typedef struct {
    Piece name, type, way;
    int64_t whole, id, pid, tid, size, depth;
    uint64_t address;
    double rate, duration;
    int64_t result;
    int32_t nano;
    uint8_t clock, form, phase, flags;
    uint8_t has_time, has_op_id, has_event_id, has_func, is_chrome, number;
} Event;

static void blank(Event *e)
{
    memset(e, 0, sizeof *e);
    e->id = e->pid = e->tid = UNKNOWN;
    e->size = e->depth = -1;
    e->rate = e->duration = -1;
    e->result = UNKNOWN;
}

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline int is_word(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static const uint8_t *blanks(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}
static const uint8_t *found(const uint8_t *at, const uint8_t *end, const char *text)
{
    return at < end ? memmem(at, (size_t)(end - at), text, strlen(text)) : NULL;
}
static int begins(const uint8_t *at, const uint8_t *end, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)(end - at) >= n && !memcmp(at, text, n);
}

/* ---- numbers ---- */

/* A decimal number as a whole and its billionths, cut off behind them. Returns where it
 * ends; NULL where it is none or beyond 18 digits. */
static const uint8_t *decimal(const uint8_t *at, const uint8_t *end, int64_t *whole,
                              int32_t *nano)
{
    const int negative = at < end && *at == '-';
    int64_t value = 0, exponent = 0, scale = 1;
    int n = 0, n_behind = 0, any = 0;
    at += negative;
    for (; at < end && is_digit(*at); at++, any = 1) {
        if (n == DIGITS)
            return NULL;
        value = value * 10 + (*at - '0');
        n += n || *at != '0';
    }
    if (at < end && *at == '.')
        for (at++; at < end && is_digit(*at); at++, any = 1)
            if (n < DIGITS) {
                value = value * 10 + (*at - '0');
                n += n || *at != '0';
                n_behind++;
            }
    if (!any)
        return NULL;
    if (at < end && (*at | 0x20) == 'e') {
        const uint8_t *p = at + 1;
        const int is_small = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        if (p == end || !is_digit(*p))
            return NULL;
        for (; p < end && is_digit(*p); p++)
            exponent = smaller(exponent * 10 + (*p - '0'), 1000);
        exponent = is_small ? -exponent : exponent;
        at = p;
    }
    for (exponent -= n_behind; exponent > 0; exponent--) {
        if (!value)
            break;
        if (value > INT64_MAX / 100)
            return NULL;
        value *= 10;
    }
    if (exponent < -36)
        value = 0;
    for (; exponent < -DIGITS; exponent++)
        value /= 10;
    for (; exponent < 0; exponent++)
        scale *= 10;
    *whole = value / scale;
    *nano = (int32_t)((__int128)(value % scale) * 1000000000 / scale);
    if (negative) {
        *whole = -*whole - (*nano > 0);
        *nano = *nano ? 1000000000 - *nano : 0;
    }
    return at;
}

static int integer(Piece piece, int64_t *value)
{
    int32_t nano;
    const uint8_t *const at = decimal(piece.at, piece.end, value, &nano);
    return at == piece.end && !nano;
}

static double real(Piece piece)
{
    int64_t whole;
    int32_t nano;
    return decimal(piece.at, piece.end, &whole, &nano) == piece.end
        ? (double)whole + nano * 1e-9 : -1;
}

static uint64_t hexadecimal(Piece piece)
{
    uint64_t value = 0;
    int n = 0;
    if (!begins(piece.at, piece.end, "0x"))
        return 0;
    for (const uint8_t *p = piece.at + 2; p < piece.end; p++) {
        const uint8_t low = *p | 0x20;
        const int digit = is_digit(*p) ? *p - '0'
                        : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0 || ++n > 16)
            return 0;
        value = value << 4 | (uint64_t)digit;
    }
    return value;
}

/* ---- JSON ---- */

static void set_result(Event *e, Piece value, int is_text)
{
    if (integer(value, &e->result))
        return;
    e->result = UNKNOWN;
    if (is_text && value.end > value.at && !found(value.at, value.end, "SUCCESS") &&
        !found(value.at, value.end, "uccess"))
        e->flags |= IS_FAILED;
}

static void set_phase(Event *e, Piece value)
{
    const int64_t n = value.end - value.at;
    if (n == 1 && (*value.at == 'B' || *value.at == 'E'))
        e->phase = *value.at;
    else if (n)
        e->phase = 'I';
}

/* What stands behind the last colon: a probe is uprobe:LIBRARY:FUNCTION. */
static Piece short_name(Piece name)
{
    const uint8_t *const colon =
        name.end > name.at ? memrchr(name.at, ':', (size_t)(name.end - name.at)) : NULL;
    if (colon != NULL && colon + 1 < name.end)
        name.at = colon + 1;
    return name;
}

static int is_key(const Text *key, const char *word)
{
    return is_text(key, word, (int32_t)strlen(word));
}

static void set_field(Event *e, const Text *key, Piece value, int is_string,
                      int is_inside)
{
    int64_t number;
    if (is_key(key, "size") || is_key(key, "bytes")) {
        if (integer(value, &number) && number >= 0)
            e->size = number;
    } else if (is_key(key, "ptr") || is_key(key, "dptr")) {
        e->address = hexadecimal(value);
    } else if (is_key(key, "bandwidth_gbps")) {
        e->rate = real(value);
    } else if (is_key(key, "duration_us") || is_key(key, "duration_ms")) {
        const double given = real(value);
        e->duration = given < 0 ? -1 : given * (is_key(key, "duration_us") ? 1e3 : 1e6);
    } else if (is_key(key, "status") || is_key(key, "result") || is_key(key, "result_code") || is_key(key, "retval")) {
        set_result(e, value, is_string);
    } else if (is_key(key, "direction")) {
        e->way = value;
    } else if (is_inside) {
        return;
    } else if (is_key(key, "ts")) {
        e->has_time = decimal(value.at, value.end, &e->whole, &e->nano) == value.end;
    } else if (is_key(key, "op_id")) {
        e->has_op_id = 1;
        if (!integer(value, &e->id))
            e->id = UNKNOWN;
    } else if (is_key(key, "event_id")) {
        e->has_event_id = !is_string && integer(value, &number);
    } else if (is_key(key, "tid")) {
        if (!integer(value, &e->tid))
            e->tid = UNKNOWN;
    } else if (is_key(key, "pid")) {
        if (!integer(value, &e->pid))
            e->pid = UNKNOWN;
    } else if (is_key(key, "depth")) {
        if (integer(value, &number) && number >= 0)
            e->depth = smaller(number, INT16_MAX);
    } else if (is_key(key, "phase")) {
        if (is_string)
            set_phase(e, value);
    } else if (is_key(key, "type")) {
        if (is_string)
            e->type = value;
        else if (integer(value, &number) && number >= 1 && number <= 7)
            e->number = (uint8_t)number;
    } else if (is_key(key, "name") || is_key(key, "func")) {
        e->has_func |= is_key(key, "func");
        if (is_string)
            e->name = short_name(value);
    } else if (is_key(key, "op")) {
        if (is_string)
            e->way = value;
    } else if (is_key(key, "ph")) {
        e->is_chrome = 1;
    }
}

/* The key of a member and its colon. A call hook of old writes "phase""B"", for a key
 * and its value: then the phase is taken, and 2 returned. */
static int member_key(Cursor *c, Text *key, Event *e)
{
    if (!skip_space(c))
        return 0;
    if (*c->at != '"')
        return lost(c, 1);
    if (!take_string(c, key) || !skip_space(c))
        return 0;
    if (*c->at == ':') {
        c->at++;
        return skip_space(c);
    }
    const uint8_t *const p = c->at;
    if (key->length == 5 && !memcmp(key->start, "phase", 5) && c->end - p >= 4 &&
        p[0] == '"' && (p[1] == 'B' || p[1] == 'E') && p[2] == '"') {
        e->phase = p[1];
        e->flags |= IS_REPAIRED;
        c->at = p + 3 + (p[3] == '"');
        return more(c) ? 2 : 0;
    }
    return lost(c, 1);
}

/* Take the object that begins here, and its details; 0 where it is damaged. */
static int take_call(Cursor *c, Event *e, int is_inside)
{
    Text key;
    Value value;
    c->at++;
    if (!skip_space(c))
        return 0;
    if (*c->at == '}') {
        c->at++;
        return 1;
    }
    for (;;) {
        const int got = member_key(c, &key, e);
        if (!got)
            return 0;
        if (got == 1) {
            const uint8_t *const start = c->at;
            if (*start == '{' && !is_inside && key.length == 7 &&
                !memcmp(key.start, "details", 7)) {
                if (!take_call(c, e, 1))
                    return 0;
            } else if (*start == '{' || *start == '[') {
                if (!skip_nested(c))
                    return 0;
            } else {
                if (!take_scalar(c, &value))
                    return 0;
                const int is_string = value.what == STRING;
                Piece piece = {start, c->at};
                if (is_string) {
                    piece.at = value.text.start;
                    piece.end = piece.at + value.text.length;
                }
                set_field(e, &key, piece, is_string, is_inside);
            }
        }
        if (!skip_space(c))
            return 0;
        if (*c->at == '}') {
            c->at++;
            return 1;
        }
        if (*c->at != ',')
            return lost(c, 1);
        c->at++;
    }
}

static int is_event(const Event *e)
{
    if (!e->has_time || e->is_chrome)
        return 0;
    if (e->has_op_id)
        return e->id != UNKNOWN && (e->phase || e->name.at != NULL);
    if (e->has_event_id)
        return e->number || e->phase || e->type.at != NULL || e->name.at != NULL;
    return e->has_func && e->phase && e->type.at != NULL && e->name.at != NULL;
}

/* Say what kind of line it is, and what it does. */
static void settle(Event *e)
{
    static const uint8_t PHASES[] = {0, 'B', 'E', 'I', 'I', 'I', 'B', 'E'};
    e->clock = OF_FILE;
    if (e->has_op_id) {
        e->form = HOOK;
        if (e->phase != 'E')
            e->phase = 'B';
    } else if (e->number) {
        e->form = NUMBERED;
        e->phase = PHASES[e->number];
    } else if (e->has_event_id) {
        e->form = PROBE;
        if (e->phase != 'B' && e->phase != 'E')
            e->phase = 'I';
    } else {
        e->form = ENTRY;
        e->phase = 'I';
    }
    if (e->result != UNKNOWN && e->result)
        e->flags |= IS_FAILED;
}

/* ---- text of strace and bpftrace ---- */

/* HH:MM:SS.fraction, or seconds with a fraction; NULL where it is none. */
static const uint8_t *clock_of(const uint8_t *at, const uint8_t *end, Event *e)
{
    if (end - at >= 9 && is_digit(at[0]) && is_digit(at[1]) && at[2] == ':' &&
        is_digit(at[3]) && is_digit(at[4]) && at[5] == ':' && is_digit(at[6]) &&
        is_digit(at[7])) {
        const int64_t h = (at[0] - '0') * 10 + at[1] - '0';
        const int64_t m = (at[3] - '0') * 10 + at[4] - '0';
        int64_t s;
        const uint8_t *const behind = decimal(at + 6, end, &s, &e->nano);
        if (h > 23 || m > 59 || behind == NULL || s > 60)
            return NULL;
        e->whole = (h * 60 + m) * 60 + s;
        e->clock = OF_DAY;
        return behind;
    }
    const uint8_t *p = at;
    while (p < end && is_digit(*p))
        p++;
    if (p == at || p >= end || *p != '.')
        return NULL;
    p = decimal(at, end, &e->whole, &e->nano);
    /* `strace -r` writes what has passed since the line before. */
    if (p != NULL)
        e->clock = e->whole >= 100000000 ? SINCE_EPOCH : SINCE_LINE_BEFORE;
    return p;
}

static const uint8_t *unsigned_number(const uint8_t *at, const uint8_t *end,
                                      int64_t *value)
{
    const uint8_t *p = at;
    for (*value = 0; p < end && is_digit(*p) && p - at < DIGITS; p++)
        *value = *value * 10 + (*p - '0');
    return p == at ? NULL : p;
}

/* What a call returned and how long it took: ") = -1 EINVAL (…) <0.000007>". */
static int take_outcome(const uint8_t *at, const uint8_t *end, Event *e)
{
    if (end > at && end[-1] == '>') {
        const uint8_t *const open = memrchr(at, '<', (size_t)(end - at));
        int64_t whole;
        int32_t nano;
        if (open != NULL && decimal(open + 1, end - 1, &whole, &nano) == end - 1) {
            e->duration = (double)whole * 1e9 + nano;
            for (end = open; end > at && end[-1] == ' ';)
                end--;
        }
    }
    for (const uint8_t *p = end; p > at;) {
        p = memrchr(at, '=', (size_t)(p - at));
        if (p == NULL)
            return 0;
        const uint8_t *before = p;
        while (before > at && before[-1] == ' ')
            before--;
        if (before == at || before[-1] != ')' || before == p)
            continue;
        p = blanks(p + 1, end);
        if (begins(p, end, "-1")) {
            const uint8_t *word = blanks(p + 2, end), *stop = word;
            while (stop < end && is_word(*stop))
                stop++;
            e->flags |= IS_FAILED;
            e->result = -1;
            e->way = (Piece){word, stop};
            return 1;
        }
        return p < end && (is_digit(*p) || *p == '?');
    }
    return 0;
}

static int take_strace(const uint8_t *at, const uint8_t *end, Event *e)
{
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    at = blanks(at, end);
    int64_t pid;
    const uint8_t *p = NULL;
    if (begins(at, end, "[pid"))
        p = unsigned_number(blanks(at + 4, end), end, &pid);
    if (p != NULL && p < end && *p == ']') {
        e->tid = pid;
        at = blanks(p + 1, end);
    } else {
        p = unsigned_number(at, end, &pid);
        if (p != NULL && p < end && *p == ' ') {
            e->tid = pid;
            at = blanks(p, end);
        }
    }
    at = clock_of(at, end, e);
    if (at == NULL || at >= end || *at != ' ')
        return 0;
    at = blanks(at, end);
    e->form = STRACE;
    e->has_time = 1;
    if (begins(at, end, "--- ") || begins(at, end, "+++ ")) {
        const uint8_t *const from = at + 4, *stop = from;
        while (stop < end && (is_word(*stop) || (*at == '+' && *stop == ' ')))
            stop++;
        while (stop > from && stop[-1] == ' ')
            stop--;
        e->phase = 'I';
        e->name = (Piece){from, stop};
        return stop > from;
    }
    const int is_resumed = begins(at, end, "<... ");
    const uint8_t *const name = is_resumed ? at + 5 : at;
    const uint8_t *stop = name;
    while (stop < end && is_word(*stop))
        stop++;
    if (stop == name || is_digit(*name))
        return 0;
    e->name = (Piece){name, stop};
    if (is_resumed) {
        e->phase = 'E';
        if (!begins(stop, end, " resumed>"))
            return 0;
        take_outcome(stop + 9, end, e);
        return 1;
    }
    if (stop >= end || *stop != '(')
        return 0;
    if (end - stop > 16 && !memcmp(end - 16, "<unfinished ...>", 16)) {
        e->phase = 'B';
        return 1;
    }
    e->phase = 'X';
    if (!take_outcome(stop, end, e))
        e->flags |= IS_CUT;
    return 1;
}

static int take_probe_text(const uint8_t *at, const uint8_t *end, Event *e)
{
    static const char *const WORDS[] = {"[MEM]", "[COPY]", "[KERNEL]"};
    int64_t number;
    at = blanks(at, end);
    e->form = PROBE_TEXT;
    for (int i = 0; i < 3; i++)
        if (begins(at, end, WORDS[i])) {
            const uint8_t *p = at + strlen(WORDS[i]), *digits = p;
            e->type = (Piece){at + 1, p - 1};
            e->phase = 'I';
            e->clock = OF_ROW_BEFORE;
            while (digits < end && !is_digit(*digits))
                digits++;
            p = unsigned_number(digits, end, &number);
            if (p != NULL && begins(p, end, " bytes"))
                e->size = number;
            return 1;
        }
    const uint8_t *p = decimal(at, end, &e->whole, &e->nano);
    if (p == NULL || p >= end || (*p != ' ' && *p != '\t') || !is_digit(*at))
        return 0;
    p = unsigned_number(blanks(p, end), end, &e->tid);
    if (p == NULL)
        return 0;
    p = blanks(p, end);
    p = unsigned_number(p + (p < end && *p == '-'), end, &number);
    if (p == NULL)
        return 0;
    e->depth = smaller(number, INT16_MAX);
    p = blanks(p, end);
    if (begins(p, end, "\xE2\x86\x92"))
        e->phase = 'B';
    else if (begins(p, end, "\xE2\x86\x90"))
        e->phase = 'E';
    else
        return 0;
    p = blanks(p + 3, end);
    const uint8_t *const name = p;
    while (p < end && *p != ' ' && *p != '\t')
        p++;
    if (p == name)
        return 0;
    e->name = short_name((Piece){name, p});
    e->has_time = 1;
    p = blanks(p, end);
    int64_t whole;
    int32_t nano;
    const uint8_t *const behind = decimal(p, end, &whole, &nano);
    if (behind != NULL && whole >= 0)
        e->duration = ((double)whole + nano * 1e-9) * 1e3;
    return 1;
}

/* ---- texts ---- */

static int32_t number_of(CallTexts *texts, const uint8_t *data, Piece piece)
{
    const int64_t n = smaller(piece.end - piece.at, LOOKED_AT);
    if (piece.at == NULL || n <= 0)
        return -1;
    uint64_t hash = texts->secret;
    for (int64_t i = 0; i < n; i++)
        hash = (hash ^ piece.at[i]) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    const uint64_t mask = (uint64_t)texts->n_slots - 1;
    for (uint64_t slot = hash & mask;; slot = (slot + 1) & mask) {
        const int32_t known = texts->slots[slot] - 1;
        if (known < 0) {
            const int64_t new = texts->count++;
            texts->slots[slot] = (int32_t)new + 1;
            texts->offset[new] = piece.at - data;
            texts->length[new] = (int32_t)n;
            return (int32_t)new;
        }
        if (texts->length[known] == n && !memcmp(data + texts->offset[known], piece.at, (size_t)n))
            return known;
    }
}

static void put(const CallRows *rows, int64_t row, CallTexts *texts, const uint8_t *data,
                int64_t line, Piece piece, const Event *e)
{
    rows->line[row] = line;
    rows->offset[row] = piece.at - data;
    rows->length[row] = (int32_t)smaller(piece.end - piece.at, INT32_MAX);
    rows->whole[row] = e->whole;
    rows->nano[row] = e->nano;
    rows->clock[row] = e->clock;
    rows->form[row] = e->form == NUMBERED ? (uint8_t)(e->form | e->number << 4) : e->form;
    rows->phase[row] = e->phase;
    rows->flags[row] = e->flags;
    rows->id[row] = e->id;
    rows->pid[row] = e->pid;
    rows->tid[row] = e->tid;
    rows->depth[row] = (int16_t)e->depth;
    rows->name[row] = number_of(texts, data, e->name);
    rows->type[row] = number_of(texts, data, e->type);
    rows->way[row] = number_of(texts, data, e->way);
    const int fits = e->result > INT32_MIN && e->result <= INT32_MAX;
    rows->result[row] = e->result == UNKNOWN || !fits ? NO_RESULT : (int32_t)e->result;
    rows->size[row] = e->size;
    rows->address[row] = e->address;
    rows->rate[row] = e->rate;
    rows->duration[row] = e->duration;
}

/* What a line is, beside its rows. */
enum { WHOLE = 0, BROKEN = 1, REPAIRED = 2, FOREIGN = 4 };

/* Read the next event of a line; returns where to go on (`end`: the line is done), and
 * in `marks` what was met on the way. */
static const uint8_t *next_event(const uint8_t *at, const uint8_t *end, Event *e,
                                 int *has_event, int *marks)
{
    blank(e);
    *has_event = 0;
    const uint8_t *open = at < end && *at == '{' ? at : found(at, end, "{\"");
    if (open == NULL) {
        if (take_strace(at, end, e)) {
            *has_event = !(e->flags & IS_CUT);
            *marks |= e->flags & IS_CUT ? BROKEN : WHOLE;
            return end;
        }
        blank(e);
        if (take_probe_text(at, end, e)) {
            *has_event = 1;
            return end;
        }
        const uint8_t *const look = at + smaller(end - at, LOOKED_AT);
        *marks |= found(at, look, "\"op_id\"") || found(at, look, "\"event_id\"")
            ? BROKEN : FOREIGN;
        return end;
    }
    if (open > at && take_strace(at, end, e) && !(e->flags & IS_CUT)) { /* {"…"} in it */
        *has_event = 1;
        return end;
    }
    blank(e);
    Cursor c = {open, end, 0};
    const int is_whole = take_call(&c, e, 0);
    if (is_event(e)) {
        settle(e);
        *has_event = 1;
        if (!is_whole)
            e->flags |= IS_REPAIRED;
        if (e->flags & IS_REPAIRED)
            *marks |= REPAIRED;
    } else if (e->is_chrome || (is_whole && !e->has_op_id && !e->has_event_id)) {
        *marks |= FOREIGN;
    } else {
        *marks |= BROKEN;
    }
    /* Behind damage another object may begin, where lines ran into one another. */
    const uint8_t *const next = is_whole ? c.at : found(open + 1, end, "{\"ts\"");
    if (!is_whole && next == NULL) {
        const uint8_t *const other = found(open + 1, end, "{\"event_id\"");
        return other == NULL ? end : other;
    }
    return next;
}

static int is_rest(const uint8_t *at, const uint8_t *end)
{
    for (; at < end; at++)
        if (!is_space(*at) && *at != ',' && *at != ']' && *at != '[')
            return 0;
    return 1;
}

/* Read whole lines; `is_last`: the text may end without a line end. */
EXPORT int64_t ggscope_scan_calls(const uint8_t *data, int64_t size, int64_t is_last,
                                  int64_t capacity, const CallRows *rows, CallTexts *texts,
                                  CallTally *tally)
{
    int64_t row = 0, n_lines = 0, at = 0;
    int marks = 0;
    memset(tally, 0, sizeof *tally);
    tally->first_broken = tally->first_repaired = tally->first_other = -1;
    while (at < size && row < capacity &&
           texts->count + TEXTS_PER_ROW <= texts->capacity) {
        const uint8_t *const feed = memchr(data + at, '\n', (size_t)(size - at));
        if (feed == NULL && !is_last)
            break;
        const uint8_t *const line_end = feed == NULL ? data + size : feed;
        const uint8_t *end = line_end, *from = data + at;
        while (end > from && (end[-1] == '\r' || end[-1] == ' '))
            end--;
        if (!is_rest(from, end)) {
            Event e;
            int has_event;
            const uint8_t *const next = next_event(from, end, &e, &has_event, &marks);
            if (has_event) {
                put(rows, row, texts, data, n_lines, (Piece){from, next}, &e);
                row++;
            }
            if (next < end && !is_rest(next, end)) {
                at = next - data;
                continue;
            }
        }
        if (marks & BROKEN && !tally->n_broken++)
            tally->first_broken = n_lines;
        else if (marks & REPAIRED && !(marks & BROKEN) && !tally->n_repaired++)
            tally->first_repaired = n_lines;
        else if (marks == FOREIGN && !tally->n_other++)
            tally->first_other = n_lines;
        marks = 0;
        at = line_end - data + (feed != NULL);
        n_lines++;
    }
    tally->n_rows = row, tally->n_lines = n_lines, tally->consumed = at;
    return row;
}
