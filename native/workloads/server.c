/* An HTTP server that allocates for each request as handlers do: small objects that live for the request, and
 * one buffer that its answer is made in.
 *
 *     prog PORT THREADS SMALL LARGE
 *
 * Each request takes SMALL objects of 16 to 527 bytes and one buffer of LARGE bytes, writes to every page of
 * it, and gives all back. HTTP/1.1 with kept connections on 127.0.0.1. With one thread it makes none; with
 * more, each has its own set of connections. The first thread accepts them and gives one to each thread in
 * turn: threads that share a listening socket may leave all connections to one of them. Ends at SIGTERM with
 * status 0.
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

enum { MOST_SMALL = 4096, MOST_LARGE = 64 << 20, MOST_THREADS = 1024, PAGE = 4096, HEAD = 4096, EVENTS = 64 };

static int listener;
static long small_count, large_bytes, threads;
static int epolls[MOST_THREADS]; /* of each thread; made before there are threads */

struct connection {
    int fd;
    size_t used;
    char head[HEAD];
};

static _Noreturn void give_up(const char *what) {
    fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The work of a request: returns a number that depends on all that was written, so that nothing can be left
 * out. */
static unsigned handle(void) {
    unsigned char *small[MOST_SMALL];
    unsigned sum = 0;

    for (long i = 0; i < small_count; i++) {
        size_t size = 16 + (size_t)(i * 67) % 512;
        small[i] = malloc(size);
        if (!small[i])
            give_up("malloc");
        memset(small[i], (int)i, size);
    }
    unsigned char *large = malloc((size_t)large_bytes);
    if (!large)
        give_up("malloc");
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

/* Writes all of a short answer; the socket's buffer has room for it, or the client is not one of ours. */
static bool answer(int fd, bool say_kept) {
    char text[160], body[16];
    int length = snprintf(body, sizeof body, "%u\n", handle());
    int size = snprintf(text, sizeof text,
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n%sContent-Length: %d\r\n\r\n%s",
                        say_kept ? "Connection: keep-alive\r\n" : "", length, body);
    return write(fd, text, (size_t)size) == size;
}

/* Reads what has come and answers every whole request in it; false when the connection is over. */
static bool serve(struct connection *connection) {
    for (;;) {
        ssize_t size = read(connection->fd, connection->head + connection->used, HEAD - 1 - connection->used);
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
            bool old = strstr(start, " HTTP/1.0\r\n") != NULL;
            bool kept = strcasestr(start, "\r\nconnection: keep-alive") != NULL;
            bool over = old ? !kept : strcasestr(start, "\r\nconnection: close") != NULL;
            if (strncmp(start, "GET ", 4) != 0 || !answer(connection->fd, old) || over)
                return false;
            start = end + 4;
        }
        connection->used -= (size_t)(start - connection->head);
        memmove(connection->head, start, connection->used + 1);
        if (connection->used == HEAD - 1)
            return false; /* a head that long is none of ours */
        if (connection->used == 0)
            return true; /* what comes later is told of again */
    }
}

/* Accepts a connection and gives it to the thread whose turn it is. Called by the first thread alone. */
static void take_connection(void) {
    static long turn;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (fd < 0)
        return; /* the client is gone */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *connection = malloc(sizeof *connection);
    if (!connection)
        give_up("malloc");
    connection->fd = fd;
    connection->used = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epolls[turn++ % threads], EPOLL_CTL_ADD, fd, &event) != 0)
        give_up("epoll_ctl");
}

static void *work(void *mine) {
    struct epoll_event events[EVENTS];
    int epoll = *(int *)mine;

    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR)
            give_up("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection) {
                take_connection();
            } else if (!serve(connection)) {
                close(connection->fd);
                free(connection);
            }
        }
    }
    return NULL;
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

static long number(const char *text, long lowest, long highest) {
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

    if (count != 5) {
        fprintf(stderr, "usage: %s PORT THREADS SMALL LARGE\n", arguments[0]);
        return 2;
    }
    address.sin_port = htons((unsigned short)number(arguments[1], 1, 65535));
    threads = number(arguments[2], 0, MOST_THREADS);
    small_count = number(arguments[3], 0, MOST_SMALL);
    large_bytes = number(arguments[4], 1, MOST_LARGE);
    if (threads == 0)
        threads = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    signal(SIGTERM, end);
    signal(SIGPIPE, SIG_IGN);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0)
        give_up(arguments[1]);
    for (long i = 0; i < threads; i++)
        if ((epolls[i] = epoll_create1(EPOLL_CLOEXEC)) < 0)
            give_up("epoll_create1");
    struct epoll_event first = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(epolls[0], EPOLL_CTL_ADD, listener, &first) != 0)
        give_up("epoll_ctl");
    for (long i = 1; i < threads; i++) {
        pthread_t thread;
        errno = pthread_create(&thread, NULL, work, &epolls[i]);
        if (errno)
            give_up("pthread_create");
    }
    work(&epolls[0]);
    return 1;
}
