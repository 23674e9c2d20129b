// What records name by number: models and their tensors, buffers, ops, and the nodes of
// each distinct graph. All of it is told once, when it is first seen.

#define _GNU_SOURCE
#include "tracer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BACKENDS 256
#define MOST_BUILDS 1024
#define MOST_MODELS 256
#define MOST_NODES (1 << 20)

// ---- models: tensors of the files by name ---------------------------------------------

struct model {
    char *path;
    uint64_t size;
    // Where it lies in memory, as of the last look; one place.
    uint64_t from, to, offset;
};

struct weight {
    char *name;
    int64_t ne[4];
    uint64_t offset, size;
    uint32_t model, index;
    int32_t type;
    uint32_t next; // index + 1 of the next of the same hash
};

static struct model models[MOST_MODELS];
static uint32_t n_models;
static struct weight *weights;
static uint32_t n_weights, room_weights;
static uint32_t weights_by_name[4096];

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
    if (realpath(path, real) == NULL || n_models == MOST_MODELS ||
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
    frame_define(&frame, true);
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
        struct def_weight told = {number, (uint32_t)i, (uint32_t)weight.type, 0,
                                  {0},    weight.offset, weight.size};
        for (int k = 0; tensor != NULL && k < 4; k++) {
            told.ne[k] = (uint64_t)(weight.ne[k] = tensor->ne[k]);
            if (tensor->ne[k] != 1)
                told.n_dims = (uint32_t)k + 1;
        }
        frame_begin(&frame, DEF_WEIGHT, now);
        frame_add(&frame, &told, sizeof told);
        frame_text(&frame, name, strlen(name));
        frame_define(&frame, true);
        if (weight.name != NULL)
            weight_add(weight);
    }
}

// Where the models' files lie in memory now, from the kernel's own list.
static void models_locate(void)
{
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
                *model = (struct model){model->path, model->size, from, to, offset};
                struct def_mapping told = {from, to - from, offset};
                struct frame frame = {0};
                frame_begin(&frame, DEF_MAPPING, monotonic_ns());
                frame_add(&frame, &told, sizeof told);
                frame_text(&frame, path, strlen(path));
                frame_define(&frame, false);
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

// ---- buffers --------------------------------------------------------------------------

struct buffer {
    void *pointer;
    uint32_t number;
};
static struct buffer *buffers;
static uint32_t n_buffers, room_buffers, next_buffer;

static void buffer_tell(uint32_t number, uint32_t kind, uint64_t usage)
{
    struct {
        uint32_t number, kind;
        uint64_t usage;
    } told = {number, kind, usage};
    struct frame frame = {0};
    frame_begin(&frame, EVENT_BUFFER, monotonic_ns());
    frame_add(&frame, &told, sizeof told);
    frame_define(&frame, true);
}

uint32_t buffer_number(void *buffer)
{
    for (uint32_t i = 0; i < n_buffers; i++)
        if (buffers[i].pointer == buffer)
            return buffers[i].number;
    return UNKNOWN_U32;
}

void buffer_seen(void *buffer, bool is_new)
{
    if (buffer == NULL || buffer_number(buffer) != UNKNOWN_U32)
        return;
    if (n_buffers == room_buffers) {
        uint32_t room = room_buffers ? room_buffers * 2 : 64;
        struct buffer *more = realloc(buffers, room * sizeof *buffers);
        if (more == NULL)
            return;
        buffers = more;
        room_buffers = room;
    }
    buffers[n_buffers++] = (struct buffer){buffer, next_buffer};
    struct def_buffer told = {
        .buffer = next_buffer++,
        .usage = ggml.buffer_usage ? (uint32_t)ggml.buffer_usage(buffer) : UNKNOWN_U32,
        .pointer = (uint64_t)(uintptr_t)buffer,
        .size = ggml.buffer_size ? ggml.buffer_size(buffer) : 0,
    };
    if (ggml.buffer_base && told.size > 0)
        told.base = (uint64_t)(uintptr_t)ggml.buffer_base(buffer);
    const char *name = ggml.buffer_name ? ggml.buffer_name(buffer) : "";
    struct frame frame = {0};
    frame_begin(&frame, DEF_BUFFER, monotonic_ns());
    frame_add(&frame, &told, sizeof told);
    frame_text(&frame, name, strlen(name));
    frame_define(&frame, true);
    if (is_new)
        buffer_tell(told.buffer, 1, told.usage);
}

void buffer_gone(void *buffer)
{
    for (uint32_t i = 0; i < n_buffers; i++)
        if (buffers[i].pointer == buffer) {
            buffer_tell(buffers[i].number, 2, 0);
            buffers[i] = buffers[--n_buffers];
            return;
        }
}

void buffer_used(void *buffer, int usage)
{
    uint32_t number = buffer_number(buffer);
    if (number != UNKNOWN_U32)
        buffer_tell(number, 3, (uint64_t)usage);
}

// ---- backends -------------------------------------------------------------------------

static struct backend {
    void *pointer;
    char *name;
    uint32_t number;
} backends[MOST_BACKENDS];
static uint32_t n_backends, next_backend = 1;

static void add_name(struct frame *frame, const char *name)
{
    name = name ? name : "";
    frame_text(frame, name, strlen(name));
}

uint32_t backend_number(void *backend)
{
    const char *name = backend && ggml.backend_name ? ggml.backend_name(backend) : NULL;
    if (name == NULL)
        return 0;
    uint32_t i = 0;
    while (i < n_backends && backends[i].pointer != backend)
        i++;
    if (i < n_backends && strcmp(backends[i].name, name) == 0)
        return backends[i].number;
    if (i == MOST_BACKENDS)
        return 0;
    char *kept = strdup(name);
    if (kept == NULL)
        return 0;
    if (i < n_backends) // another one at the same address
        free(backends[i].name);
    else
        n_backends++;
    backends[i] = (struct backend){backend, kept, next_backend};
    struct def_backend told = {next_backend++, 0, (uint64_t)(uintptr_t)backend};
    void *device = ggml.backend_device ? ggml.backend_device(backend) : NULL;
    struct frame frame = {0};
    frame_begin(&frame, DEF_BACKEND, monotonic_ns());
    frame_add(&frame, &told, sizeof told);
    add_name(&frame, name);
    add_name(&frame, device && ggml.dev_name ? ggml.dev_name(device) : NULL);
    add_name(&frame, device && ggml.dev_description ? ggml.dev_description(device) : NULL);
    frame_define(&frame, true);
    return backends[i].number;
}

// ---- ops and types --------------------------------------------------------------------

static uint8_t ops_told[65536 / 8], types_told[65536 / 8];

static bool is_first(uint8_t *told, int number)
{
    if (number < 0 || number > 65535 || told[number / 8] >> (number % 8) & 1)
        return false;
    told[number / 8] |= (uint8_t)(1 << (number % 8));
    return true;
}

static void op_tell(int op)
{
    if (!is_first(ops_told, op))
        return;
    uint32_t number = (uint32_t)op;
    const char *name = ggml.op_name(op);
    struct frame frame = {0};
    frame_begin(&frame, DEF_OP, monotonic_ns());
    frame_add(&frame, &number, sizeof number);
    frame_text(&frame, name, strlen(name));
    frame_define(&frame, true);
}

static void type_tell(int type)
{
    if (!ggml.type_name || !ggml.blck_size || !ggml.type_size ||
        !is_first(types_told, type))
        return;
    struct {
        uint32_t number, block;
        uint64_t bytes;
    } told = {(uint32_t)type, (uint32_t)ggml.blck_size(type), ggml.type_size(type)};
    const char *name = ggml.type_name(type);
    name = name ? name : "";
    struct frame frame = {0};
    frame_begin(&frame, DEF_TYPE, monotonic_ns());
    frame_add(&frame, &told, sizeof told);
    frame_text(&frame, name, strlen(name));
    frame_define(&frame, true);
}

// ---- builds ---------------------------------------------------------------------------

static struct build *builds[MOST_BUILDS];
static uint32_t next_build;

uint64_t graph_signature(struct ggml_cgraph *graph, int n_nodes)
{
    uint64_t hash = (uint64_t)n_nodes * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < n_nodes; i++) {
        const struct ggml_tensor *node = ggml.graph_node(graph, i);
        uint64_t shape = (uint64_t)node->ne[0] ^ (uint64_t)node->ne[1] << 20 ^
                         (uint64_t)node->ne[2] << 40 ^ (uint64_t)node->op << 54;
        uint64_t place = (uint64_t)(uintptr_t)node ^ (uint64_t)(uintptr_t)node->data * 31 ^
                         (uint64_t)(uintptr_t)node->src[0] * 131;
        hash = (hash ^ shape) * 0xFF51AFD7ED558CCDu;
        hash = (hash ^ place ^ hash >> 32) * 0xC4CEB9FE1A85EC53u;
    }
    return hash ^ hash >> 29;
}

static int layer_of(const char *name)
{
    const char *at = strncmp(name, "blk.", 4) == 0 ? name + 4 : NULL;
    if (at == NULL) {
        at = strstr(name, "_l"); // cache_k_l5
        if (strncmp(name, "cache_", 6) != 0 || at == NULL || at[2] < '0' || at[2] > '9')
            at = strrchr(name, '-'); // Qcur-5
        else
            at += 1;
        at = at ? at + 1 : NULL;
    }
    if (at == NULL || *at < '0' || *at > '9')
        return -1;
    long number = 0;
    while (*at >= '0' && *at <= '9' && number < 65535)
        number = number * 10 + (*at++ - '0');
    return number < 65535 ? (int)number : -1;
}

// Tensors of a build by address.
struct places {
    const struct ggml_tensor **tensors;
    uint32_t *slots;
    uint32_t n, room, n_slots;
};

static uint32_t spread(const void *pointer)
{
    uint64_t at = (uint64_t)(uintptr_t)pointer >> 4;
    return (uint32_t)((at * 0x9E3779B97F4A7C15u) >> 32);
}

static uint32_t place_of(struct places *places, const struct ggml_tensor *tensor)
{
    if (tensor == NULL)
        return UNKNOWN_U32;
    uint32_t slot = spread(tensor) & (places->n_slots - 1);
    while (places->slots[slot] != 0) {
        uint32_t index = places->slots[slot] - 1;
        if (places->tensors[index] == tensor)
            return index;
        slot = (slot + 1) & (places->n_slots - 1);
    }
    if (places->n == places->room)
        return UNKNOWN_U32;
    places->tensors[places->n] = tensor;
    places->slots[slot] = ++places->n;
    return places->n - 1;
}

static bool name_is(int op, const char *name)
{
    return strcmp(ggml.op_name(op), name) == 0;
}

static bool is_run(const struct ggml_tensor *node, bool has_flags)
{
    static const char *const empty[] = {"NONE", "RESHAPE", "TRANSPOSE", "VIEW",
                                        "PERMUTE"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (name_is(node->op, empty[i]))
            return false;
    for (int k = 0; k < 4; k++)
        if (node->ne[k] == 0)
            return false;
    return !has_flags || (node->flags & GGML_FLAG_COMPUTE) != 0;
}

// As ggml-cpu does it: RMS_NORM and the MUL behind it are one step.
static bool runs_within(const struct ggml_tensor *norm, const struct ggml_tensor *node,
                        uint32_t uses)
{
    if (!fusion_is_hooked() || !name_is(norm->op, "RMS_NORM") ||
        !name_is(node->op, "MUL") || uses != 1 || norm->view_src || node->view_src)
        return false;
    const struct ggml_tensor *weight = node->src[0] == norm   ? node->src[1]
                                       : node->src[1] == norm ? node->src[0]
                                                              : NULL;
    return weight != NULL && norm->src[0] && norm->src[0]->type == 0 &&
           node->type == 0 && weight->type == 0 && weight->ne[0] == norm->ne[0] &&
           weight->nb[0] == 4 && (norm->flags & 2) == 0;
}

static void tell_build(const struct build *build, const struct places *places,
                       const uint32_t *flags,
                       uint32_t (*sources)[TENSOR_SOURCES + 1])
{
    uint64_t now = monotonic_ns();
    struct frame frame = {0};
    struct def_build head = {build->number, build->n_nodes, places->n,
                             build->n_steps - build->n_fused, build->n_fused, 0,
                             build->signature};
    frame_begin(&frame, DEF_BUILD, now);
    frame_add(&frame, &head, sizeof head);
    for (uint32_t i = 0; i < places->n; i++) {
        const struct ggml_tensor *tensor = places->tensors[i];
        const struct ggml_tensor *storage = storage_of(tensor);
        bool by_place;
        const struct weight *weight =
            name_is(storage->op, "NONE") ? weight_of(storage, &by_place) : NULL;
        buffer_seen(storage->buffer, false);
        op_tell(tensor->op);
        type_tell(tensor->type);
        struct def_tensor told = {
            .op = (uint16_t)tensor->op,
            .type = (uint16_t)tensor->type,
            .flags = flags[i],
            .ggml_flags = (uint32_t)tensor->flags,
            .layer = layer_of(tensor->name),
            .pointer = (uint64_t)(uintptr_t)tensor,
            .data = (uint64_t)(uintptr_t)tensor->data,
            .bytes = ggml.nbytes(tensor),
            .offset = UNKNOWN_U64,
            .model = UNKNOWN_U32,
            .weight = UNKNOWN_U32,
            .buffer = buffer_number(storage->buffer),
            .view_source = sources[i][TENSOR_SOURCES],
        };
        if (tensor->view_src != NULL)
            told.flags |= TENSOR_VIEW;
        if (weight != NULL) {
            told.flags |= TENSOR_WEIGHT | (by_place ? TENSOR_BY_MAPPING : 0);
            told.offset = weight->offset + (tensor->view_src ? tensor->view_offs : 0);
            told.model = weight->model;
            told.weight = weight->index;
        }
        for (int k = 0; k < 4; k++) {
            told.ne[k] = (uint64_t)tensor->ne[k];
            told.nb[k] = tensor->nb[k];
        }
        for (int k = 0; k < TENSOR_SOURCES; k++)
            told.sources[k] = sources[i][k];
        frame_add(&frame, &told, sizeof told);
        size_t length = strnlen(tensor->name, sizeof tensor->name);
        size_t begin = frame.size;
        frame_text(&frame, tensor->name, length);
        frame_add(&frame, NULL, (begin - frame.size) & 7);
    }
    frame_define(&frame, false);
}

static void mark_experts(struct build *build)
{
    for (uint32_t i = 0; i < build->n_steps; i++) {
        const struct ggml_tensor *node = build->steps[i].tensor;
        if (!name_is(node->op, "MUL_MAT_ID"))
            continue;
        const struct ggml_tensor *ids = node->src[2];
        if (ids == NULL || ids->data == NULL)
            continue;
        // Several multiplications share a choice: the last of them tells it.
        bool is_last = true;
        for (uint32_t k = i + 1; is_last && k < build->n_steps && k < i + 64; k++) {
            const struct ggml_tensor *other = build->steps[k].tensor;
            is_last = other->op != node->op || other->src[2] != ids;
        }
        if (!is_last)
            continue;
        build->steps[i].flags |= STEP_EXPERTS;
        size_t n = (size_t)(ids->ne[0] * ids->ne[1]);
        size_t heads = (size_t)(ids->ne[1] / EXPERT_ROWS + 1) * EXPERT_HEAD;
        build->expert_bytes += heads + 4 * n;
        for (uint32_t k = i; k > 0 && k + 64 > i; k--) {
            const struct ggml_tensor *other = build->steps[k - 1].tensor;
            if (!name_is(other->op, "GET_ROWS") || other->src[1] != ids ||
                other->src[0]->type != 0 || other->src[0]->data == NULL)
                continue;
            build->steps[k - 1].flags |= STEP_ROUTER;
            build->expert_bytes += heads + 8 * n;
            break;
        }
    }
}

// `nodes` are all of the graph: where no output is asked for, the node that picks them
// out does not run.
static void find_inputs(struct build *build, const struct ggml_tensor **nodes)
{
    for (uint32_t i = 0; i < build->n_nodes; i++) {
        const struct ggml_tensor *node = nodes[i], *input = node->src[1];
        if (input == NULL || input->type != 26 ||
            !name_is(storage_of(input)->op, "NONE"))
            continue;
        if (name_is(node->op, "GET_ROWS")) {
            if (strcmp(input->name, "inp_tokens") == 0 && input->data != NULL)
                build->tokens = input;
            else if (strcmp(input->name, "out_ids") == 0 ||
                     strcmp(input->name, "inp_out_ids") == 0)
                build->outputs = input;
        }
        if (build->positions == NULL && input->data != NULL && name_is(node->op, "ROPE")) {
            build->positions = input;
            build->n_rows = node->ne[2];
        }
    }
    const struct ggml_tensor **all[] = {&build->tokens, &build->positions,
                                        &build->outputs};
    for (int i = 0; i < 3; i++) {
        const struct ggml_tensor *input = *all[i];
        void *buffer = input ? storage_of(input)->buffer : NULL;
        if (buffer && ggml.buffer_is_host && !ggml.buffer_is_host(buffer))
            *all[i] = NULL;
    }
}

static bool index_steps(struct build *build)
{
    build->n_slots = 16;
    while (build->n_slots < 2 * build->n_steps)
        build->n_slots *= 2;
    build->hash = calloc(build->n_slots, sizeof *build->hash);
    if (build->hash == NULL)
        return false;
    for (uint32_t i = 0; i < build->n_steps; i++) {
        uint32_t slot = spread(build->steps[i].tensor) & (build->n_slots - 1);
        while (build->hash[slot] != 0)
            slot = (slot + 1) & (build->n_slots - 1);
        build->hash[slot] = i + 1;
    }
    return true;
}

int64_t step_find(const struct build *build, const struct ggml_tensor *tensor)
{
    uint32_t slot = spread(tensor) & (build->n_slots - 1);
    for (; build->hash[slot] != 0; slot = (slot + 1) & (build->n_slots - 1))
        if (build->steps[build->hash[slot] - 1].tensor == tensor)
            return build->hash[slot] - 1;
    return -1;
}

void build_filter(struct build *build, const struct ring_control *control)
{
    build->n_recorded = 0;
    for (uint32_t i = 0; i < build->n_steps; i++) {
        struct step *step = &build->steps[i];
        int layer = build->layers[i];
        bool is_out = step->op < 256 && control->op_mask[step->op / 64] >> step->op % 64 & 1;
        if (control->layer_first != 0 || control->layer_last != 0)
            is_out |= layer < (int64_t)control->layer_first ||
                      layer > (int64_t)control->layer_last;
        step->flags = (uint16_t)((step->flags & ~STEP_SKIP) | (is_out ? STEP_SKIP : 0));
        build->n_recorded += (step->flags & (STEP_SKIP | STEP_FUSED)) == 0;
    }
    build->filter_seq = control->filter_seq;
}

static void build_free(struct build *build)
{
    if (build != NULL) {
        free(build->steps);
        free(build->hash);
        free(build->layers);
        free(build);
    }
}

static struct build *build_make(struct ggml_cgraph *graph, uint32_t n,
                                uint64_t signature)
{
    struct build *build = calloc(1, sizeof *build);
    uint32_t room = n * 4 + 64;
    struct places places = {.room = room, .n_slots = 1};
    while (places.n_slots < 2 * room)
        places.n_slots *= 2;
    places.tensors = calloc(room, sizeof *places.tensors);
    places.slots = calloc(places.n_slots, sizeof *places.slots);
    uint32_t *flags = calloc(room, sizeof *flags), *uses = calloc(room, sizeof *uses);
    uint32_t(*sources)[TENSOR_SOURCES + 1] = calloc(room, sizeof *sources);
    bool is_good = build && places.tensors && places.slots && flags && uses && sources;
    if (is_good) {
        build->signature = signature;
        build->number = next_build;
        build->n_nodes = n;
        build->steps = calloc(n + 1, sizeof *build->steps);
        build->layers = calloc(n + 1, sizeof *build->layers);
        is_good = build->steps && build->layers;
    }
    if (is_good) {
        bool has_flags = false;
        for (uint32_t i = 0; i < n; i++) {
            const struct ggml_tensor *node = ggml.graph_node(graph, (int)i);
            place_of(&places, node);
            has_flags |= (node->flags & GGML_FLAG_COMPUTE) != 0;
        }
        // What nodes read is added behind them, and looked at in its turn.
        for (uint32_t i = 0; i < places.n; i++) {
            const struct ggml_tensor *tensor = places.tensors[i];
            for (int k = 0; k < TENSOR_SOURCES; k++) {
                // Beyond the nodes only the way to a view's storage matters.
                sources[i][k] = i < n ? place_of(&places, tensor->src[k]) : UNKNOWN_U32;
                if (sources[i][k] != UNKNOWN_U32)
                    uses[sources[i][k]]++;
            }
            sources[i][TENSOR_SOURCES] = place_of(&places, tensor->view_src);
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct ggml_tensor *node = places.tensors[i];
            if (!is_run(node, has_flags))
                continue;
            flags[i] = TENSOR_COMPUTED;
            uint16_t step_flags = 0;
            if (i > 0 && flags[i - 1] == TENSOR_COMPUTED &&
                runs_within(places.tensors[i - 1], node, uses[i - 1])) {
                flags[i] = TENSOR_FUSED;
                step_flags = STEP_FUSED;
                build->n_fused++;
            }
            build->layers[build->n_steps] = layer_of(node->name);
            build->steps[build->n_steps++] =
                (struct step){node, i, (uint16_t)node->op, step_flags};
        }
        build->n_recorded = build->n_steps - build->n_fused;
        find_inputs(build, places.tensors);
        mark_experts(build);
        is_good = index_steps(build);
    }
    if (is_good) {
        models_locate();
        tell_build(build, &places, flags, sources);
        next_build++;
    } else {
        build_free(build);
        build = NULL;
    }
    free(places.tensors);
    free(places.slots);
    free(flags);
    free(uses);
    free(sources);
    return build;
}

struct build *build_of(struct ggml_cgraph *graph, int n_nodes, uint64_t signature)
{
    if (n_nodes <= 0 || n_nodes > MOST_NODES)
        return NULL;
    uint32_t n = next_build < MOST_BUILDS ? next_build : MOST_BUILDS;
    for (uint32_t i = 0; i < n; i++)
        if (builds[i] != NULL && builds[i]->signature == signature)
            return builds[i];
    struct build *made = build_make(graph, (uint32_t)n_nodes, signature);
    if (made != NULL) {
        // The oldest of 1,024 has not been computed for long.
        struct build **place = &builds[made->number % MOST_BUILDS];
        build_free(*place);
        *place = made;
    }
    return made;
}

// A child's ring has none of them.
void builds_forget(void)
{
    memset(builds, 0, sizeof builds);
    for (uint32_t i = 0; i < n_models; i++)
        models[i].from = models[i].to = 0;
}
