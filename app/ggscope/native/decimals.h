/* Decimal numbers as whole ones: times are never floats. */
#ifndef GGSCOPE_DECIMALS_H
#define GGSCOPE_DECIMALS_H

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

enum { MAX_DIGITS = 27, FAR_EXPONENT = 64, MAX_REAL = 64, MAX_POINT = 8 };
#define FARTHEST (INT64_C(1) << 61)

/* A part of a text. */
typedef struct {
    const uint8_t *at, *end;     /* between the quotes, of a string */
    int is_string;
} Piece;

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline int is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* A decimal number times 10^shift, rounded half away from zero; 0 where it is none. */
static inline int decimal(Piece piece, int shift, int64_t *value)
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
        if (n == MAX_DIGITS) {
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

/* A number as the nearest float, where that takes one exact division; 0 where not. */
static inline int exact_real(Piece piece, double *value)
{
    static const double powers[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
        1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    };
    const uint8_t *p = piece.at, *const end = piece.end;
    const int negative = p < end && *p == '-';
    uint64_t whole = 0;
    int behind = 0, n_behind = 0;
    p += negative;
    for (; p < end && (is_digit(*p) || (*p == '.' && !behind)); p++) {
        if (*p == '.') {
            behind = 1;
            continue;
        }
        whole = whole * 10 + (unsigned)(*p - '0');
        n_behind += behind;
        if (whole > UINT64_C(1) << 53)
            return 0;
    }
    if (p != end || p == piece.at + negative || n_behind > 22)
        return 0;
    *value = (double)whole / powers[n_behind];
    *value = negative ? -*value : *value;
    return 1;
}

/* A number as a float: a counter's value, never a time. 0 where it is none. */
static inline int real(Piece piece, double *value)
{
    char digits[MAX_REAL + MAX_POINT + 1], *p = digits, *end;
    const char *point = localeconv()->decimal_point;
    const uint8_t *at = piece.at, *behind = piece.end;
    int any = 0;
    if (exact_real(piece, value))
        return 1;
    while (at < behind && is_blank(*at))
        at++;
    while (at < behind && is_blank(behind[-1]))
        behind--;
    for (; at < behind && p - digits < MAX_REAL; at++) {
        if (*at == '.' && point != NULL && strlen(point) <= MAX_POINT) {
            /* strtod takes the point of the language that is set. */
            strcpy(p, point);
            p += strlen(point);
            point = NULL;
        } else if (is_digit(*at) || *at == '-' || *at == '+' || (*at | 0x20) == 'e') {
            any |= is_digit(*at);
            *p++ = (char)*at;
        } else {
            return 0;
        }
    }
    *p = 0;
    if (!any || at < behind)
        return 0;
    *value = strtod(digits, &end);
    return end == p && isfinite(*value);
}

#endif
