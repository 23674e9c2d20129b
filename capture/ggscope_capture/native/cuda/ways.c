// The ways into a program: LD_PRELOAD, where what it looks up in the driver is replaced,
// and CUDA_INJECTION64_PATH, where the driver loads this and CUPTI reports calls.
#define _GNU_SOURCE
#include "../object.h"
#include "hook.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER "libcuda.so.1"

_Atomic bool is_attaching;
static unsigned long long seen_adds, seen_subs;

static bool is_driver_function(const char *name)
{
    return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

static bool is_driver(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    return strncmp(name, "libcuda.so", 10) == 0;
}

// ---- the system's own dlsym -----------------------------------------------------------

static int find_dlsym(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct object object;
    if (!object_read(&object, info))
        return 0;
    const char *slash = strrchr(object.name, '/');
    const char *name = slash != NULL ? slash + 1 : object.name;
    if (strncmp(name, "libc.", 5) != 0 && strncmp(name, "libdl.", 6) != 0 &&
        strncmp(name, "libc-", 5) != 0 && strncmp(name, "libdl-", 6) != 0 &&
        strncmp(name, "ld-musl", 7) != 0)
        return 0;
    const ElfW(Sym) *symbol = object_symbol(&object, "dlsym");
    if (symbol == NULL || symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0)
        return 0;
    *(void **)data = (void *)(object.base + symbol->st_value);
    return 1;
}

static void look_for_dlsym(void)
{
    void *place = NULL;
    if (real_dlsym == NULL && dl_iterate_phdr(find_dlsym, &place) == 1)
        real_dlsym = (__typeof__(real_dlsym))place;
}

// ---- slots ----------------------------------------------------------------------------

struct attach {
    void *driver; // a handle of it
    ElfW(Addr) own;
};

static int redirect(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct attach *attach = data;
    struct object object;
    (void)size;
    if (!object_read(&object, info) || object.base == attach->own ||
        is_driver(object.name))
        return 0;
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < object.n[table]; i++) {
            const ElfW(Rela) *entry = &object.tables[table][i];
            if (!IS_SLOT(ELF64_R_TYPE(entry->r_info)))
                continue;
            const ElfW(Sym) *symbol = &object.symbols[ELF64_R_SYM(entry->r_info)];
            const char *name = object.strings + symbol->st_name;
            if (!is_driver_function(name))
                continue;
            void *real = real_dlsym(attach->driver, name);
            void **slot = (void **)(object.base + entry->r_offset);
            void *wrapper = real == NULL ? NULL : wrapper_of(name, real);
            if (wrapper != NULL && *slot != wrapper)
                object_set_slot(&object, slot, wrapper);
        }
    return 0;
}

static int see(struct dl_phdr_info *info, size_t size, void *data)
{
    if (size < offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        return 1;
    *(bool *)data = info->dlpi_adds != seen_adds || info->dlpi_subs != seen_subs;
    seen_adds = info->dlpi_adds;
    seen_subs = info->dlpi_subs;
    return 1;
}

// Let objects that are linked to the driver call the wrappers; again for new ones.
static void attach_objects(void)
{
    bool has_changed = true;
    if (way != WAY_TABLE || atomic_exchange(&is_attaching, true))
        return;
    dl_iterate_phdr(see, &has_changed);
    if (has_changed) {
        void *(*open)(const char *, int) =
            (__typeof__(open))real_dlsym(RTLD_DEFAULT, "dlopen");
        struct attach attach = {0};
        Dl_info own;
        int (*address)(const void *, Dl_info *) =
            (__typeof__(address))real_dlsym(RTLD_DEFAULT, "dladdr");
        if (open != NULL && address != NULL && address((void *)redirect, &own))
            attach.own = (ElfW(Addr))own.dli_fbase;
        if (attach.own)
            attach.driver = open(DRIVER, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        if (attach.driver != NULL)
            dl_iterate_phdr(redirect, &attach);
    }
    is_attaching = false;
}

// ---- dlsym ----------------------------------------------------------------------------

static bool is_in_driver(void *place)
{
    Dl_info info;
    int (*address)(const void *, Dl_info *) =
        (__typeof__(address))real_dlsym(RTLD_DEFAULT, "dladdr");
    return address != NULL && address(place, &info) && info.dli_fname != NULL &&
           is_driver(info.dli_fname);
}

// Return what a program gets for a name in the place of the driver's function; NULL: the
// system's dlsym answers. Called by `dlsym` below.
__attribute__((used, visibility("hidden"))) void *ggscope_cuda_pick(void *handle,
                                                                    const char *name)
{
    look_for_dlsym();
    if (real_dlsym == NULL)
        abort(); // nothing in this process could be looked up
    if (way != WAY_TABLE || name == NULL)
        return NULL;
    attach_objects();
    if (handle == RTLD_NEXT || !is_driver_function(name))
        return NULL;
    void *real = real_dlsym(handle, name);
    return real != NULL && is_in_driver(real) ? wrapper_of(name, real) : NULL;
}

// The system's dlsym asks who calls it (RTLD_NEXT), so it is jumped to, not called.
__asm__(".hidden ggscope_cuda_pick\n"
        ".hidden real_dlsym\n"
        ".text\n.globl dlsym\n.type dlsym, %function\n.balign 16\n"
        "dlsym:\n.cfi_startproc\n"
#if defined(__x86_64__)
        "endbr64\n"
        "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"
        "pushq %rsi\n.cfi_adjust_cfa_offset 8\n"
        "subq $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
        "call ggscope_cuda_pick\n"
        "addq $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
        "popq %rsi\n.cfi_adjust_cfa_offset -8\n"
        "popq %rdi\n.cfi_adjust_cfa_offset -8\n"
        "testq %rax, %rax\n"
        "jne 1f\n"
        "jmpq *real_dlsym(%rip)\n"
        "1: ret\n"
#elif defined(__aarch64__)
        "stp x29, x30, [sp, #-32]!\n.cfi_def_cfa_offset 32\n.cfi_offset 29, -32\n"
        ".cfi_offset 30, -24\n"
        "stp x0, x1, [sp, #16]\n"
        "bl ggscope_cuda_pick\n"
        "mov x16, x0\n"
        "ldp x0, x1, [sp, #16]\n"
        "ldp x29, x30, [sp], #32\n.cfi_restore 29\n.cfi_restore 30\n"
        ".cfi_def_cfa_offset 0\n"
        "cbz x16, 1f\n"
        "mov x0, x16\n"
        "ret\n"
        "1: adrp x16, real_dlsym\n"
        "ldr x16, [x16, :lo12:real_dlsym]\n"
        "br x16\n"
#else
#error "calls of CUDA can be recorded on x86-64 and aarch64"
#endif
        ".cfi_endproc\n.size dlsym, .-dlsym\n");

// ---- CUPTI ----------------------------------------------------------------------------

#define CALLBACKS 4096 // numbers of functions in CUPTI; there are some 800

static void on_call(void *own, uint32_t domain, uint32_t id, const void *data)
{
    static uint16_t numbers[CALLBACKS]; // + 1
    const struct cupti_call *call = data;
    (void)own;
    if (domain != CUPTI_DRIVER_API || id >= CALLBACKS || call->function == NULL)
        return;
    uint16_t number = __atomic_load_n(&numbers[id], __ATOMIC_ACQUIRE);
    if (number == 0) {
        number = (uint16_t)(function_named(call->function, (void *)call->function) + 1);
        __atomic_store_n(&numbers[id], number, __ATOMIC_RELEASE);
    }
    if (number == 0) // no more room
        return;
    const struct function *function = &functions[number - 1];
    struct details details;
    bool launches = function->recipe != NULL && function->recipe->shape == LAUNCH;
    if (launches && call->arguments != NULL)
        kernel_set_name(*(const uint64_t *)call->arguments, call->symbol);
    if (call->arguments != NULL)
        read_arguments(function, call->arguments, true, &details);
    else
        memset(&details, 0, sizeof details);
    if (call->site == CUPTI_ENTER) {
        uint64_t op = call_begin((uint16_t)(number - 1), &details);
        if (call->own != NULL)
            *call->own = op;
        return;
    }
    int32_t result = call->result != NULL ? *(const int32_t *)call->result : 0;
    if (result == 0 && call->arguments != NULL)
        read_results(function, call->arguments, &details);
    call_end(call->own != NULL ? *call->own : 0, (uint16_t)(number - 1), result,
             &details);
}

static bool subscribe(void)
{
    static const char *const NAMES[] = {
        "libcupti.so", "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
    };
    void *(*open)(const char *, int) =
        (__typeof__(open))real_dlsym(RTLD_DEFAULT, "dlopen");
    const char *given = getenv("GGSCOPE_CUPTI");
    void *library = NULL;
    if (open != NULL && given != NULL && *given != '\0')
        library = open(given, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; open != NULL && library == NULL && i < 4; i++)
        library = open(NAMES[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return false;
    uint32_t (*add)(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *) =
        (__typeof__(add))real_dlsym(library, "cuptiSubscribe");
    uint32_t (*enable)(uint32_t, void *, uint32_t) =
        (__typeof__(enable))real_dlsym(library, "cuptiEnableDomain");
    void *subscriber;
    return add != NULL && enable != NULL && add(&subscriber, on_call, NULL) == 0 &&
           enable(1, subscriber, CUPTI_DRIVER_API) == 0;
}

// The driver calls this from within cuInit. Where a wrapper has seen that call, the
// program is entered already.
EXPORTED int InitializeInjection(void);
EXPORTED int InitializeInjection(void)
{
    look_for_dlsym();
    if (real_dlsym == NULL || (way == WAY_TABLE && is_within_call()))
        return 1;
    way = WAY_CUPTI;
    if (!subscribe())
        way = WAY_NONE;
    return 1;
}

static bool is_preloaded(void)
{
    const char *list = getenv("LD_PRELOAD");
    Dl_info own;
    int (*address)(const void *, Dl_info *) =
        (__typeof__(address))real_dlsym(RTLD_DEFAULT, "dladdr");
    if (list == NULL || address == NULL || !address((void *)is_preloaded, &own))
        return false;
    const char *slash = strrchr(own.dli_fname, '/');
    return strstr(list, slash != NULL ? slash + 1 : own.dli_fname) != NULL;
}

__attribute__((constructor)) static void enter(void)
{
    look_for_dlsym();
    if (real_dlsym == NULL || !is_preloaded())
        return;
    way = WAY_TABLE;
    attach_objects();
}
