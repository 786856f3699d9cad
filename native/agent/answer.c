#include "answer.h"

#include "../port/port.h"

enum { STANDARD_OUTPUT = 1, CHUNK = 512 };

/* What is said but not written yet, and what is counted of it. */
static struct {
    char bytes[8192];
    size_t used;
    int64_t lines;
    uint32_t crc;
    bool failed;
} speech;

static const char *const how_names[] = {"exited",  "signaled",  "timeout", "overflow", "disk",
                                        "orphans", "unstarted", "driven",  "unready",  "undriven"};

/* CRC-32 of IEEE 802.3, reflected, four bits at a time: the same as zlib's. */
static uint32_t crc_add(uint32_t crc, unsigned char byte) {
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    crc ^= byte;
    crc = crc >> 4 ^ table[crc & 15];
    return crc >> 4 ^ table[crc & 15];
}

static void flush(void) {
    size_t written = 0;
    while (written < speech.used && !speech.failed) {
        long result = port_write(STANDARD_OUTPUT, speech.bytes + written, speech.used - written);
        if (result == -PORT_E_AGAIN) { /* the other side made this output non-blocking */
            struct port_pollfd polled = {STANDARD_OUTPUT, PORT_POLL_OUT, 0};
            port_poll(&polled, 1, -1);
        } else if (result <= 0) {
            speech.failed = true;
        } else {
            written += (size_t)result;
        }
    }
    speech.used = 0;
}

static void say_byte(char byte) {
    if (speech.used == sizeof speech.bytes)
        flush();
    speech.bytes[speech.used++] = byte;
    speech.crc = crc_add(speech.crc, (unsigned char)byte);
    speech.lines += byte == '\n';
}

static void say(const char *text) {
    while (*text)
        say_byte(*text++);
}

static void say_number(int64_t number) {
    char bytes[24];
    struct text text = {bytes, sizeof bytes, 0, false};
    text_add_number(&text, number);
    say(text_end(&text));
}

static void say_encoded(const char *bytes, size_t size) {
    char encoded[3];
    if (size == 0)
        say("%");
    for (size_t i = 0; i < size; i++) {
        size_t length = text_encode_byte(encoded, (unsigned char)bytes[i]);
        for (size_t at = 0; at < length; at++)
            say_byte(encoded[at]);
    }
}

static void say_line(const char *word, const char *bytes, size_t size) {
    say(word);
    say(" ");
    say_encoded(bytes, size);
    say("\n");
}

/* One line for each text of a list. */
static void say_list(const char *word, const struct text *list) {
    for (size_t at = 0; at < list->used;) {
        size_t size = text_length(list->bytes + at);
        say_line(word, list->bytes + at, size);
        at += size + 1;
    }
}

static void say_output(const char *word, const struct output *output) {
    size_t kept = output->used < output->limit ? output->used : output->limit;
    for (size_t at = 0; at < kept; at += CHUNK)
        say_line(word, output->bytes + at, kept - at < CHUNK ? kept - at : CHUNK);
}

static void say_crc(uint32_t crc) {
    static const char digits[] = "0123456789abcdef";
    for (int shift = 28; shift >= 0; shift -= 4)
        say_byte(digits[crc >> shift & 15]);
}

struct text *note_start(struct answer *answer) {
    return &answer->notes;
}

void note_end(struct answer *answer) {
    struct text *notes = &answer->notes;
    if (notes->used < notes->room)
        notes->bytes[notes->used++] = 0;
}

bool say_header(void) {
    say("swapstone-agent 2\n");
    flush();
    return !speech.failed;
}

bool say_complaint(int64_t line, const char *complaint) {
    say("error ");
    say_number(line);
    say(" ");
    say_encoded(complaint, text_length(complaint));
    say("\n");
    flush();
    return !speech.failed;
}

bool say_answer(const struct answer *answer) {
    speech.lines = 0;
    speech.crc = UINT32_MAX;
    say("begin ");
    say(answer->id);
    say("\n");
    for (int fact = 0; fact < FACTS; fact++) {
        if (!answer->facts.known[fact])
            continue;
        say("fact ");
        say(fact_names[fact]);
        say(" ");
        say_number(answer->facts.values[fact]);
        say("\n");
    }
    if (answer->has_image && answer->image.has_interp)
        say_line("interp", answer->image.interp, text_length(answer->image.interp));
    if (answer->has_image)
        say_list("object", &answer->image.objects);
    say_output("out", &answer->out);
    say_output("err", &answer->err);
    say_output("driver-out", &answer->driver_out);
    say_output("driver-err", &answer->driver_err);
    say_list("note", &answer->notes);

    int64_t lines = speech.lines;
    say("end ");
    say(answer->id);
    say(" ");
    say(how_names[answer->how]);
    say(" ");
    say_number(answer->code);
    say(" ");
    say_number(lines);
    say(" ");
    say_crc(~speech.crc);
    say("\n");
    flush();
    return !speech.failed;
}
