/* Bytes of JSON text that end strings and values, found eight at a time.
 *
 * Only quotes, backslashes and brackets are looked at, so whatever else a text holds
 * costs nothing. Bytes are read only in [p, end). */
#ifndef GGSCOPE_JSON_BYTES_H
#define GGSCOPE_JSON_BYTES_H

#include <stdint.h>
#include <string.h>

static inline int is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* A byte of 0x80 wherever one of `word` is zero; of the lowest that is certain. */
static inline uint64_t zeros(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    return (word - ones) & ~word & ones << 7;
}

/* Go to the first byte that is `a`, or with the bits of `mask` set is `b`; to the end
 * where there is none. */
static inline const uint8_t *next_of(const uint8_t *p, const uint8_t *end, uint8_t a,
                                     uint8_t mask, uint8_t b)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        const uint64_t marks = zeros(word ^ ones * a) |
                               zeros((word | ones * mask) ^ ones * b);
        if (marks)
            return p + (__builtin_ctzll(marks) >> 3);
    }
    while (p < end && *p != a && (*p | mask) != b)
        p++;
    return p;
}

/* Go to the quote that ends the string of which `p` is the first byte; to the end
 * where there is none. */
static inline const uint8_t *closing_quote(const uint8_t *p, const uint8_t *end,
                                           int *is_escaped)
{
    while ((p = next_of(p, end, '"', 0, '\\')) < end && *p == '\\') {
        *is_escaped = 1;
        p = end - p < 2 ? end : p + 2;
    }
    return p;
}

#endif
