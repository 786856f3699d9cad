// SPDX-License-Identifier: MIT OR Apache-2.0
/* Feeds events to shadow stacks: `c ADDRESS SITE`, `r ADDRESS`, `l`, `k SITE`, `u`, `x`. Prints the path
 * after each, as sites. */
#include "shadow_stacks.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST = 1 << 20 };

static struct { uint32_t above, site; } paths[MOST];
static uint32_t count = 1;

static uint32_t extend(uint32_t path, uint32_t site) {
    for (uint32_t i = 1; i < count; i++)
        if (paths[i].above == path && paths[i].site == site)
            return i;
    paths[count].above = path;
    paths[count].site = site;
    return count++;
}

static void print(uint32_t path) {
    if (paths[path].above)
        print(paths[path].above);
    printf("%s%" PRIu32, paths[path].above ? " " : "", paths[path].site);
}

int main(void) {
    char event;
    bool known = false;
    while (scanf(" %c", &event) == 1) {
        uint64_t address = 0;
        uint32_t site = 0, path = 0;
        if ((event == 'c' || event == 'r') && scanf("%" SCNx64, &address) != 1)
            return 1;
        if ((event == 'c' || event == 'k') && scanf("%" SCNu32, &site) != 1)
            return 1;
        switch (event) {
        case 'c':
            path = stacks_called(address, site, extend);
            break;
        case 'r':
            path = stacks_returned(address, &known);
            break;
        case 'l':
            path = stacks_leave();
            break;
        case 'k':
            path = stacks_enter_kernel(site, extend);
            break;
        case 'u':
            path = stacks_leave_kernel();
            break;
        case 'x':
            stacks_execute();
            continue;
        default:
            return 1;
        }
        if (event == 'r' && !known)
            printf("unknown ");
        if (path)
            print(path);
        else
            putchar('-');
        putchar('\n');
    }
    return 0;
}
