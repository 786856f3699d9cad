// SPDX-License-Identifier: MIT OR Apache-2.0
/* An HTTP/1.1 server that allocates memory for each request: small objects and one large buffer.
 * The published comparison of C libraries' malloc measured such a server (docs/servers.md).
 *
 *     PROGRAM PORT THREADS SMALL LARGE [ADDRESS]
 *
 * It listens on an IPv4 address, by default 127.0.0.1. THREADS is 0 for one thread per processor. For each
 * request the server allocates SMALL objects of 16 to 527 bytes and a buffer of LARGE bytes, writes to every
 * page of the buffer, and frees all. Connections are kept open. Each thread has its own epoll instance. The
 * first thread accepts all connections and assigns them to the threads in turn, because threads that share a
 * listening socket may leave all connections to one of them. SIGTERM ends the server with status 0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/tcp.h>

enum {
    MAX_SMALL = 4096,
    MAX_LARGE = 64 << 20,
    MAX_THREADS = 1024,
    PAGE = 4096,
    HEAD_BYTES = 4096,
    EVENTS = 64
};

static int listener;
static long small_count, large_bytes, threads;
static int epolls[MAX_THREADS]; /* one for each thread; created before the threads */

struct connection {
    int fd;
    size_t used; /* bytes in `head` */
    char head[HEAD_BYTES];
};

static _Noreturn void exit_with_errno(const char *what) {
    fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Allocates, writes, reads and frees, for one request. The result depends on all written bytes that it reads,
 * so the compiler can't drop the writes. */
static unsigned allocate_and_free(void) {
    unsigned char *small[MAX_SMALL];
    unsigned sum = 0;

    for (long i = 0; i < small_count; i++) {
        size_t size = 16 + (size_t)(i * 67) % 512;
        small[i] = malloc(size);
        if (!small[i])
            exit_with_errno("malloc");
        memset(small[i], (int)i, size);
    }
    unsigned char *large = malloc((size_t)large_bytes);
    if (!large)
        exit_with_errno("malloc");
    for (long at = 0; at < large_bytes; at += PAGE)
        ((volatile unsigned char *)large)[at] = (unsigned char)(at / PAGE + 1);
    for (long at = 0; at < large_bytes; at += PAGE)
        sum += ((volatile unsigned char *)large)[at];
    for (long i = 0; i < small_count; i++)
        sum += small[i][0];
    free(large);
    for (long i = small_count; i > 0; i--)
        free(small[i - 1]);
    return sum;
}

/* Writes a response in one write(). Returns false if the socket buffer is full: the client does not read. */
static bool write_response(int fd, bool keep_alive_header) {
    char text[160], body[16];
    int length = snprintf(body, sizeof body, "%u\n", allocate_and_free());
    int size = snprintf(text, sizeof text,
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n%sContent-Length: %d\r\n\r\n%s",
                        keep_alive_header ? "Connection: keep-alive\r\n" : "", length, body);
    return write(fd, text, (size_t)size) == size;
}

/* Reads what has arrived and responds to each complete request. Returns false if the connection must be
 * closed. */
static bool serve_requests(struct connection *connection) {
    for (;;) {
        ssize_t size =
            read(connection->fd, connection->head + connection->used, HEAD_BYTES - 1 - connection->used);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return errno == EAGAIN;
        if (size == 0)
            return false;
        connection->used += (size_t)size;
        connection->head[connection->used] = 0;
        char *end, *start = connection->head;
        while ((end = strstr(start, "\r\n\r\n")) != NULL) {
            *end = 0;
            bool http_1_0 = strstr(start, " HTTP/1.0\r\n") != NULL;
            bool keep_alive = strcasestr(start, "\r\nconnection: keep-alive") != NULL;
            bool last = http_1_0 ? !keep_alive : strcasestr(start, "\r\nconnection: close") != NULL;
            if (strncmp(start, "GET ", 4) != 0 || !write_response(connection->fd, http_1_0) || last)
                return false;
            start = end + 4;
        }
        connection->used -= (size_t)(start - connection->head);
        memmove(connection->head, start, connection->used + 1);
        if (connection->used == HEAD_BYTES - 1)
            return false; /* the request head is too long */
        if (connection->used == 0)
            return true; /* level-triggered epoll reports later bytes */
    }
}

/* Accepts a connection and assigns it to the next thread. Only the first thread calls it. */
static void accept_connection(void) {
    static long next_thread;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (fd < 0)
        return; /* the client has closed it */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *connection = malloc(sizeof *connection);
    if (!connection)
        exit_with_errno("malloc");
    connection->fd = fd;
    connection->used = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epolls[next_thread++ % threads], EPOLL_CTL_ADD, fd, &event) != 0)
        exit_with_errno("epoll_ctl");
}

static void *run_thread(void *epoll_fd) {
    struct epoll_event events[EVENTS];
    int epoll = *(int *)epoll_fd;

    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR)
            exit_with_errno("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection) { /* the listening socket */
                accept_connection();
            } else if (!serve_requests(connection)) {
                close(connection->fd);
                free(connection);
            }
        }
    }
    return NULL;
}

static void exit_on_sigterm(int signal) {
    (void)signal;
    _exit(0);
}

static long parse_number(const char *text, long lowest, long highest) {
    char *rest;
    long value = strtol(text, &rest, 10);
    if (*text == 0 || *rest || value < lowest || value > highest) {
        fprintf(stderr, "server: %s is not a number from %ld to %ld\n", text, lowest, highest);
        exit(2);
    }
    return value;
}

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;

    if (count < 5 || count > 6 || (count == 6 && inet_pton(AF_INET, arguments[5], &address.sin_addr) != 1)) {
        fprintf(stderr, "usage: %s PORT THREADS SMALL LARGE [ADDRESS]\n", arguments[0]);
        return 2;
    }
    address.sin_port = htons((unsigned short)parse_number(arguments[1], 1, 65535));
    threads = parse_number(arguments[2], 0, MAX_THREADS);
    small_count = parse_number(arguments[3], 0, MAX_SMALL);
    large_bytes = parse_number(arguments[4], 1, MAX_LARGE);
    if (threads == 0)
        threads = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    signal(SIGTERM, exit_on_sigterm);
    signal(SIGPIPE, SIG_IGN);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0)
        exit_with_errno(arguments[1]);
    for (long i = 0; i < threads; i++)
        if ((epolls[i] = epoll_create1(EPOLL_CLOEXEC)) < 0)
            exit_with_errno("epoll_create1");
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(epolls[0], EPOLL_CTL_ADD, listener, &listening) != 0)
        exit_with_errno("epoll_ctl");
    for (long i = 1; i < threads; i++) {
        pthread_t thread;
        errno = pthread_create(&thread, NULL, run_thread, &epolls[i]);
        if (errno)
            exit_with_errno("pthread_create");
    }
    run_thread(&epolls[0]);
    return 1;
}
