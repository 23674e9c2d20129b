// The nodes of each distinct graph: found by its signature, written when it is first
// seen and once in every generation of definitions in which a graph uses it.

#define _GNU_SOURCE
#include "tracer.h"

#include <stdlib.h>
#include <string.h>

// ---- builds ---------------------------------------------------------------------------

#ifndef MAX_BUILDS // tests have fewer: then they are freed all the time
#define MAX_BUILDS 1024
#endif
#define MAX_BUILD_BYTES ((size_t)16 << 20)
#define MAX_NODES (1 << 20)
#define N_CHAINS 1024

static uint32_t next_build;

uint64_t graph_signature(struct ggml_cgraph *graph, int n_nodes)
{
    uint64_t hash = ((uint64_t)n_nodes + ((uint64_t)n_buffers_freed << 32)) *
                    0x9E3779B97F4A7C15u;
    for (int i = 0; i < n_nodes; i++) {
        const struct ggml_tensor *node = ggml.graph_node(graph, i);
        uint64_t shape = (uint64_t)node->ne[0] ^ (uint64_t)node->ne[1] << 20 ^
                         (uint64_t)node->ne[2] << 40 ^ (uint64_t)node->op << 54;
        uint64_t place = (uint64_t)(uintptr_t)node ^ (uint64_t)(uintptr_t)node->data * 31 ^
                         (uint64_t)(uintptr_t)node->src[0] * 131 ^
                         (uint64_t)(uintptr_t)node->src[1] * 8191;
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

static void mark_experts(struct build *build)
{
    for (uint32_t i = 0; i < build->n_steps; i++) {
        const struct ggml_tensor *node = build->steps[i].tensor;
        if (!name_is(node->op, "MUL_MAT_ID"))
            continue;
        const struct ggml_tensor *ids = node->src[2];
        if (ids == NULL || ids->data == NULL)
            continue;
        // Several multiplications share a choice: the last of them decides it.
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

// ---- a look at a graph ------------------------------------------------------------------

// Its nodes and what they read, by their places among both.
struct scan {
    struct places places;
    uint32_t n_nodes;
    uint32_t *flags, *uses;
    uint32_t (*sources)[TENSOR_SOURCES + 1]; // the last: the storage of a view
};

static void scan_free(struct scan *scan)
{
    free(scan->places.tensors);
    free(scan->places.slots);
    free(scan->flags);
    free(scan->uses);
    free(scan->sources);
}

static bool scan_graph(struct scan *scan, struct ggml_cgraph *graph, uint32_t n)
{
    uint32_t room = n * 4 + 64;
    struct places *places = &scan->places;
    *scan = (struct scan){.places = {.room = room, .n_slots = 1}, .n_nodes = n};
    while (places->n_slots < 2 * room)
        places->n_slots *= 2;
    places->tensors = calloc(room, sizeof *places->tensors);
    places->slots = calloc(places->n_slots, sizeof *places->slots);
    scan->flags = calloc(room, sizeof *scan->flags);
    scan->uses = calloc(room, sizeof *scan->uses);
    scan->sources = calloc(room, sizeof *scan->sources);
    if (!places->tensors || !places->slots || !scan->flags || !scan->uses ||
        !scan->sources)
        return false;
    bool has_flags = false;
    for (uint32_t i = 0; i < n; i++) {
        const struct ggml_tensor *node = ggml.graph_node(graph, (int)i);
        place_of(places, node);
        has_flags |= (node->flags & GGML_FLAG_COMPUTE) != 0;
    }
    // What nodes read is added behind them, and looked at in its turn.
    for (uint32_t i = 0; i < places->n; i++) {
        const struct ggml_tensor *tensor = places->tensors[i];
        uint32_t *sources = scan->sources[i];
        for (int k = 0; k < TENSOR_SOURCES; k++) {
            // Beyond the nodes only the way to a view's storage matters.
            sources[k] = i < n ? place_of(places, tensor->src[k]) : UNKNOWN_U32;
            if (sources[k] != UNKNOWN_U32)
                scan->uses[sources[k]]++;
        }
        sources[TENSOR_SOURCES] = place_of(places, tensor->view_src);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct ggml_tensor *node = places->tensors[i];
        if (!is_run(node, has_flags))
            continue;
        bool is_within = i > 0 && scan->flags[i - 1] == TENSOR_COMPUTED &&
                         runs_within(places->tensors[i - 1], node, scan->uses[i - 1]);
        scan->flags[i] = is_within ? TENSOR_FUSED : TENSOR_COMPUTED;
    }
    return true;
}

static struct def_tensor tensor_facts(const struct scan *scan, uint32_t i)
{
    const struct ggml_tensor *tensor = scan->places.tensors[i];
    const struct ggml_tensor *storage = storage_of(tensor);
    struct weight_place weight;
    struct def_tensor body = {
        .op = (uint16_t)tensor->op,
        .type = (uint16_t)tensor->type,
        .flags = scan->flags[i],
        .ggml_flags = (uint32_t)tensor->flags,
        .layer = layer_of(tensor->name),
        .pointer = (uint64_t)(uintptr_t)tensor,
        .data = (uint64_t)(uintptr_t)tensor->data,
        .bytes = ggml.nbytes(tensor),
        .offset = UNKNOWN_U64,
        .model = UNKNOWN_U32,
        .weight = UNKNOWN_U32,
        .buffer = buffer_number(storage->buffer),
        .view_source = scan->sources[i][TENSOR_SOURCES],
    };
    if (tensor->view_src != NULL)
        body.flags |= TENSOR_VIEW;
    if (name_is(storage->op, "NONE") && weight_find(storage, &weight)) {
        body.flags |= TENSOR_WEIGHT | (weight.by_place ? TENSOR_BY_MAPPING : 0);
        body.offset = weight.offset + (tensor->view_src ? tensor->view_offs : 0);
        body.model = weight.model;
        body.weight = weight.index;
    }
    for (int k = 0; k < 4; k++) {
        body.ne[k] = (uint64_t)tensor->ne[k];
        body.nb[k] = tensor->nb[k];
    }
    memcpy(body.sources, scan->sources[i], sizeof body.sources);
    return body;
}

// What it refers to is written before it.
static void write_build(struct build *build, const struct scan *scan)
{
    uint32_t n = scan->places.n;
    struct def_tensor *tensors = calloc(n ? n : 1, sizeof *tensors);
    const char **names = calloc(n ? n : 1, sizeof *names);
    bool is_written = tensors != NULL && names != NULL;
    if (is_written) {
        models_locate();
        for (uint32_t i = 0; i < n; i++) {
            const struct ggml_tensor *tensor = scan->places.tensors[i];
            buffer_seen(storage_of(tensor)->buffer, false);
            op_write(tensor->op);
            type_write(tensor->type);
            tensors[i] = tensor_facts(scan, i);
            names[i] = tensor->name;
        }
        struct def_build head = {build->number, build->n_nodes, n,
                                 build->n_steps - build->n_fused, build->n_fused, 0,
                                 build->signature};
        is_written = build_define(&head, tensors, names);
    }
    free(tensors);
    free(names);
    if (is_written) {
        builds_lost(-(int64_t)build->is_lost);
        build->generation = definitions_generation;
    } else if (build->generation == 0 && !build->is_lost) {
        builds_lost(1);
    }
    build->is_lost = !is_written && build->generation == 0;
}

void build_write(struct build *build, struct ggml_cgraph *graph)
{
    struct scan scan;
    if (build->generation == definitions_generation)
        return;
    if (scan_graph(&scan, graph, build->n_nodes))
        write_build(build, &scan);
    scan_free(&scan);
}

static bool fill_steps(struct build *build, const struct scan *scan)
{
    const struct ggml_tensor **nodes = scan->places.tensors;
    for (uint32_t i = 0; i < build->n_nodes; i++) {
        if (scan->flags[i] == 0)
            continue;
        bool is_fused = scan->flags[i] == TENSOR_FUSED;
        build->n_fused += is_fused;
        build->layers[build->n_steps] = layer_of(nodes[i]->name);
        build->steps[build->n_steps++] = (struct step){
            nodes[i], i, (uint16_t)nodes[i]->op, is_fused ? STEP_FUSED : 0};
    }
    build->n_recorded = build->n_steps - build->n_fused;
    find_inputs(build, nodes);
    mark_experts(build);
    return index_steps(build);
}

static struct build *build_make(struct ggml_cgraph *graph, uint32_t n,
                                uint64_t signature)
{
    struct build *build = calloc(1, sizeof *build);
    struct scan scan = {0};
    bool is_good = build != NULL && scan_graph(&scan, graph, n);
    if (is_good) {
        build->signature = signature;
        build->number = next_build;
        build->n_nodes = n;
        build->steps = calloc(n + 1, sizeof *build->steps);
        build->layers = calloc(n + 1, sizeof *build->layers);
        is_good = build->steps && build->layers && fill_steps(build, &scan);
    }
    if (is_good) {
        next_build++;
        write_build(build, &scan);
    } else {
        build_free(build);
        build = NULL;
    }
    scan_free(&scan);
    return build;
}

// ---- the builds that are known -----------------------------------------------------------

static struct build *chains[N_CHAINS]; // by signature
static struct build *dropped;          // to be freed when nobody looks at builds
static uint32_t n_builds;
static size_t builds_bytes;
static uint64_t n_taken;
static _Atomic uint32_t n_looking;

// Whoever begins to look after a build was taken from its slot does not find it there.
void builds_look_begins(void) { atomic_fetch_add(&n_looking, 1); }
void builds_look_ends(void) { atomic_fetch_sub(&n_looking, 1); }

static struct build **chain_of(uint64_t signature)
{
    return &chains[signature % N_CHAINS];
}

static size_t bytes_of(const struct build *build)
{
    return sizeof *build + build->n_slots * sizeof *build->hash +
           (build->n_nodes + 1) * (sizeof *build->steps + sizeof *build->layers);
}

static void free_dropped(void)
{
    if (dropped == NULL || atomic_load(&n_looking) > 0)
        return;
    while (dropped != NULL) {
        struct build *next = dropped->next;
        build_free(dropped);
        dropped = next;
    }
}

// Drop the one that no graph has needed for the longest time.
static bool drop_oldest(void)
{
    struct build **oldest = NULL;
    for (uint32_t i = 0; i < N_CHAINS; i++)
        for (struct build **at = &chains[i]; *at != NULL; at = &(*at)->next)
            if ((*at)->n_users == 0 &&
                (oldest == NULL || (*at)->last_used < (*oldest)->last_used))
                oldest = at;
    if (oldest == NULL)
        return false;
    struct build *build = *oldest;
    *oldest = build->next;
    n_builds--;
    builds_bytes -= bytes_of(build);
    build->next = dropped;
    dropped = build;
    return true;
}

struct build *build_take(struct ggml_cgraph *graph, int n_nodes, uint64_t signature)
{
    if (n_nodes <= 0 || n_nodes > MAX_NODES)
        return NULL;
    struct build **chain = chain_of(signature), *build = *chain;
    while (build != NULL && build->signature != signature)
        build = build->next;
    if (build == NULL) {
        build = build_make(graph, (uint32_t)n_nodes, signature);
        if (build == NULL)
            return NULL;
        build->next = *chain;
        *chain = build;
        n_builds++;
        builds_bytes += bytes_of(build);
        build->n_users++; // it is not the one to go
        while ((n_builds > MAX_BUILDS || builds_bytes > MAX_BUILD_BYTES) &&
               drop_oldest())
            ;
        build->n_users--;
    }
    build->n_users++;
    build->last_used = ++n_taken;
    free_dropped();
    return build;
}

void build_drop(struct build *build)
{
    if (build != NULL)
        build->n_users--;
}

// A child's ring has none of them.
void builds_forget(void)
{
    memset(chains, 0, sizeof chains);
    dropped = NULL;
    n_builds = 0;
    builds_bytes = 0;
    n_looking = 0;
    wholes_forget();
}
