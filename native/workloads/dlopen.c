/*
 * Load 16 shared objects, find a function in each and call it, and unload them. They are copies of one
 * companion, in files of their own: a C library takes two names of one file for one object. Fresh children,
 * because musl never unloads.
 */
#include "scratch.h"

#include <dlfcn.h>

enum { OBJECTS = 16, LARGEST = 262144 };

static void prepare(void) {
    char path[4096];
    beside_program(path, sizeof path, "object.so");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail("%s: %s", path, strerror(errno));
    void *content = malloc(LARGEST);
    ssize_t size = content ? read(file, content, LARGEST) : -1;
    if (size <= 0 || size == LARGEST)
        fail("%s could not be read, or is too large", path);
    close(file);
    make_scratch();
    for (int i = 0; i < OBJECTS; i++)
        write_scratch(i, content, (size_t)size);
    free(content);
}

static uint64_t pass(void) {
    void *objects[OBJECTS];
    uint64_t sum = 0;
    for (int i = 0; i < OBJECTS; i++) {
        char path[SCRATCH_PATH];
        scratch_file(path, i);
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
    remove_scratch(OBJECTS);
}

WORKLOAD(.name = "dlopen", .mode = FRESH, .ops = OBJECTS, .prepare = prepare, .pass = pass, .finish = finish);
