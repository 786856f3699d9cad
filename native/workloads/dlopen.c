// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Loads 16 shared objects with dlopen(), looks up a function in each, calls it, and unloads the objects.
 * Not from a published benchmark.
 *
 * Each object is a copy of companions/object.c in a file of its own, because dlopen() loads one file once,
 * whatever its name. Each pass is a new process, because musl's dlclose() does not unload.
 */
#include "scratch_directory.h"

#include <dlfcn.h>

enum { OBJECTS = 16, MAX_OBJECT_BYTES = 262144 };

static void prepare(void) {
    char path[4096];
    path_beside_program(path, sizeof path, "object.so");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    require(file >= 0, path);
    void *content = malloc(MAX_OBJECT_BYTES);
    ssize_t size = content ? read(file, content, MAX_OBJECT_BYTES) : -1;
    if (size <= 0 || size == MAX_OBJECT_BYTES)
        fail("%s can't be read, or is larger than 256 KiB", path);
    close(file);
    make_scratch_directory();
    for (int i = 0; i < OBJECTS; i++)
        write_scratch_file(i, content, (size_t)size);
    free(content);
}

static uint64_t pass(void) {
    void *objects[OBJECTS];
    uint64_t sum = 0;
    for (int i = 0; i < OBJECTS; i++) {
        char path[SCRATCH_PATH_BYTES];
        scratch_path(path, i);
        objects[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!objects[i])
            fail("dlopen: %s", dlerror());
        int (*answer)(void) = (int (*)(void))dlsym(objects[i], "object_answer");
        if (!answer)
            fail("dlsym: %s", dlerror());
        sum += (uint64_t)answer();
    }
    for (int i = 0; i < OBJECTS; i++)
        dlclose(objects[i]);
    return sum;
}

static void finish(void) {
    remove_scratch_directory(OBJECTS);
}

WORKLOAD(.name = "dlopen", .mode = FRESH, .ops = OBJECTS, .prepare = prepare, .pass = pass, .finish = finish);
