// SPDX-License-Identifier: MIT OR Apache-2.0
/* The answer to a trial, and how it is written (docs/wire.md, section 2). */
#ifndef AGENT_ANSWER_H
#define AGENT_ANSWER_H

#include "../wire/words.h"
#include "observation.h"
#include "observe.h"
#include "text.h"

/* What was read from one output of the process. Of more than `limit` bytes, one is kept to show the excess.
 */
struct output {
    int fd; /* negative when closed */
    char *bytes;
    size_t limit, used;
};

enum { NOTE_BYTES = 2048 };

/* Of the program, and of a server's load generator. */
enum { PROGRAM_OUT, PROGRAM_ERR, GENERATOR_OUT, GENERATOR_ERR, OUTPUTS };
struct answer {
    const char *id;
    const char *nonce; /* of the request; NULL if it has none */
    enum outcome outcome;
    int64_t code;
    bool has_image; /* `image` and `observations` are valid */
    struct facts facts;
    struct image image;
    struct observations observations;
    struct output outputs[OUTPUTS];
    struct text notes; /* each ends with a zero byte */
    char note_bytes[NOTE_BYTES];
};

void set_outcome(struct answer *answer, enum outcome outcome, int64_t code);
/* Adds a note; the format is as in `text_format`. */
void note(struct answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Each returns false when standard output is closed at the other end. */
bool write_header(void);
bool write_plan_error(int64_t line, const char *error);
/* Writes an answer up to the facts before those of the conditions, so that its reader decodes them while the
 * agent observes the conditions. An error is returned by `write_answer`. */
void begin_answer(const struct answer *answer);
/* Writes the rest of an answer, or all of it if it was not begun. */
bool write_answer(const struct answer *answer);

#endif
