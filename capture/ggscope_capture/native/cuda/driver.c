// Functions of the driver: one wrapper for each that a program looks up, whatever its
// arguments are. The driver's functions take words and return a number, so a wrapper
// passes on all registers for arguments and the words that may lie on the stack.
#define _GNU_SOURCE
#include "hook.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct function functions[MAX_FUNCTIONS];
_Atomic uint32_t n_functions, n_left_out;

static const struct recipe RECIPES[] = {
    {"cuMemAlloc", .size = 2, .given = 1},
    {"cuMemAllocManaged", .size = 2, .given = 1},
    {"cuMemAllocAsync", .size = 2, .given = 1},
    {"cuMemAllocFromPoolAsync", .size = 2, .given = 1},
    {"cuMemAllocHost", .size = 2, .given = 1},
    {"cuMemHostAlloc", .size = 2, .given = 1},
    {"cuMemHostRegister", .size = 2, .freed = 1},
    {"cuMemHostUnregister", .freed = 1},
    {"cuMemAddressReserve", .size = 2, .given = 1},
    {"cuMemAddressFree", .size = 2, .freed = 1},
    {"cuMemCreate", .size = 2},
    {"cuMemMap", .size = 2, .freed = 1},
    {"cuMemUnmap", .size = 2, .freed = 1},
    {"cuMemFree", .freed = 1},
    {"cuMemFreeAsync", .freed = 1},
    {"cuMemFreeHost", .freed = 1},
    {"cuMemPrefetchAsync", .size = 2, .freed = 1},
    {"cuMemcpy", .size = 3},
    {"cuMemcpyAsync", .size = 3},
    {"cuMemcpyHtoD", .size = 3, .direction = HOST_TO_DEVICE},
    {"cuMemcpyHtoDAsync", .size = 3, .direction = HOST_TO_DEVICE},
    {"cuMemcpyDtoH", .size = 3, .direction = DEVICE_TO_HOST},
    {"cuMemcpyDtoHAsync", .size = 3, .direction = DEVICE_TO_HOST},
    {"cuMemcpyDtoD", .size = 3, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpyDtoDAsync", .size = 3, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpyPeer", .size = 5, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpyPeerAsync", .size = 5, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpyHtoA", .size = 4, .direction = HOST_TO_DEVICE},
    {"cuMemcpyHtoAAsync", .size = 4, .direction = HOST_TO_DEVICE},
    {"cuMemcpyAtoH", .size = 4, .direction = DEVICE_TO_HOST},
    {"cuMemcpyAtoHAsync", .size = 4, .direction = DEVICE_TO_HOST},
    {"cuMemcpyDtoA", .size = 4, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpyAtoD", .size = 4, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpyAtoA", .size = 5, .direction = DEVICE_TO_DEVICE},
    {"cuMemcpy2D", .shape = COPY_2D},
    {"cuMemcpy2DUnaligned", .shape = COPY_2D},
    {"cuMemcpy2DAsync", .shape = COPY_2D},
    {"cuMemcpy3D", .shape = COPY_3D},
    {"cuMemcpy3DAsync", .shape = COPY_3D},
    {"cuMemsetD8", .size = 3, .freed = 1},
    {"cuMemsetD8Async", .size = 3, .freed = 1},
    {"cuMemsetD16", .size = 3, .unit = 2, .freed = 1},
    {"cuMemsetD16Async", .size = 3, .unit = 2, .freed = 1},
    {"cuMemsetD32", .size = 3, .unit = 4, .freed = 1},
    {"cuMemsetD32Async", .size = 3, .unit = 4, .freed = 1},
    {"cuLaunchKernel", .shape = LAUNCH},
    {"cuLaunchCooperativeKernel", .shape = LAUNCH},
    {"cuLaunchKernelEx", .shape = LAUNCH_EX},
    {"cuModuleGetFunction", .shape = NAMES_KERNEL},
    {"cuLibraryGetKernel", .shape = NAMES_KERNEL},
    {"cuKernelGetFunction", .shape = TURNS_KERNEL},
};

static const char *kernel_name(uint64_t handle);

// ---- arguments ------------------------------------------------------------------------

static uint8_t direction_of(uint32_t from, uint32_t to)
{
    // Unified memory is on neither side.
    bool is_known = from >= MEMORY_HOST && from <= MEMORY_ARRAY && to >= MEMORY_HOST &&
                    to <= MEMORY_ARRAY;
    if (!is_known)
        return NO_DIRECTION;
    if (from == MEMORY_HOST)
        return to == MEMORY_HOST ? HOST_TO_HOST : HOST_TO_DEVICE;
    return to == MEMORY_HOST ? DEVICE_TO_HOST : DEVICE_TO_DEVICE;
}

static void set_size(struct details *details, uint64_t bytes)
{
    details->size = bytes;
    details->has_size = true;
}

static void read_launch(struct details *details, const uint32_t *grid,
                        const uint32_t *block, uint32_t shared, const void *stream)
{
    memcpy(details->launch, grid, 12);
    memcpy(details->launch + 3, block, 12);
    details->launch[6] = shared;
    details->stream = (uint64_t)(uintptr_t)stream;
    details->has_launch = true;
}

static void read_shape(uint8_t shape, const uint64_t *words, bool is_packed,
                       struct details *details)
{
    if (shape == LAUNCH && is_packed) {
        const struct launch_parameters *p = (const void *)words;
        read_launch(details, p->grid, p->block, p->shared, p->stream);
        details->address = (uint64_t)(uintptr_t)p->function;
    } else if (shape == LAUNCH) {
        uint32_t sizes[7];
        for (int i = 0; i < 7; i++)
            sizes[i] = (uint32_t)words[i + 1];
        read_launch(details, sizes, sizes + 3, sizes[6], (void *)(uintptr_t)words[8]);
        details->address = words[0];
    } else if (words[0] == 0) {
        return;
    } else if (shape == LAUNCH_EX) {
        const struct launch_config *c = (const void *)(uintptr_t)words[0];
        read_launch(details, c->grid, c->block, c->shared, c->stream);
        details->address = words[1];
    } else if (shape == COPY_2D) {
        const struct copy_2d *c = (const void *)(uintptr_t)words[0];
        set_size(details, c->width * c->height);
        details->direction = direction_of(c->from.memory, c->to.memory);
    } else if (shape == COPY_3D) {
        const struct copy_3d *c = (const void *)(uintptr_t)words[0];
        set_size(details, c->width * c->height * c->depth);
        details->direction = direction_of(c->from.memory, c->to.memory);
    }
}

void read_arguments(const struct function *function, const uint64_t *words,
                    bool is_packed, struct details *details)
{
    const struct recipe *recipe = function->recipe;
    memset(details, 0, sizeof *details);
    if (recipe == NULL)
        return;
    details->direction = recipe->direction;
    if (recipe->shape != PLAIN)
        read_shape(recipe->shape, words, is_packed, details);
    if (details->has_launch)
        details->kernel = kernel_name(details->address);
    if (recipe->size)
        set_size(details, words[recipe->size - 1] * (recipe->unit ? recipe->unit : 1));
    if (recipe->freed)
        details->address = words[recipe->freed - 1];
}

// ---- names of kernels -----------------------------------------------------------------

enum { KERNELS = 16384, KERNEL_NAME_BYTES = 400 }; // of the hash, a power of two
static struct {
    _Atomic uint64_t handle;
    _Atomic(const char *) name; // stays as long as the process
} kernels[KERNELS];
static uint32_t n_kernels;
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t kernel_slot(uint64_t handle)
{
    uint32_t slot = (uint32_t)(handle * 0x9E3779B97F4A7C15u >> 32) % KERNELS;
    for (; kernels[slot].handle != 0 && kernels[slot].handle != handle;)
        slot = (slot + 1) % KERNELS;
    return slot;
}

static const char *kernel_name(uint64_t handle)
{
    return handle == 0 ? NULL : kernels[kernel_slot(handle)].name;
}

void kernel_set_name(uint64_t handle, const char *name)
{
    if (handle == 0 || name == NULL)
        return;
    const char *known = kernel_name(handle);
    if (known != NULL && strncmp(known, name, KERNEL_NAME_BYTES) == 0)
        return;
    pthread_mutex_lock(&kernels_lock);
    uint32_t slot = kernel_slot(handle);
    bool is_new = kernels[slot].handle == 0;
    // A slot stays free, or a look for one would not end.
    if (!is_new || n_kernels < KERNELS / 2) {
        const char *copy = strndup(name, KERNEL_NAME_BYTES);
        kernels[slot].name = copy;
        kernels[slot].handle = handle;
        n_kernels += is_new;
    }
    pthread_mutex_unlock(&kernels_lock);
}

// Functions that give a handle for a name, or for another handle.
static void read_kernel(const struct function *function, const uint64_t *words)
{
    const uint64_t *place = (const void *)(uintptr_t)words[0];
    uint8_t shape = function->recipe == NULL ? PLAIN : function->recipe->shape;
    if (place == NULL)
        return;
    if (shape == NAMES_KERNEL)
        kernel_set_name(*place, (const char *)(uintptr_t)words[2]);
    else if (shape == TURNS_KERNEL)
        kernel_set_name(*place, kernel_name(words[1]));
}

void read_results(const struct function *function, const uint64_t *words,
                  struct details *details)
{
    const struct recipe *recipe = function->recipe;
    read_kernel(function, words);
    if (recipe == NULL || !recipe->given)
        return;
    const uint64_t *place = (const void *)(uintptr_t)words[recipe->given - 1];
    if (place != NULL)
        details->address = *place;
}

// ---- wrappers -------------------------------------------------------------------------

#define WORDS 10
#ifdef __aarch64__
#define IN_REGISTERS \
    uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, \
    uint64_t a6, uint64_t a7, double f0, double f1, double f2, double f3, double f4, \
    double f5, double f6, double f7
#define ON_STACK \
    uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11, uint64_t a12, uint64_t a13, \
    uint64_t a14, uint64_t a15
#define PASSED \
    a0, a1, a2, a3, a4, a5, a6, a7, f0, f1, f2, f3, f4, f5, f6, f7, a8, a9, a10, a11, \
    a12, a13, a14, a15
#else
#define IN_REGISTERS \
    uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, \
    double f0, double f1, double f2, double f3, double f4, double f5, double f6, \
    double f7
#define ON_STACK \
    uint64_t a6, uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11, \
    uint64_t a12, uint64_t a13, uint64_t a14, uint64_t a15
#define PASSED \
    a0, a1, a2, a3, a4, a5, f0, f1, f2, f3, f4, f5, f6, f7, a6, a7, a8, a9, a10, a11, \
    a12, a13, a14, a15
#endif

typedef uint64_t (*driver_function)(IN_REGISTERS, ON_STACK);

static void replace_looked_up(const struct function *function, const uint64_t *words)
{
    void **place = (void **)(uintptr_t)words[1];
    if (strcmp(function->name, "cuGetProcAddress") == 0 && place != NULL &&
        *place != NULL && words[0] != 0)
        *place = wrapper_of((const char *)(uintptr_t)words[0], *place);
}

static __attribute__((noinline)) uint64_t called(IN_REGISTERS, ON_STACK, uint64_t number)
{
    const struct function *function = &functions[number];
    driver_function real = (driver_function)function->real;
    if (UNLIKELY(way != WAY_TABLE))
        return real(PASSED);
    const uint64_t words[WORDS] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9};
    struct details details;
    read_arguments(function, words, false, &details);
    uint64_t op = call_begin((uint16_t)number, &details);
    uint64_t result = real(PASSED);
    if ((int32_t)result == 0) {
        read_results(function, words, &details);
        replace_looked_up(function, words);
    }
    call_end(op, (uint16_t)number, (int32_t)result, &details);
    return result;
}

#define WRAPPER(n) \
    static uint64_t wrapper_##n(IN_REGISTERS, ON_STACK) { return called(PASSED, 0##n); }
#define EIGHT(do, n) \
    do(n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7)
#define ALL_64(do, n) \
    EIGHT(do, n##0) EIGHT(do, n##1) EIGHT(do, n##2) EIGHT(do, n##3) \
    EIGHT(do, n##4) EIGHT(do, n##5) EIGHT(do, n##6) EIGHT(do, n##7)
// Octal numbers: 0000 to 2777.
#define ALL_512(do, n) \
    ALL_64(do, n##0) ALL_64(do, n##1) ALL_64(do, n##2) ALL_64(do, n##3) \
    ALL_64(do, n##4) ALL_64(do, n##5) ALL_64(do, n##6) ALL_64(do, n##7)
#define ADDRESS(n) (void *)wrapper_##n,
ALL_512(WRAPPER, 0) ALL_512(WRAPPER, 1) ALL_512(WRAPPER, 2)
static void *const WRAPPERS[MAX_FUNCTIONS] = {
    ALL_512(ADDRESS, 0) ALL_512(ADDRESS, 1) ALL_512(ADDRESS, 2)
};

// ---- the table of functions -----------------------------------------------------------

enum { SLOTS = 4096 }; // of the hash, a power of two
static uint16_t slots[SLOTS]; // number + 1
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

void functions_lock(void)
{
    pthread_mutex_lock(&table);
    pthread_mutex_lock(&kernels_lock);
}

void functions_unlock(void)
{
    pthread_mutex_unlock(&kernels_lock);
    pthread_mutex_unlock(&table);
}

// Take suffixes of version and stream away: cuMemcpyHtoD_v2_ptds is cuMemcpyHtoD.
static void set_name(char *into, const char *name)
{
    size_t n = strnlen(name, NAME_BYTES - 1);
    memcpy(into, name, n);
    into[n] = '\0';
    for (;;) {
        char *at = strrchr(into, '_');
        if (at == NULL)
            return;
        bool is_version = at[1] == 'v' && at[2] >= '0' && at[2] <= '9' &&
                          strspn(at + 2, "0123456789") == strlen(at + 2);
        if (!is_version && strcmp(at, "_ptsz") != 0 && strcmp(at, "_ptds") != 0)
            return;
        *at = '\0';
    }
}

uint16_t function_named(const char *name, void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    pthread_mutex_lock(&table);
    uint32_t slot = (uint32_t)(hash >> 32) % SLOTS, number;
    for (; slots[slot] != 0; slot = (slot + 1) % SLOTS)
        if (functions[slots[slot] - 1].real == key) {
            number = slots[slot] - 1u;
            pthread_mutex_unlock(&table);
            return (uint16_t)number;
        }
    number = n_functions;
    if (number == MAX_FUNCTIONS) {
        n_left_out++;
        pthread_mutex_unlock(&table);
        return UINT16_MAX;
    }
    struct function *function = &functions[number];
    set_name(function->name, name);
    for (size_t i = 0; i < sizeof RECIPES / sizeof *RECIPES; i++)
        if (strcmp(RECIPES[i].name, function->name) == 0)
            function->recipe = &RECIPES[i];
    function->real = key;
    slots[slot] = (uint16_t)(number + 1);
    n_functions = number + 1;
    pthread_mutex_unlock(&table);
    return (uint16_t)number;
}

void *wrapper_of(const char *name, void *real)
{
    // What is asked for a second time may be a wrapper already.
    for (uint32_t i = 0, n = n_functions; i < n; i++)
        if (WRAPPERS[i] == real)
            return real;
    uint16_t number = function_named(name, real);
    return number == UINT16_MAX ? real : WRAPPERS[number];
}
