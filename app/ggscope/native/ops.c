/* Lines in which ggml says which op runs where, and for how long: the scheduler's
 * (GGML_SCHED_DEBUG), those of Vulkan's performance logger and of Hexagon's profile.
 *
 * They stand in logs, behind prefixes of any kind; since llama.cpp's logger writes its
 * clock with every piece that ggml prints, a clock may stand in the middle of a line.
 *
 * Nothing here allocates or keeps state; the caller gives whole lines, and the tally of
 * the call before. Texts are copied to an arena of the caller and numbered there, hashed
 * with a secret of it: clocks and colours are taken out of lines before.
 */
#define _GNU_SOURCE
#include <string.h>

#include "native.h"
#include "text_arena.h"

enum { TEXTS = 5, VALUES = 4, SCRATCH = 16384, LONGEST = 256 };
enum { ROWS_PER_LINE = 64, MISSES = 8, NEEDLES = 5 };

/* readers/common/op_lines.py: Kind */
enum {
    SPLIT = 1, INPUT, NODE, SOURCE, TIMINGS, TIMED_OP, TOTAL, PROFILED_OP, BATCH, EVENT
};

typedef struct {
    int64_t *line, *offset;   /* of the line, in the block */
    int32_t *length;
    int64_t *time;            /* ns since the start of the program, -1: none */
    uint8_t *kind;
    int32_t *text;            /* TEXTS numbers of texts, -1: none */
    int64_t *value;           /* VALUES numbers, -1: none */
} OpRows;

typedef struct {
    int64_t n_lines, consumed;
    int64_t n_broken, first_broken; /* lines that begin like one and state nothing */
    int64_t n_other;                /* lines with text that are none */
    int64_t timings;                /* in: whether Vulkan's list goes on; lines left */
    int64_t prefix;                 /* bytes before its lines */
} OpTally;

typedef struct {
    const uint8_t *at, *end;
} Piece;

typedef struct {
    const OpRows *rows;
    TextArena *texts;
    int64_t row, line, offset, time;
    int32_t length;
} Writer;

static const char *const NEEDLE[NEEDLES] = {
    "node #", "## SPLIT #", "profile-op ", "trace-", "Vulkan Timings:"};

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static const uint8_t *find(const uint8_t *at, const uint8_t *end, const char *text)
{
    return at < end ? memmem(at, (size_t)(end - at), text, strlen(text)) : NULL;
}

static const uint8_t *skip(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static Piece trimmed(const uint8_t *at, const uint8_t *end)
{
    at = skip(at, end);
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (Piece){at, end};
}

/* A whole number; NULL where there is none. Too large ones are INT64_MAX. */
static const uint8_t *whole(const uint8_t *at, const uint8_t *end, int64_t *value)
{
    const uint8_t *first = at;
    int64_t number = 0;
    for (; at < end && is_digit(*at); at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *at - '0', &number))
            number = INT64_MAX;
    *value = number;
    return at > first ? at : NULL;
}

/* A decimal number as iostream writes it, times 10^scale and cut; NULL where there is
 * none. Too large ones, inf and nan are -1. */
static const uint8_t *decimal(const uint8_t *at, const uint8_t *end, int scale, int64_t *value)
{
    int64_t number = 0;
    int places = 0, n_digits = 0, power = 0;
    if (end - at >= 3 && (!memcmp(at, "inf", 3) || !memcmp(at, "nan", 3))) {
        *value = -1;
        return at + 3;
    }
    for (; at < end && (is_digit(*at) || (*at == '.' && !places)); at++) {
        if (*at == '.') {
            places = 1;
            continue;
        }
        n_digits++;
        if (number > INT64_MAX / 10 - 10) {
            power += places == 0; /* more digits than count */
            continue;
        }
        number = number * 10 + (*at - '0');
        if (places)
            power--;
    }
    if (!n_digits)
        return NULL;
    if (end - at >= 2 && (*at == 'e' || *at == 'E')) {
        const uint8_t *p = at + 1;
        int minus = *p == '-';
        p += *p == '-' || *p == '+';
        int64_t exponent;
        const uint8_t *stop = whole(p, end, &exponent);
        if (stop != NULL) {
            exponent = smaller(exponent, 1000);
            power += minus ? -(int)exponent : (int)exponent;
            at = stop;
        }
    }
    power += scale;
    for (; power > 0 && number > 0; power--)
        if (__builtin_mul_overflow(number, 10, &number))
            number = -1;
    for (; power < 0 && number > 0; power++)
        number /= 10;
    *value = number;
    return at;
}

/* ---- rows and texts ---- */

static int32_t number_of(TextArena *texts, Piece piece)
{
    return copied_text(texts, piece.at, smaller(piece.end - piece.at, LONGEST));
}

static void put(Writer *w, uint8_t kind, const Piece text[TEXTS], const int64_t value[VALUES])
{
    const OpRows *rows = w->rows;
    const int64_t row = w->row++;
    rows->line[row] = w->line;
    rows->offset[row] = w->offset;
    rows->length[row] = w->length;
    rows->time[row] = w->time;
    rows->kind[row] = kind;
    for (int i = 0; i < TEXTS; i++)
        rows->text[row * TEXTS + i] = number_of(w->texts, text[i]);
    memcpy(rows->value + row * VALUES, value, VALUES * sizeof *value);
}

/* ---- lines as they were meant ---- */

/* M.SS.mmm.uuu L of llama.cpp's logger; returns where it ends, NULL where it is none. */
static const uint8_t *clock_end(const uint8_t *at, const uint8_t *end, int64_t *ns)
{
    static const char FORM[] = ".00.000.000 ";
    int64_t minutes, part[3] = {0, 0, 0};
    const uint8_t *p = whole(at, end, &minutes);
    if (p == NULL || p - at > 7 || end - p < 13)
        return NULL;
    for (int i = 0, k = 0; i < 12; i++) {
        if (FORM[i] != '0' ? p[i] != (uint8_t)FORM[i] : !is_digit(p[i]))
            return NULL;
        if (FORM[i] == '0')
            part[k] = part[k] * 10 + (p[i] - '0');
        else
            k += i > 0;
    }
    if (p[12] < 'A' || p[12] > 'Z')
        return NULL;
    *ns = ((minutes * 60 + part[0]) * 1000000 + part[1] * 1000 + part[2]) * 1000;
    p += 13;
    return p < end && *p == ' ' ? p + 1 : p;
}

/* Copies a line without escape sequences and clocks; returns its length. `time` is the
 * first clock of it. A clock in the middle is one piece's end and the next one's begin. */
static int64_t plain(const uint8_t *at, const uint8_t *end, uint8_t *scratch, int64_t *time)
{
    int64_t n = 0, ns;
    *time = -1;
    while (at < end && n < SCRATCH) {
        if (*at == 0x1B) {
            at++;
            if (at < end && *at == '[')
                for (at++; at < end && (*at < 0x40 || *at > 0x7E); at++)
                    ;
            at += at < end;
            continue;
        }
        if (is_digit(*at) && (n == 0 || !is_digit(scratch[n - 1]))) {
            const uint8_t *stop = clock_end(at, end, &ns);
            if (stop != NULL) {
                *time = *time < 0 ? ns : *time;
                at = stop;
                continue;
            }
        }
        scratch[n++] = *at++;
    }
    return n;
}

/* ---- the scheduler ---- */

/* "(  12K)" as the scheduler writes sizes, cut to whole KiB or MiB. */
static const uint8_t *size_end(const uint8_t *at, const uint8_t *end, int64_t *size, int64_t *unit)
{
    if (at == end || *at != '(')
        return NULL;
    at = whole(skip(at + 1, end), end, size);
    if (at == NULL || end - at < 2 || (*at != 'K' && *at != 'M') || at[1] != ')')
        return NULL;
    *unit = *at == 'K' ? 1 << 10 : 1 << 20;
    if (__builtin_mul_overflow(*size, *unit, size))
        *size = *unit = -1;
    return at + 2;
}

/* Finds the next size at or behind `at`; returns where it begins, NULL where none is. */
static const uint8_t *next_size(const uint8_t *at, const uint8_t *end, const uint8_t **behind,
                                int64_t *size, int64_t *unit)
{
    while (at < end && (at = memchr(at, '(', (size_t)(end - at))) != NULL) {
        if ((*behind = size_end(at, end, size, unit)) != NULL)
            return at;
        at++;
    }
    return NULL;
}

/* " [CUDA0 1.dst   ]": a name cut to 5 (once 4) and a cause of 8 characters. */
static const uint8_t *backend_end(const uint8_t *at, const uint8_t *end, Piece *backend,
                                  Piece *cause)
{
    if (end - at < 2 || at[0] != ' ' || at[1] != '[')
        return NULL;
    at += 2;
    for (int width = 14; width >= 13; width--) {
        if (end - at > width && at[width] == ']' && at[width - 9] == ' ') {
            *backend = trimmed(at, at + width - 9);
            *cause = trimmed(at + width - 8, at + width);
            return at + width + 1;
        }
    }
    const uint8_t *stop = memchr(at, ']', (size_t)smaller(end - at, 64));
    if (stop == NULL)
        return NULL;
    Piece both = trimmed(at, stop);
    const uint8_t *blank = both.at < both.end
                               ? memchr(both.at, ' ', (size_t)(both.end - both.at))
                               : NULL;
    *backend = (Piece){both.at, blank != NULL ? blank : both.end};
    *cause = blank != NULL ? trimmed(blank, both.end) : (Piece){NULL, NULL};
    return stop + 1;
}

static int put_split(Writer *w, const uint8_t *at, const uint8_t *end)
{
    int64_t number, n_inputs = -1;
    const uint8_t *p = whole(at, end, &number), *hash = NULL, *mark;
    if (p == NULL || end - p < 2 || *p != ':')
        return 0;
    const uint8_t *name = p + 1, *stop = end;
    for (mark = name; (mark = find(mark, end, " # ")) != NULL; mark += 3) {
        const uint8_t *q = whole(skip(mark + 3, end), end, &n_inputs);
        if (q != NULL && end - q >= 7 && !memcmp(q, " inputs", 7)) {
            hash = mark, stop = q + 7;
            break;
        }
    }
    if (hash == NULL)
        return 0;
    const Piece none = {NULL, NULL};
    const Piece head[TEXTS] = {trimmed(name, hash), none, none, none, none};
    put(w, SPLIT, head, (int64_t[]){number, n_inputs, -1, -1});
    int64_t index = 0, size, unit;
    while (index < ROWS_PER_LINE - 2) {
        const uint8_t *open = find(stop, end, "["), *behind;
        if (open == NULL)
            break;
        const uint8_t *at_size = next_size(open, end, &behind, &size, &unit);
        while (at_size != NULL && (behind == end || *behind != ']'))
            at_size = next_size(behind, end, &behind, &size, &unit);
        if (at_size == NULL)
            break;
        const Piece input[TEXTS] = {trimmed(open + 1, at_size), none, none, none, none};
        put(w, INPUT, input, (int64_t[]){index++, size, unit, -1});
        stop = behind + 1;
    }
    return 1;
}

static int put_node(Writer *w, const uint8_t *at, const uint8_t *end)
{
    int64_t number, size, unit, is_computed = -1;
    const uint8_t *p = whole(skip(at, end), end, &number), *behind;
    if (p == NULL || end - p < 4 || p[0] != ' ' || p[1] != '(')
        return 0;
    const uint8_t *close = find(p + 2, end, "):");
    if (close == NULL || close - p > 80)
        return 0;
    const Piece op = trimmed(p + 2, close);
    p = close + 2;
    const uint8_t *at_size = next_size(p, end, &behind, &size, &unit);
    Piece backend, cause;
    const Piece none = {NULL, NULL};
    if (at_size == NULL || (close = backend_end(behind, end, &backend, &cause)) == NULL)
        return 0;
    const Piece name = trimmed(p, at_size);
    p = close;
    const uint8_t *colon = memchr(p, ':', (size_t)smaller(end - p, 64));
    const uint8_t *flag = find(p, colon != NULL ? colon : end, ",c=");
    if (flag != NULL && flag + 3 < end && is_digit(flag[3]))
        is_computed = flag[3] != '0';
    p = colon != NULL ? colon + 1 : end;
    const Piece node[TEXTS] = {op, name, backend, cause, none};
    put(w, NODE, node, (int64_t[]){number, size, unit, is_computed});
    for (int64_t index = 0; index < ROWS_PER_LINE - 2; index++) {
        at_size = next_size(p, end, &behind, &size, &unit);
        if (at_size == NULL || (close = backend_end(behind, end, &backend, &cause)) == NULL)
            break;
        const Piece source[TEXTS] = {none, trimmed(p, at_size), backend, cause, none};
        put(w, SOURCE, source, (int64_t[]){index, size, unit, -1});
        p = close;
    }
    return 1;
}

/* ---- Vulkan ---- */

/* "NAME: 24 x 120.5 us = 2892 us (12.3 GFLOPS/s)", before that "NAME: 64 x 263.644 ms",
 * which are microseconds all the same: ns / 1000. */
static int put_timed(Writer *w, const uint8_t *at, const uint8_t *end)
{
    const Piece none = {NULL, NULL};
    int64_t count, mean, total = -1, rate = -1;
    while (end > at && (end[-1] == ' ' || end[-1] == '.' || end[-1] == '\r'))
        end--;
    if (end - at > 12 && !memcmp(at, "Total time: ", 12)) {
        const uint8_t *p = decimal(at + 12, end, 3, &total);
        if (p == NULL || end - p != 3 || memcmp(p, " us", 3))
            return 0;
        const Piece text[TEXTS] = {none, none, none, none, none};
        put(w, TOTAL, text, (int64_t[]){-1, -1, total, -1});
        return 2;
    }
    for (const uint8_t *mark = at; (mark = find(mark, end, ": ")) != NULL; mark += 2) {
        const uint8_t *p = whole(mark + 2, end, &count);
        if (p == NULL || end - p < 3 || memcmp(p, " x ", 3) || mark == at)
            continue;
        p = decimal(p + 3, end, 3, &mean);
        if (p == NULL || end - p < 3 || (memcmp(p, " us", 3) && memcmp(p, " ms", 3)))
            continue;
        p += 3;
        if (end - p > 3 && !memcmp(p, " = ", 3)) {
            p = decimal(p + 3, end, 3, &total);
            if (p == NULL || end - p < 3 || memcmp(p, " us", 3))
                continue;
            p += 3;
            if (end - p > 2 && !memcmp(p, " (", 2)) {
                const uint8_t *q = decimal(p + 2, end, 9, &rate);
                if (q == NULL || find(q, end, " GFLOPS/s)") != q)
                    rate = -1;
                else
                    p = end;
            }
        }
        if (p != end)
            continue;
        const Piece text[TEXTS] = {trimmed(at, mark), none, none, none, none};
        put(w, TIMED_OP, text, (int64_t[]){count, mean, total, rate});
        return 1;
    }
    return 0;
}

/* ---- Hexagon ---- */

/* The name between "ggml-hex: " and what follows. */
static Piece session_before(const uint8_t *line, const uint8_t *at)
{
    const uint8_t *head = find(line, at, "ggml-hex: ");
    return head == NULL ? (Piece){NULL, NULL} : trimmed(head + 10, at);
}

/* The number behind a word; -1 where it is not there. */
static int64_t behind(const uint8_t *at, const uint8_t *end, const char *word, int scale)
{
    int64_t value;
    const uint8_t *p = find(at, end, word);
    if (p == NULL)
        return -1;
    p += strlen(word);
    if (scale)
        return decimal(p, end, scale, &value) != NULL ? value : -1;
    return whole(p, end, &value) != NULL && value != INT64_MAX ? value : -1;
}

static int put_profiled(Writer *w, const uint8_t *line, const uint8_t *word, const uint8_t *end)
{
    const uint8_t *at = word + strlen("profile-op "), *p = at;
    while (p < end && *p != '|' && *p != ':' && *p != ' ')
        p++;
    if (p == at || p == end || *p == ' ')
        return 0;
    const char *const mark = *p == '|' ? "|" : " : ";
    const int64_t width = (int64_t)strlen(mark);
    const Piece op = {at, p};
    Piece field[4] = {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}, {NULL, NULL}};
    const uint8_t *tail = NULL, *next;
    p++;
    for (int i = 0; i < 8; i++) {
        const Piece rest = trimmed(p, end);
        if (rest.end - rest.at > 5 &&
            (!memcmp(rest.at, "usec ", 5) || !memcmp(rest.at, "op-us", 5))) {
            tail = rest.at;
            break;
        }
        next = find(p, end, mark);
        if (next == NULL)
            break;
        if (i < 4)
            field[i] = trimmed(p, next);
        p = next + width;
    }
    if (tail == NULL)
        return 0;
    const int64_t value[VALUES] = {behind(tail, end, "usec ", 0), behind(tail, end, "cycles ", 0),
                                   behind(tail, end, " start ", 0),
                                   behind(tail, end, " mhz ", 6)};
    if (value[0] < 0 || value[1] < 0)
        return 0;
    const Piece text[TEXTS] = {op, field[0], session_before(line, word), field[1], field[2]};
    const int is_batch = op.end - op.at == 7 && !memcmp(op.at, "OPBATCH", 7);
    put(w, is_batch ? BATCH : PROFILED_OP, text, value);
    return 1;
}

static int put_event(Writer *w, const uint8_t *line, const uint8_t *word, const uint8_t *end)
{
    const int is_new = find(word, smaller(end - word, 10) + word, "trace-evt ") == word;
    if (!is_new && find(word, smaller(end - word, 9) + word, "trace-op ") != word)
        return -1; /* another word of a log */
    const uint8_t *at = word + (is_new ? 10 : 9);
    const uint8_t *colon = at < end ? memchr(at, ':', (size_t)smaller(end - at, 64)) : NULL;
    if (colon == NULL)
        return 0;
    const Piece none = {NULL, NULL};
    Piece name = trimmed(at, colon), op = none;
    const int64_t thread = behind(colon, end, "thread ", 0);
    const int64_t info = behind(colon, end, " info ", 0);
    if (!is_new) {
        const uint8_t *p = find(colon, end, " event ");
        if (p == NULL)
            return 0;
        const uint8_t *stop = find(p + 7, end, " ");
        op = name;
        name = trimmed(p + 7, stop == NULL ? end : stop);
    }
    const int64_t start = behind(colon, end, " start ", 0);
    const int64_t stop = behind(colon, end, " stop ", 0);
    if (thread < 0 || (start < 0) == (stop < 0) || name.at >= name.end)
        return 0;
    const Piece text[TEXTS] = {name, op, session_before(line, word), none, none};
    put(w, EVENT, text,
        (int64_t[]){thread, start < 0 ? stop : start, info, start < 0});
    return 1;
}

/* ---- all ---- */

/* Whether a line begins with a prefix of the same form: digits may differ. */
static int is_alike(const uint8_t *a, const uint8_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(is_digit(a[i]) && is_digit(b[i])))
            return 0;
    return 1;
}

/* Scans whole lines of `data`; the rest after the last line end is one, too, where
 * `is_last`. Stops where rows or texts are full: `consumed` says how far it came. */
EXPORT int64_t ggscope_scan_ops(const uint8_t *data, int64_t n, int64_t is_last, int64_t capacity,
                                const OpRows *rows, TextArena *texts, OpTally *tally)
{
    uint8_t scratch[SCRATCH];
    uint8_t prefix[128];
    const uint8_t *at = data, *stop = data + n, *ahead[NEEDLES];
    Writer w = {rows, texts, 0, 0, 0, -1, 0};
    tally->n_broken = tally->n_other = 0, tally->first_broken = -1;
    int has_prefix = 0;
    for (int i = 0; i < NEEDLES; i++)
        ahead[i] = find(at, stop, NEEDLE[i]);
    while (at < stop && w.row + ROWS_PER_LINE <= capacity &&
           texts->count + ROWS_PER_LINE * TEXTS <= texts->capacity &&
           texts->used + ROWS_PER_LINE * TEXTS * LONGEST <= texts->size) {
        const uint8_t *feed = memchr(at, '\n', (size_t)(stop - at));
        if (feed == NULL && !is_last)
            break;
        const uint8_t *end = feed == NULL ? stop : feed;
        int which = -1;
        for (int i = 0; i < NEEDLES; i++) {
            if (ahead[i] != NULL && ahead[i] < at)
                ahead[i] = find(at, stop, NEEDLE[i]);
            if (ahead[i] != NULL && ahead[i] < end && which < 0)
                which = i;
        }
        if (which >= 0 || tally->timings > 0) {
            const int64_t size = plain(at, end, scratch, &w.time);
            const uint8_t *line = scratch, *line_end = scratch + size;
            w.offset = at - data;
            w.length = (int32_t)smaller(end - at, INT32_MAX);
            const uint8_t *word = which >= 0 ? find(line, line_end, NEEDLE[which]) : NULL;
            int done = -1;
            if (word != NULL && which == 4) {
                tally->prefix = word - line < (int64_t)sizeof prefix ? word - line : 0;
                memcpy(prefix, line, (size_t)tally->prefix);
                has_prefix = 1;
                tally->timings = MISSES;
                const Piece none = {NULL, NULL};
                const Piece text[TEXTS] = {none, none, none, none, none};
                put(&w, TIMINGS, text, (int64_t[]){-1, -1, -1, -1});
                done = 1;
            } else if (word != NULL) {
                const uint8_t *rest = word + strlen(NEEDLE[which]);
                const int64_t row = w.row;
                done = which == 0   ? put_node(&w, rest, line_end)
                       : which == 1 ? put_split(&w, rest, line_end)
                       : which == 2 ? put_profiled(&w, line, word, line_end)
                                    : put_event(&w, line, word, line_end);
                /* Hexagon's end in numbers, which may be cut. */
                if (which >= 2 && done > 0 && feed == NULL)
                    w.row = row, done = 0;
            } else if (tally->timings > 0) {
                const int64_t skipped = tally->prefix;
                const int is_after = size > skipped &&
                                     (!has_prefix || is_alike(line, prefix, skipped));
                done = put_timed(&w, line + (is_after ? skipped : 0), line_end);
                tally->timings = done == 2 ? 0 : done == 1 ? MISSES : tally->timings - 1;
                done = done == 0 ? -1 : done;
            }
            if (done == 0) {
                tally->first_broken = tally->n_broken++ ? tally->first_broken : w.line;
            } else if (done < 0) {
                tally->n_other += size > 0;
            }
        } else {
            tally->n_other += end > at;
        }
        at = end + (feed != NULL);
        w.line++;
    }
    tally->n_lines = w.line;
    tally->consumed = at - data;
    return w.row;
}
