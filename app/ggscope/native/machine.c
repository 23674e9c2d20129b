/* Loops that find out what a machine reaches at most: reading memory, and multiplying
 * and adding numbers of 32 bits. Each thread runs its own. */
#include "native.h"

/* Chosen when the library is loaded, by what the processor has. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", \
                                            "default")))
#else
#define CLONES
#endif
/* One instruction for both where there is one; results are nowhere compared. */
#if defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define FUSED
#endif

enum { WORDS = 32, LANES = 64 };

/* Returns a sum of all words, so that each of them is read. */
EXPORT CLONES uint64_t ggscope_machine_read(const uint64_t *words, int64_t n)
{
    uint64_t sums[WORDS] = {0};
    for (int64_t i = 0; i + WORDS <= n; i += WORDS)
        for (int64_t k = 0; k < WORDS; k++)
            sums[k] += words[i + k];
    uint64_t all = 0;
    for (int64_t k = 0; k < WORDS; k++)
        all += sums[k];
    return all;
}

/* Multiplies and adds into 64 sums that do not wait for each other. */
EXPORT CLONES FUSED void ggscope_machine_multiply_add(float *sums, int64_t steps)
{
    float local[LANES];
    for (int64_t k = 0; k < LANES; k++)
        local[k] = sums[k];
    for (int64_t i = 0; i < steps; i++)
        for (int64_t k = 0; k < LANES; k++)
            local[k] = local[k] * 0.999f + 0.001f;
    for (int64_t k = 0; k < LANES; k++)
        sums[k] = local[k];
}
