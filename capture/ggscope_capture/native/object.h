// Objects that are loaded in this process: their symbols and the slots through which
// they call others' functions. Used by the tracer and by the hook of CUDA calls.

#ifndef GGSCOPE_OBJECT_H
#define GGSCOPE_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

// Read the tables of a loaded object; false where it has none.
bool object_read(struct object *object, const struct dl_phdr_info *info);

// The symbol of an object with this name, NULL where there is none.
const ElfW(Sym) *object_symbol(const struct object *object, const char *name);

// Let a slot hold `value`, also where the loader has sealed it.
void object_set_slot(const struct object *object, void **slot, void *value);

#endif
