/* Stands in for libcuda.so.1: functions of the driver's public interface that need no
 * GPU, with arguments of every kind. What they get is checked here, so that whatever
 * stands between a program and them passes it on unchanged. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef struct {
    uint32_t site;
    const char *function;
    const void *arguments;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *own;
    uint32_t correlation;
} Told;

/* What the stand-in for CUPTI sets. */
void (*fake_cuda_subscriber)(void *, uint32_t, uint32_t, const void *);

static void tell(uint32_t site, uint32_t id, const char *name, const void *arguments,
                 CUresult *result, uint64_t *own)
{
    Told told = {site, name, arguments, site ? result : NULL, NULL, NULL, 0, own, id};
    if (fake_cuda_subscriber)
        fake_cuda_subscriber(NULL, 1, id, &told);
}

/* Return what `...` makes of `result`, and report the call at its begin and end. */
#define CALL(id, name, ...) \
    do { \
        CUresult result = 0; \
        uint64_t own = 0; \
        tell(0, id, name, &p, &result, &own); \
        __VA_ARGS__; \
        tell(1, id, name, &p, &result, &own); \
        return result; \
    } while (0)

static void take(long us)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000L +
           (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong argument: %s\n", what);
        _Exit(99);
    }
}

CUresult cuInit(unsigned flags)
{
    struct { unsigned flags; } p = {flags};
    const char *const path = getenv("CUDA_INJECTION64_PATH");
    static int is_injected;
    if (path && !is_injected) {
        is_injected = 1;
        void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*begin)(void) = library ? dlsym(library, "InitializeInjection") : NULL;
        if (begin)
            begin();
    }
    CALL(1, "cuInit", check(flags == 0, "flags"));
}

CUresult cuMemAlloc_v2(uint64_t *pointer, size_t size)
{
    struct { uint64_t *pointer; size_t size; } p = {pointer, size};
    static uint64_t next = 0x700000000000;
    CALL(2, "cuMemAlloc_v2", {
        if (size > (1ull << 40))
            result = 2;
        else
            *pointer = __atomic_fetch_add(&next, 0x1000, __ATOMIC_RELAXED);
    });
}

CUresult cuMemFree_v2(uint64_t pointer)
{
    struct { uint64_t pointer; } p = {pointer};
    CALL(3, "cuMemFree_v2", check(pointer >> 40 == 0x70, "pointer"));
}

CUresult cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
    struct { uint64_t to; const void *from; size_t size; } p = {to, from, size};
    CALL(4, "cuMemcpyHtoD_v2", take((long)(size / 4000)));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, uint64_t from, size_t size, void *stream)
{
    struct { void *to; uint64_t from; size_t size; void *stream; } p =
        {to, from, size, stream};
    CALL(5, "cuMemcpyDtoHAsync_v2_ptsz", check(stream == (void *)7, "stream"));
}

struct copy_2d {
    size_t from_x, from_y;
    unsigned from_memory;
    const void *from_host;
    uint64_t from_device;
    void *from_array;
    size_t from_pitch, to_x, to_y;
    unsigned to_memory;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch, width, height;
};

CUresult cuMemcpy2D_v2(const struct copy_2d *copy)
{
    struct { const struct copy_2d *copy; } p = {copy};
    CALL(6, "cuMemcpy2D_v2", take(5));
}

CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, void *stream,
                        void **parameters, void **extra)
{
    struct { void *f; unsigned gx, gy, gz, bx, by, bz, shared; void *stream;
             void **parameters, **extra; } p =
        {f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra};
    CALL(7, "cuLaunchKernel", {
        check(f == (void *)0x55 && gx == 128 && gy == 2 && gz == 1, "grid");
        check(bx == 256 && by == 1 && bz == 3 && shared == 4096, "block");
        check(stream == (void *)9 && parameters == (void *)10 && extra == (void *)11,
              "last arguments");
    });
}

CUresult cuModuleGetFunction(void **f, void *module, const char *name)
{
    struct { void **f; void *module; const char *name; } p = {f, module, name};
    CALL(14, "cuModuleGetFunction", *f = (void *)0x55);
}

CUresult cuStreamSynchronize(void *stream)
{
    struct { void *stream; } p = {stream};
    CALL(8, "cuStreamSynchronize", take(50));
}

CUresult cuEventQuery(void *event)
{
    struct { void *event; } p = {event};
    CALL(9, "cuEventQuery", result = 600);
}

CUresult cuParamSetf(void *f, int offset, float value)
{
    struct { void *f; int offset; float value; } p = {f, offset, value};
    CALL(10, "cuParamSetf", check(offset == 4 && value == 1.5f, "float"));
}

typedef struct { char bytes[64]; } Handle;

CUresult cuIpcOpenMemHandle_v2(uint64_t *pointer, Handle handle, unsigned flags)
{
    struct { uint64_t *pointer; Handle handle; unsigned flags; } p =
        {pointer, handle, flags};
    CALL(11, "cuIpcOpenMemHandle_v2", {
        check(flags == 1, "flags");
        for (int i = 0; i < 64; i++)
            check(handle.bytes[i] == i, "struct");
    });
}

/* Calls back within a call. */
CUresult cuLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    struct { void *stream; void (*function)(void *); void *data; } p =
        {stream, function, data};
    CALL(12, "cuLaunchHostFunc", function(data));
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
                             uint64_t flags, int *status)
{
    struct { const char *name; void **function; int version; uint64_t flags; int *s; } p =
        {name, function, version, flags, status};
    CALL(13, "cuGetProcAddress_v2", {
        static const char *const SUFFIXES[] = {"_v2", "_v2_ptsz", ""};
        char whole[128];
        *function = NULL;
        for (int i = 0; i < 3 && !*function; i++) {
            snprintf(whole, sizeof whole, "%s%s", name, SUFFIXES[i]);
            *function = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), whole);
        }
        result = *function ? 0 : 500;
        if (status)
            *status = *function ? 0 : 1;
    });
}
