/* JSON text, checked token by token: strings, numbers, words, nested values.
 *
 * Stricter than the standard and than msgspec: whatever passes here is JSON for them,
 * but not the other way round. No allocation, no state; bytes are read only before
 * the end of a cursor.
 */
#ifndef GGSCOPE_JSON_TEXT_H
#define GGSCOPE_JSON_TEXT_H

#include <stdint.h>
#include <string.h>

enum { MAX_DEPTH = 60, MAX_DIGITS = 18, MAX_NUMBER_BYTES = 40 };

/* A place in the text. A null `at` means that the text was left: `broken` says
 * whether for a STRANGE byte or (0) because the text ends too soon. */
typedef struct {
    const uint8_t *at, *end;
    int broken;
} Cursor;

static int lost(Cursor *c, int broken)
{
    c->at = NULL;
    c->broken = broken;
    return 0;
}

static int more(Cursor *c)
{
    return c->at < c->end ? 1 : lost(c, 0);
}

static int is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Go to the next byte that is no white space; 0 where the text ends before. */
static int skip_space(Cursor *c)
{
    while (c->at < c->end && is_space(*c->at))
        c->at++;
    return more(c);
}

/* ---- strings ---- */

/* Bytes of the UTF-8 character here; 0 where it is none or not whole. */
static int utf8_bytes(const uint8_t *p, const uint8_t *end)
{
    const int n = p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3
                : p[0] < 0xF5 ? 4 : 0;
    if (!n || end - p < n)
        return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0; /* too long, half a surrogate pair, beyond the last character */
    return n;
}

/* Bytes of the escape here; 0 where it is none, not whole, or of a surrogate. */
static int escape_bytes(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 2)
        return 0;
    if (p[1] != 'u')
        return memchr("\"\\/bfnrt", p[1], 8) ? 2 : 0;
    if (end - p < 6 || ((p[2] | 0x20) == 'd' && p[3] > '7'))
        return 0;
    for (int i = 2; i < 6; i++) {
        const uint8_t low = p[i] | 0x20;
        if (!((p[i] >= '0' && p[i] <= '9') || (low >= 'a' && low <= 'f')))
            return 0;
    }
    return 6;
}

typedef struct {
    const uint8_t *start;
    int32_t length;
    int is_escaped;
} Text;

/* Take the string that begins here. */
static int take_string(Cursor *c, Text *text)
{
    const uint8_t *p = c->at + 1, *const end = c->end;
    text->start = p;
    text->is_escaped = 0;
    for (; p < end; p++) {
        if (*p == '"') {
            text->length = (int32_t)(p - text->start);
            c->at = p + 1;
            return 1;
        }
        if (*p >= 0x20 && *p < 0x80 && *p != '\\')
            continue;
        if (*p < 0x20)
            return lost(c, 1);
        const int n = *p == '\\' ? escape_bytes(p, end) : utf8_bytes(p, end);
        if (!n) /* perhaps the text ends within it */
            return lost(c, end - p >= 6);
        text->is_escaped |= *p == '\\';
        p += n - 1;
    }
    return lost(c, 0);
}

static int is_text(const Text *text, const char *word, int32_t length)
{
    return text->length == length && !memcmp(text->start, word, (size_t)length);
}

/* ---- values ---- */

enum { MISSING, NONE, STRING, INTEGER, LIST, OBJECT, OTHER }; /* what a field holds */

typedef struct {
    int what;
    int64_t number;
    Text text;                   /* of a STRING, or where a LIST or OBJECT begins */
} Value;

/* Take a number by the rules of JSON; INTEGER only where it fits plainly. */
static int take_number(Cursor *c, Value *value)
{
    const uint8_t *p = c->at, *const end = c->end, *const begin = p;
    const int negative = *p == '-';
    uint64_t number = 0;
    p += negative;
    const uint8_t *const digits = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        number = number * 10 + (uint64_t)(*p - '0'); /* may wrap: then not used */
    const int64_t n_digits = p - digits;
    int whole = n_digits <= MAX_DIGITS;
    if (p < end && (!n_digits || (*digits == '0' && n_digits > 1)))
        return lost(c, 1);
    if (p < end && *p == '.') {
        const uint8_t *const point = p++;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p < end && p == point + 1)
            return lost(c, 1);
        whole = 0;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const uint8_t *const exponent = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        /* Three digits may lead beyond what a float holds. */
        if (p < end && (p == exponent || p - exponent > 2))
            return lost(c, 1);
        whole = 0;
    }
    if (p >= end) /* it could go on */
        return lost(c, 0);
    if (p - begin > MAX_NUMBER_BYTES)
        return lost(c, 1);
    value->what = whole && !(negative && !number) ? INTEGER : OTHER;
    if (value->what == INTEGER)
        value->number = negative ? -(int64_t)number : (int64_t)number;
    c->at = p;
    return 1;
}

static int take_word(Cursor *c, const char *word, int64_t length)
{
    if (c->end - c->at < length)
        return lost(c, 0);
    if (memcmp(c->at, word, (size_t)length))
        return lost(c, 1);
    c->at += length;
    return 1;
}

/* Take a value that is neither an object nor an array. */
static int take_scalar(Cursor *c, Value *value)
{
    value->what = OTHER;
    switch (*c->at) {
    case '"':
        value->what = STRING;
        return take_string(c, &value->text);
    case 't':
        return take_word(c, "true", 4);
    case 'f':
        return take_word(c, "false", 5);
    case 'n':
        value->what = NONE;
        return take_word(c, "null", 4);
    default:
        if (*c->at != '-' && (*c->at < '0' || *c->at > '9'))
            return lost(c, 1);
        return take_number(c, value);
    }
}

/* Take the key of a member and its colon. */
static int take_key(Cursor *c, Text *key)
{
    if (!skip_space(c))
        return 0;
    if (*c->at != '"')
        return lost(c, 1);
    if (!take_string(c, key) || !skip_space(c))
        return 0;
    if (key->is_escaped || *c->at != ':')
        return lost(c, 1);
    c->at++;
    return skip_space(c);
}

/* Go on behind a value: past the ends of containers to what follows a comma. */
static int skip_ends(Cursor *c, uint64_t *is_object, int *depth)
{
    while (*depth) {
        if (!skip_space(c))
            return 0;
        if (*c->at == ',') {
            c->at++;
            return skip_space(c);
        }
        if (*c->at != (*is_object & 1 ? '}' : ']'))
            return lost(c, 1);
        c->at++;
        *is_object >>= 1;
        --*depth;
    }
    return 1;
}

/* Take the object or array that begins here, checking all of it. */
static int skip_nested(Cursor *c)
{
    uint64_t is_object = 0; /* one bit for each level, the lowest is the innermost */
    int depth = 0;
    Value value;
    Text key;
    do {
        int has_more = 0;
        if (*c->at == '{' || *c->at == '[') {
            if (++depth > MAX_DEPTH)
                return lost(c, 1);
            is_object = is_object << 1 | (*c->at == '{');
            c->at++;
            if (!skip_space(c))
                return 0;
            has_more = *c->at != (is_object & 1 ? '}' : ']');
        } else if (!take_scalar(c, &value)) {
            return 0;
        }
        if (!has_more && !skip_ends(c, &is_object, &depth))
            return 0;
        if (depth && is_object & 1 && !take_key(c, &key))
            return 0;
    } while (depth);
    return 1;
}

#endif
