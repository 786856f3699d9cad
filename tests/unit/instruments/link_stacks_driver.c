// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Feeds events to stacks of calls without return addresses in memory, for tests.
 *
 *     c ADDRESS SITE   a call: where it returns to, and its block. Prints the path, as sites; so do a and s
 *     r                a return
 *     a ADDRESS        a block begins
 *     s ADDRESS        a return address is stored
 *     k SITE, u        the kernel is entered from user code, and left
 *     e, E             an exception interrupts the kernel, and ends
 *     f ADDRESS        the kernel leaves a thread
 *     t ADDRESS        and enters another one
 *     x                a new program
 *     d BYTES          an instruction of arm64 in hexadecimal: prints its flow, and how it moves the link
 * register
 */
#include "instruction.h"
#include "link_stacks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 20, MOST_PRINTED = 1000 };

static struct {
    uint32_t above, site, below, beside, depth;
} paths[MOST]; /* `below`: the last path that extends it */
static uint32_t count = 1;

static uint32_t extend(uint32_t path, uint32_t site) {
    for (uint32_t i = paths[path].below; i; i = paths[i].beside)
        if (paths[i].site == site)
            return i;
    paths[count].above = path;
    paths[count].site = site;
    paths[count].depth = paths[path].depth + 1;
    paths[count].beside = paths[path].below;
    return paths[path].below = count++;
}

static void print(uint32_t path) {
    if (paths[path].above)
        print(paths[path].above);
    printf("%s%" PRIu32, paths[path].above ? " " : "", paths[path].site);
}

static void print_path(uint32_t path) {
    if (paths[path].depth > MOST_PRINTED)
        printf("%" PRIu32 " calls", paths[path].depth);
    else if (path)
        print(path);
    else
        putchar('-');
    putchar('\n');
}

static int decode(void) {
    static const char *const flows[] = {"other", "call", "return", "exception return"};
    char digits[64];
    if (scanf("%63s", digits) != 1)
        return 1;
    unsigned char *code = malloc(16);
    size_t size = 0;
    for (unsigned byte; size < 16 && sscanf(digits + 2 * size, "%2x", &byte) == 1;)
        code[size++] = (unsigned char)byte;
    code = realloc(code, size); /* exactly as long as the code, so a sanitizer finds what reads beyond it */
    bool on_stack, moves = moves_link(code, size, &on_stack);
    printf("%s, %s\n", flows[flow_of(code, size)], !moves ? "-" : on_stack ? "stack" : "memory");
    free(code);
    return 0;
}

int main(void) {
    char event;
    uint32_t path = 0;
    while (scanf(" %c", &event) == 1) {
        uint64_t address = 0;
        uint32_t site = 0;
        bool has_address = event == 'c' || event == 'a' || event == 's' || event == 'f' || event == 't';
        if (has_address && scanf("%" SCNx64, &address) != 1)
            return 1;
        if ((event == 'c' || event == 'k') && scanf("%" SCNu32, &site) != 1)
            return 1;
        switch (event) {
        case 'c':
            path = links_called(address, site, extend);
            break;
        case 'a':
            path = links_arrived(address);
            break;
        case 's':
            path = links_stored(address, extend);
            break;
        case 'r':
            links_returning();
            continue;
        case 'k':
            links_enter_kernel(extend(path, site));
            continue;
        case 'u':
            links_leave_kernel();
            continue;
        case 'e':
            links_begin_exception();
            continue;
        case 'E':
            links_end_exception();
            continue;
        case 'f':
            links_leave_thread(address);
            continue;
        case 't':
            links_enter_thread(address);
            continue;
        case 'x':
            links_execute();
            continue;
        case 'd':
            if (decode() != 0)
                return 1;
            continue;
        default:
            return 1;
        }
        print_path(path);
    }
    return 0;
}
