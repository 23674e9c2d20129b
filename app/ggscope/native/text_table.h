/* Texts of a block, each once, numbered in the order in which they come. */
#ifndef GGSCOPE_TEXT_TABLE_H
#define GGSCOPE_TEXT_TABLE_H

#include <string.h>

#include "native.h"

/* Every text once, as it stands in the block. */
typedef struct {
    int64_t count, capacity, n_slots; /* a power of two, more than `capacity` */
    uint64_t secret;
    int32_t *slots;              /* number + 1; 0 = free */
    int64_t *offset;
    int32_t *length;
} TextTable;

static inline uint64_t mixed(uint64_t a, uint64_t b)
{
    const unsigned __int128 product =
        (unsigned __int128)(a ^ UINT64_C(0x9E3779B97F4A7C15)) *
        (b ^ UINT64_C(0xD6E8FEB86659FD93));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hashed(const uint8_t *p, int64_t n, uint64_t secret)
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

/* The number of the text of `n` bytes here, which may be a new one: there is room. */
static inline int32_t text_number(const uint8_t *at, int64_t n, const uint8_t *data,
                                  TextTable *texts)
{
    const uint64_t mask = (uint64_t)texts->n_slots - 1;
    for (uint64_t slot = hashed(at, n, texts->secret) & mask;; slot = (slot + 1) & mask) {
        const int32_t number = texts->slots[slot] - 1;
        if (number < 0) {
            const int64_t new = texts->count++;
            texts->slots[slot] = (int32_t)new + 1;
            texts->offset[new] = at - data;
            texts->length[new] = (int32_t)n;
            return (int32_t)new;
        }
        if (texts->length[number] == n &&
            !memcmp(data + texts->offset[number], at, (size_t)n))
            return number;
    }
}

#endif
