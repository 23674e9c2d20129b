// What nodes of graphs refer to: models and their tensors, buffers, backends, ops, types.
// Written when it is first seen; what there is still, in each generation anew.

#define _GNU_SOURCE
#include "tracer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BACKENDS 256
#define MAX_MODELS 256
#define LOCATE_NS 100000000u // so often the kernel's list of mappings is read

// ---- models: tensors of the files by name ---------------------------------------------

struct model {
    char *path;
    uint64_t size;
    // Where it lies in memory, as of the last look; one place.
    uint64_t from, to, offset;
    uint64_t seen;
};

struct weight {
    char *name;
    int64_t ne[4];
    uint64_t offset, size;
    uint32_t model, index;
    int32_t type;
    uint32_t next; // index + 1 of the next of the same hash
};

static struct model models[MAX_MODELS];
static uint32_t n_models;
static struct weight *weights;
static uint32_t n_weights, room_weights;
static uint32_t weights_by_name[4096];
static bool is_moved; // something was mapped or freed since the last look

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash & 4095;
}

static void weight_add(struct weight weight)
{
    if (n_weights == room_weights) {
        uint32_t room = room_weights ? room_weights * 2 : 512;
        struct weight *more = realloc(weights, room * sizeof *weights);
        if (more == NULL)
            return;
        weights = more;
        room_weights = room;
    }
    uint32_t *chain = &weights_by_name[hash_text(weight.name)];
    weight.next = *chain;
    weights[n_weights++] = weight;
    *chain = n_weights;
}

// `context` holds the tensors' shapes; NULL where the program did not ask for it.
void model_read(const void *gguf, const char *path, void *context)
{
    char real[4096];
    if (realpath(path, real) == NULL || n_models == MAX_MODELS ||
        !ggml.gguf_n_tensors || !ggml.gguf_tensor_name || !ggml.gguf_tensor_offset ||
        !ggml.gguf_tensor_size || !ggml.gguf_tensor_type || !ggml.gguf_data_offset)
        return;
    // Programs read a model's head several times.
    for (uint32_t i = 0; i < n_models; i++)
        if (strcmp(models[i].path, real) == 0)
            return;
    int file = open(real, O_RDONLY | O_CLOEXEC);
    off_t end = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    if (file >= 0)
        close(file);
    uint32_t number = n_models;
    models[n_models++] = (struct model){.path = strdup(real), .size = (uint64_t)end};
    uint64_t base = ggml.gguf_data_offset(gguf), now = monotonic_ns();
    int64_t n = ggml.gguf_n_tensors(gguf);
    struct {
        uint32_t model, n;
        uint64_t base, size;
    } head = {number, (uint32_t)n, base, (uint64_t)end};
    struct frame frame = {0};
    frame_begin(&frame, DEF_MODEL, now);
    frame_add(&frame, &head, sizeof head);
    frame_text(&frame, real, strlen(real));
    frame_define(&frame, WITH_PROCESS);
    is_moved = true;
    bool has_shapes = context && ggml.get_tensor && ggml_layout() == LAYOUT_KNOWN;
    for (int64_t i = 0; i < n; i++) {
        const char *name = ggml.gguf_tensor_name(gguf, i);
        struct weight weight = {
            .name = strdup(name),
            .offset = base + ggml.gguf_tensor_offset(gguf, i),
            .size = ggml.gguf_tensor_size(gguf, i),
            .model = number,
            .index = (uint32_t)i,
            .type = ggml.gguf_tensor_type(gguf, i),
        };
        const struct ggml_tensor *tensor =
            has_shapes ? ggml.get_tensor(context, name) : NULL;
        struct def_weight body = {number, (uint32_t)i, (uint32_t)weight.type, 0,
                                  {0},    weight.offset, weight.size};
        for (int k = 0; tensor != NULL && k < 4; k++) {
            body.ne[k] = (uint64_t)(weight.ne[k] = tensor->ne[k]);
            if (tensor->ne[k] != 1)
                body.n_dims = (uint32_t)k + 1;
        }
        frame_begin(&frame, DEF_WEIGHT, now);
        frame_add(&frame, &body, sizeof body);
        frame_text(&frame, name, strlen(name));
        frame_define(&frame, WITH_PROCESS);
        if (weight.name != NULL)
            weight_add(weight);
    }
}

static void mapping_write(const struct model *model)
{
    struct def_mapping body = {model->from, model->to - model->from, model->offset};
    struct frame frame = {0};
    frame_begin(&frame, DEF_MAPPING, model->seen);
    frame_add(&frame, &body, sizeof body);
    frame_text(&frame, model->path, strlen(model->path));
    frame_define(&frame, FROM_TABLE);
}

void models_locate(void)
{
    static uint64_t last;
    uint64_t now = monotonic_ns();
    if (n_models == 0 || (!is_moved && now - last < LOCATE_NS))
        return;
    is_moved = false;
    last = now;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    struct frame text = {0};
    char block[8192];
    ssize_t n;
    while ((n = read(file, block, sizeof block)) > 0)
        frame_add(&text, block, (size_t)n);
    close(file);
    if (frame_add(&text, "", 1) == NULL)
        return;
    for (char *line = (char *)text.bytes, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        uint64_t from, to, offset;
        char *path = strchr(line, '/');
        if (path == NULL ||
            sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &from, &to, &offset) != 3)
            continue;
        for (uint32_t i = 0; i < n_models; i++) {
            struct model *model = &models[i];
            if (strcmp(model->path, path) != 0)
                continue;
            // Neighbouring pieces of the same file are one place.
            if (model->to == from && model->offset + (from - model->from) == offset) {
                model->to = to;
            } else if (model->from != from || model->to < to) {
                *model = (struct model){model->path, model->size, from, to, offset, now};
                mapping_write(model);
            }
        }
    }
    free(text.bytes);
}

static uint64_t place_in_file(const void *data, uint32_t *model)
{
    uint64_t at = (uint64_t)(uintptr_t)data;
    for (uint32_t i = 0; i < n_models; i++)
        if (at >= models[i].from && at < models[i].to) {
            *model = i;
            return models[i].offset + (at - models[i].from);
        }
    return UNKNOWN_U64;
}

// The weight that a tensor is: of its name; among several models' the one it lies in,
// or whose shape it has.
static const struct weight *weight_of(const struct ggml_tensor *tensor, bool *by_place)
{
    uint32_t mapped_model = UNKNOWN_U32;
    uint64_t mapped = place_in_file(tensor->data, &mapped_model);
    const struct weight *found = NULL;
    *by_place = false;
    for (uint32_t i = weights_by_name[hash_text(tensor->name)]; i > 0;
         i = weights[i - 1].next) {
        const struct weight *weight = &weights[i - 1];
        if (strcmp(weight->name, tensor->name) != 0)
            continue;
        if (weight->model == mapped_model && weight->offset == mapped)
            return weight;
        bool fits = weight->ne[0] == 0 ||
                    memcmp(weight->ne, tensor->ne, sizeof weight->ne) == 0;
        if (fits && weight->type == tensor->type)
            found = weight;
    }
    if (found == NULL && mapped != UNKNOWN_U64)
        for (uint32_t i = 0; i < n_weights; i++)
            if (weights[i].model == mapped_model && weights[i].offset == mapped) {
                *by_place = true;
                return &weights[i];
            }
    return found;
}

bool weight_find(const struct ggml_tensor *tensor, struct weight_place *place)
{
    bool by_place;
    const struct weight *weight = weight_of(tensor, &by_place);
    if (weight != NULL)
        *place = (struct weight_place){weight->offset, weight->model, weight->index, by_place};
    return weight != NULL;
}

// ---- buffers --------------------------------------------------------------------------

struct buffer {
    void *pointer;
    char *name;
    struct def_buffer body;
    uint64_t seen, allocated; // 0: not seen
};
static struct buffer *buffers;
static uint32_t n_buffers, room_buffers, next_buffer;
uint32_t n_buffers_freed;

static void buffer_event(uint32_t number, uint32_t kind, uint64_t usage, uint64_t time,
                         enum lasts lasts)
{
    struct {
        uint32_t number, kind;
        uint64_t usage;
    } body = {number, kind, usage};
    struct frame frame = {0};
    frame_begin(&frame, EVENT_BUFFER, time);
    frame_add(&frame, &body, sizeof body);
    frame_define(&frame, lasts);
}

static void buffer_write(const struct buffer *buffer)
{
    struct frame frame = {0};
    frame_begin(&frame, DEF_BUFFER, buffer->seen);
    frame_add(&frame, &buffer->body, sizeof buffer->body);
    frame_text(&frame, buffer->name, strlen(buffer->name));
    frame_define(&frame, FROM_TABLE);
    if (buffer->allocated != 0)
        buffer_event(buffer->body.buffer, 1, buffer->body.usage, buffer->allocated,
                     FROM_TABLE);
}

static struct buffer *buffer_find(const void *pointer)
{
    for (uint32_t i = 0; i < n_buffers; i++)
        if (buffers[i].pointer == pointer)
            return &buffers[i];
    return NULL;
}

uint32_t buffer_number(void *pointer)
{
    const struct buffer *buffer = buffer_find(pointer);
    return buffer ? buffer->body.buffer : UNKNOWN_U32;
}

void buffer_seen(void *pointer, bool is_new)
{
    if (pointer == NULL || buffer_find(pointer) != NULL)
        return;
    if (n_buffers == room_buffers) {
        uint32_t room = room_buffers ? room_buffers * 2 : 64;
        struct buffer *more = realloc(buffers, room * sizeof *buffers);
        if (more == NULL)
            return;
        buffers = more;
        room_buffers = room;
    }
    const char *name = ggml.buffer_name ? ggml.buffer_name(pointer) : NULL;
    struct buffer buffer = {.pointer = pointer, .name = strdup(name ? name : "")};
    if (buffer.name == NULL)
        return;
    is_moved = true;
    buffer.seen = monotonic_ns();
    buffer.allocated = is_new ? buffer.seen : 0;
    buffer.body = (struct def_buffer){
        .buffer = next_buffer++,
        .usage = ggml.buffer_usage ? (uint32_t)ggml.buffer_usage(pointer) : UNKNOWN_U32,
        .pointer = (uint64_t)(uintptr_t)pointer,
        .size = ggml.buffer_size ? ggml.buffer_size(pointer) : 0,
    };
    if (ggml.buffer_base && buffer.body.size > 0)
        buffer.body.base = (uint64_t)(uintptr_t)ggml.buffer_base(pointer);
    buffers[n_buffers++] = buffer;
    buffer_write(&buffer);
}

void buffer_gone(void *pointer)
{
    struct buffer *buffer = buffer_find(pointer);
    if (buffer == NULL)
        return;
    is_moved = true;
    n_buffers_freed++;
    buffer_event(buffer->body.buffer, 2, 0, monotonic_ns(), ONCE);
    free(buffer->name);
    *buffer = buffers[--n_buffers];
}

void buffer_used(void *pointer, int usage)
{
    struct buffer *buffer = buffer_find(pointer);
    if (buffer == NULL)
        return;
    buffer->body.usage = (uint32_t)usage;
    buffer_event(buffer->body.buffer, 3, (uint64_t)usage, monotonic_ns(), FROM_TABLE);
}

// ---- backends -------------------------------------------------------------------------

static struct backend {
    void *pointer;
    char *name, *device, *description;
    uint32_t number;
    uint64_t seen, last_used;
} backends[MAX_BACKENDS];
static uint32_t n_backends, next_backend = 1;
static uint64_t n_used;

static void backend_write(const struct backend *backend)
{
    struct def_backend body = {backend->number, 0, (uint64_t)(uintptr_t)backend->pointer};
    const char *texts[] = {backend->name, backend->device, backend->description};
    struct frame frame = {0};
    frame_begin(&frame, DEF_BACKEND, backend->seen);
    frame_add(&frame, &body, sizeof body);
    for (int i = 0; i < 3; i++)
        frame_text(&frame, texts[i] ? texts[i] : "", texts[i] ? strlen(texts[i]) : 0);
    frame_define(&frame, FROM_TABLE);
}

static char *copy_of(const char *text) { return text ? strdup(text) : NULL; }

uint32_t backend_number(void *backend)
{
    const char *name = backend && ggml.backend_name ? ggml.backend_name(backend) : NULL;
    if (name == NULL)
        return 0;
    uint32_t i = 0, oldest = 0;
    for (; i < n_backends && backends[i].pointer != backend; i++)
        if (backends[i].last_used < backends[oldest].last_used)
            oldest = i;
    if (i < n_backends && strcmp(backends[i].name, name) == 0) {
        backends[i].last_used = ++n_used;
        return backends[i].number;
    }
    if (i == MAX_BACKENDS) // a program that makes ever new ones
        i = oldest;
    char *own = strdup(name);
    if (own == NULL)
        return 0;
    if (i < n_backends) { // another one at the same address, or an old one
        free(backends[i].name);
        free(backends[i].device);
        free(backends[i].description);
    } else {
        n_backends++;
    }
    void *device = ggml.backend_device ? ggml.backend_device(backend) : NULL;
    backends[i] = (struct backend){
        backend,
        own,
        copy_of(device && ggml.dev_name ? ggml.dev_name(device) : NULL),
        copy_of(device && ggml.dev_description ? ggml.dev_description(device) : NULL),
        next_backend++,
        monotonic_ns(),
        ++n_used,
    };
    backend_write(&backends[i]);
    return backends[i].number;
}

// ---- ops and types --------------------------------------------------------------------

static uint8_t ops_written[65536 / 8], types_written[65536 / 8];

static bool is_first(uint8_t *seen, int number)
{
    if (number < 0 || number > 65535 || seen[number / 8] >> (number % 8) & 1)
        return false;
    seen[number / 8] |= (uint8_t)(1 << (number % 8));
    return true;
}

void op_write(int op)
{
    if (!is_first(ops_written, op))
        return;
    uint32_t number = (uint32_t)op;
    const char *name = ggml.op_name(op);
    struct frame frame = {0};
    frame_begin(&frame, DEF_OP, monotonic_ns());
    frame_add(&frame, &number, sizeof number);
    frame_text(&frame, name, strlen(name));
    frame_define(&frame, WITH_PROCESS);
}

void type_write(int type)
{
    if (!ggml.type_name || !ggml.blck_size || !ggml.type_size ||
        !is_first(types_written, type))
        return;
    struct {
        uint32_t number, block;
        uint64_t bytes;
    } body = {(uint32_t)type, (uint32_t)ggml.blck_size(type), ggml.type_size(type)};
    const char *name = ggml.type_name(type);
    name = name ? name : "";
    struct frame frame = {0};
    frame_begin(&frame, DEF_TYPE, monotonic_ns());
    frame_add(&frame, &body, sizeof body);
    frame_text(&frame, name, strlen(name));
    frame_define(&frame, WITH_PROCESS);
}


void lasting_write(void)
{
    for (uint32_t i = 0; i < n_models; i++)
        if (models[i].to > models[i].from)
            mapping_write(&models[i]);
    for (uint32_t i = 0; i < n_buffers; i++)
        buffer_write(&buffers[i]);
    for (uint32_t i = 0; i < n_backends; i++)
        backend_write(&backends[i]);
}
