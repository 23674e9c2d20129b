// Graphs of every backend where no slot leads to them: libraries that call their own
// functions directly. A device's way of making backends is replaced, and each backend's
// way of computing graphs.
//
// These structs are ggml's own affair. Where they lie is not believed but asked: names
// must be those that ggml's functions give, and a backend must know its device.

#include "tracer.h"

#include <string.h>

#define MOST_DEVICES 64

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
} devices[MOST_DEVICES];
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
    for (size_t i = 0; i < n && n_devices < MOST_DEVICES; i++) {
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
