/* JSON as writers leave it: values are found by their ends, and taken as they stand.
 *
 * Control characters in strings, NaN, commas too many or too few, and an end that is
 * missing cost nothing. No allocation, no state.
 */
#ifndef GGSCOPE_LENIENT_JSON_H
#define GGSCOPE_LENIENT_JSON_H

#include "decimals.h"
#include "text_table.h"

typedef struct {
    const uint8_t *at, *end;
} Cursor;

static inline int more(Cursor *c)
{
    while (c->at < c->end && is_blank(*c->at))
        c->at++;
    return c->at < c->end;
}

/* ---- values ---- */

/* Go behind the string that begins here; 0 where the text ends before. */
static inline int skip_string(Cursor *c)
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
static inline int skip_nested(Cursor *c)
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
static inline int take_value(Cursor *c, Piece *piece)
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

static inline int is_key(Piece key, const char *word, int64_t n)
{
    return key.end - key.at == n && !memcmp(key.at, word, (size_t)n);
}
#define IS(key, word) is_key(key, word, sizeof word - 1)

/* A key and its colon. Behind it a value begins. */
static inline int take_key(Cursor *c, Piece *key)
{
    if (*c->at != '"' || !take_value(c, key) || !more(c) || *c->at != ':')
        return 0;
    c->at++;
    return more(c);
}

/* Go behind the comma, or to the end of the object; 1: a key follows, 2: it ended. */
static inline int next_member(Cursor *c)
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

/* ---- lists of objects, block by block ---- */

enum { MORE, CLOSED, FULL };     /* why a scan ended: readers/common/text_cursor.py */

typedef struct {
    int64_t consumed, status;
    int64_t n_broken, first_broken; /* in the block; -1: none */
    int64_t n_other;             /* elements that are no objects */
} ListTally;

static inline void begin_list(ListTally *tally)
{
    memset(tally, 0, sizeof *tally);
    tally->first_broken = -1;
    tally->status = MORE;
}

static inline void note_broken(ListTally *tally, int64_t at)
{
    tally->n_broken++;
    if (tally->first_broken < 0)
        tally->first_broken = at;
}

/* Go to the next object of the list; 0 where the list or the text ends. */
static inline int next_object(Cursor *c, const uint8_t *data, int is_last,
                              ListTally *tally)
{
    for (;;) {
        while (more(c) && *c->at == ',')
            c->at++;
        tally->consumed = c->at - data;
        if (c->at >= c->end)
            return 0;
        if (*c->at == '{')
            return 1;
        if (*c->at == ']') {
            tally->consumed++;
            tally->status = CLOSED;
            return 0;
        }
        const uint8_t *const begin = c->at;
        Piece other;
        if (take_value(c, &other)) {
            tally->n_other++;
            continue;
        }
        if (c->at >= c->end && !is_last)
            return 0;
        /* A byte that begins no value. */
        note_broken(tally, begin - data);
        c->at = begin + 1;
        while (c->at < c->end && *c->at != '{' && *c->at != ']')
            c->at++;
    }
}

/* Go on behind the damage of the object that begins here; 0 where the text ends: more
 * may come, and at the end of the file it is cut. */
static inline int skip_damage(Cursor *c, const uint8_t *data, const uint8_t *begin,
                              ListTally *tally)
{
    if (c->at >= c->end)
        return 0;
    note_broken(tally, begin - data);
    c->at += c->at == begin;
    while (c->at < c->end && *c->at != '{')
        c->at++;
    return 1;
}

#endif
