// What can be seen where no slot leads there: libraries that call their own functions
// directly. A device's way of making backends is replaced, and each backend's way of
// computing graphs; and the first of the CPU's extra buffer types is asked about each
// op on each thread before it is computed, which shows when ops begin.
//
// These structs are ggml's own affair. Where they lie is not believed but asked: names
// must be those that ggml's functions give, a backend and a type must know their device.

#define _GNU_SOURCE
#include "tracer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 64

// Functions of a device, and of a backend, by their places.
enum { DEVICE_NAME = 0, DEVICE_INIT = 5 };
enum { BACKEND_NAME = 1 };

typedef const char *(*name_of)(void *);
typedef void *(*make_backend)(void *device, const char *params);
typedef int (*compute_graph)(void *backend, struct ggml_cgraph *graph);

static struct wrapped {
    void **device;
    make_backend make;
    compute_graph compute; // of its backends; all have the same
} devices[MAX_DEVICES];
static int n_devices;

static bool is_same(const char *one, const char *other)
{
    return one != NULL && other != NULL && strcmp(one, other) == 0;
}

static int compute(void *backend, struct ggml_cgraph *graph)
{
    void **fields = backend;
    for (int i = 0; i < n_devices; i++)
        for (int n = 14; n <= 16; n += 2)
            if (fields[n + 1] == (void *)devices[i].device && devices[i].compute)
                return backend_graph_traced(backend, graph, devices[i].compute);
    return -1; // no backend gets here
}

// Behind the guid come 16 functions, or 14 before those for pieces of tensors were
// added, then the device. Computing is the fourth from the end.
static void wrap_backend(struct wrapped *device, void *backend)
{
    void **fields = backend;
    if (!ggml.backend_name ||
        !is_same(((name_of)fields[BACKEND_NAME])(backend), ggml.backend_name(backend)))
        return;
    for (int n = 14; n <= 16; n += 2)
        if (fields[n + 1] == (void *)device->device) {
            void **place = &fields[n - 3];
            if (*place == (void *)compute)
                return;
            device->compute = (compute_graph)*place;
            *place = (void *)compute;
            return;
        }
}

static void *make(void *device, const char *params)
{
    for (int i = 0; i < n_devices; i++)
        if ((void *)devices[i].device == device) {
            void *backend = devices[i].make(device, params);
            if (backend != NULL)
                wrap_backend(&devices[i], backend);
            return backend;
        }
    return NULL; // no device gets here
}

void backends_wrap(void)
{
    if (!ggml.dev_count || !ggml.dev_get || !ggml.dev_name)
        return;
    size_t n = ggml.dev_count();
    for (size_t i = 0; i < n && n_devices < MAX_DEVICES; i++) {
        void **device = ggml.dev_get(i);
        if (device == NULL || device[DEVICE_INIT] == (void *)make ||
            !is_same(((name_of)device[DEVICE_NAME])(device), ggml.dev_name(device)))
            continue;
        devices[n_devices] =
            (struct wrapped){device, (make_backend)device[DEVICE_INIT], NULL};
        n_devices++;
        device[DEVICE_INIT] = (void *)make;
    }
}

// ---- begins of ops ------------------------------------------------------------------------

// A type of buffers: six functions, its device, and an object of C++ that is asked.
enum { TYPE_NAME = 0, TYPE_DEVICE = 6, TYPE_CONTEXT = 7 };
// Its virtual functions: two destructors, whether an op is supported, what computes it.
// Two words lie before the first one; some behind the last, for what newer ones add.
enum { VIRTUAL_TRAITS = 3, WORDS_BEFORE = 2, MAX_VIRTUAL = 8 };

typedef void *(*virtual_function)(void *, const void *, const void *, const void *);
static virtual_function real_traits;

// All that registers may hold is passed on, should this be another function.
static void *traits(void *self, const void *op, const void *second, const void *third)
{
    if (atomic_load_explicit(&n_computing, memory_order_relaxed))
        op_asked(op);
    return real_traits(self, op, second, third);
}

static void *home_of(void *function)
{
    Dl_info info;
    return dladdr(function, &info) ? info.dli_fbase : NULL;
}

static bool wrap_type(void **type, void **device, void *library)
{
    if (!is_same(((name_of)type[TYPE_NAME])(type), ggml.type_of_buffers_name(type)) ||
        type[TYPE_DEVICE] != (void *)device || type[TYPE_CONTEXT] == NULL)
        return false;
    void ***object = type[TYPE_CONTEXT];
    for (int i = 0; i <= VIRTUAL_TRAITS; i++)
        if (home_of((*object)[i]) != library)
            return false;
    void **table = malloc((WORDS_BEFORE + MAX_VIRTUAL) * sizeof *table);
    if (table == NULL)
        return false;
    memcpy(table, *object - WORDS_BEFORE, (WORDS_BEFORE + MAX_VIRTUAL) * sizeof *table);
    real_traits = (virtual_function)table[WORDS_BEFORE + VIRTUAL_TRAITS];
    table[WORDS_BEFORE + VIRTUAL_TRAITS] = (void *)traits;
    __atomic_store_n(object, table + WORDS_BEFORE, __ATOMIC_RELEASE);
    return true;
}

bool begins_are_seen(void) { return real_traits != NULL; }

// Before the first graph, with the lock held: nobody asks then.
void begins_wrap(void)
{
    if (real_traits != NULL || !ggml.dev_count || !ggml.dev_get || !ggml.dev_reg ||
        !ggml.reg_address || !ggml.type_of_buffers_name)
        return;
    size_t n = ggml.dev_count();
    for (size_t i = 0; i < n; i++) {
        void **device = ggml.dev_get(i);
        void *registry = device ? ggml.dev_reg(device) : NULL;
        void *found = registry ? ggml.reg_address(registry,
                                                  "ggml_backend_dev_get_extra_bufts")
                               : NULL;
        void **types = found ? ((void **(*)(void *))found)(device) : NULL;
        for (; types != NULL && *types != NULL; types++)
            if (((void **)*types)[TYPE_CONTEXT] != NULL) {
                if (wrap_type(*types, device, home_of(found)))
                    note("Ops are seen by their beginnings only: this build of ggml "
                         "calls its own functions directly. Threads are numbered in "
                         "the order in which they begin.",
                         WITH_PROCESS);
                return; // others are asked only where the first one declines
            }
    }
}
