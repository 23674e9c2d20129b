/* Lines of text: pieces, numbers that are never doubles, texts numbered in a table. */
#ifndef GGSCOPE_TEXT_LINES_H
#define GGSCOPE_TEXT_LINES_H

#include "text_table.h"

enum { DIGITS = 18, LOOKED_AT = 4096 };

typedef struct {
    const uint8_t *at, *end;
} Piece;

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

static const uint8_t *unsigned_number(const uint8_t *at, const uint8_t *end,
                                      int64_t *value)
{
    const uint8_t *p = at;
    for (*value = 0; p < end && is_digit(*p) && p - at < DIGITS; p++)
        *value = *value * 10 + (*p - '0');
    return p == at ? NULL : p;
}

static int32_t number_of(TextTable *texts, const uint8_t *data, Piece piece)
{
    const int64_t n = smaller(piece.end - piece.at, LOOKED_AT);
    if (piece.at == NULL || n <= 0)
        return -1;
    return text_number(piece.at, n, data, texts);
}

#endif
