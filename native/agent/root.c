// SPDX-License-Identifier: MIT OR Apache-2.0
#include "root.h"

#include "../port/root_file_system.h"
#include "child.h"
#include "observe.h"

static struct child_memory *const memory = &child_room.memory;
static int kept = -1; /* a descriptor of the namespace; negative: none */

int root_unshare(void) {
    return port_unshare_mounts();
}

/* Names the file `name` in the folder `folder`. */
static const char *join(const char *folder, const char *name) {
    struct text path = {memory->path, sizeof memory->path, 0, false};

    text_format(&path, "%s%s", folder, name);
    return text_end(&path);
}

/* What the process writes goes to a tmpfs, which ends with the mount namespace. */
static int mount_layer(const struct request *request) {
    struct text options = {memory->options, sizeof memory->options, 0, false};
    struct text mount_point = {memory->mount_point, sizeof memory->mount_point, 0, false};
    int result = port_mount_tmpfs(request->layer, "mode=755");

    text_format(&mount_point, "%s/root", request->layer);
    memory->root = text_end(&mount_point);
    result = result ? result : port_mkdir(memory->root, 0755);
    result = result ? result : port_mkdir(join(request->layer, "/upper"), 0755);
    result = result ? result : port_mkdir(join(request->layer, "/work"), 0755);
    text_format(&options, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", request->root, request->layer,
                request->layer);
    if (options.full || mount_point.full)
        return -PORT_E_NOMEM;
    return result ? result : port_mount_overlay(memory->root, text_end(&options));
}

int root_mount(const struct request *request) {
    memory->root = request->root;
    return request->layer ? mount_layer(request) : port_bind(memory->root, memory->root, false);
}

/* A tmpfs with the devices and links that programs rely on. */
static int mount_dev(void) {
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom"};
    int result = port_mkdir(join(memory->root, "/dev"), 0755);

    result = result ? result : port_mount_tmpfs(join(memory->root, "/dev"), "mode=755");
    for (size_t i = 0; i < sizeof devices / sizeof *devices && result == 0; i++) {
        int fd = port_open_write(join(memory->root, devices[i]));
        if (fd >= 0)
            port_close(fd);
        result = fd < 0 ? fd : port_bind(devices[i], join(memory->root, devices[i]), false);
    }
    for (size_t i = 0; i < PORT_STREAM_LINKS && result == 0; i++)
        result = port_symlink(port_stream_links[i][0], join(memory->root, port_stream_links[i][1]));
    port_umask(0);
    result = result ? result : port_mkdir(join(memory->root, "/dev/shm"), 01777);
    result = result ? result : port_mkdir(join(memory->root, "/tmp"), 01777);
    port_umask(022);
    return result;
}

static int bind_folder(const char *from, const char *to, bool recursive) {
    int result = port_mkdir(join(memory->root, to), 0755);
    return result ? result : port_bind(from, join(memory->root, to), recursive);
}

int root_mount_devices(void) {
    int result = mount_dev();

    result = result ? result : bind_folder("/proc", "/proc", true);
    return result ? result : bind_folder("/sys", "/sys", true);
}

int root_mount_files(const struct request *request) {
    if (!request->files)
        return 0;
    int result = bind_folder(request->files, ROOT_FILES, false);
    return result ? result : port_make_read_only(join(memory->root, ROOT_FILES));
}

int root_enter(void) {
    return port_enter_root(memory->root);
}

void root_keep(int pid) {
    if (kept < 0)
        kept = open_proc_file(pid, "ns/mnt");
}

void root_drop(void) {
    close_file(&kept);
}
