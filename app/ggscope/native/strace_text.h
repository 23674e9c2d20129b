/* A line of strace: who, when, which call, its arguments, what it returned. */
#ifndef GGSCOPE_STRACE_TEXT_H
#define GGSCOPE_STRACE_TEXT_H

#include "text_lines.h"

/* readers/common/line_clock.py: LineClock */
enum { OF_FILE, OF_DAY, SINCE_EPOCH, SINCE_LINE_BEFORE, OF_ROW_BEFORE };

typedef struct {
    Piece name, error, arguments, result;
    int64_t tid, whole;
    double duration;         /* ns, -1: not stated */
    int32_t nano;
    uint8_t clock, phase;    /* B begin, E end, X whole call, I signal or exit */
    uint8_t is_failed, is_cut;
} StraceLine;

/* HH:MM:SS.fraction, or seconds with a fraction; NULL where it is none. */
static const uint8_t *clock_of(const uint8_t *at, const uint8_t *end, int64_t *whole,
                               int32_t *nano, uint8_t *clock)
{
    if (end - at >= 9 && is_digit(at[0]) && is_digit(at[1]) && at[2] == ':' &&
        is_digit(at[3]) && is_digit(at[4]) && at[5] == ':' && is_digit(at[6]) &&
        is_digit(at[7])) {
        const int64_t h = (at[0] - '0') * 10 + at[1] - '0';
        const int64_t m = (at[3] - '0') * 10 + at[4] - '0';
        int64_t s;
        const uint8_t *const behind = decimal(at + 6, end, &s, nano);
        if (h > 23 || m > 59 || behind == NULL || s > 60)
            return NULL;
        *whole = (h * 60 + m) * 60 + s;
        *clock = OF_DAY;
        return behind;
    }
    const uint8_t *p = at;
    while (p < end && is_digit(*p))
        p++;
    if (p == at || p >= end || *p != '.')
        return NULL;
    p = decimal(at, end, whole, nano);
    /* `strace -r` writes what has passed since the line before. */
    if (p != NULL)
        *clock = *whole >= 100000000 ? SINCE_EPOCH : SINCE_LINE_BEFORE;
    return p;
}

/* What a call returned and how long it took: ") = -1 EINVAL (…) <0.000007>". */
static int take_outcome(const uint8_t *at, const uint8_t *end, StraceLine *line)
{
    if (end > at && end[-1] == '>') {
        const uint8_t *const open = memrchr(at, '<', (size_t)(end - at));
        int64_t whole;
        int32_t nano;
        if (open != NULL && decimal(open + 1, end - 1, &whole, &nano) == end - 1) {
            line->duration = (double)whole * 1e9 + nano;
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
        line->arguments = (Piece){at, before - 1};
        p = blanks(p + 1, end);
        line->result = (Piece){p, end};
        if (begins(p, end, "-1")) {
            const uint8_t *word = blanks(p + 2, end), *stop = word;
            while (stop < end && is_word(*stop))
                stop++;
            line->is_failed = 1;
            line->error = (Piece){word, stop};
            return 1;
        }
        return p < end && (is_digit(*p) || *p == '?');
    }
    return 0;
}

static int strace_line(const uint8_t *at, const uint8_t *end, StraceLine *line)
{
    memset(line, 0, sizeof *line);
    line->tid = INT64_MIN;
    line->duration = -1;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    at = blanks(at, end);
    int64_t pid;
    const uint8_t *p = NULL;
    if (begins(at, end, "[pid"))
        p = unsigned_number(blanks(at + 4, end), end, &pid);
    if (p != NULL && p < end && *p == ']') {
        line->tid = pid;
        at = blanks(p + 1, end);
    } else {
        p = unsigned_number(at, end, &pid);
        if (p != NULL && p < end && *p == ' ') {
            line->tid = pid;
            at = blanks(p, end);
        }
    }
    at = clock_of(at, end, &line->whole, &line->nano, &line->clock);
    if (at == NULL || at >= end || *at != ' ')
        return 0;
    at = blanks(at, end);
    if (begins(at, end, "--- ") || begins(at, end, "+++ ")) {
        const uint8_t *const from = at + 4, *stop = from;
        while (stop < end && (is_word(*stop) || (*at == '+' && *stop == ' ')))
            stop++;
        while (stop > from && stop[-1] == ' ')
            stop--;
        line->phase = 'I';
        line->name = (Piece){from, stop};
        return stop > from;
    }
    const int is_resumed = begins(at, end, "<... ");
    const uint8_t *const name = is_resumed ? at + 5 : at;
    const uint8_t *stop = name;
    while (stop < end && is_word(*stop))
        stop++;
    if (stop == name || is_digit(*name))
        return 0;
    line->name = (Piece){name, stop};
    if (is_resumed) {
        line->phase = 'E';
        if (!begins(stop, end, " resumed>"))
            return 0;
        take_outcome(stop + 9, end, line);
        return 1;
    }
    if (stop >= end || *stop != '(')
        return 0;
    if (end - stop > 16 && !memcmp(end - 16, "<unfinished ...>", 16)) {
        line->phase = 'B';
        line->arguments = (Piece){stop + 1, end - 16};
        return 1;
    }
    line->phase = 'X';
    line->is_cut = !take_outcome(stop + 1, end, line);
    return 1;
}

#endif
