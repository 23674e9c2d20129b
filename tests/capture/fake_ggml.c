// A library with ggml's names and habits, and nothing to compute: what the tracer does
// with it can be measured and separated from what real ops cost.
//
//   -DFIELD_AT=N  tensors have a field more: before the first member (0, as in 2024),
//                 before the second (1), and so on
//   -DDIRECT      it calls its own functions directly, as LTO and -Bsymbolic make it
//   -DNO_BARRIER  barriers are within the caller
//   -DCARD        a backend computes that is not ggml-cpu; its input is copied to it
//   -DSEALED      only the scheduler is called from outside
//   -DCLOSED      nothing is: a device is asked for a backend, which computes
//   -DASKED       only backends are; real threads ask an extra type of buffers before
//                 each op, as ggml-cpu does, and one asks about all ops beforehand
//   -DDECODES     graphs are computed within calls of llama_decode and llama_process
//   -DTHREADED    every thread of a graph is a real one, and barriers make them wait
//
// A program of its own with -DPROGRAM:
//   fake NODES GRAPHS [THREADS [PLAN [SAME]]]
// prints the fastest graph in ns per node. PLAN: "fork" computes in a child, too;
// "close" loads nothing else but unloads and loads this library in between; "kill" ends
// itself by signal 9; "crash" writes where nothing is; "exec" becomes another program;
// "pause" waits for a line on stdin after every graph; "slow" sleeps a millisecond;
// "empty": the second half of the nodes has no elements.
// "contexts": they compute at once, one the same graph of NODES all the time, the other
// GRAPHS of NODES + 1, whose second dimension is 1, 2, 3, ...; with SAME so many
// compute a same graph each.

#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FIELD_AT
#define FIELD_AT -1
#endif
// A member of no size takes no room, but can make others' places even.
#define FIELD(n) int32_t more##n[FIELD_AT == n ? 2 : 0];
struct ggml_tensor {
    FIELD(0) int32_t type;
    FIELD(1) void *buffer;
    FIELD(2) int64_t ne[4];
    FIELD(3) size_t nb[4];
    FIELD(4) int32_t op;
    FIELD(5) int32_t op_params[16];
    FIELD(6) int32_t flags;
    FIELD(7) struct ggml_tensor *src[10];
    FIELD(8) struct ggml_tensor *view_src;
    FIELD(9) size_t view_offs;
    FIELD(10) void *data;
    FIELD(11) char name[64];
    void *extra;
};

struct ggml_cgraph {
    int n_nodes;
    struct ggml_tensor **nodes;
};

struct ggml_cplan {
    size_t work_size;
    uint8_t *work_data;
    int n_threads;
};

struct ggml_compute_params {
    int ith, nth;
};

struct ggml_init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

#ifndef PROGRAM

struct context {
    uint8_t *memory;
    size_t used, size;
};

enum { NONE, ADD, VIEW, N_OPS };

const char *ggml_op_name(int op)
{
    static const char *const names[] = {"NONE", "ADD", "VIEW"};
    return names[op];
}

const char *ggml_version(void) { return "0.0.fake"; }
const char *ggml_type_name(int type) { (void)type; return "f32"; }
int64_t ggml_blck_size(int type) { (void)type; return 1; }
size_t ggml_type_size(int type) { (void)type; return 4; }

void *ggml_init(struct ggml_init_params params)
{
    struct context *context = malloc(sizeof *context);
    *context = (struct context){params.mem_buffer, 0, params.mem_size};
    if (context->memory == NULL)
        context->memory = malloc(context->size);
    return context;
}

void ggml_free(void *context) { free(context); }

struct ggml_tensor *ggml_new_tensor_2d(void *at, int type, int64_t a, int64_t b)
{
    struct context *context = at;
    struct ggml_tensor *tensor = (void *)(context->memory + context->used);
    context->used += (sizeof *tensor + 63) & ~(size_t)63;
    memset(tensor, 0, sizeof *tensor);
    tensor->type = type;
    int64_t ne[4] = {a, b, 1, 1};
    memcpy(tensor->ne, ne, sizeof ne);
    tensor->nb[0] = 4;
    for (int i = 1; i < 4; i++)
        tensor->nb[i] = tensor->nb[i - 1] * (size_t)ne[i - 1];
    tensor->data = context->memory;
    return tensor;
}

struct ggml_tensor *ggml_add(void *context, struct ggml_tensor *a, struct ggml_tensor *b)
{
    struct ggml_tensor *sum = ggml_new_tensor_2d(context, 0, a->ne[0], a->ne[1]);
    sum->op = ADD;
    sum->flags = 16;
    sum->src[0] = a;
    sum->src[1] = b;
    return sum;
}

struct ggml_tensor *ggml_view_1d(void *context, struct ggml_tensor *a, int64_t n, size_t at)
{
    struct ggml_tensor *view = ggml_new_tensor_2d(context, 0, n, 1);
    view->op = VIEW;
    view->src[0] = view->view_src = a;
    view->view_offs = at;
    return view;
}

struct ggml_tensor *ggml_set_name(struct ggml_tensor *tensor, const char *name)
{
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    return tensor;
}

const char *ggml_get_name(const struct ggml_tensor *tensor) { return tensor->name; }
void *ggml_get_data(const struct ggml_tensor *tensor) { return tensor->data; }
void ggml_set_input(struct ggml_tensor *tensor) { tensor->flags |= 1; }
size_t ggml_nbytes(const struct ggml_tensor *tensor)
{
    return tensor->nb[3] * (size_t)tensor->ne[3];
}
int ggml_graph_n_nodes(struct ggml_cgraph *graph) { return graph->n_nodes; }
struct ggml_tensor *ggml_graph_node(struct ggml_cgraph *graph, int i)
{
    return graph->nodes[i];
}

#if defined(DIRECT) || defined(SEALED) || defined(CLOSED) || defined(ASKED)
#define OWN static
#else
#define OWN
#endif

#ifdef ASKED
#include <pthread.h>

// As C++ lays out an object with two destructors and two other virtual functions.
struct extra {
    void *const *table;
    uint64_t n_asked;
};

struct buffer_type {
    const char *(*name)(struct buffer_type *);
    void *others[5];
    void *device;
    struct extra *context;
};

static void destroy(struct extra *extra) { extra->n_asked = 0; }
static bool supports(struct extra *extra, void *device, struct ggml_tensor *op)
{
    return extra && device && op;
}
static void *traits_of(struct extra *extra, const struct ggml_tensor *op)
{
    __atomic_fetch_add(&extra->n_asked, op != NULL, __ATOMIC_RELAXED);
    return NULL;
}

static void *const table[2 + 4 + 4] = {NULL, NULL, (void *)destroy, (void *)destroy,
                                       (void *)supports, (void *)traits_of};
static struct extra extra = {table + 2, 0};

static const char *type_name(struct buffer_type *type) { return type ? "extra" : ""; }
static int cpu_device;
static struct buffer_type extra_type = {.name = type_name, .device = &cpu_device,
                                        .context = &extra};
static void *extra_types[] = {&extra_type, NULL};
static void **get_types(void *device) { return device ? extra_types : NULL; }

size_t ggml_backend_dev_count(void) { return 1; }
void *ggml_backend_dev_get(size_t number) { return number == 0 ? &cpu_device : NULL; }
void *ggml_backend_dev_backend_reg(void *device) { return device; }
void *ggml_backend_reg_get_proc_address(void *registry, const char *name)
{
    return registry && strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0
               ? (void *)get_types
               : NULL;
}
const char *ggml_backend_buft_name(struct buffer_type *type) { return type->name(type); }

static void ask(const struct ggml_tensor *op)
{
    ((void *(*)(struct extra *, const struct ggml_tensor *))extra.table[3])(&extra, op);
}
#endif

OWN __attribute__((noinline)) bool
ggml_cpu_extra_compute_forward(struct ggml_compute_params *params, struct ggml_tensor *op)
{
    (void)params;
    return op->op == N_OPS;
}

#ifdef THREADED
#include <pthread.h>
__attribute__((noinline)) void ggml_barrier(void *pool)
{
    pthread_barrier_wait((void *)((struct ggml_cplan *)pool)->work_data);
}

struct worker {
    struct ggml_cgraph *graph;
    struct ggml_cplan *plan;
    int ith;
};

static void *work(void *at)
{
    struct worker *worker = at;
    struct ggml_compute_params params = {worker->ith, worker->plan->n_threads};
    for (int i = 0; i < worker->graph->n_nodes; i++) {
        ggml_cpu_extra_compute_forward(&params, worker->graph->nodes[i]);
        ggml_barrier(worker->plan);
    }
    return NULL;
}

__attribute__((noinline)) int ggml_graph_compute(struct ggml_cgraph *graph,
                                                 struct ggml_cplan *plan)
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)plan->n_threads);
    plan->work_data = (void *)&barrier;
    struct worker workers[16];
    pthread_t threads[16];
    for (int ith = 0; ith < plan->n_threads; ith++)
        workers[ith] = (struct worker){graph, plan, ith};
    for (int ith = 1; ith < plan->n_threads; ith++)
        pthread_create(&threads[ith], NULL, work, &workers[ith]);
    work(&workers[0]);
    for (int ith = 1; ith < plan->n_threads; ith++)
        pthread_join(threads[ith], NULL);
    pthread_barrier_destroy(&barrier);
    return 0;
}
#else
OWN __attribute__((noinline)) void ggml_barrier(void *pool) { __asm__ volatile("" : : "r"(pool)); }

#if defined(SEALED) || defined(CLOSED) || defined(ASKED)
static
#endif
__attribute__((noinline)) int ggml_graph_compute(struct ggml_cgraph *graph,
                                                 struct ggml_cplan *plan)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor *node = graph->nodes[i];
        for (int ith = 0; ith < plan->n_threads; ith++) {
            struct ggml_compute_params params = {ith, plan->n_threads};
            if (node->op == ADD)
                ggml_cpu_extra_compute_forward(&params, node);
#ifndef NO_BARRIER
            ggml_barrier(plan);
#endif
        }
    }
    return 0;
}
#endif

// What computes in the end is called as libllama calls it: through a slot.
#if defined(ASKED)
static void *work(void *at)
{
    const struct ggml_cgraph *graph = at;
    for (int i = 0; i < graph->n_nodes; i++)
        ask(graph->nodes[i]);
    return NULL;
}

__attribute__((noinline)) int ggml_backend_graph_compute_async(struct ggml_cplan *plan,
                                                               struct ggml_cgraph *graph)
{
    pthread_t threads[64];
    work(graph); // the plan
    for (int ith = 1; ith < plan->n_threads; ith++)
        pthread_create(&threads[ith], NULL, work, graph);
    work(graph);
    for (int ith = 1; ith < plan->n_threads; ith++)
        pthread_join(threads[ith], NULL);
    return ggml_graph_compute(&(struct ggml_cgraph){0, NULL}, plan);
}

int fake_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    return ggml_backend_graph_compute_async(plan, graph);
}
#elif defined(CARD)
__attribute__((noinline)) int ggml_backend_graph_compute_async(void *backend,
                                                               struct ggml_cgraph *graph)
{
    return backend == NULL || graph == NULL;
}

__attribute__((noinline)) void ggml_backend_tensor_copy(const struct ggml_tensor *from,
                                                        struct ggml_tensor *to)
{
    __asm__ volatile("" : : "r"(from), "r"(to));
}

int fake_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    memcpy(graph->nodes[0]->src[0]->name, "left\0over", 10);
    ggml_backend_tensor_copy(graph->nodes[0]->src[0], graph->nodes[0]);
    return ggml_backend_graph_compute_async(plan, graph);
}
#elif defined(SEALED)
__attribute__((noinline)) int
ggml_backend_sched_graph_compute_async(void *sched, struct ggml_cgraph *graph)
{
    return ggml_graph_compute(graph, sched);
}

int fake_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    return ggml_backend_sched_graph_compute_async(plan, graph);
}
#elif defined(CLOSED)
struct device {
    const char *(*name)(struct device *);
    void *others[4];
    struct backend *(*make)(struct device *, const char *);
    void *rest[8];
};

struct backend {
    void *guid;
    const char *(*name)(struct backend *);
    void *others[11];
    int (*compute)(struct backend *, struct ggml_cgraph *);
    void *rest[3];
    struct device *device;
    void *context;
};

static const char *device_name(struct device *device) { return device ? "card" : ""; }
static const char *backend_name(struct backend *backend) { return backend ? "Card" : ""; }

static int compute_here(struct backend *backend, struct ggml_cgraph *graph)
{
    return ggml_graph_compute(graph, backend->context);
}

static struct backend *make_backend(struct device *device, const char *params)
{
    struct backend *backend = calloc(1, sizeof *backend);
    backend->name = backend_name;
    backend->compute = params ? NULL : compute_here;
    backend->device = device;
    return backend;
}

static struct device card = {.name = device_name, .make = make_backend};
size_t ggml_backend_dev_count(void) { return 1; }
void *ggml_backend_dev_get(size_t number) { return number == 0 ? &card : NULL; }
const char *ggml_backend_dev_name(struct device *device) { return device->name(device); }
const char *ggml_backend_name(struct backend *backend) { return backend->name(backend); }

// It is called for its name alone: a model's head is read before backends are made.
void *gguf_init_from_file(const char *path, void *params)
{
    return path == NULL ? params : NULL;
}

int fake_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    static struct backend *backend;
    if (backend == NULL) {
        gguf_init_from_file("", NULL);
        backend = card.make(&card, NULL);
    }
    backend->context = plan;
    return backend->compute(backend, graph);
}
#elif defined(DECODES)
struct llama_batch {
    int32_t n_tokens;
    void *members[6];
};

__attribute__((noinline)) int32_t llama_decode(void *context, struct llama_batch batch)
{
    void **both = context;
    return batch.n_tokens + ggml_graph_compute(both[0], both[1]);
}

__attribute__((noinline)) int32_t llama_process(void *context, int type, void *batch)
{
    void **both = context;
    return type + (batch != NULL) + ggml_graph_compute(both[0], both[1]);
}

int fake_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    static int n_before;
    void *both[] = {graph, plan};
    if (n_before++ % 2) // what newer programs call instead
        return llama_process(both, 0, NULL);
    return llama_decode(both, (struct llama_batch){0});
}
#else
int fake_compute(struct ggml_cgraph *graph, struct ggml_cplan *plan)
{
    return ggml_graph_compute(graph, plan);
}
#endif

#else

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int n_nodes, n_threads;
static void *memory;

static uint64_t compute(const char *library, int n_graphs, const char *plan)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        exit(3);
    void *(*init)(struct ggml_init_params) = (void *)dlsym(handle, "ggml_init");
    struct ggml_tensor *(*make)(void *, int, int64_t, int64_t) =
        (void *)dlsym(handle, "ggml_new_tensor_2d");
    struct ggml_tensor *(*add)(void *, struct ggml_tensor *, struct ggml_tensor *) =
        (void *)dlsym(handle, "ggml_add");
    struct ggml_tensor *(*name)(struct ggml_tensor *, const char *) =
        (void *)dlsym(handle, "ggml_set_name");
    int (*run)(struct ggml_cgraph *, struct ggml_cplan *) =
        (void *)dlsym(handle, "fake_compute");
    size_t size = (size_t)(n_nodes + 2) * 512;
    if (memory == NULL)
        memory = malloc(size);
    void *context = init((struct ggml_init_params){size, memory, false});
    struct ggml_cgraph graph = {n_nodes, malloc((size_t)n_nodes * sizeof(void *))};
    struct ggml_tensor *last = make(context, 0, 8, 8);
    for (int i = 0; i < n_nodes; i++) {
        char text[32];
        snprintf(text, sizeof text, "node-%d", i);
        if (strcmp(plan, "empty") == 0 && i == n_nodes / 2)
            last = make(context, 0, 8, 0);
        graph.nodes[i] = last = name(add(context, last, last), text);
    }
    struct ggml_cplan threads = {0, NULL, n_threads};
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < n_graphs; i++) {
        uint64_t begin = now();
        run(&graph, &threads);
        uint64_t taken = now() - begin;
        best = taken < best ? taken : best;
        if (strcmp(plan, "slow") == 0)
            usleep(1000);
        if (strcmp(plan, "pause") == 0) {
            puts("computed");
            fflush(stdout);
            if (getchar() == EOF)
                break;
        }
    }
    free(graph.nodes);
    dlclose(handle);
    return best;
}

// ---- two contexts at once ----

static struct {
    void *(*init)(struct ggml_init_params);
    void (*free)(void *);
    struct ggml_tensor *(*make)(void *, int, int64_t, int64_t);
    struct ggml_tensor *(*add)(void *, struct ggml_tensor *, struct ggml_tensor *);
    struct ggml_tensor *(*name)(struct ggml_tensor *, const char *);
    int (*run)(struct ggml_cgraph *, struct ggml_cplan *);
} fake;
static int is_over;

static void compute_one(void *memory, size_t size, int nodes, int rows, const char *names,
                        int times)
{
    void *context = fake.init((struct ggml_init_params){size, memory, false});
    struct ggml_cgraph graph = {nodes, malloc((size_t)nodes * sizeof(void *))};
    struct ggml_tensor *last = fake.make(context, 0, 8, rows);
    for (int i = 0; i < nodes; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s-%d", names, i);
        graph.nodes[i] = last = fake.name(fake.add(context, last, last), text);
    }
    struct ggml_cplan threads = {0, NULL, n_threads};
    for (int i = 0; i < times || times < 0; i++) {
        if (times < 0 && __atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
            break;
        fake.run(&graph, &threads);
        if (times < 0)
            usleep(500);
    }
    free(graph.nodes);
    fake.free(context);
}

static void *compute_same(void *memory)
{
    compute_one(memory, (size_t)(n_nodes + 1) * 512, n_nodes, 8, "same", -1);
    return NULL;
}

#define MAX_SAME 8

static void compute_contexts(const char *library, int n_graphs, int n_same)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        exit(3);
    fake.init = (void *)dlsym(handle, "ggml_init");
    fake.free = (void *)dlsym(handle, "ggml_free");
    fake.make = (void *)dlsym(handle, "ggml_new_tensor_2d");
    fake.add = (void *)dlsym(handle, "ggml_add");
    fake.name = (void *)dlsym(handle, "ggml_set_name");
    fake.run = (void *)dlsym(handle, "fake_compute");
    size_t size = (size_t)(n_nodes + 2) * 512;
    void *all[MAX_SAME];
    pthread_t others[MAX_SAME];
    for (int i = 0; i < n_same; i++)
        all[i] = malloc(size);
    compute_one(all[0], size, n_nodes, 8, "same", 1); // what is found once is found
    for (int i = 0; i < n_same; i++)
        pthread_create(&others[i], NULL, compute_same, all[i]);
    void *own[8] = {0}; // freed soon after: nobody may look at it any more
    for (int i = 0; i < n_graphs; i++) {
        free(own[i % 8]);
        own[i % 8] = malloc(size);
        compute_one(own[i % 8], size, n_nodes + 1, 1 + i, "new", 1);
    }
    for (int i = 0; i < 8; i++)
        free(own[i]);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < n_same; i++) {
        pthread_join(others[i], NULL);
        free(all[i]);
    }
}

int main(int argc, char **argv)
{
    const char *library = getenv("FAKE_GGML");
    if (argc < 3 || library == NULL)
        return 2;
    n_nodes = atoi(argv[1]);
    n_threads = argc > 3 ? atoi(argv[3]) : 1;
    const char *plan = argc > 4 ? argv[4] : "";
    int n_graphs = atoi(argv[2]);
    if (strcmp(plan, "contexts") == 0) {
        int n_same = argc > 5 ? atoi(argv[5]) : 1;
        compute_contexts(library, n_graphs, n_same < MAX_SAME ? n_same : MAX_SAME);
        return 0;
    }
    uint64_t best = compute(library, n_graphs, plan);
    if (strcmp(plan, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            compute(library, 2 * n_graphs, "");
            exit(0);
        }
        waitpid(child, NULL, 0);
        compute(library, n_graphs, "");
    } else if (strcmp(plan, "close") == 0) {
        compute(library, n_graphs, "");
    } else if (strcmp(plan, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(plan, "crash") == 0) {
        *(volatile int *volatile)16 = n_nodes;
    } else if (strcmp(plan, "exec") == 0) {
        execlp("true", "true", (char *)NULL);
    }
    printf("%.2f\n", (double)best / n_nodes / n_threads);
    return 0;
}

#endif
