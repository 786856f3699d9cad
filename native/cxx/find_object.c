/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* _dl_find_object of glibc 2.35 for other C libraries: gcc's unwinder, as built for glibc, finds the frames
 * of exceptions with it. Source: the glibc manual, "Dynamic Linker Introspection"; gcc's
 * libgcc/unwind-dw2-fde-dip.c. */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct found {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *map;
    void *eh_frame;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct found *found;
};

static int visit(struct dl_phdr_info *object, size_t size, void *data) {
    struct search *search = data;
    uintptr_t frames = 0, start = 0, end = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME)
            frames = from;
        if (segment->p_type == PT_LOAD && search->address - from < segment->p_memsz) {
            start = from;
            end = from + segment->p_memsz;
        }
    }
    if (end == 0 || frames == 0)
        return 0;
    search->found->flags = 0;
    search->found->map_start =
        (void *)start;                    /* NOLINT(performance-no-int-to-ptr): an address of the loader */
    search->found->map_end = (void *)end; /* NOLINT(performance-no-int-to-ptr): as above */
    search->found->map = NULL;
    search->found->eh_frame = (void *)frames; /* NOLINT(performance-no-int-to-ptr): as above */
    return 1;
}

int _dl_find_object(void *address, struct found *found);
int _dl_find_object(void *address, struct found *found) {
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(visit, &search) ? 0 : -1;
}
