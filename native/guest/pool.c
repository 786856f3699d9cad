// SPDX-License-Identifier: MIT OR Apache-2.0
/* Implements pool.h. The kernel allocates no page for a received file: it has the pages that its file of the
 * pool had before the machine was saved. All files of the pool are moved, also those that stay empty. In
 * place of pages behind the end of a file, as many others are allocated: how many are free does not depend on
 * it. */
#include "pool.h"

#include "../agent/text.h"
#include "../port/port.h"
#include "../port/root_file_system.h"
#include "../port/virtual_machine.h"

/* As in file_pool.py. */
enum {
    PAGE_BYTES = 4096,
    MOST_PAGES = 1 << 18,
    MOST_ENTRIES = 8192,
    ENTRIES_IN_PAGE = 8,
    TEXT_BYTES = 496,
    KIND = 0170000, /* S_IFMT */
    FOLDER = 0040000,
    LINK = 0120000,
};
static const char magic[] = "swapstone-pool 2";

/* What the host sends before the contents, in little-endian byte order. Of what follows, only the pages that
 * a pool needs are allocated. */
static struct {
    char magic[sizeof magic - 1];
    int64_t most_ns;
    char unused[PAGE_BYTES - sizeof magic + 1 - sizeof(int64_t)];
    struct entry {
        int64_t size;
        uint32_t mode;
        uint32_t unused;       /* a file of the pool that stays empty, and keeps its pages */
        char text[TEXT_BYTES]; /* the path and, of a link, its target; each ends with a zero byte */
    } entries[MOST_ENTRIES];
} table __attribute__((aligned(PAGE_BYTES)));
_Static_assert(sizeof(struct entry) * ENTRIES_IN_PAGE == PAGE_BYTES, "the table has whole pages");

static size_t entries, table_pages;
static uint64_t table_addresses[1 + MOST_ENTRIES / ENTRIES_IN_PAGE];
static uint64_t addresses[MOST_PAGES]; /* of all files' pages */
static size_t used;
static struct {
    const uint64_t *pages;
    size_t count;
} files[MOST_ENTRIES];
static size_t made;

static const char *pool_path(size_t number) {
    static char path[32];
    struct text text = {path, sizeof path, 0, false};

    text_format(&text, POOL "/%lld", (long long)number);
    return text_end(&text);
}

static int make_file(size_t size) {
    size_t count = size / PAGE_BYTES;

    if (made == MOST_ENTRIES || count > MOST_PAGES - used)
        return -PORT_E_NOSPC;
    volatile char *memory = port_map_new_file(pool_path(made), size);
    if (!memory)
        return -PORT_E_NOMEM;
    for (size_t at = 0; at < size; at += PAGE_BYTES)
        memory[at] = 0; /* the page is allocated now */
    int result = port_find_pages((void *)memory, count, addresses + used);
    port_munmap((void *)memory, size);
    files[made].pages = addresses + used;
    files[made].count = count;
    used += count;
    made++;
    return result;
}

/* Reads a line with a number. Returns 1, 0 at the end of the file, or a negative errno. */
static int next_number(struct lines *lines, int64_t *number) {
    char *line;
    enum line_result found = next_line(lines, &line);

    if (found != LINE)
        return found == LINE_NONE ? 0 : -PORT_E_IO;
    const char *text = line;
    return text_number(&text, number) && !*text ? 1 : -PORT_E_IO;
}

static int set_root_size(int64_t bytes) {
    char options[32];
    struct text text = {options, sizeof options, 0, false};

    text_format(&text, "size=%lld", (long long)bytes);
    return port_remount("/", text_end(&text));
}

int make_pool(void) {
    static char room[PAGE_BYTES];
    struct lines lines = {.fd = port_open_read(POOL "/sizes"), .bytes = room, .room = sizeof room};
    int64_t number = 0, root_bytes = 0;

    if (lines.fd < 0)
        return 0;
    int result = next_number(&lines, &number);
    entries = (size_t)number;
    if (result > 0)
        result = next_number(&lines, &root_bytes);
    if (result > 0 && (result = set_root_size(root_bytes)) == 0)
        while ((result = next_number(&lines, &number)) > 0 && (result = make_file((size_t)number)) == 0)
            ;
    port_close(lines.fd);
    if (result < 0 || entries > MOST_ENTRIES)
        return result < 0 ? result : -PORT_E_NOSPC;
    table_pages = 1 + entries / ENTRIES_IN_PAGE;
    for (size_t i = 0; i < table_pages; i++)
        ((volatile char *)&table)[i * PAGE_BYTES] = 0;
    return port_find_pages(&table, table_pages, table_addresses);
}

static int receive_pages(const uint64_t *pages, size_t count) {
    int result = 0;

    for (size_t i = 0; i < count && result == 0; i++)
        result = port_receive_page(pages[i]);
    return result;
}

static int make_folder(const char *path, int mode) {
    int result = port_mkdir(path, mode);

    return result == -PORT_E_EXIST ? 0 : result;
}

static int make_link(const char *path, const char *target) {
    static const char new[] = POOL "/link";
    int result = port_symlink(target, new);

    return result ? result : port_rename(new, path); /* the image may have a file there */
}

/* Allocates pages in place of those that were freed. */
static int take_pages(size_t count) {
    static const char zeros[PAGE_BYTES];
    int fd = port_create_file(POOL "/rest");
    long result = fd;

    for (; result >= 0 && count; count--)
        result = port_write(fd, zeros, sizeof zeros);
    port_close(fd);
    return result < 0 ? (int)result : 0;
}

/* Receives the content of the next file of the pool. */
static int receive_file(size_t number, const struct entry *entry, size_t *freed) {
    size_t size = (size_t)entry->size, pages = (size + PAGE_BYTES - 1) / PAGE_BYTES;

    if (number >= made || pages > files[number].count)
        return -PORT_E_NOSPC;
    int result = receive_pages(files[number].pages, pages);
    if (result == 0)
        result = port_rename(pool_path(number), entry->text);
    if (result == 0)
        result = port_chmod(entry->text, (int)(entry->mode & ~(uint32_t)KIND));
    if (result != 0 || entry->unused)
        return result;
    *freed += files[number].count - pages;
    return port_truncate(entry->text, size);
}

int receive_files(int64_t *most_ns) {
    size_t number = 0, freed = 0;

    *most_ns = 0;
    if (!made)
        return 0;
    int result = port_begin_files();
    if (result == 0)
        result = receive_pages(table_addresses, table_pages);
    if (result == 0 && __builtin_memcmp(table.magic, magic, sizeof table.magic) != 0)
        result = -PORT_E_IO;
    *most_ns = table.most_ns;
    for (const struct entry *at = table.entries; result == 0 && at < table.entries + entries; at++) {
        uint32_t kind = at->mode & KIND;
        if (kind == FOLDER)
            result = make_folder(at->text, (int)(at->mode & ~(uint32_t)KIND));
        else if (kind == LINK)
            result = make_link(at->text, at->text + text_length(at->text) + 1);
        else
            result = receive_file(number++, at, &freed);
    }
    return result ? result : take_pages(freed);
}
