/* Touch swapped memory: write a working set that is larger than the memory that is available, then read words
 * of it in order or at random, and say how long a touch takes.
 *
 *     touch sequential|random HUNDREDTHS TOUCHES
 *
 * The working set has so many hundredths of the memory that is available at the start, rounded down to 16
 * MiB. A quarter of each page is random: with a half, twice the memory would not fit into memory that is
 * compressed.
 */
#include "figures.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { ROUND = 16 << 20, PERCENT = 25 };

static uint64_t random_state = 0x2545f4914f6cdd1d;

static uint64_t draw(void) {
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

int main(int count, char **arguments) {
    if (count != 4)
        figures_fail("touch sequential|random HUNDREDTHS TOUCHES");
    bool in_order = strcmp(arguments[1], "sequential") == 0;
    uint64_t hundredths = strtoull(arguments[2], NULL, 10), touches = strtoull(arguments[3], NULL, 10);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), words = page / sizeof(uint64_t);
    uint64_t available = number_after(need_text("/proc/meminfo"), "MemAvailable") * 1024 / ROUND * ROUND;
    size_t bytes = (size_t)(available * hundredths / 100 / page * page), pages = bytes / page;
    uint64_t *set = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (set == MAP_FAILED || pages == 0 || touches == 0)
        figures_fail("it can't begin");
    for (size_t i = 0; i < pages; i++)
        fill_page(set + i * words, words, i, PERCENT);
    uint64_t in = number_after(need_text("/proc/vmstat"), "pswpin"), faults = major_faults(),
             start_ns = now_ns();
    for (uint64_t i = 0; i < touches; i++) {
        size_t which = (size_t)((in_order ? i : draw()) % pages);
        if (((volatile uint64_t *)set)[which * words] != which + 1)
            figures_fail("a page came back with another content");
    }
    uint64_t took_ns = now_ns() - start_ns;
    faults = major_faults() - faults;
    in = number_after(need_text("/proc/vmstat"), "pswpin") - in;
    figures_begin("touch");
    figure_ratio("touch_time", took_ns, touches);
    figure("swap_ins", in);
    figure("majflt", faults);
    figure("in_rate", took_ns ? (uint64_t)((double)(in * page) * 1e9 / (double)took_ns) : 0);
    figure("working_set", bytes);
    figures_end();
    return 0;
}
