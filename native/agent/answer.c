// SPDX-License-Identifier: MIT OR Apache-2.0
#include "answer.h"

#include "../port/port.h"

enum { STANDARD_OUTPUT = 1, CHUNK = 512, FIRST_CONDITION = FACT_AGENT_CPUS };

/* Bytes that are not written yet, and the counts for the line `end`. */
static struct {
    char bytes[8192];
    size_t used;
    int64_t lines;
    uint32_t crc;
    bool begun; /* the first part of an answer was written */
    bool failed;
} writer;

static void flush(void) {
    size_t written = 0;
    while (written < writer.used && !writer.failed) {
        long result = port_write(STANDARD_OUTPUT, writer.bytes + written, writer.used - written);
        if (result == -PORT_E_AGAIN) { /* the reader made this file description non-blocking */
            struct port_pollfd polled = {STANDARD_OUTPUT, PORT_POLL_OUT, 0};
            port_poll(&polled, 1, -1);
        } else if (result <= 0) {
            writer.failed = true;
        } else {
            written += (size_t)result;
        }
    }
    writer.used = 0;
}

static void put_byte(char byte) {
    if (writer.used == sizeof writer.bytes)
        flush();
    writer.bytes[writer.used++] = byte;
    writer.crc = crc_add(writer.crc, (unsigned char)byte);
    writer.lines += byte == '\n';
}

static void put(const char *text) {
    while (*text)
        put_byte(*text++);
}

static void put_number(int64_t number) {
    char bytes[24];
    struct text text = {bytes, sizeof bytes, 0, false};
    text_add_number(&text, number);
    put(text_end(&text));
}

static void put_encoded(const char *bytes, size_t size) {
    char encoded[3];
    if (size == 0)
        put("%");
    for (size_t i = 0; i < size; i++) {
        size_t length = text_encode_byte(encoded, (unsigned char)bytes[i]);
        for (size_t at = 0; at < length; at++)
            put_byte(encoded[at]);
    }
}

static void put_line(const char *word, const char *bytes, size_t size) {
    put(word);
    put(" ");
    put_encoded(bytes, size);
    put("\n");
}

/* One line for each text of a list. */
static void put_list(const char *word, const struct text *list) {
    for (size_t at = 0; at < list->used;) {
        size_t size = text_length(list->bytes + at);
        put_line(word, list->bytes + at, size);
        at += size + 1;
    }
}

static void put_output(const char *word, const struct output *output) {
    size_t kept = output->used < output->limit ? output->used : output->limit;
    for (size_t at = 0; at < kept; at += CHUNK)
        put_line(word, output->bytes + at, kept - at < CHUNK ? kept - at : CHUNK);
}

static void put_observations(const struct observations *observations) {
    for (unsigned i = 0; i < observations->count; i++) {
        const struct observation *one = &observations->list[i];
        if (one->result == OBSERVATION_FAILED)
            continue;
        put(one->result == OBSERVATION_ABSENT ? WORD_ABSENT " " : WORD_OBSERVED " ");
        put(observation_names[one->what.kind]);
        put(" ");
        put_encoded(one->what.name, text_length(one->what.name));
        if (one->result == OBSERVATION_READ) {
            put(" ");
            put_encoded(one->value, one->size);
        }
        put("\n");
    }
}

static void put_crc(uint32_t crc) {
    static const char digits[] = "0123456789abcdef";
    for (int shift = 28; shift >= 0; shift -= 4)
        put_byte(digits[crc >> shift & 15]);
}

struct text *note_start(struct answer *answer) {
    return &answer->notes;
}

void note_end(struct answer *answer) {
    struct text *notes = &answer->notes;
    if (notes->used < notes->room)
        notes->bytes[notes->used++] = 0;
}

bool write_header(void) {
    put(AGENT_HEADER "\n");
    flush();
    return !writer.failed;
}

bool write_plan_error(int64_t line, const char *error) {
    put(WORD_ERROR " ");
    put_number(line);
    put(" ");
    put_encoded(error, text_length(error));
    put("\n");
    flush();
    return !writer.failed;
}

/* The facts from `first` to the one before `end`. */
static void put_facts(const struct facts *facts, int first, int end) {
    for (int fact = first; fact < end; fact++) {
        if (!facts->known[fact])
            continue;
        put(WORD_FACT " ");
        put(fact_names[fact]);
        put(" ");
        put_number(facts->values[fact]);
        put("\n");
    }
}

void begin_answer(const struct answer *answer) {
    writer.begun = true;
    writer.lines = 0;
    writer.crc = CRC_START;
    put(WORD_BEGIN " ");
    put(answer->id);
    put("\n");
    if (answer->nonce) {
        put(WORD_NONCE " ");
        put(answer->nonce);
        put("\n");
    }
    put_facts(&answer->facts, 0, FIRST_CONDITION);
    flush();
}

bool write_answer(const struct answer *answer) {
    if (!writer.begun)
        begin_answer(answer);
    writer.begun = false;
    put_facts(&answer->facts, FIRST_CONDITION, FACT_COUNT);
    if (answer->has_image && answer->image.has_interp)
        put_line(WORD_INTERP, answer->image.interp, text_length(answer->image.interp));
    if (answer->has_image)
        put_list(WORD_OBJECT, &answer->image.objects);
    if (answer->has_image)
        put_observations(&answer->observations);
    put_output(WORD_OUT, &answer->out);
    put_output(WORD_ERR, &answer->err);
    put_output(WORD_DRIVER_OUT, &answer->generator_out);
    put_output(WORD_DRIVER_ERR, &answer->generator_err);
    put_list(WORD_NOTE, &answer->notes);

    int64_t lines = writer.lines;
    put(WORD_END " ");
    put(answer->id);
    put(" ");
    put(outcome_names[answer->outcome]);
    put(" ");
    put_number(answer->code);
    put(" ");
    put_number(lines);
    put(" ");
    put_crc(~writer.crc);
    put("\n");
    flush();
    return !writer.failed;
}
