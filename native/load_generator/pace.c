// SPDX-License-Identifier: MIT OR Apache-2.0
/* An open-loop load generator for HTTP servers. It sends requests at a constant rate, whether or not the
 * server keeps up.
 *
 *     swapstone-pace --port P --rate R --seconds S --connections C [--path /] [--address 127.0.0.1]
 *
 * Request i is due i / R seconds after the start. Its latency is the time from when it was due to the last
 * byte of its response. So it includes the time that the request waits for a free connection.
 * A closed-loop load generator sends the next request after a response, and leaves that time out. This error
 * is called coordinated omission (Gil Tene, "How NOT to Measure Latency", 2015).
 *
 * One thread, and C persistent HTTP/1.1 connections to an IPv4 address. It prints figures (docs/wire.md,
 * section 4). Times are in nanoseconds. Percentiles are by nearest rank from a histogram whose bins are
 * narrower than 1/128 of their value.
 *
 * It exits with status 1 and one line on standard error if a response is not 2xx or 3xx, if a connection is
 * closed, or if a request has no response after 3 * S + 1 seconds; with status 2 if the arguments are wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "../workloads/figures.h"

enum {
    MAX_CONNECTIONS = 10000,
    BODY_BYTES = 65536,
    SUB_BITS = 7,
    SUB = 1 << SUB_BITS,
    BINS = (64 - SUB_BITS) * SUB,
    EVENTS = 256
};
static const int64_t SECOND = 1000000000;

struct connection {
    int fd;
    bool busy;
    int64_t due_ns; /* of the request */
    size_t used;    /* bytes in `head` */
    int64_t body;   /* remaining bytes of the body; negative while the head is read */
    char head[4096];
};

static struct connection *connections;
static int *idle; /* ring buffer of the indices of idle connections, the longest idle first */
static long idle_first, idle_count;
static long port, connection_count, rate, duration_s;
static const char *path = "/", *address_text = "127.0.0.1";
static struct in_addr server_address;
static uint64_t bins[BINS];
static int64_t responses, late, max_ns; /* late: sent more than 1 ms after they were due */
static double sum_ns;
static int epoll;
static char request[1024];
static size_t request_size;

static _Noreturn void exit_with_error(const char *what, const char *reason) {
    fprintf(stderr, "swapstone-pace: %s: %s\n", what, reason);
    exit(1);
}

/* The histogram has one bin for each value below SUB, and SUB bins for each power of two above. */
static size_t bin_of(uint64_t value) {
    if (value < SUB)
        return (size_t)value;
    int doubling = 63 - __builtin_clzll(value) - SUB_BITS;
    return (size_t)(doubling + 1) * SUB + (size_t)(value >> doubling) - SUB;
}

/* The largest value of a bin. */
static uint64_t max_of_bin(size_t bin) {
    if (bin < SUB)
        return bin;
    int doubling = (int)(bin / SUB) - 1;
    return ((uint64_t)(bin % SUB + SUB + 1) << doubling) - 1;
}

/* Nearest rank; `millionths` is the percentile times 10000. */
static int64_t percentile(int64_t millionths) {
    int64_t rank = (responses * millionths + 999999) / 1000000, seen = 0;
    for (size_t bin = 0; bin < BINS; bin++) {
        seen += (int64_t)bins[bin];
        if (seen >= rank && seen > 0) {
            int64_t top = (int64_t)max_of_bin(bin);
            return top < max_ns ? top : max_ns;
        }
    }
    return max_ns;
}

static void count_response(int64_t due_ns, int64_t at_ns) {
    int64_t elapsed_ns = at_ns > due_ns ? at_ns - due_ns : 0;
    bins[bin_of((uint64_t)elapsed_ns)]++;
    sum_ns += (double)elapsed_ns;
    responses++;
    if (elapsed_ns > max_ns)
        max_ns = elapsed_ns;
}

static void add_idle(int index) {
    connections[index].busy = false;
    idle[(idle_first + idle_count++) % connection_count] = index;
}

static int take_idle(void) {
    int index = idle[idle_first];
    idle_first = (idle_first + 1) % connection_count;
    idle_count--;
    return index;
}

static void send_request(int index, int64_t due_ns) {
    struct connection *connection = &connections[index];
    connection->busy = true;
    connection->due_ns = due_ns;
    connection->used = 0;
    connection->body = -1;
    if (write(connection->fd, request, request_size) != (ssize_t)request_size)
        exit_with_error("can't send a request", strerror(errno));
}

/* Parses the status and Content-Length of a response head. `end` is the empty line after it. */
static void parse_head(struct connection *connection, char *end) {
    int status = 0;
    *end = 0;
    if (sscanf(connection->head, "HTTP/1.%*1[01] %3d", &status) != 1)
        exit_with_error("a response is not HTTP/1.0 or HTTP/1.1", connection->head);
    if (status < 200 || status > 399)
        exit_with_error("a response is not 2xx or 3xx", connection->head);
    const char *length = strcasestr(connection->head, "\r\nContent-Length:");
    if (!length)
        exit_with_error("a response has no Content-Length", "chunked bodies are not supported");
    connection->body = strtoll(length + strlen("\r\nContent-Length:"), NULL, 10);
}

/* Reads what has arrived on a connection. */
static void receive(int index) {
    static char rest[BODY_BYTES];
    struct connection *connection = &connections[index];

    for (;;) {
        bool head = connection->body < 0;
        char *to = head ? connection->head + connection->used : rest;
        size_t room = head ? sizeof connection->head - 1 - connection->used : sizeof rest;
        ssize_t size = room ? read(connection->fd, to, room) : 0;
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0)
            exit_with_error("a connection failed", size < 0 ? strerror(errno) : "closed by the server");
        if (!connection->busy)
            exit_with_error("a connection failed", "a response without a request");
        if (head) {
            connection->used += (size_t)size;
            connection->head[connection->used] = 0;
            char *end = strstr(connection->head, "\r\n\r\n");
            if (!end)
                continue;
            size = (ssize_t)(connection->used - (size_t)(end + 4 - connection->head));
            parse_head(connection, end);
        }
        connection->body -= size;
        if (connection->body < 0)
            exit_with_error("a response is invalid", "its body is longer than its Content-Length");
        if (connection->body == 0) {
            count_response(connection->due_ns, (int64_t)now_ns());
            add_idle(index);
            return;
        }
    }
}

/* Connects and adds the connection to `epoll` and the idle connections. */
static void open_connection(int index) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr = server_address};
    struct connection *connection = &connections[index];
    int on = 1;

    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
        exit_with_error("can't connect", strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(connection->fd, F_SETFL, O_NONBLOCK) != 0)
        exit_with_error("can't connect", strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        exit_with_error("epoll_ctl", strerror(errno));
    add_idle(index);
}

/* Parses the value of an option. */
static long parse_number(const char *name, const char *text, long max) {
    char *rest;
    long value = text ? strtol(text, &rest, 10) : 0;
    if (!text || *text == 0 || *rest || value < 1 || value > max) {
        fprintf(stderr, "swapstone-pace: %s needs an integer from 1 to %ld\n", name, max);
        exit(2);
    }
    return value;
}

static void read_arguments(int count, char **arguments) {
    for (int i = 1; i < count; i += 2) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        if (strcmp(name, "--port") == 0)
            port = parse_number(name, value, 65535);
        else if (strcmp(name, "--rate") == 0)
            rate = parse_number(name, value, 10000000);
        else if (strcmp(name, "--seconds") == 0)
            duration_s = parse_number(name, value, 86400);
        else if (strcmp(name, "--connections") == 0)
            connection_count = parse_number(name, value, MAX_CONNECTIONS);
        else if (strcmp(name, "--path") == 0 && value && value[0] == '/' && strlen(value) < 512)
            path = value;
        else if (strcmp(name, "--address") == 0 && value)
            address_text = value;
        else
            name = NULL;
        if (!name)
            count = 0;
    }
    if (count && port && rate && duration_s && connection_count &&
        inet_pton(AF_INET, address_text, &server_address) == 1)
        return;
    fprintf(stderr,
            "usage: swapstone-pace --port P --rate R --seconds S --connections C [--path /] [--address "
            "127.0.0.1]\n");
    exit(2);
}

/* Sends the requests that are due, as far as connections are idle. Returns the number of requests sent so
 * far. */
static int64_t send_due(int64_t sent, int64_t start_ns, int64_t total) {
    while (sent < total && idle_count > 0) {
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

/* Sends `total` requests and receives the responses. Returns the elapsed time in nanoseconds. */
static int64_t run(int64_t total) {
    struct epoll_event events[EVENTS];
    struct epoll_event tick = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int64_t start_ns = (int64_t)now_ns(), timeout_ns = start_ns + (3 * duration_s + 1) * SECOND, sent = 0;

    if (timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &tick) != 0)
        exit_with_error("timerfd", strerror(errno));
    while (responses < total) {
        sent = send_due(sent, start_ns, total);
        int64_t due_ns = start_ns + sent / rate * SECOND + sent % rate * SECOND / rate;
        struct itimerspec at = {.it_value = {due_ns / SECOND, due_ns % SECOND}};
        if (sent == total || idle_count == 0)
            at.it_value = (struct timespec){timeout_ns / SECOND, timeout_ns % SECOND};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            uint64_t expired;
            if (events[i].data.u32 != UINT32_MAX)
                receive((int)events[i].data.u32);
            else if (read(timer, &expired, sizeof expired) < 0 && errno != EAGAIN)
                exit_with_error("timerfd", strerror(errno));
        }
        if ((int64_t)now_ns() >= timeout_ns) {
            fprintf(stderr,
                    "swapstone-pace: the server is too slow: %" PRId64 " of %" PRId64
                    " requests answered in %ld s\n",
                    responses, total, 3 * duration_s + 1);
            exit(1);
        }
    }
    return (int64_t)now_ns() - start_ns;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        int64_t millionths;
    } percentiles[] = {{"p50_ns", 500000}, {"p75_ns", 750000},   {"p90_ns", 900000},
                       {"p99_ns", 990000}, {"p99_9_ns", 999000}, {"p99_99_ns", 999900}};

    read_arguments(count, arguments);
    connections = calloc((size_t)connection_count, sizeof *connections);
    idle = calloc((size_t)connection_count, sizeof *idle);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || !idle || epoll < 0)
        exit_with_error("can't allocate the connections", strerror(errno));
    request_size = (size_t)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s:%ld\r\n\r\n", path,
                                    address_text, port);
    for (long i = 0; i < connection_count; i++)
        open_connection((int)i);
    int64_t elapsed_ns = run(rate * duration_s);
    figures_begin("pace");
    figure("requests", (uint64_t)responses);
    figure("took_ns", (uint64_t)elapsed_ns);
    figure("rate", (uint64_t)rate);
    figure("late", (uint64_t)late);
    figure("mean_ns", (uint64_t)(sum_ns / (double)responses));
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++)
        figure(percentiles[i].name, (uint64_t)percentile(percentiles[i].millionths));
    figure("max_ns", (uint64_t)max_ns);
    figures_end();
    return 0;
}
