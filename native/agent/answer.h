/* The answer: what came of a trial, and how it is said (docs/wire.md, section 2). */
#ifndef AGENT_ANSWER_H
#define AGENT_ANSWER_H

#include "observe.h"
#include "text.h"

enum how { EXITED, SIGNALED, TIMEOUT, OVERFLOW, DISK, ORPHANS, UNSTARTED, DRIVEN, UNREADY, UNDRIVEN };

/* What was read of one output of the process: at most `limit` bytes are kept, one more shows that there were
 * more. */
struct output {
    int fd; /* negative when it is closed */
    char *bytes;
    size_t limit, used;
};

enum { NOTE_BYTES = 2048 };
struct answer {
    const char *id;
    enum how how;
    int64_t code;
    bool has_image;
    struct facts facts;
    struct image image;
    struct output out, err;
    struct output driver_out, driver_err; /* of a server's driver */
    struct text notes;                    /* each ends with a zero byte */
    char note_bytes[NOTE_BYTES];
};

/* Begins a note; what is added to the result belongs to it until `note_end`. */
struct text *note_start(struct answer *answer);
void note_end(struct answer *answer);

/* Each returns false when nobody can read what is said any more. */
bool say_header(void);
bool say_complaint(int64_t line, const char *complaint);
bool say_answer(const struct answer *answer);

#endif
