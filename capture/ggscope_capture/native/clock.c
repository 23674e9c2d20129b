// Stamps: the processor's counter where it is steady, put right against
// CLOCK_MONOTONIC at every graph, so that neither drift nor a coarse rate adds up.

#include "tracer.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum ring_clock clock_kind = CLOCK_IS_MONOTONIC;
static uint64_t first_ticks, first_ns;

uint64_t monotonic_ns(void)
{
#ifdef __APPLE__
    // What Python's monotonic clock is there; CLOCK_MONOTONIC is another one.
    return clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static uint64_t both(uint64_t *ns)
{
    // The narrowest of some brackets: what is between them is the least disturbed.
    uint64_t best = UINT64_MAX, at = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t before = ticks();
        uint64_t now = monotonic_ns();
        uint64_t after = ticks();
        if (after - before < best) {
            best = after - before;
            at = before + best / 2;
            *ns = now;
        }
    }
    return at;
}

void clock_begin(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    if (__get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8)
        clock_kind = CLOCK_IS_TSC;
#elif defined(__aarch64__)
    clock_kind = CLOCK_IS_CNTVCT;
#endif
    first_ticks = both(&first_ns);
}

void clock_base(struct time_base *base, uint64_t not_before)
{
#ifdef TICKS_ARE_NS
    base->ticks = base->ns = monotonic_ns();
    base->factor = (uint64_t)1 << 32;
#else
    uint64_t ns = 0;
    base->ticks = both(&ns);
    // A counter that is not steady is used within one graph only: its rate is that of
    // the time since the last one.
    static _Thread_local uint64_t last_ticks, last_ns;
    bool is_steady = clock_kind != CLOCK_IS_MONOTONIC || last_ticks == 0;
    uint64_t from_ticks = is_steady ? first_ticks : last_ticks;
    uint64_t from_ns = is_steady ? first_ns : last_ns;
    uint64_t passed = base->ticks - from_ticks;
    if (passed == 0)
        passed = 1;
    base->factor = (uint64_t)(((unsigned __int128)(ns - from_ns) << 32) / passed);
    last_ticks = base->ticks;
    last_ns = ns;
    base->ns = ns > not_before ? ns : not_before;
#endif
}

void clock_write(const struct time_base *base)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t body[4] = {
        base->ns,
        (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
        base->ticks,
        first_ticks,
    };
    struct frame frame = {0};
    frame_begin(&frame, EVENT_CLOCK, base->ns);
    frame_add(&frame, body, sizeof body);
    frame_write(&frame);
}
