/* Fill memory: a child takes and touches 1 MiB at a time until the kernel kills it for want of memory; its
 * parent, which can neither be killed so nor swapped out, notes each second what vmstat would show.
 *
 *     fill PERCENT        how much of each page is random
 */
#include "figures.h"
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STEP = 1 << 20, ROWS = 900, LOOKS = 20, MARKS = ROWS * LOOKS, HUNDREDTHS = 100 };

static const uint64_t SECOND_NS = 1000000000, LOOK_NS = 1000000000 / LOOKS;

/* vmstat's columns, and the time at which a row was read. */
enum { AT, SWPD, FREE, BUFF, CACHE, SI, SO, BI, BO, US, SY, ID, WA, COLUMNS };
static const char *const names[COLUMNS] = {"at_ns", "swpd", "free", "buff", "cache", "si", "so",
                                           "bi",    "bo",   "us",   "sy",   "id",    "wa"};
static uint64_t columns[COLUMNS][ROWS];
static size_t rows;

/* What the kernel counts since its start. */
struct counters {
    uint64_t pages_in, pages_out, kib_in, kib_out;
    uint64_t user, system, idle, waiting;
};

/* Each look: when, and how much had been swapped out by then. */
static struct { uint64_t at_ns, bytes; } marks[MARKS];
static size_t looks;

static uint64_t *touched; /* pages, shared with the child */

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void set_score(const char *score) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, score, strlen(score)) != (ssize_t)strlen(score))
        figures_fail("its out-of-memory score can't be set: it must be root");
    close(fd);
}

static _Noreturn void fill(unsigned percent) {
    size_t page = page_bytes();
    uint64_t number = 0;

    set_score("1000");
    for (;;) {
        char *block = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            _exit(3);
        for (size_t at = 0; at < STEP; at += page) {
            fill_page((uint64_t *)(void *)(block + at), page / sizeof(uint64_t), number++, percent);
            *touched = number;
        }
    }
}

static struct counters read_counters(void) {
    struct counters now = {0};
    uint64_t times[8] = {0};
    const char *text = need_text("/proc/vmstat");

    now.pages_in = number_after(text, "pswpin");
    now.pages_out = number_after(text, "pswpout");
    now.kib_in = number_after(text, "pgpgin");
    now.kib_out = number_after(text, "pgpgout");
    text = need_text("/proc/stat");
    if (strncmp(text, "cpu ", 4) != 0 || numbers_of(text + 4, times, 8) < 7)
        figures_fail("/proc/stat is not as it should be");
    now.user = times[0] + times[1];
    now.system = times[2] + times[5] + times[6];
    now.idle = times[3];
    now.waiting = times[4];
    return now;
}

static uint64_t percent_of(uint64_t part, uint64_t whole) {
    return whole ? (100 * part + whole / 2) / whole : 0;
}

/* One row, as procps' vmstat computes it: what lies between two looks, in KiB; the shares of the time
 * rounded. */
static void add_row(uint64_t at_ns, const struct counters *before, const struct counters *now) {
    const char *text = need_text("/proc/meminfo");
    uint64_t kib = page_bytes() / 1024, swap = number_after(text, "SwapTotal");
    uint64_t user = now->user - before->user, system = now->system - before->system,
             idle = now->idle > before->idle ? now->idle - before->idle : 0,
             waiting = now->waiting > before->waiting ? now->waiting - before->waiting : 0,
             whole = user + system + idle + waiting;
    uint64_t row[COLUMNS] = {
        [AT] = at_ns,
        [SWPD] = swap - number_after(text, "SwapFree"),
        [FREE] = number_after(text, "MemFree"),
        [BUFF] = number_after(text, "Buffers"),
        [CACHE] = number_after(text, "Cached") + number_after(text, "SReclaimable"),
        [SI] = (now->pages_in - before->pages_in) * kib,
        [SO] = (now->pages_out - before->pages_out) * kib,
        [BI] = now->kib_in - before->kib_in,
        [BO] = now->kib_out - before->kib_out,
        [US] = percent_of(user, whole),
        [SY] = percent_of(system, whole),
        [ID] = percent_of(idle, whole),
        [WA] = percent_of(waiting, whole),
    };

    if (rows == ROWS)
        figures_fail("it was not killed within its time");
    for (int column = 0; column < COLUMNS; column++)
        columns[column][rows] = row[column];
    rows++;
}

/* Swapped-out bytes, and those that they take where they were put, at the look at which most was swapped out.
 */
static struct { uint64_t held, taken; } peak;

static bool compresses(void) {
    return strstr(need_text("/proc/swaps"), "/zram") != NULL;
}

static void look(uint64_t start_ns, uint64_t pages_before) {
    uint64_t bytes = (number_after(need_text("/proc/vmstat"), "pswpout") - pages_before) * page_bytes();
    uint64_t stat[3];

    if (looks == MARKS)
        figures_fail("it was not killed within its time");
    marks[looks].at_ns = now_ns() - start_ns;
    marks[looks++].bytes = bytes;
    const char *text = need_text("/proc/meminfo");
    uint64_t used = (number_after(text, "SwapTotal") - number_after(text, "SwapFree")) * 1024;
    if (!compresses()) {
        if (used >= peak.held)
            peak.held = peak.taken = used;
    } else if (numbers_of(need_text("/sys/block/zram0/mm_stat"), stat, 3) == 3 && stat[0] >= peak.held) {
        peak.held = stat[0];
        peak.taken = stat[1];
    }
}

/* Bytes written to the flash since the machine started; 0 where it has none. */
static uint64_t flash_bytes(void) {
    uint64_t stat[7];
    const char *text = read_text("/sys/block/nullb1/stat");
    return text && numbers_of(text, stat, 7) == 7 ? stat[6] * 512 : 0;
}

/* When so many hundredths of all had been swapped out: the first look at which they had. */
static size_t mark_of(uint64_t hundredths) {
    size_t at = 0;
    while (at + 1 < looks && marks[at].bytes * HUNDREDTHS < marks[looks - 1].bytes * hundredths)
        at++;
    return at;
}

static uint64_t rate(size_t from, size_t to) {
    uint64_t bytes = marks[to].bytes - marks[from].bytes, ns = marks[to].at_ns - marks[from].at_ns;
    return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

/* Waits until a moment or the child's end. */
static bool ended(const sigset_t *signals, uint64_t until_ns) {
    for (;;) {
        uint64_t now = now_ns(), left = until_ns > now ? until_ns - now : 0;
        struct timespec wait = {(time_t)(left / SECOND_NS), (long)(left % SECOND_NS)};
        if (sigtimedwait(signals, NULL, &wait) == SIGCHLD)
            return true;
        if (errno == EAGAIN)
            return false;
    }
}

static void watch(const sigset_t *signals, uint64_t start_ns) {
    struct counters before = read_counters(), now;
    uint64_t pages_before = before.pages_out;

    for (uint64_t number = 1;; number++) {
        bool over = ended(signals, start_ns + number * LOOK_NS);
        look(start_ns, pages_before);
        if (over || number % LOOKS == 0) {
            now = read_counters();
            add_row(now_ns() - start_ns, &before, &now);
            before = now;
        }
        if (over)
            return;
    }
}

static void say(uint64_t until_ns, uint64_t written) {
    size_t last = looks - 1, first = 0;

    while (first < last && marks[first + 1].bytes == 0)
        first++;
    figures_begin("fill");
    figure("reached", *touched * page_bytes());
    figure("until_kill", until_ns);
    figure("swapped_out", marks[last].bytes);
    figure("out_mean", rate(first, last));
    figure("out_steady", rate(mark_of(25), mark_of(75)));
    figure_ratio("compression", peak.held, peak.taken);
    figure("flash_written", written);
    for (int column = 0; column < COLUMNS; column++)
        figures_series(names[column], columns[column], rows);
    figures_end();
}

int main(int count, char **arguments) {
    sigset_t signals;
    int status;

    if (count != 2)
        figures_fail("fill PERCENT");
    unsigned percent = (unsigned)strtoul(arguments[1], NULL, 10);
    touched = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (touched == MAP_FAILED || percent > 100)
        figures_fail("it can't begin");
    set_score("-1000");
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    uint64_t written = flash_bytes(), start_ns = now_ns();
    pid_t child = fork();
    if (child == 0)
        fill(percent);
    if (child < 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        figures_fail("it can't begin");
    watch(&signals, start_ns);
    uint64_t until_ns = marks[looks - 1].at_ns;
    written = flash_bytes() - written;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        figures_fail("its child was not killed for want of memory");
    say(until_ns, written);
    return 0;
}
