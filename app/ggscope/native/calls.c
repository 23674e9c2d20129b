/* Lines of traces of CUDA calls: JSON objects of call hooks, the text of bpftrace and of
 * strace. One row per event.
 *
 * JSON is taken as far as it is sound: what stands before damage counts where it states
 * what happened when. Several objects may stand in one line, behind anything.
 *
 * Nothing here allocates or keeps state; the caller gives whole lines. Texts are numbered
 * in a table of the caller, hashed with a secret of it.
 */
#define _GNU_SOURCE
#include <string.h>

#include "json_text.h"
#include "native.h"
#include "strace_text.h"
#include "text_lines.h"

/* readers/cuda/lines.py: Form, Clock and the constants */
enum { HOOK, PROBE, ENTRY, NUMBERED, PROBE_TEXT, STRACE };
enum { IS_REPAIRED = 1, IS_FAILED = 2, IS_CUT = 4 };
enum { TEXTS_PER_ROW = 3 };
#define UNKNOWN INT64_MIN
#define NO_RESULT INT32_MIN
#define NOT_READY 600 /* CUDA_ERROR_NOT_READY */

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

typedef struct {
    int64_t n_rows, n_lines, consumed;
    int64_t n_broken, n_repaired, n_other; /* lines */
    int64_t first_broken, first_repaired, first_other; /* in the block; -1: none */
    int64_t n_dropped;           /* events that the writers of the file say to lack */
    int64_t n_begun, n_ended;    /* first and last lines of ggscope's own hook */
    int64_t n_left_out;          /* functions that it could not record */
    int64_t epoch;               /* ns from 1970 at this time of the file; 0: unknown */
    int64_t epoch_whole, epoch_nano;
} CallTally;

typedef struct {
    Piece name, type, way;
    int64_t whole, id, pid, tid, size, depth;
    uint64_t address;
    double rate, duration;
    int64_t result;
    int32_t nano;
    uint8_t clock, form, phase, flags;
    uint8_t has_time, has_op_id, has_event_id, has_func, is_chrome, number;
    uint8_t is_note, is_end;
    int64_t dropped, left_out, epoch; /* of a note */
} Event;

static void blank(Event *e)
{
    memset(e, 0, sizeof *e);
    e->id = e->pid = e->tid = UNKNOWN;
    e->size = e->depth = -1;
    e->rate = e->duration = -1;
    e->result = UNKNOWN;
}

/* ---- numbers ---- */

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

/* A time since 1970, which has 19 digits; 0 where it is none. */
static int64_t nanoseconds(Piece piece)
{
    uint64_t value = 0;
    if (piece.end - piece.at > 19)
        return 0;
    for (const uint8_t *p = piece.at; p < piece.end; p++) {
        if (!is_digit(*p))
            return 0;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    return value <= INT64_MAX ? (int64_t)value : 0;
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
    } else if (is_key(key, "direction") || (is_inside && is_key(key, "kernel"))) {
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
    } else if (is_key(key, "trace")) {
        e->is_note = value.end - value.at == 12 &&
                    !memcmp(value.at, "ggscope-cuda", 12);
    } else if (is_key(key, "end")) {
        e->is_end = !is_string && value.at < value.end && *value.at == 't';
    } else if (is_key(key, "dropped")) {
        e->dropped = integer(value, &number) && number > 0 ? number : 0;
    } else if (is_key(key, "functions_left_out")) {
        e->left_out = integer(value, &number) && number > 0 ? number : 0;
    } else if (is_key(key, "epoch_ns")) {
        e->epoch = nanoseconds(value);
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

/* Not an error: what was asked for goes on. */
static int is_not_ready(const Event *e)
{
    return e->result == NOT_READY && begins(e->name.at, e->name.end, "cu") &&
           found(e->name.at, e->name.end, "Query") != NULL;
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
    if (e->result != UNKNOWN && e->result && !is_not_ready(e))
        e->flags |= IS_FAILED;
}

/* ---- text of strace and bpftrace ---- */

static int take_strace(const uint8_t *at, const uint8_t *end, Event *e)
{
    StraceLine line;
    if (!strace_line(at, end, &line))
        return 0;
    e->form = STRACE;
    e->has_time = 1;
    e->tid = line.tid;
    e->whole = line.whole, e->nano = line.nano, e->clock = line.clock;
    e->phase = line.phase;
    e->name = line.name;
    e->duration = line.duration;
    if (line.is_failed) {
        e->flags |= IS_FAILED;
        e->result = -1;
        e->way = line.error;
    }
    if (line.is_cut)
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

static void put(const CallRows *rows, int64_t row, TextTable *texts, const uint8_t *data,
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

static int64_t sum(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* What the hook of ggscope says of the file, in its first and last line. */
static void take_note(const Event *e, CallTally *tally)
{
    tally->n_begun += !e->is_end;
    tally->n_ended += e->is_end;
    tally->n_dropped = sum(tally->n_dropped, e->dropped);
    tally->n_left_out = sum(tally->n_left_out, e->left_out);
    if (e->epoch && e->has_time && !tally->epoch) {
        tally->epoch = e->epoch;
        tally->epoch_whole = e->whole;
        tally->epoch_nano = e->nano;
    }
}

/* "Lost 12 events", as bpftrace says where its buffers were full. */
static int64_t lost_events(const uint8_t *at, const uint8_t *end)
{
    int64_t number;
    if (!begins(at, end, "Lost "))
        return 0;
    const uint8_t *const p = unsigned_number(at + 5, end, &number);
    return p != NULL && begins(p, end, " events") ? number : 0;
}

/* What a line is, beside its rows. */
enum { WHOLE = 0, BROKEN = 1, REPAIRED = 2, FOREIGN = 4 };

/* Read the next event of a line; returns where to go on (`end`: the line is done), and
 * in `marks` what was met on the way. */
static const uint8_t *next_event(const uint8_t *at, const uint8_t *end, Event *e,
                                 int *has_event, int *marks, CallTally *tally)
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
        const int64_t lost = lost_events(blanks(at, end), end);
        tally->n_dropped = sum(tally->n_dropped, lost);
        if (lost)
            return end;
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
    if (e->is_note && is_whole && !e->has_op_id) {
        take_note(e, tally);
    } else if (is_event(e)) {
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
                                  int64_t capacity, const CallRows *rows, TextTable *texts,
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
            const uint8_t *const next = next_event(from, end, &e, &has_event, &marks,
                                                   tally);
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
