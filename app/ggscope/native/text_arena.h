/* Texts of any origin, each once: copied, and numbered in the order in which they come. */
#ifndef GGSCOPE_TEXT_ARENA_H
#define GGSCOPE_TEXT_ARENA_H

#include <string.h>

#include "native.h"

typedef struct {
    int64_t count, capacity, n_slots; /* a power of two, more than `capacity` */
    uint64_t secret;
    int32_t *slots;              /* number + 1; 0 = free */
    int64_t *offset;             /* in the arena */
    int32_t *length;
    int64_t used, size;          /* bytes of the arena */
    uint8_t *arena;
} TextArena;

static inline uint64_t arena_hash(const uint8_t *at, int64_t n, uint64_t secret)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15) ^ (secret << 1);
    uint64_t hash = secret ^ (uint64_t)n, word = 0;
    for (int64_t i = 0; i < n; i += 8) {
        if (n < 8)
            memcpy(&word, at, (size_t)n);
        else /* the last eight bytes overlap those before: a length that is known */
            memcpy(&word, at + smaller(i, n - 8), 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    hash *= UINT64_C(0xBF58476D1CE4E5B9);
    return hash ^ hash >> 32;
}

/* The number of a text, which may be a new one; -1: it is empty. */
static inline int32_t copied_text(TextArena *texts, const uint8_t *at, int64_t n)
{
    if (at == NULL || n <= 0)
        return -1;
    const uint64_t mask = (uint64_t)texts->n_slots - 1;
    for (uint64_t slot = arena_hash(at, n, texts->secret) & mask;; slot = (slot + 1) & mask) {
        const int32_t number = texts->slots[slot] - 1;
        if (number < 0) {
            if (texts->count >= texts->capacity || texts->used + n > texts->size)
                return -1; /* never: scans end a line before the tables are full */
            const int64_t new = texts->count++;
            texts->slots[slot] = (int32_t)new + 1;
            texts->offset[new] = texts->used;
            texts->length[new] = (int32_t)n;
            memcpy(texts->arena + texts->used, at, (size_t)n);
            texts->used += n;
            return (int32_t)new;
        }
        if (texts->length[number] == n &&
            !memcmp(texts->arena + texts->offset[number], at, (size_t)n))
            return number;
    }
}

#endif
