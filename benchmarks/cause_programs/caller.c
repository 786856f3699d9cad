/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls the libraries of library.c and pool.c: `caller tally`, `caller smooth`, `caller pool QUALITY`. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void tally(unsigned kind);
void smooth(float *line, size_t length);
void brighten(float *line, size_t length);
void pool_start(unsigned quality);
void pool_wait(void);

int main(int count, char **arguments) {
    static float line[4096];

    if (count < 2)
        return 2;
    if (strcmp(arguments[1], "tally") == 0)
        for (unsigned i = 0; i < 200000000; i++)
            tally(i);
    else if (strcmp(arguments[1], "smooth") == 0)
        for (int i = 0; i < 15000; i++) {
            smooth(line, 4096);
            for (int n = 0; n < 20; n++)
                brighten(line, 4096);
        }
    else {
        pool_start((unsigned)atoi(arguments[2]));
        pool_wait();
    }
    return 0;
}
