// Lines of JSON as call hooks of CUDA write them.

#ifndef GGSCOPE_CUDA_LINES_H
#define GGSCOPE_CUDA_LINES_H

#include "hook.h"

#include <stddef.h>

struct record {
    uint64_t ns, op, duration_ns;
    struct details details;
    int32_t result;
    uint16_t function, depth;
    uint8_t phase;
};

enum { LINES_BYTES = 1 << 20, LINE_BYTES = 1024 };

struct lines {
    size_t n;
    char text[LINES_BYTES];
};

void lines_put(struct lines *lines, const struct record *record, uint32_t tid);
// The first line: which process this is, and when its clock was at 0.
void lines_put_begin(struct lines *lines, uint64_t ns, uint64_t epoch_ns,
                     const char *way);
// The last line: what is missing. Returns its length.
size_t lines_end(char *into, uint64_t ns, uint64_t n_lines, uint64_t n_dropped,
                 uint32_t n_left_out, int error);

#endif
