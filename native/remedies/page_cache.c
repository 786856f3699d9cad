/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files are opened without O_DIRECT and O_SYNC (open(2)). */
#include "intercept.h"
#include <stdarg.h>

static int cached(int flags) {
    int left = flags & ~(O_DIRECT | O_SYNC | O_DSYNC);

    if (left != flags)
        count();
    return left;
}

#define OPEN(name, parameters, ...)                                                                          \
    int name parameters {                                                                                    \
        va_list more;                                                                                        \
        va_start(more, flags);                                                                               \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;                                    \
        va_end(more);                                                                                        \
        return NEXT(name)(__VA_ARGS__, cached(flags), mode);                                                 \
    }

OPEN(open, (const char *path, int flags, ...), path)
OPEN(open64, (const char *path, int flags, ...), path)
OPEN(openat, (int at, const char *path, int flags, ...), at, path)
OPEN(openat64, (int at, const char *path, int flags, ...), at, path)

int mkostemp(char *path, int flags) {
    return NEXT(mkostemp)(path, cached(flags));
}

int mkostemp64(char *path, int flags) {
    return mkostemp(path, flags);
}
