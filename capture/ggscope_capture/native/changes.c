// How builds are described: whole, or by what differs from one that was. A server that
// gets requests of ever new lengths computes ever new graphs, which are alike but for
// sizes and places: they take a hundredth of the bytes.

#include "tracer.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WHOLES 64
#define MAX_WHOLE_BYTES ((size_t)32 << 20)

// A build that was written whole in the present generation of definitions.
static struct whole {
    uint32_t number, n, n_nodes;
    uint64_t hash;
    uint8_t *structure; // what has to be the same, one tensor after the other
    size_t size;
    uint64_t *values; // N_COLUMNS times n
} wholes[MAX_WHOLES];
static uint32_t n_wholes, wholes_generation;
static size_t wholes_bytes;

// What a value became, by the most votes; a table that is open.
struct move {
    uint64_t from, to;
    int32_t votes;
    bool is_used;
};

void wholes_forget(void)
{
    for (uint32_t i = 0; i < n_wholes; i++) {
        free(wholes[i].structure);
        free(wholes[i].values);
    }
    n_wholes = 0;
    wholes_bytes = 0;
}

static uint64_t value_of(const struct def_tensor *tensor, int column)
{
    switch (column) {
    case COLUMN_POINTER: return tensor->pointer;
    case COLUMN_DATA: return tensor->data;
    case COLUMN_BYTES: return tensor->bytes;
    case COLUMN_OFFSET: return tensor->offset;
    case COLUMN_BUFFER: return tensor->buffer;
    default:
        return column < COLUMN_NB ? tensor->ne[column - COLUMN_NE]
                                  : tensor->nb[column - COLUMN_NB];
    }
}

// The same facts without those of the columns.
static struct def_tensor without_values(struct def_tensor tensor)
{
    tensor.pointer = tensor.data = tensor.bytes = tensor.offset = 0;
    tensor.buffer = 0;
    memset(tensor.ne, 0, sizeof tensor.ne);
    memset(tensor.nb, 0, sizeof tensor.nb);
    return tensor;
}

static bool take_apart(struct whole *made, const struct def_build *head,
                       const struct def_tensor *tensors, const char *const *names)
{
    struct frame structure = {0};
    uint32_t n = head->n_tensors;
    *made = (struct whole){.number = head->build, .n = n, .n_nodes = head->n_nodes};
    made->values = malloc((n ? n : 1) * N_COLUMNS * sizeof *made->values);
    bool is_good = made->values != NULL;
    for (uint32_t i = 0; is_good && i < n; i++) {
        struct def_tensor bare = without_values(tensors[i]);
        size_t length = strnlen(names[i], 64);
        is_good = frame_add(&structure, &bare, sizeof bare) != NULL &&
                  frame_add(&structure, names[i], length) != NULL &&
                  frame_add(&structure, "", 1) != NULL;
        for (int column = 0; column < N_COLUMNS; column++)
            made->values[(size_t)column * n + i] = value_of(&tensors[i], column);
    }
    made->structure = structure.bytes;
    made->size = structure.size;
    made->hash = n;
    for (size_t at = 0; at + 8 <= made->size; at += 8) {
        uint64_t word;
        memcpy(&word, made->structure + at, sizeof word);
        made->hash = (made->hash ^ word) * 0xFF51AFD7ED558CCDu;
        made->hash ^= made->hash >> 32;
    }
    return is_good;
}

static const struct whole *find_like(const struct whole *mine)
{
    for (uint32_t i = 0; i < n_wholes; i++)
        if (wholes[i].hash == mine->hash && wholes[i].n == mine->n &&
            wholes[i].n_nodes == mine->n_nodes && wholes[i].size == mine->size &&
            memcmp(wholes[i].structure, mine->structure, mine->size) == 0)
            return &wholes[i];
    return NULL;
}

static struct move *move_of(struct move *moves, uint32_t n_slots, uint64_t from)
{
    uint64_t hash = from * 0x9E3779B97F4A7C15u;
    uint32_t slot = (uint32_t)(hash >> 32) & (n_slots - 1);
    while (moves[slot].is_used && moves[slot].from != from)
        slot = (slot + 1) & (n_slots - 1);
    return &moves[slot];
}

static void add_addresses(struct frame *frame, const struct move *moves, uint32_t n_slots,
                      bool is_from)
{
    for (uint32_t slot = 0; slot < n_slots; slot++)
        if (moves[slot].is_used && moves[slot].from != moves[slot].to)
            frame_add(frame, is_from ? &moves[slot].from : &moves[slot].to, 8);
}

// Return whether anything of the column differs.
static bool add_column(struct frame *frame, uint32_t column, const uint64_t *old,
                       const uint64_t *new, uint32_t n, struct move *moves,
                       uint32_t n_slots)
{
    if (memcmp(old, new, n * sizeof *old) == 0)
        return false;
    memset(moves, 0, n_slots * sizeof *moves);
    for (uint32_t i = 0; i < n; i++) {
        struct move *move = move_of(moves, n_slots, old[i]);
        if (!move->is_used || (move->to != new[i] && move->votes == 0))
            *move = (struct move){old[i], new[i], 1, true};
        else
            move->votes += move->to == new[i] ? 1 : -1;
    }
    struct like_column body = {.column = column};
    for (uint32_t slot = 0; slot < n_slots; slot++)
        body.n_moved += moves[slot].is_used && moves[slot].from != moves[slot].to;
    for (uint32_t i = 0; i < n; i++)
        body.n_single += move_of(moves, n_slots, old[i])->to != new[i];
    frame_add(frame, &body, sizeof body);
    add_addresses(frame, moves, n_slots, true);
    add_addresses(frame, moves, n_slots, false);
    for (uint32_t i = 0; i < n; i++)
        if (move_of(moves, n_slots, old[i])->to != new[i])
            frame_add(frame, &new[i], 8);
    for (uint32_t i = 0; i < n; i++)
        if (move_of(moves, n_slots, old[i])->to != new[i])
            frame_add(frame, &i, 4);
    frame_add(frame, NULL, body.n_single % 2 ? 4 : 0);
    return true;
}

static bool add_changes(struct frame *frame, const struct def_build *head,
                        const struct whole *like, const struct whole *mine)
{
    uint32_t n_slots = 16;
    while (n_slots < 2 * mine->n)
        n_slots *= 2;
    struct move *moves = malloc(n_slots * sizeof *moves);
    if (moves == NULL)
        return false;
    frame_begin(frame, DEF_BUILD_LIKE, monotonic_ns());
    frame_add(frame, head, sizeof *head);
    struct def_like body = {like->number, 0};
    size_t at = frame->size;
    frame_add(frame, &body, sizeof body);
    for (uint32_t column = 0; column < N_COLUMNS; column++) {
        size_t from = (size_t)column * mine->n;
        body.n_columns += add_column(frame, column, like->values + from,
                                     mine->values + from, mine->n, moves, n_slots);
    }
    free(moves);
    if (frame->bytes == NULL)
        return false;
    memcpy(frame->bytes + at, &body, sizeof body);
    return true;
}

static void add_whole(struct frame *frame, const struct def_build *head,
                      const struct def_tensor *tensors, const char *const *names)
{
    frame_begin(frame, DEF_BUILD, monotonic_ns());
    frame_add(frame, head, sizeof *head);
    for (uint32_t i = 0; i < head->n_tensors; i++) {
        frame_add(frame, &tensors[i], sizeof tensors[i]);
        size_t begin = frame->size;
        frame_text(frame, names[i], strnlen(names[i], 64));
        frame_add(frame, NULL, (begin - frame->size) & 7);
    }
}

static bool keep(struct whole *mine)
{
    size_t bytes = mine->size + (size_t)mine->n * N_COLUMNS * sizeof *mine->values;
    if (n_wholes == MAX_WHOLES || wholes_bytes + bytes > MAX_WHOLE_BYTES)
        return false;
    wholes_bytes += bytes;
    wholes[n_wholes++] = *mine;
    return true;
}

bool build_define(const struct def_build *head, const struct def_tensor *tensors,
                  const char *const *names)
{
    struct frame frame = {0};
    struct whole mine;
    if (wholes_generation != definitions_generation) {
        wholes_forget();
        wholes_generation = definitions_generation;
    }
    bool is_known = take_apart(&mine, head, tensors, names);
    const struct whole *like = is_known ? find_like(&mine) : NULL;
    bool is_written = like != NULL && add_changes(&frame, head, like, &mine) &&
                   frame_define(&frame, LIKE_BUILD);
    bool is_kept = false;
    if (like == NULL) {
        add_whole(&frame, head, tensors, names);
        is_written = frame_define(&frame, WHOLE_BUILD);
        is_kept = is_written && is_known && keep(&mine);
    }
    if (!is_kept) {
        free(mine.structure);
        free(mine.values);
    }
    free(frame.bytes);
    return is_written;
}
