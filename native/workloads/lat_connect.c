// SPDX-License-Identifier: MIT OR Apache-2.0
/* Connects to a server on the loopback device over TCP and closes the connection, 100 times. The client sets
 * SO_REUSEADDR before it connects. The server accepts, reads until the end of the connection, and closes.
 * lmbench: lat_connect; the summary's row TCP conn.
 *
 * The pass ends when the server has closed the last connection. The queue of the server holds all
 * connections of a pass. */
#include "loopback.h"
#include "partner.h"

enum { CONNECTIONS = 100 };

_Static_assert((int)CONNECTIONS < (int)BACKLOG, "connections would have to be sent again");

static pid_t server;
static struct sockaddr_in address;
static int closed;

static void serve_one(int listener) {
    struct sockaddr_in client;
    socklen_t size = sizeof client;
    char byte;
    int accepted = accept(listener, (struct sockaddr *)&client, &size);
    if (accepted < 0)
        fail("accept: %s", strerror(errno));
    if (read(accepted, &byte, 1) != 0)
        fail("read from a connection that was closed: %s", strerror(errno));
    close(accepted);
}

static void serve(int listener, int report) {
    for (;;) {
        for (int i = 0; i < CONNECTIONS; i++)
            serve_one(listener);
        write_whole(report, "", 1);
    }
}

static int reusing_socket(void) {
    int any = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    require(any >= 0 && setsockopt(any, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0,
            "socket or setsockopt");
    return any;
}

static void prepare(void) {
    int ends[2], listener = listening_socket(&address);
    require(pipe(ends) == 0, "pipe");
    server = fork_partner();
    if (server == 0)
        serve(listener, ends[1]);
    close(listener);
    closed = ends[0];
}

static uint64_t pass(void) {
    char byte;
    for (int i = 0; i < CONNECTIONS; i++) {
        int any = reusing_socket();
        connect_to(any, &address);
        close(any);
    }
    read_whole(closed, &byte, 1);
    return CONNECTIONS;
}

static void finish(void) {
    end_partner(server);
}

WORKLOAD(.name = "lat_connect", .mode = WARM, .ops = CONNECTIONS, .prepare = prepare, .pass = pass,
         .finish = finish);
