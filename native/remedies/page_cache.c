/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files are opened without O_DIRECT and O_SYNC (open(2)). */
#include "intercept.h"

static int cached(int flags) {
    int left = flags & ~(O_DIRECT | O_SYNC | O_DSYNC);

    if (left != flags)
        count();
    return left;
}

OPEN(open, (const char *path, int flags, ...), path, cached(flags))
OPEN(open64, (const char *path, int flags, ...), path, cached(flags))
OPEN(openat, (int at, const char *path, int flags, ...), at, path, cached(flags))
OPEN(openat64, (int at, const char *path, int flags, ...), at, path, cached(flags))

int mkostemp(char *path, int flags) {
    return NEXT(mkostemp)(path, cached(flags));
}

int mkostemp64(char *path, int flags) {
    return mkostemp(path, flags);
}
