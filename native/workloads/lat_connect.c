// SPDX-License-Identifier: MIT OR Apache-2.0
/* Connects to a server on the loopback device over TCP and closes the connection, 100 times. The server
 * accepts and closes. lmbench: lat_connect; the summary's row TCP conn.
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

static void serve(int listener, int report) {
    for (;;) {
        for (int i = 0; i < CONNECTIONS; i++)
            close(accepted_socket(listener));
        write_whole(report, "", 1);
    }
}

static void prepare(void) {
    int ends[2], listener = listening_socket(&address);
    if (pipe(ends) != 0)
        fail("pipe: %s", strerror(errno));
    server = fork_partner();
    if (server == 0)
        serve(listener, ends[1]);
    close(listener);
    closed = ends[0];
}

static uint64_t pass(void) {
    char byte;
    for (int i = 0; i < CONNECTIONS; i++)
        close(connected_socket(&address));
    read_whole(closed, &byte, 1);
    return CONNECTIONS;
}

static void finish(void) {
    end_partner(server);
}

WORKLOAD(.name = "lat_connect", .mode = WARM, .ops = CONNECTIONS, .prepare = prepare, .pass = pass,
         .finish = finish);
