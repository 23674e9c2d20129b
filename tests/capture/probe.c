// Stands in for the tracer around native/ubatches.c: graphs are their inputs alone, and
// what is written is kept.

#include "tracer.h"

#include <stdlib.h>
#include <string.h>

__thread struct surroundings around = {
    .ubatch = UNKNOWN_U32, .decode = UNKNOWN_U32, .ubatch_decode = UNKNOWN_U32};
pthread_mutex_t tracer_lock = PTHREAD_MUTEX_INITIALIZER;
uint8_t written[1 << 20];
uint64_t n_written;

uint64_t monotonic_ns(void) { return 1; }

void *frame_add(struct frame *frame, const void *data, size_t size)
{
    frame->bytes = realloc(frame->bytes, frame->size + size + 1);
    uint8_t *at = frame->bytes + frame->size;
    if (data != NULL)
        memcpy(at, data, size);
    else
        memset(at, 0, size);
    frame->size += size;
    return at;
}

void frame_begin(struct frame *frame, enum frame_type type, uint64_t time)
{
    struct ring_frame head = {0, (uint16_t)type, 0, time};
    frame_add(frame, &head, sizeof head);
}

void frame_write(struct frame *frame)
{
    frame_add(frame, NULL, -frame->size & 7);
    ((struct ring_frame *)frame->bytes)->size = (uint32_t)frame->size;
    memcpy(written + n_written, frame->bytes, frame->size);
    n_written += frame->size;
    free(frame->bytes);
}

// A scheduler begins to compute, or has ended.
void probe_schedule(uint64_t context, bool begins)
{
    around.is_scheduled = begins;
    if (begins) {
        around.context = context;
        around.ubatch = UNKNOWN_U32;
    }
}

// NULL: the graph has no such input.
void probe_graph(int32_t *tokens, int32_t n_tokens, int32_t *positions,
                 int32_t n_positions, int32_t n_rows, int32_t *outputs, int32_t n_outputs)
{
    struct ggml_tensor tensors[3] = {0};
    tensors[0].data = tokens;
    tensors[0].ne[0] = n_tokens;
    tensors[1].data = positions;
    tensors[1].ne[0] = n_positions;
    tensors[2].data = outputs;
    tensors[2].ne[0] = n_outputs;
    struct build build = {.tokens = tokens ? &tensors[0] : NULL,
                          .positions = positions ? &tensors[1] : NULL,
                          .outputs = outputs ? &tensors[2] : NULL,
                          .n_rows = n_rows};
    ubatch_write(&build);
}
