// Every way into a program, and the hooks that replace ggml's functions there.
//
// A few of them are exported under ggml's own names: with LD_PRELOAD the loader binds
// objects that come later to these, and the first call looks through what is loaded.

#define _GNU_SOURCE
#include "tracer.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// On macOS nobody is bound by a name alone.
#ifdef __APPLE__
#define BY_NAME
#else
#define BY_NAME EXPORTED
#endif

#define NOWHERE \
    (struct surroundings){ \
        .ubatch = UNKNOWN_U32, .decode = UNKNOWN_U32, .ubatch_decode = UNKNOWN_U32 \
    }
__thread struct surroundings around = NOWHERE;

// What is called in the end; NULL until found.
static struct {
    int (*graph_compute)(struct ggml_cgraph *, struct ggml_cplan *);
    bool (*extra_compute_forward)(struct ggml_compute_params *, struct ggml_tensor *);
    void (*rms_norm_mul)(const struct ggml_compute_params *, struct ggml_tensor *,
                         struct ggml_tensor *);
    void (*barrier)(void *);
    void *(*gguf_from_file)(const char *, struct gguf_init_params);
    void *(*gguf_from_file_ptr)(FILE *, struct gguf_init_params);
    int (*backend_compute)(void *, struct ggml_cgraph *);
    int (*sched_compute)(void *, struct ggml_cgraph *);
    bool (*sched_alloc)(void *, struct ggml_cgraph *);
    void (*sched_synchronize)(void *);
    void (*sched_reset)(void *);
    void (*tensor_set)(struct ggml_tensor *, const void *, size_t, size_t);
    void (*tensor_get)(const struct ggml_tensor *, void *, size_t, size_t);
    void (*tensor_set_async)(void *, struct ggml_tensor *, const void *, size_t, size_t);
    void (*tensor_get_async)(void *, const struct ggml_tensor *, void *, size_t, size_t);
    void (*tensor_copy)(const struct ggml_tensor *, struct ggml_tensor *);
    void (*tensor_copy_async)(void *, void *, const struct ggml_tensor *,
                              struct ggml_tensor *);
    void *(*alloc_buffer)(void *, size_t);
    void *(*buffer_from_ptr)(void *, size_t);
    void *(*buffer_from_host)(void *, void *, size_t, size_t);
    void (*buffer_free)(void *);
    void (*buffer_set_usage)(void *, int);
    int32_t (*decode)(void *, struct llama_batch);
    int32_t (*encode)(void *, struct llama_batch);
    int32_t (*process)(void *, int, void *);
    int32_t (*batch_add)(void *, int32_t);
    int32_t (*batch_add_token)(void *, int32_t, int32_t);
    int32_t (*batch_add_embd)(void *, int32_t, struct llama_embd);
    bool (*batch_add_seq)(void *, int32_t, int32_t);
    bool (*batch_set_pos)(void *, int32_t, const int32_t *);
    bool (*batch_set_output_embd)(void *, int32_t, bool);
    bool (*batch_set_output_logits)(void *, int32_t, bool);
    void (*batch_clear)(void *);
    void (*batch_free)(void *);
    void (*sampler_apply)(void *, void *);
#ifdef __APPLE__
    void (*backend_init)(void);
#endif
} real;

// ---- what the program's own thread does ---------------------------------------------------

static bool is_telling(void)
{
    struct ring *ring = the_ring;
    return ring != NULL && ring->control->enabled;
}

static void write_host(enum host_kind kind, uint64_t begin, uint64_t end, uint64_t bytes,
                      uint32_t count)
{
    int error = errno;
    struct event_host body = {
        .kind = kind,
        .tid = thread_number(),
        .begin = begin,
        .end = end,
        .context = around.context,
        .bytes = bytes,
        .ubatch = around.ubatch,
        .count = count,
    };
    struct frame frame = {0};
    pthread_mutex_lock(&tracer_lock);
    frame_begin(&frame, EVENT_HOST, end);
    frame_add(&frame, &body, sizeof body);
    frame_write(&frame);
    pthread_mutex_unlock(&tracer_lock);
    errno = error;
}

// Many small moves of data in a row are recorded as one.
static __thread struct moves {
    uint64_t begin, end, bytes;
    uint32_t count, kind;
} moves;

static void write_moves(void)
{
    if (moves.count > 0 && is_telling())
        write_host(moves.kind, moves.begin, moves.end, moves.bytes, moves.count);
    moves = (struct moves){0};
}

static void moved(enum host_kind kind, uint64_t begin, uint64_t bytes)
{
    if (moves.count > 0 && moves.kind != (uint32_t)kind)
        write_moves();
    if (moves.count == 0)
        moves = (struct moves){.begin = begin, .kind = (uint32_t)kind};
    moves.end = monotonic_ns();
    moves.bytes += bytes;
    moves.count++;
}

// ---- in the place of ggml's functions -----------------------------------------------------

BY_NAME int ggml_graph_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    if (UNLIKELY(real.graph_compute == NULL || (the_ring == NULL && objects_changed())))
        attach();
    return graph_traced(graph, plan, real.graph_compute);
}

BY_NAME bool ggml_cpu_extra_compute_forward(struct ggml_compute_params *params,
                                             struct ggml_tensor *op)
{
    if (UNLIKELY(real.extra_compute_forward == NULL))
        attach();
    if (atomic_load_explicit(&n_computing, memory_order_relaxed))
        op_begins(params, op, false);
    return real.extra_compute_forward(params, op);
}

BY_NAME void
ggml_compute_forward_rms_norm_mul_fused(const struct ggml_compute_params *params,
                                        struct ggml_tensor *norm,
                                        struct ggml_tensor *mul)
{
    if (UNLIKELY(real.rms_norm_mul == NULL))
        attach();
    if (atomic_load_explicit(&n_computing, memory_order_relaxed))
        op_begins(params, norm, true);
    real.rms_norm_mul(params, norm, mul);
}

BY_NAME void ggml_barrier(void *threadpool)
{
    if (UNLIKELY(real.barrier == NULL))
        attach();
    if (atomic_load_explicit(&n_computing, memory_order_relaxed))
        barrier_passed(threadpool, real.barrier);
    else
        real.barrier(threadpool);
}

static void read_model(const void *gguf, const char *path, struct gguf_init_params params)
{
    int error = errno;
    pthread_mutex_lock(&tracer_lock);
    model_read(gguf, path, params.ctx ? *params.ctx : NULL);
    pthread_mutex_unlock(&tracer_lock);
    errno = error;
}

BY_NAME void *gguf_init_from_file(const char *path, struct gguf_init_params params)
{
    if (real.gguf_from_file == NULL || objects_changed())
        attach();
    void *gguf = real.gguf_from_file(path, params);
    if (gguf != NULL && path != NULL)
        read_model(gguf, path, params);
    return gguf;
}

static bool path_of(FILE *file, char *path, size_t room)
{
#ifdef __APPLE__
    (void)room; // MAXPATHLEN, which is less
    return fcntl(fileno(file), F_GETPATH, path) == 0;
#else
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(file));
    ssize_t n = readlink(link, path, room - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0;
#endif
}

BY_NAME void *gguf_init_from_file_ptr(FILE *file, struct gguf_init_params params)
{
    if (real.gguf_from_file_ptr == NULL || objects_changed())
        attach();
    void *gguf = real.gguf_from_file_ptr(file, params);
    char path[4096];
    if (gguf != NULL && file != NULL && path_of(file, path, sizeof path))
        read_model(gguf, path, params);
    return gguf;
}

BY_NAME int ggml_backend_graph_compute_async(void *backend, struct ggml_cgraph *graph)
{
    if (UNLIKELY(real.backend_compute == NULL))
        attach();
    return backend_graph_traced(backend, graph, real.backend_compute);
}

BY_NAME int ggml_backend_sched_graph_compute_async(void *sched,
                                                    struct ggml_cgraph *graph)
{
    if (UNLIKELY(real.sched_compute == NULL))
        attach();
    uint64_t outer = around.context, begin = monotonic_ns();
    write_moves();
    around.context = (uint64_t)(uintptr_t)sched;
    around.split = 0;
    around.ubatch = UNKNOWN_U32; // until one of its graphs shows it
    around.is_scheduled = true;
    int status = sched_graph_traced(sched, graph, real.sched_compute);
    around.is_scheduled = false;
    if (is_telling())
        write_host(HOST_COMPUTE, begin, monotonic_ns(), 0, 1);
    around.context = outer;
    return status;
}

static bool sched_alloc(void *sched, struct ggml_cgraph *graph)
{
    uint64_t outer = around.context, begin = monotonic_ns();
    around.context = (uint64_t)(uintptr_t)sched;
    bool is_done = real.sched_alloc(sched, graph);
    if (is_telling())
        write_host(HOST_ALLOC, begin, monotonic_ns(), 0, 1);
    around.context = outer;
    return is_done;
}

static void sched_synchronize(void *sched)
{
    uint64_t begin = monotonic_ns();
    write_moves();
    real.sched_synchronize(sched);
    // Programs ask often when there is nothing to wait for.
    uint64_t end = monotonic_ns();
    if (end - begin >= 1000 && is_telling())
        write_host(HOST_SYNC, begin, end, 0, 1);
}

static void sched_reset(void *sched)
{
    uint64_t begin = monotonic_ns();
    real.sched_reset(sched);
    if (is_telling())
        write_host(HOST_RESET, begin, monotonic_ns(), 0, 1);
}

static void tensor_set(struct ggml_tensor *tensor, const void *data, size_t at, size_t size)
{
    if (!is_telling()) {
        real.tensor_set(tensor, data, at, size);
        return;
    }
    uint64_t begin = monotonic_ns();
    real.tensor_set(tensor, data, at, size);
    moved(HOST_INPUT, begin, size);
}

static void tensor_get(const struct ggml_tensor *tensor, void *data, size_t at, size_t size)
{
    if (!is_telling()) {
        real.tensor_get(tensor, data, at, size);
        return;
    }
    uint64_t begin = monotonic_ns();
    real.tensor_get(tensor, data, at, size);
    moved(HOST_OUTPUT, begin, size);
}

static void tensor_set_async(void *backend, struct ggml_tensor *tensor, const void *data,
                             size_t at, size_t size)
{
    if (!is_telling()) {
        real.tensor_set_async(backend, tensor, data, at, size);
        return;
    }
    uint64_t begin = monotonic_ns();
    real.tensor_set_async(backend, tensor, data, at, size);
    moved(HOST_INPUT, begin, size);
}

static void tensor_get_async(void *backend, const struct ggml_tensor *tensor, void *data,
                             size_t at, size_t size)
{
    if (!is_telling()) {
        real.tensor_get_async(backend, tensor, data, at, size);
        return;
    }
    uint64_t begin = monotonic_ns();
    real.tensor_get_async(backend, tensor, data, at, size);
    moved(HOST_OUTPUT, begin, size);
}

static void write_copy(const struct ggml_tensor *from, const struct ggml_tensor *to,
                      uint64_t begin)
{
    if (!is_telling() || ggml_layout() != LAYOUT_KNOWN)
        return;
    int error = errno;
    pthread_mutex_lock(&tracer_lock);
    void *buffers[2] = {storage_of(from)->buffer, storage_of(to)->buffer};
    buffer_seen(buffers[0], false);
    buffer_seen(buffers[1], false);
    struct event_copy body = {
        .begin = begin,
        .end = monotonic_ns(),
        .bytes = ggml.nbytes(from),
        .from_buffer = buffer_number(buffers[0]),
        .to_buffer = buffer_number(buffers[1]),
        .context = around.context,
    };
    // What lies behind its end is left of another name.
    memcpy(body.name, from->name, strnlen(from->name, sizeof body.name - 1));
    struct frame frame = {0};
    frame_begin(&frame, EVENT_COPY, body.end);
    frame_add(&frame, &body, sizeof body);
    frame_write(&frame);
    pthread_mutex_unlock(&tracer_lock);
    errno = error;
}

static void tensor_copy(const struct ggml_tensor *from, struct ggml_tensor *to)
{
    uint64_t begin = monotonic_ns();
    real.tensor_copy(from, to);
    write_copy(from, to, begin);
}

// It calls tensor_copy where the backends cannot copy by themselves: written once.
static void tensor_copy_async(void *from_backend, void *to_backend,
                              const struct ggml_tensor *from, struct ggml_tensor *to)
{
    real.tensor_copy_async(from_backend, to_backend, from, to);
}

static void *made(void *buffer)
{
    int error = errno;
    if (buffer != NULL) {
        pthread_mutex_lock(&tracer_lock);
        buffer_seen(buffer, true);
        pthread_mutex_unlock(&tracer_lock);
    }
    errno = error;
    return buffer;
}

static void *alloc_buffer(void *type, size_t size)
{
    return made(real.alloc_buffer(type, size));
}

static void *buffer_from_ptr(void *pointer, size_t size)
{
    return made(real.buffer_from_ptr(pointer, size));
}

static void *buffer_from_host(void *device, void *pointer, size_t size, size_t largest)
{
    return made(real.buffer_from_host(device, pointer, size, largest));
}

static void buffer_free(void *buffer)
{
    pthread_mutex_lock(&tracer_lock);
    buffer_gone(buffer);
    pthread_mutex_unlock(&tracer_lock);
    real.buffer_free(buffer);
}

static void buffer_set_usage(void *buffer, int usage)
{
    real.buffer_set_usage(buffer, usage);
    pthread_mutex_lock(&tracer_lock);
    buffer_used(buffer, usage);
    pthread_mutex_unlock(&tracer_lock);
}

static void call_is_over(uint64_t begin, bool is_computed, bool is_encoded)
{
    int error = errno;
    write_moves();
    if (is_telling())
        write_host(HOST_DECODE, begin, monotonic_ns(), 0, 1);
    call_ends(is_computed, is_encoded);
    errno = error;
}

// Return when a decode begins. Those of a thread begin so many ns after each other at
// least, where a person is to follow them: the wait lies between two, and no time of any
// op has it.
static uint64_t begin_in_pace(void)
{
    static uint64_t pace = UINT64_MAX; // the same for all threads: whoever comes first
    static __thread uint64_t due;
    uint64_t wanted = __atomic_load_n(&pace, __ATOMIC_RELAXED);
    uint64_t now = monotonic_ns();
    if (wanted == 0)
        return now;
    if (wanted == UINT64_MAX) {
        const char *text = getenv("GGSCOPE_PACE_NS");
        wanted = text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;
        wanted = wanted < 100000000000u ? wanted : 100000000000u;
        __atomic_store_n(&pace, wanted, __ATOMIC_RELAXED);
    }
    if (now < due) {
        int error = errno;
        uint64_t rest = due - now;
        struct timespec wait = {(time_t)(rest / 1000000000u), (long)(rest % 1000000000u)};
        nanosleep(&wait, NULL); // a signal ends it: the program may want to end
        errno = error;
        now = monotonic_ns();
    }
    due = now + wanted;
    return now;
}

static int32_t decode(void *context, struct llama_batch batch)
{
    uint64_t begin = begin_in_pace();
    call_begins(context, &batch, false);
    int32_t status = real.decode(context, batch);
    call_is_over(begin, status == 0, false);
    return status;
}

static int32_t encode(void *context, struct llama_batch batch)
{
    uint64_t begin = monotonic_ns();
    call_begins(context, &batch, true);
    int32_t status = real.encode(context, batch);
    call_is_over(begin, status == 0, true);
    return status;
}

// `type` of llama_process.
#define PROCESS_ENCODE 0

static int32_t process(void *context, int type, void *batch)
{
    bool is_encoded = type == PROCESS_ENCODE;
    uint64_t begin = begin_in_pace();
    call_begins_with(context, batch, is_encoded);
    int32_t status = real.process(context, type, batch);
    call_is_over(begin, status == 0, is_encoded);
    return status;
}

static int32_t batch_add(void *batch, int32_t sequence)
{
    int32_t index = real.batch_add(batch, sequence);
    batch_added(batch, index, sequence, INT32_MIN);
    return index;
}

static int32_t batch_add_token(void *batch, int32_t sequence, int32_t token)
{
    int32_t index = real.batch_add_token(batch, sequence, token);
    batch_added(batch, index, sequence, token);
    return index;
}

static int32_t batch_add_embd(void *batch, int32_t sequence, struct llama_embd embedding)
{
    int32_t index = real.batch_add_embd(batch, sequence, embedding);
    batch_added(batch, index, sequence, INT32_MIN);
    return index;
}

static bool batch_add_seq(void *batch, int32_t index, int32_t sequence)
{
    bool is_done = real.batch_add_seq(batch, index, sequence);
    if (is_done)
        batch_changed(batch, index, BATCH_SEQUENCE, sequence);
    return is_done;
}

static bool batch_set_pos(void *batch, int32_t index, const int32_t *positions)
{
    bool is_done = real.batch_set_pos(batch, index, positions);
    if (is_done && positions != NULL)
        batch_changed(batch, index, BATCH_POSITION, positions[0]);
    return is_done;
}

static bool batch_set_output_embd(void *batch, int32_t index, bool value)
{
    bool is_done = real.batch_set_output_embd(batch, index, value);
    if (is_done)
        batch_changed(batch, index, BATCH_OUTPUT, value);
    return is_done;
}

static bool batch_set_output_logits(void *batch, int32_t index, bool value)
{
    bool is_done = real.batch_set_output_logits(batch, index, value);
    if (is_done)
        batch_changed(batch, index, BATCH_OUTPUT, value);
    return is_done;
}

static void batch_clear(void *batch)
{
    real.batch_clear(batch);
    batch_cleared(batch);
}

static void batch_free(void *batch)
{
    batch_freed(batch);
    real.batch_free(batch);
}

static void sampler_apply(void *sampler, void *candidates)
{
    static __thread uint32_t depth; // chains call their members
    uint64_t begin = 0;
    if (depth++ == 0) {
        write_moves();
        begin = monotonic_ns();
    }
    real.sampler_apply(sampler, candidates);
    if (--depth == 0 && is_telling())
        write_host(HOST_SAMPLE, begin, monotonic_ns(), 0, 1);
}

#ifdef __APPLE__
// The one call of a program into its libraries that comes before any backend is made,
// where ggml lies in the same library.
static void backend_init(void)
{
    real.backend_init();
    attach();
}
#endif

// ---- where they go ------------------------------------------------------------------------

#define FOUND(place) ((void **)(void *)&(place))
#define HOOK(name, place, wrapper) {name, FOUND(real.place), (void *)(wrapper), 0, false}
#define WITHIN(name, place, wrapper) {name, FOUND(real.place), (void *)(wrapper), 0, true}
#define FIND(name, place) {name, FOUND(ggml.place), NULL, 0, false}
static struct symbol symbols[] = {
    WITHIN("ggml_compute_forward_rms_norm_mul_fused", rms_norm_mul,
         ggml_compute_forward_rms_norm_mul_fused), // the first: see fusion_is_hooked
    WITHIN("ggml_graph_compute", graph_compute, ggml_graph_compute),
    WITHIN("ggml_cpu_extra_compute_forward", extra_compute_forward,
         ggml_cpu_extra_compute_forward),
    WITHIN("ggml_barrier", barrier, ggml_barrier),
    HOOK("gguf_init_from_file", gguf_from_file, gguf_init_from_file),
    HOOK("gguf_init_from_file_ptr", gguf_from_file_ptr, gguf_init_from_file_ptr),
    WITHIN("ggml_backend_graph_compute_async", backend_compute,
         ggml_backend_graph_compute_async),
    HOOK("ggml_backend_sched_graph_compute_async", sched_compute,
         ggml_backend_sched_graph_compute_async),
    HOOK("ggml_backend_sched_alloc_graph", sched_alloc, sched_alloc),
    HOOK("ggml_backend_sched_synchronize", sched_synchronize, sched_synchronize),
    HOOK("ggml_backend_sched_reset", sched_reset, sched_reset),
    HOOK("ggml_backend_tensor_set", tensor_set, tensor_set),
    HOOK("ggml_backend_tensor_get", tensor_get, tensor_get),
    HOOK("ggml_backend_tensor_set_async", tensor_set_async, tensor_set_async),
    HOOK("ggml_backend_tensor_get_async", tensor_get_async, tensor_get_async),
    HOOK("ggml_backend_tensor_copy", tensor_copy, tensor_copy),
    HOOK("ggml_backend_tensor_copy_async", tensor_copy_async, tensor_copy_async),
    HOOK("ggml_backend_buft_alloc_buffer", alloc_buffer, alloc_buffer),
    HOOK("ggml_backend_cpu_buffer_from_ptr", buffer_from_ptr, buffer_from_ptr),
    HOOK("ggml_backend_dev_buffer_from_host_ptr", buffer_from_host, buffer_from_host),
    HOOK("ggml_backend_buffer_free", buffer_free, buffer_free),
    HOOK("ggml_backend_buffer_set_usage", buffer_set_usage, buffer_set_usage),
#ifdef __APPLE__
    HOOK("llama_backend_init", backend_init, backend_init),
#endif
    HOOK("llama_decode", decode, decode),
    HOOK("llama_encode", encode, encode),
    HOOK("llama_process", process, process),
    HOOK("llama_batch_ext_add", batch_add, batch_add),
    HOOK("llama_batch_ext_add_token", batch_add_token, batch_add_token),
    HOOK("llama_batch_ext_add_embd", batch_add_embd, batch_add_embd),
    HOOK("llama_batch_ext_add_seq", batch_add_seq, batch_add_seq),
    HOOK("llama_batch_ext_set_pos", batch_set_pos, batch_set_pos),
    HOOK("llama_batch_ext_set_output_embd", batch_set_output_embd, batch_set_output_embd),
    HOOK("llama_batch_ext_set_output_logits", batch_set_output_logits,
         batch_set_output_logits),
    HOOK("llama_batch_ext_clear", batch_clear, batch_clear),
    HOOK("llama_batch_ext_free", batch_free, batch_free),
    HOOK("llama_sampler_apply", sampler_apply, sampler_apply),
    FIND("ggml_graph_n_nodes", graph_n_nodes),
    FIND("ggml_graph_node", graph_node),
    FIND("ggml_op_name", op_name),
    FIND("ggml_type_name", type_name),
    FIND("ggml_blck_size", blck_size),
    FIND("ggml_type_size", type_size),
    FIND("ggml_nbytes", nbytes),
    FIND("ggml_version", version),
    FIND("ggml_init", init),
    FIND("ggml_free", free),
    FIND("ggml_new_tensor_2d", new_tensor_2d),
    FIND("ggml_add", add),
    FIND("ggml_view_1d", view_1d),
    FIND("ggml_set_name", set_name),
    FIND("ggml_get_name", get_name),
    FIND("ggml_get_data", get_data),
    FIND("ggml_set_input", set_input),
    FIND("ggml_get_tensor", get_tensor),
    FIND("gguf_get_n_tensors", gguf_n_tensors),
    FIND("gguf_get_tensor_name", gguf_tensor_name),
    FIND("gguf_get_tensor_offset", gguf_tensor_offset),
    FIND("gguf_get_tensor_size", gguf_tensor_size),
    FIND("gguf_get_tensor_type", gguf_tensor_type),
    FIND("gguf_get_data_offset", gguf_data_offset),
    FIND("ggml_backend_buffer_name", buffer_name),
    FIND("ggml_backend_buffer_get_base", buffer_base),
    FIND("ggml_backend_buffer_get_size", buffer_size),
    FIND("ggml_backend_buffer_get_usage", buffer_usage),
    FIND("ggml_backend_buffer_is_host", buffer_is_host),
    FIND("ggml_backend_name", backend_name),
    FIND("ggml_backend_get_device", backend_device),
    FIND("ggml_backend_dev_description", dev_description),
    FIND("ggml_backend_dev_count", dev_count),
    FIND("ggml_backend_dev_get", dev_get),
    FIND("ggml_backend_dev_name", dev_name),
    FIND("ggml_backend_dev_backend_reg", dev_reg),
    FIND("ggml_backend_reg_get_proc_address", reg_address),
    FIND("ggml_backend_buft_name", type_of_buffers_name),
};

bool fusion_is_hooked(void) { return symbols[0].n_slots > 0; }

bool is_hooked(const char *name)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].n_slots > 0;
    return false;
}

void attach(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int error = errno;
    pthread_mutex_lock(&lock);
    objects_attach(symbols, sizeof symbols / sizeof *symbols);
    if (!is_hooked("ggml_backend_graph_compute_async"))
        backends_wrap();
    pthread_mutex_unlock(&lock);
    errno = error;
}

bool is_source_mode;

// Sources that codemod.py changed name their own functions here when they are loaded,
// before any graph, and call what they get in their place.
EXPORTED void *ggscope_source(const char *name, void *own)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbols[i].name, name) == 0) {
            *symbols[i].found = own;
            symbols[i].n_slots |= BY_SOURCE;
            is_source_mode = true;
            return symbols[i].wrapper;
        }
    return NULL;
}

static void in_child(void)
{
    tracer_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    ring_forget();
    slots_forget();
    builds_forget();
    around = NOWHERE;
    ubatches_forget();
    moves = (struct moves){0};
}

__attribute__((constructor)) static void begin(void)
{
    clock_begin();
    pthread_atfork(NULL, NULL, in_child);
    // Another name for this library may not take it away again.
    Dl_info mine;
    if (dladdr((void *)begin, &mine) && mine.dli_fname) {
        void *handle = dlopen(mine.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        if (handle != NULL)
            dlclose(handle);
    }
#ifdef __APPLE__
    // Nothing of the program has begun yet: its functions are found, but not called.
    objects_watch(symbols, sizeof symbols / sizeof *symbols);
#else
    attach();
#endif
}

// ---- GGML_BACKEND_PATH: ggml loads this as a backend that has no devices --------------------

struct registration {
    int api_version;
    const char *(*name)(struct registration *);
    size_t (*n_devices)(struct registration *);
    void *(*device)(struct registration *, size_t);
    void *(*address)(struct registration *, const char *);
    void *context;
};

static const char *backend_name(struct registration *self)
{
    (void)self;
    return "ggscope";
}

static size_t no_devices(struct registration *self)
{
    (void)self;
    return 0;
}

static void *no_device(struct registration *self, size_t index)
{
    (void)self;
    (void)index;
    return NULL;
}

static void *no_address(struct registration *self, const char *name)
{
    (void)self;
    (void)name;
    return NULL;
}

// The number that ggml asks for is that of a backend it has already taken.
static int api_version(void)
{
    size_t (*count)(void) = NULL;
    struct registration *(*get)(size_t) = NULL;
    struct symbol wanted[] = {
        {"ggml_backend_reg_count", FOUND(count), NULL, 0, false},
        {"ggml_backend_reg_get", FOUND(get), NULL, 0, false},
    };
    objects_attach(wanted, 2);
    // Here the program may hold a lock of its own registry: this is what the study saw
    // to work, since it reads a vector only.
    return count && get && count() > 0 ? get(0)->api_version : 2;
}

EXPORTED struct registration *ggml_backend_init(void)
{
    static struct registration registration = {
        0, backend_name, no_devices, no_device, no_address, NULL};
    attach();
    registration.api_version = api_version();
    return &registration;
}
