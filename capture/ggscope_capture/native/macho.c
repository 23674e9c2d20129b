// What elf.c does, for macOS: functions that the images of this process define and the
// slots (__got, __la_symbol_ptr) through which they call others'.
//
// An image calls its own functions directly, and those of others by the library that
// they were linked to: names of ours would bind nobody. So slots are changed here too,
// and again whenever an image comes. dyld's own way, a table of what takes whose place
// (__interpose), needs references to ggml when this library is loaded, and does not
// reach what is loaded later. Never run on a Mac so far.

#ifdef __APPLE__
#include "tracer.h"

#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#include <mach-o/nlist.h>
#include <mach/mach.h>
#include <string.h>

#define MAX_IMAGES 2048

struct image {
    const struct mach_header_64 *header;
    intptr_t slide;
};

// What its load commands say.
struct tables {
    const struct symtab_command *symtab;
    const struct dysymtab_command *dysymtab;
    const struct nlist_64 *symbols;
    const char *strings;
    const uint32_t *indirect;
};

static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static struct image images[MAX_IMAGES];
static size_t n_images;
static unsigned n_changes, seen_changes;
static const void *own_header;
static struct symbol *watched;
static size_t n_watched;

static const struct load_command *command_after(const struct load_command *command)
{
    return (const void *)((const char *)command + command->cmdsize);
}

static bool tables_read(struct tables *tables, const struct image *image)
{
    memset(tables, 0, sizeof *tables);
    const struct segment_command_64 *linked = NULL;
    const struct load_command *command = (const void *)(image->header + 1);
    for (uint32_t i = 0; i < image->header->ncmds; i++, command = command_after(command)) {
        if (command->cmd == LC_SYMTAB)
            tables->symtab = (const void *)command;
        else if (command->cmd == LC_DYSYMTAB)
            tables->dysymtab = (const void *)command;
        else if (command->cmd == LC_SEGMENT_64 &&
                 strcmp(((const struct segment_command_64 *)command)->segname,
                        SEG_LINKEDIT) == 0)
            linked = (const void *)command;
    }
    if (tables->symtab == NULL || tables->dysymtab == NULL || linked == NULL)
        return false;
    const char *base = (const char *)(linked->vmaddr - linked->fileoff + image->slide);
    tables->symbols = (const void *)(base + tables->symtab->symoff);
    tables->strings = base + tables->symtab->stroff;
    tables->indirect = (const void *)(base + tables->dysymtab->indirectsymoff);
    return true;
}

static struct symbol *known(struct symbol *symbols, size_t n, const char *name)
{
    if (*name++ == '_' && (strncmp(name, "gg", 2) == 0 || strncmp(name, "llama_", 6) == 0))
        for (size_t i = 0; i < n; i++)
            if (strcmp(symbols[i].name, name) == 0)
                return &symbols[i];
    return NULL;
}

static void find_definitions(const struct image *image, struct symbol *symbols, size_t n)
{
    struct tables tables;
    if (!tables_read(&tables, image))
        return;
    const struct nlist_64 *symbol = tables.symbols + tables.dysymtab->iextdefsym;
    for (uint32_t i = 0; i < tables.dysymtab->nextdefsym; i++, symbol++) {
        if ((symbol->n_type & (N_STAB | N_TYPE)) != N_SECT)
            continue;
        struct symbol *wanted = known(symbols, n, tables.strings + symbol->n_un.n_strx);
        if (wanted != NULL && *wanted->found == NULL)
            *wanted->found = (void *)(symbol->n_value + (uintptr_t)image->slide);
    }
}

static void set_slot(void **slot, void *value, bool is_sealed)
{
    vm_address_t at = (vm_address_t)slot;
    // A copy of the page: the file's own stays as it is.
    if (is_sealed && vm_protect(mach_task_self(), at, sizeof *slot, 0,
                                VM_PROT_READ | VM_PROT_WRITE | VM_PROT_COPY) != 0)
        return;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (is_sealed)
        vm_protect(mach_task_self(), at, sizeof *slot, 0, VM_PROT_READ);
}

static void redirect_section(const struct image *image, const struct tables *tables,
                             const struct section_64 *section, bool is_sealed,
                             struct symbol *symbols, size_t n)
{
    void **slots = (void **)(section->addr + (uintptr_t)image->slide);
    for (uint64_t i = 0; i < section->size / sizeof *slots; i++) {
        uint64_t place = section->reserved1 + i;
        if (place >= tables->dysymtab->nindirectsyms)
            return;
        uint32_t index = tables->indirect[place];
        if (index >= tables->symtab->nsyms) // INDIRECT_SYMBOL_LOCAL, _ABS
            continue;
        const char *name = tables->strings + tables->symbols[index].n_un.n_strx;
        struct symbol *wanted = known(symbols, n, name);
        if (wanted == NULL || wanted->wrapper == NULL || wanted->is_internal ||
            *wanted->found == NULL)
            continue;
        if (slots[i] != wanted->wrapper)
            set_slot(&slots[i], wanted->wrapper, is_sealed);
        wanted->n_slots++;
    }
}

static void redirect(const struct image *image, struct symbol *symbols, size_t n)
{
    struct tables tables;
    if (!tables_read(&tables, image))
        return;
    const struct load_command *command = (const void *)(image->header + 1);
    for (uint32_t i = 0; i < image->header->ncmds; i++, command = command_after(command)) {
        const struct segment_command_64 *segment = (const void *)command;
        if (command->cmd != LC_SEGMENT_64 || strcmp(segment->segname, SEG_TEXT) == 0)
            continue;
        // The loader seals these once they are filled.
        bool is_sealed = segment->flags & SG_READ_ONLY ||
                         strncmp(segment->segname, "__DATA_CONST", 12) == 0;
        const struct section_64 *sections = (const void *)(segment + 1);
        for (uint32_t k = 0; k < segment->nsects; k++) {
            uint32_t type = sections[k].flags & SECTION_TYPE;
            if (type == S_NON_LAZY_SYMBOL_POINTERS || type == S_LAZY_SYMBOL_POINTERS)
                redirect_section(image, &tables, &sections[k], is_sealed, symbols, n);
        }
    }
}

// With the lock of the images held. Nothing of dyld is called here: it may hold its own.
static void look_through(struct symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n_images; i++)
        find_definitions(&images[i], symbols, n);
    bool is_there = false;
    for (size_t i = 0; i < n; i++) {
        symbols[i].n_slots &= BY_SOURCE;
        is_there |= symbols[i].wrapper != NULL && *symbols[i].found != NULL;
    }
    for (size_t i = 0; is_there && i < n_images; i++)
        redirect(&images[i], symbols, n);
}

void objects_attach(struct symbol *symbols, size_t n)
{
    pthread_mutex_lock(&images_lock);
    look_through(symbols, n);
    seen_changes = n_changes;
    pthread_mutex_unlock(&images_lock);
}

bool objects_changed(void)
{
    pthread_mutex_lock(&images_lock);
    bool has = n_changes != seen_changes;
    pthread_mutex_unlock(&images_lock);
    return has;
}

// What the system shares among all programs (0x80000000) calls nobody of ours.
static bool is_foreign(const struct mach_header *header)
{
    return header->magic != MH_MAGIC_64 || (const void *)header == own_header ||
           header->flags & 0x80000000u;
}

static void image_added(const struct mach_header *header, intptr_t slide)
{
    if (is_foreign(header))
        return;
    pthread_mutex_lock(&images_lock);
    if (n_images < MAX_IMAGES) {
        images[n_images++] = (struct image){(const void *)header, slide};
        n_changes++;
        if (watched != NULL)
            look_through(watched, n_watched);
    }
    pthread_mutex_unlock(&images_lock);
}

static bool holds(const struct image *image, const void *place)
{
    const struct load_command *command = (const void *)(image->header + 1);
    for (uint32_t i = 0; i < image->header->ncmds; i++, command = command_after(command)) {
        const struct segment_command_64 *segment = (const void *)command;
        if (command->cmd == LC_SEGMENT_64 &&
            (uintptr_t)place - (segment->vmaddr + (uintptr_t)image->slide) <
                segment->vmsize)
            return true;
    }
    return false;
}

// Its functions go, and with them what was found there.
static void image_removed(const struct mach_header *header, intptr_t slide)
{
    (void)slide;
    pthread_mutex_lock(&images_lock);
    for (size_t i = 0; i < n_images; i++)
        if ((const void *)images[i].header == (const void *)header) {
            for (size_t k = 0; k < n_watched; k++)
                if (*watched[k].found != NULL && holds(&images[i], *watched[k].found))
                    *watched[k].found = NULL;
            images[i] = images[--n_images];
            n_changes++;
            break;
        }
    pthread_mutex_unlock(&images_lock);
}

void objects_watch(struct symbol *symbols, size_t n)
{
    Dl_info mine;
    if (dladdr((void *)objects_watch, &mine))
        own_header = mine.dli_fbase;
    // Both report what is there already before they return.
    _dyld_register_func_for_add_image(image_added);
    _dyld_register_func_for_remove_image(image_removed);
    pthread_mutex_lock(&images_lock);
    watched = symbols;
    n_watched = n;
    look_through(symbols, n);
    pthread_mutex_unlock(&images_lock);
}
#endif
