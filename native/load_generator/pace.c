/* A driver that keeps to a schedule: so many requests a second, whether or not the server keeps up.
 *
 *     swapstone-pace --port P --rate R --seconds S --connections C [--path /]
 *
 * Request i is due at i / R seconds after the start. A request's time is counted from when it was due to the
 * last byte of its answer, so that one that had to wait for a connection to be free, because the server was
 * busy with others, is as late as its user would find it. A driver that sends its next request only after an
 * answer (a closed loop) leaves exactly those out: "coordinated omission" (Gil Tene, "How NOT to Measure
 * Latency", 2015).
 *
 * One thread, kept connections of HTTP/1.1 to 127.0.0.1. Prints figures (docs/wire.md, section 4); times are
 * in nanoseconds, percentiles by nearest rank from a histogram whose bins are narrower than a 128th of their
 * value. Status 1, and why in one line, when an answer was not of 2xx or 3xx, a connection broke, or not
 * every request was answered within three times the duration and a second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "../workloads/figures.h"

enum {
    MOST_CONNECTIONS = 10000,
    ANSWER = 65536,
    SUB_BITS = 7,
    SUB = 1 << SUB_BITS,
    BINS = (64 - SUB_BITS) * SUB,
    EVENTS = 256
};
static const int64_t SECOND = 1000000000;

struct connection {
    int fd;
    bool busy;
    int64_t due_ns;
    size_t used;  /* of the head, while it comes */
    int64_t body; /* bytes still to come; negative while the head comes */
    char head[4096];
};

static struct connection *connections;
static int *idle; /* those that are free, the one that has been free longest first */
static long idle_first, idle_count;
static long port, connection_count, rate, duration_s;
static const char *path = "/";
static uint64_t bins[BINS];
static int64_t answered, late, max_ns;
static double sum_ns;
static int epoll;
static char request[1024];
static size_t request_size;

static _Noreturn void give_up(const char *what, const char *why) {
    fprintf(stderr, "swapstone-pace: %s: %s\n", what, why);
    exit(1);
}

/* Bins: one each below SUB; above, SUB for every doubling. */
static size_t bin_of(uint64_t value) {
    if (value < SUB)
        return (size_t)value;
    int doubling = 63 - __builtin_clzll(value) - SUB_BITS;
    return (size_t)(doubling + 1) * SUB + (size_t)(value >> doubling) - SUB;
}

/* The largest value that lies in a bin. */
static uint64_t top_of(size_t bin) {
    if (bin < SUB)
        return bin;
    int doubling = (int)(bin / SUB) - 1;
    return ((uint64_t)(bin % SUB + SUB + 1) << doubling) - 1;
}

/* Nearest rank; `share` in millionths. */
static int64_t percentile(int64_t share) {
    int64_t rank = (answered * share + 999999) / 1000000, seen = 0;
    for (size_t bin = 0; bin < BINS; bin++) {
        seen += (int64_t)bins[bin];
        if (seen >= rank && seen > 0) {
            int64_t top = (int64_t)top_of(bin);
            return top < max_ns ? top : max_ns;
        }
    }
    return max_ns;
}

static void count_answer(int64_t due_ns, int64_t at_ns) {
    int64_t took_ns = at_ns > due_ns ? at_ns - due_ns : 0;
    bins[bin_of((uint64_t)took_ns)]++;
    sum_ns += (double)took_ns;
    answered++;
    if (took_ns > max_ns)
        max_ns = took_ns;
}

static void set_idle(int which) {
    connections[which].busy = false;
    idle[(idle_first + idle_count++) % connection_count] = which;
}

static int take_idle(void) {
    int which = idle[idle_first];
    idle_first = (idle_first + 1) % connection_count;
    idle_count--;
    return which;
}

static void send_request(int which, int64_t due_ns) {
    struct connection *connection = &connections[which];
    connection->busy = true;
    connection->due_ns = due_ns;
    connection->used = 0;
    connection->body = -1;
    if (write(connection->fd, request, request_size) != (ssize_t)request_size)
        give_up("a request could not be sent", strerror(errno));
}

/* Reads the head's status and length. */
static void read_head(struct connection *connection, char *end) {
    int status = 0;
    *end = 0;
    if (sscanf(connection->head, "HTTP/1.%*1[01] %3d", &status) != 1)
        give_up("an answer is not of HTTP/1", connection->head);
    if (status < 200 || status > 399)
        give_up("an answer is not of 2xx or 3xx", connection->head);
    const char *length = strcasestr(connection->head, "\r\nContent-Length:");
    if (!length)
        give_up("an answer says no Content-Length", "other forms are not understood");
    connection->body = strtoll(length + strlen("\r\nContent-Length:"), NULL, 10);
}

static void receive(int which) {
    static char rest[ANSWER];
    struct connection *connection = &connections[which];

    for (;;) {
        bool head = connection->body < 0;
        char *to = head ? connection->head + connection->used : rest;
        size_t room = head ? sizeof connection->head - 1 - connection->used : sizeof rest;
        ssize_t size = room ? read(connection->fd, to, room) : 0;
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0)
            give_up("a connection broke", size < 0 ? strerror(errno) : "it was closed");
        if (!connection->busy)
            give_up("a connection broke", "an answer that nobody asked for");
        if (head) {
            connection->used += (size_t)size;
            connection->head[connection->used] = 0;
            char *end = strstr(connection->head, "\r\n\r\n");
            if (!end)
                continue;
            size = (ssize_t)(connection->used - (size_t)(end + 4 - connection->head));
            read_head(connection, end);
        }
        connection->body -= size;
        if (connection->body < 0)
            give_up("an answer is longer than it says", "");
        if (connection->body == 0) {
            count_answer(connection->due_ns, (int64_t)now_ns());
            set_idle(which);
            return;
        }
    }
}

static void open_connection(int which) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct connection *connection = &connections[which];
    int on = 1;

    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
        give_up("no connection", strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(connection->fd, F_SETFL, O_NONBLOCK) != 0)
        give_up("no connection", strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)which};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        give_up("epoll", strerror(errno));
    set_idle(which);
}

static long number(const char *name, const char *text, long highest) {
    char *rest;
    long value = text ? strtol(text, &rest, 10) : 0;
    if (!text || *text == 0 || *rest || value < 1 || value > highest) {
        fprintf(stderr, "swapstone-pace: %s needs a whole number from 1 to %ld\n", name, highest);
        exit(2);
    }
    return value;
}

static void read_arguments(int count, char **arguments) {
    for (int i = 1; i < count; i += 2) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        if (strcmp(name, "--port") == 0)
            port = number(name, value, 65535);
        else if (strcmp(name, "--rate") == 0)
            rate = number(name, value, 10000000);
        else if (strcmp(name, "--seconds") == 0)
            duration_s = number(name, value, 86400);
        else if (strcmp(name, "--connections") == 0)
            connection_count = number(name, value, MOST_CONNECTIONS);
        else if (strcmp(name, "--path") == 0 && value && value[0] == '/' && strlen(value) < 512)
            path = value;
        else
            name = NULL;
        if (!name)
            count = 0;
    }
    if (count && port && rate && duration_s && connection_count)
        return;
    fprintf(stderr, "usage: swapstone-pace --port P --rate R --seconds S --connections C [--path /]\n");
    exit(2);
}

/* Sends whatever is due; returns how many requests have been sent in all. */
static int64_t send_due(int64_t sent, int64_t start_ns, int64_t all) {
    while (sent < all && idle_count > 0) {
        int64_t due_ns = start_ns + sent / rate * SECOND + sent % rate * SECOND / rate,
                at_ns = (int64_t)now_ns();
        if (at_ns < due_ns)
            break;
        late += at_ns - due_ns > SECOND / 1000;
        send_request(take_idle(), due_ns);
        sent++;
    }
    return sent;
}

static int64_t run(int64_t all) {
    struct epoll_event events[EVENTS];
    struct epoll_event tick = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int64_t start_ns = (int64_t)now_ns(), give_up_ns = start_ns + (3 * duration_s + 1) * SECOND, sent = 0;

    if (timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &tick) != 0)
        give_up("timer", strerror(errno));
    while (answered < all) {
        sent = send_due(sent, start_ns, all);
        int64_t due_ns = start_ns + sent / rate * SECOND + sent % rate * SECOND / rate;
        struct itimerspec at = {.it_value = {due_ns / SECOND, due_ns % SECOND}};
        if (sent == all || idle_count == 0)
            at.it_value = (struct timespec){give_up_ns / SECOND, give_up_ns % SECOND};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            uint64_t expired;
            if (events[i].data.u32 != UINT32_MAX)
                receive((int)events[i].data.u32);
            else if (read(timer, &expired, sizeof expired) < 0 && errno != EAGAIN)
                give_up("timer", strerror(errno));
        }
        if ((int64_t)now_ns() >= give_up_ns) {
            fprintf(stderr,
                    "swapstone-pace: the server does not keep up: %" PRId64 " of %" PRId64
                    " requests answered in %ld s\n",
                    answered, all, 3 * duration_s + 1);
            exit(1);
        }
    }
    return (int64_t)now_ns() - start_ns;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        int64_t millionths;
    } shares[] = {{"p50_ns", 500000}, {"p75_ns", 750000},   {"p90_ns", 900000},
                  {"p99_ns", 990000}, {"p99_9_ns", 999000}, {"p99_99_ns", 999900}};

    read_arguments(count, arguments);
    connections = calloc((size_t)connection_count, sizeof *connections);
    idle = calloc((size_t)connection_count, sizeof *idle);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || !idle || epoll < 0)
        give_up("it could not begin", strerror(errno));
    request_size = (size_t)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%ld\r\n\r\n",
                                    path, port);
    for (long i = 0; i < connection_count; i++)
        open_connection((int)i);
    int64_t took_ns = run(rate * duration_s);
    figures_begin("pace");
    figure("requests", (uint64_t)answered);
    figure("took_ns", (uint64_t)took_ns);
    figure("rate", (uint64_t)rate);
    figure("late", (uint64_t)late);
    figure("mean_ns", (uint64_t)(sum_ns / (double)answered));
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        figure(shares[i].name, (uint64_t)percentile(shares[i].millionths));
    figure("max_ns", (uint64_t)max_ns);
    figures_end();
    return 0;
}
