/* What every C file of the library shares. */
#ifndef GGSCOPE_NATIVE_H
#define GGSCOPE_NATIVE_H

#include <stdint.h>

/* Numbers of a file are taken from its bytes as they stand. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "ggscope needs a little-endian machine: what it reads is little-endian."
#endif

/* What Python calls; declared.py declares it, and the compiler compares the two. */
#define EXPORT __attribute__((visibility("default")))

/* A function that does nothing but prefetch is dropped by gcc 12, so these are
 * macros or inlined into one that does more. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* A code of one or two bytes, read as an unsigned number. */
static inline uint32_t code_at(const void *codes, int32_t bytes, int64_t i)
{
    return bytes == 1 ? ((const uint8_t *)codes)[i] : ((const uint16_t *)codes)[i];
}

#endif
