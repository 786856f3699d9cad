// SPDX-License-Identifier: MIT OR Apache-2.0
/* Values that a plan asks for with `observe` (docs/wire.md, section 1). */
#ifndef AGENT_OBSERVATION_H
#define AGENT_OBSERVATION_H

#include "../wire/words.h"
#include "text.h"

enum {
    MOST_OBSERVATIONS = 64,
    OBSERVATION_VALUE_BYTES = 16 << 10, /* of one value */
    OBSERVATION_BYTES = 256 << 10,      /* of all values of a trial */
};

struct observation_request {
    enum observation_kind kind;
    const char *name;
};

enum observation_result {
    OBSERVATION_READ,
    OBSERVATION_ABSENT, /* no such variable or file */
    OBSERVATION_FAILED, /* `error` says why; 0: longer than the limits */
};

struct observation {
    struct observation_request what;
    enum observation_result result;
    int error; /* negative errno */
    const char *value;
    size_t size;
};

struct observations {
    struct observation list[MOST_OBSERVATIONS];
    unsigned count;
    char bytes[OBSERVATION_BYTES];
    size_t used;
};

/* Reads the kind and the name of a request, e.g. "env NAME", which it decodes in place. Returns NULL, or what
 * is wrong with it. */
const char *parse_observation(struct observation_request *request, char *value);

/* Reads the values of a process whose memory still exists. They are valid until the next call. */
void observe_values(struct observations *observations, int pid, const struct observation_request *requests,
                    unsigned count);

#endif
