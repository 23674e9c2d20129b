// Where the objects of this process call what: functions that they define and the
// slots (JUMP_SLOT, GLOB_DAT) through which they call others'.
//
// Slots are changed, not symbols: that works for objects that are there already, for
// those loaded with RTLD_LOCAL, and for an object's calls of its own functions.

#ifndef __APPLE__
#define _GNU_SOURCE
#include "tracer.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned long long seen_adds, seen_subs;

#if defined(__x86_64__)
#define IS_SLOT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_SLOT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_SLOT(type) 0
#endif

struct object {
    const char *name;
    ElfW(Addr) base;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const ElfW(Rela) *tables[2];
    size_t n[2];
    ElfW(Addr) relro, relro_end;
};

#define MOST_KEPT 16

struct search {
    struct symbol *symbols;
    size_t n;
    bool redirects;
    // Objects that functions are called in from here: they must not go away.
    const char *kept[MOST_KEPT];
    int n_kept;
};

static bool is_ours(const char *name)
{
    return strncmp(name, "gg", 2) == 0 || strncmp(name, "llama_", 6) == 0;
}

static struct symbol *known(const struct search *search, const char *name)
{
    if (is_ours(name))
        for (size_t i = 0; i < search->n; i++)
            if (strcmp(search->symbols[i].name, name) == 0)
                return &search->symbols[i];
    return NULL;
}

static bool object_read(struct object *object, const struct dl_phdr_info *info)
{
    memset(object, 0, sizeof *object);
    object->name = info->dlpi_name;
    object->base = info->dlpi_addr;
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *head = &info->dlpi_phdr[i];
        if (head->p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + head->p_vaddr);
        if (head->p_type == PT_GNU_RELRO) {
            object->relro = info->dlpi_addr + head->p_vaddr;
            object->relro_end = object->relro + head->p_memsz;
        }
    }
    if (dynamic == NULL)
        return false;
    size_t sizes[2] = {0, 0};
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        // glibc adds the base to these in place; musl and the vdso do not.
        ElfW(Addr) place = dynamic->d_un.d_ptr;
        if (place < info->dlpi_addr)
            place += info->dlpi_addr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB: object->symbols = (const void *)place; break;
        case DT_STRTAB: object->strings = (const void *)place; break;
        case DT_GNU_HASH: object->gnu_hash = (const void *)place; break;
        case DT_HASH: object->sysv_hash = (const void *)place; break;
        case DT_JMPREL: object->tables[0] = (const void *)place; break;
        case DT_PLTRELSZ: sizes[0] = dynamic->d_un.d_val; break;
        case DT_RELA: object->tables[1] = (const void *)place; break;
        case DT_RELASZ: sizes[1] = dynamic->d_un.d_val; break;
        case DT_PLTREL:
            if (dynamic->d_un.d_val != DT_RELA)
                return false;
        }
    }
    for (int i = 0; i < 2; i++)
        object->n[i] = object->tables[i] ? sizes[i] / sizeof(ElfW(Rela)) : 0;
    return object->symbols != NULL && object->strings != NULL;
}

// The symbol of an object with this name: by its hash table, since programs may export
// a hundred thousand of them.
static const ElfW(Sym) *symbol_of(const struct object *object, const char *name)
{
    const uint32_t *hash = object->gnu_hash;
    if (hash == NULL) {
        uint32_t n = object->sysv_hash ? object->sysv_hash[1] : 0;
        for (uint32_t i = 0; i < n; i++)
            if (strcmp(object->strings + object->symbols[i].st_name, name) == 0)
                return &object->symbols[i];
        return NULL;
    }
    uint32_t wanted = 5381;
    for (const char *at = name; *at; at++)
        wanted = wanted * 33 + (uint8_t)*at;
    uint32_t n_buckets = hash[0], first = hash[1], n_bloom = hash[2];
    const ElfW(Addr) *bloom = (const void *)(hash + 4);
    const uint32_t bits = 8 * sizeof *bloom;
    const uint32_t *buckets = (const void *)(bloom + n_bloom);
    const uint32_t *chain = buckets + n_buckets;
    if (n_buckets == 0 || n_bloom == 0)
        return NULL;
    ElfW(Addr) word = bloom[wanted / bits % n_bloom];
    if (!(word >> wanted % bits & 1) || !(word >> (wanted >> hash[3]) % bits & 1))
        return NULL;
    for (uint32_t i = buckets[wanted % n_buckets]; i >= first && i != 0; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];
        if ((chain[i - first] | 1) == (wanted | 1) &&
            strcmp(object->strings + symbol->st_name, name) == 0)
            return symbol;
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static void find_definitions(const struct object *object, struct search *search)
{
    bool is_used = false;
    for (size_t i = 0; i < search->n; i++) {
        struct symbol *wanted = &search->symbols[i];
        if (*wanted->found != NULL)
            continue;
        const ElfW(Sym) *symbol = symbol_of(object, wanted->name);
        if (symbol == NULL || symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0)
            continue;
        *wanted->found = (void *)(object->base + symbol->st_value);
        is_used = true;
    }
    if (is_used && object->name[0] != '\0' && search->n_kept < MOST_KEPT)
        search->kept[search->n_kept++] = object->name;
}

static void set_slot(const struct object *object, void **slot, void *value)
{
    static long page;
    if (page == 0)
        page = sysconf(_SC_PAGESIZE);
    ElfW(Addr) at = (ElfW(Addr))slot;
    ElfW(Addr) from = at & ~(ElfW(Addr))(page - 1);
    size_t size = at + sizeof *slot - from;
    bool is_sealed = at >= object->relro && at < object->relro_end;
    if (is_sealed && mprotect((void *)from, size, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    // The loader seals whole pages only; the last one may hold ordinary data.
    ElfW(Addr) sealed_end = object->relro_end & ~(ElfW(Addr))(page - 1);
    if (is_sealed && at < sealed_end)
        mprotect((void *)from, size, PROT_READ);
}

static void redirect(const struct object *object, const struct search *search)
{
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < object->n[table]; i++) {
            const ElfW(Rela) *entry = &object->tables[table][i];
            if (!IS_SLOT(ELF64_R_TYPE(entry->r_info)))
                continue;
            const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
            struct symbol *wanted = known(search, object->strings + symbol->st_name);
            if (wanted == NULL || wanted->wrapper == NULL || *wanted->found == NULL)
                continue;
            void **slot = (void **)(object->base + entry->r_offset);
            if (*slot != wanted->wrapper)
                set_slot(object, slot, wanted->wrapper);
            wanted->n_slots++;
        }
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    struct object object;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        seen_adds = info->dlpi_adds;
        seen_subs = info->dlpi_subs;
    }
    if (!object_read(&object, info))
        return 0;
    Dl_info mine;
    if (dladdr((void *)objects_attach, &mine) &&
        (ElfW(Addr))mine.dli_fbase == object.base)
        return 0;
    if (search->redirects)
        redirect(&object, search);
    else
        find_definitions(&object, search);
    return 0;
}

void objects_attach(struct symbol *symbols, size_t n)
{
    struct search search = {.symbols = symbols, .n = n};
    dl_iterate_phdr(visit, &search);
    for (int i = 0; i < search.n_kept; i++) {
        void *handle = dlopen(search.kept[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        if (handle != NULL)
            dlclose(handle);
    }
    bool is_there = false;
    for (size_t i = 0; i < n; i++) {
        symbols[i].n_slots &= BY_SOURCE;
        is_there |= symbols[i].wrapper != NULL && *symbols[i].found != NULL;
    }
    search.redirects = true;
    if (is_there)
        dl_iterate_phdr(visit, &search);
}

static int compare(struct dl_phdr_info *info, size_t size, void *data)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        *(bool *)data = info->dlpi_adds != seen_adds || info->dlpi_subs != seen_subs;
    return 1;
}

bool objects_changed(void)
{
    bool has = true;
    dl_iterate_phdr(compare, &has);
    return has;
}
#endif
