#include "drive.h"

enum { MILLION = 1000000 };
static const int64_t KNOCK_EVERY = 2 * 1000000LL; /* while the server is awaited */
static const int64_t KNOCK_WAIT = 50 * 1000000LL; /* for one connection */

static void enter(struct drive *drive, enum drive_phase phase, int64_t ms) {
    drive->phase = phase;
    drive->begun_ns = port_now_ns();
    drive->until_ns = ms < 0 ? INT64_MAX : drive->begun_ns + ms * MILLION;
}

static bool fail(struct drive *drive, enum how how, int64_t code, const char *why) {
    drive->answer->how = how;
    drive->answer->code = code;
    text_add(note_start(drive->answer), why);
    note_end(drive->answer);
    return false;
}

void drive_begin(struct drive *drive, const struct request *request, struct answer *answer, int server) {
    drive->request = request;
    drive->answer = answer;
    drive->server = server;
    drive->running = drive->killed = drive->abandoned = drive->insisted = false;
    drive->driver = (struct started){.pid = -1, .out = -1, .err = -1};
    if (request->drive.port)
        enter(drive, AWAITED, request->drive.ready_ms);
    else
        drive->phase = NO_SERVER;
}

static void reopen(struct output *output, int fd) {
    if (output->fd >= 0)
        port_close(output->fd);
    output->fd = fd;
    output->used = 0;
}

static bool start_driver(struct drive *drive, enum drive_phase phase, int64_t ms) {
    static struct request asked; /* what `start` needs of one */
    const struct drive_request *wanted = &drive->request->drive;

    asked.folder = drive->request->folder;
    asked.in = asked.out = NULL;
    asked.pinned = wanted->pinned;
    asked.cpus = wanted->cpus;
    asked.has_nice = false;
    asked.disk_bytes = drive->request->disk_bytes;
    __builtin_memcpy(asked.arguments, wanted->arguments, sizeof asked.arguments);
    __builtin_memcpy(asked.environment, wanted->environment, sizeof asked.environment);
    enter(drive, phase, ms);
    if (start_untraced(&drive->driver, &asked) != 0)
        return fail(drive, UNDRIVEN, PORT_E_AGAIN, "the driver: the agent has no process left for it");
    drive->running = true;
    drive->killed = false;
    reopen(&drive->answer->driver_out, drive->driver.out);
    reopen(&drive->answer->driver_err, drive->driver.err);
    return true;
}

/* The server's own share of the window ends with the driver's. */
static void end_window(struct drive *drive, const struct port_event *event) {
    struct facts *facts = &drive->answer->facts;

    fact_set(facts, FACT_DRIVEN, port_now_ns() - drive->driver.launch->released_ns);
    count_server(&drive->after);
    facts_of_window(facts, &drive->before, &drive->after);
    fact_set(facts, FACT_DRIVER_USER, event->usage.user_us);
    fact_set(facts, FACT_DRIVER_SYSTEM, event->usage.system_us);
    observe_image(&drive->answer->image, drive->server);
    drive->answer->has_image = true;
}

static bool begin_window(struct drive *drive) {
    count_server(&drive->before);
    return start_driver(drive, MEASURED, -1);
}

static void kill_driver(const struct drive *drive) {
    port_killpg(drive->driver.pid, PORT_SIG_KILL);
    port_kill(drive->driver.pid, PORT_SIG_KILL);
}

/* Whether the driver has had its time to warm the server up, counted from its exec: on a busy machine it may
 * come late to that. */
static bool has_warmed(const struct drive *drive, int64_t now_ns) {
    int64_t released_ns = drive->driver.launch->released_ns;
    return released_ns != 0 && now_ns - released_ns >= drive->request->drive.warm_ms * MILLION;
}

bool drive_step(struct drive *drive) {
    const struct drive_request *wanted = &drive->request->drive;
    int64_t now_ns = port_now_ns();
    bool due = now_ns >= drive->until_ns;

    switch (drive->phase) {
    case AWAITED:
        if (port_try_connect(wanted->port, KNOCK_WAIT) == 0) {
            fact_set(&drive->answer->facts, FACT_READY, port_now_ns() - drive->begun_ns);
            return wanted->warm_ms ? start_driver(drive, WARMED, wanted->warm_ms) : begin_window(drive);
        }
        return !due || fail(drive, UNREADY, 0, "nothing accepted connections on its port in time");
    case WARMED:
        if (due && !drive->killed && !has_warmed(drive, now_ns)) {
            drive->until_ns = now_ns + KNOCK_EVERY;
        } else if (due && !drive->killed) {
            drive->killed = true;
            kill_driver(drive);
            drive->until_ns = INT64_MAX;
        }
        return true;
    case RESTING:
        return !due || begin_window(drive);
    case DRAINED:
        if (due) {
            enter(drive, ENDING, wanted->stop_ms);
            port_kill(drive->server, PORT_SIG_TERM);
        }
        return true;
    case ENDING:
        if (due && !drive->insisted) {
            drive->insisted = true;
            text_add(note_start(drive->answer),
                     "it did not end when it was told to (SIGTERM), and was killed");
            note_end(drive->answer);
            port_killpg(drive->server, PORT_SIG_KILL);
            port_kill(drive->server, PORT_SIG_KILL);
            drive->until_ns = INT64_MAX;
        }
        return true;
    case NO_SERVER:
    case MEASURED:
        break;
    }
    return true;
}

int64_t drive_next_ns(const struct drive *drive) {
    if (drive->phase == NO_SERVER)
        return INT64_MAX;
    return drive->phase == AWAITED ? port_now_ns() + KNOCK_EVERY : drive->until_ns;
}

/* Says why the driver was of no use; true when it was. */
static bool judge_driver(struct drive *drive, const struct port_event *event) {
    struct launch *launch = drive->driver.launch;

    if (launch->failed || launch->released_ns == 0) {
        struct text *note = note_start(drive->answer);
        text_add(note, "the driver: could not ");
        text_add(note, start_step(launch->step));
        note_end(drive->answer);
        drive->answer->how = UNDRIVEN;
        drive->answer->code = launch->failed ? -launch->failed : PORT_E_INTR;
        return false;
    }
    if (drive->killed || (event->change == PORT_EXITED && event->value == 0))
        return true;
    struct text *note = note_start(drive->answer);
    text_add(note, event->change == PORT_EXITED ? "the driver: it ended with status "
                                                : "the driver: it was killed by signal ");
    text_add_number(note, event->value);
    note_end(drive->answer);
    drive->answer->how = UNDRIVEN;
    drive->answer->code = 0;
    return false;
}

static void take_end(struct drive *drive, const struct port_event *event, bool *good) {
    *good = judge_driver(drive, event);
    if (*good && drive->phase == MEASURED) {
        end_window(drive, event);
        enter(drive, DRAINED, drive->request->drive.drain_ms);
    } else if (*good) {
        enter(drive, RESTING, drive->request->drive.drain_ms);
    }
}

bool drive_see(struct drive *drive, const struct port_event *event, bool *good) {
    if (!drive->running || event->pid != drive->driver.pid)
        return false;
    if (event->change != PORT_EXITED && event->change != PORT_SIGNALED)
        return true;
    drive->running = false;
    port_killpg(drive->driver.pid, PORT_SIG_KILL); /* what a driver that is a shell's script left */
    if (!drive->abandoned)
        take_end(drive, event, good);
    start_forget(&drive->driver);
    return true;
}

void drive_abandon(struct drive *drive) {
    drive->abandoned = true;
    if (drive->running)
        kill_driver(drive);
}
