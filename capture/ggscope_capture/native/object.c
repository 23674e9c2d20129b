// One object of this process; see object.h.

#ifndef __APPLE__
#define _GNU_SOURCE
#include "object.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool object_read(struct object *object, const struct dl_phdr_info *info)
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
const ElfW(Sym) *object_symbol(const struct object *object, const char *name)
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

void object_set_slot(const struct object *object, void **slot, void *value)
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
#endif
