// Where the objects of this process call what: functions that they define and the
// slots (JUMP_SLOT, GLOB_DAT) through which they call others'.
//
// Slots are changed, not symbols: that works for objects that are there already, for
// those loaded with RTLD_LOCAL, and for an object's calls of its own functions.

#ifndef __APPLE__
#define _GNU_SOURCE
#include "object.h"
#include "tracer.h"

#include <dlfcn.h>
#include <string.h>

static unsigned long long seen_adds, seen_subs;

#define MAX_NAMES 16

struct search {
    struct symbol *symbols;
    size_t n;
    bool redirects;
    // Objects that functions are called in from here: they must not go away.
    const char *names[MAX_NAMES];
    int n_names;
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

static void find_definitions(const struct object *object, struct search *search)
{
    bool is_used = false;
    for (size_t i = 0; i < search->n; i++) {
        struct symbol *wanted = &search->symbols[i];
        if (*wanted->found != NULL)
            continue;
        const ElfW(Sym) *symbol = object_symbol(object, wanted->name);
        if (symbol == NULL || symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0)
            continue;
        *wanted->found = (void *)(object->base + symbol->st_value);
        is_used = true;
    }
    if (is_used && object->name[0] != '\0' && search->n_names < MAX_NAMES)
        search->names[search->n_names++] = object->name;
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
                object_set_slot(object, slot, wanted->wrapper);
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
    for (int i = 0; i < search.n_names; i++) {
        void *handle = dlopen(search.names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
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
