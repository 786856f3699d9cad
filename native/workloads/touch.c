// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads swapped-out memory: writes a working set that is larger than the available memory, reads one word of
 * each of TOUCHES pages, and prints the time of a read. Not from a published benchmark.
 *
 *     touch sequential|random PERCENT TOUCHES
 *
 * The order of the pages; the size of the working set in per cent of MemAvailable at the start, or of the
 * limit of its cgroup (SWAPSTONE_MEMORY_BYTES) if that is less, rounded down to 16 MiB; and the number of
 * pages to read. A quarter of each page is random. With a half, twice the available memory would not fit into
 * zram.
 */
#include "figures.h"
#include "page_content.h"
#include "proc_files.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { GRANULE_BYTES = 16 << 20, RANDOM_PERCENT = 25 };

static uint64_t random_state = 0x2545f4914f6cdd1d;

/* xorshift64. */
static uint64_t next_random_page(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t major_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_majflt;
}

static uint64_t available_bytes(void) {
    const char *limit = getenv("SWAPSTONE_MEMORY_BYTES");
    uint64_t found = proc_field(require_proc_file("/proc/meminfo"), "MemAvailable") * 1024,
             limited = limit ? strtoull(limit, NULL, 10) : found;
    return limited < found ? limited : found;
}

int main(int count, char **arguments) {
    if (count != 4)
        figures_fail("usage: touch sequential|random PERCENT TOUCHES");
    bool in_order = strcmp(arguments[1], "sequential") == 0;
    uint64_t percent = strtoull(arguments[2], NULL, 10), touches = strtoull(arguments[3], NULL, 10);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), words = page / sizeof(uint64_t);
    uint64_t available = available_bytes() / GRANULE_BYTES * GRANULE_BYTES;
    size_t bytes = (size_t)(available * percent / 100 / page * page), pages = bytes / page;
    uint64_t *working_set = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (working_set == MAP_FAILED || pages == 0 || touches == 0)
        figures_fail("mmap of the working set failed, or PERCENT or TOUCHES is 0");
    for (size_t i = 0; i < pages; i++)
        fill_page(working_set + i * words, words, i, RANDOM_PERCENT);
    uint64_t swap_ins = proc_field(require_proc_file("/proc/vmstat"), "pswpin"), faults = major_faults(),
             start_ns = now_ns();
    for (uint64_t i = 0; i < touches; i++) {
        size_t number = (size_t)((in_order ? i : next_random_page()) % pages);
        if (((volatile uint64_t *)working_set)[number * words] != number + 1)
            figures_fail("a page has other content after it was swapped in");
    }
    uint64_t took_ns = now_ns() - start_ns;
    faults = major_faults() - faults;
    swap_ins = proc_field(require_proc_file("/proc/vmstat"), "pswpin") - swap_ins;
    figures_begin("touch");
    figure_ratio("touch_time", took_ns, touches);
    figure("swap_ins", swap_ins);
    figure("majflt", faults);
    figure("in_rate", took_ns ? (uint64_t)((double)(swap_ins * page) * 1e9 / (double)took_ns) : 0);
    figure("working_set", bytes);
    figures_end();
    return 0;
}
