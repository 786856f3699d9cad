/* The calls of machine.h: Linux's, and the devices of QEMU: in its source docs/specs/fw_cfg.rst and
 * ivshmem-spec.rst, hw/watchdog and hw/arm/virt.c. */
#include "virtual_machine.h"

#include "arch.h"
#include "port.h"

enum {
    AT_CURRENT_FOLDER = -100,
    CREATE_CLOSED_BY_EXEC = 01 | 0100 | 01000 | 02000000, /* O_WRONLY, O_CREAT, O_TRUNC, O_CLOEXEC */
    TCSBRK = 0x5409,
    REBOOT_MAGIC = (int)0xfee1dead,
    REBOOT_MAGIC_2 = 672274793,
    REBOOT_POWER_OFF = 0x4321fedc,
    REBOOT_RESTART = 0x01234567,
};

int port_mount(const char *type, const char *where) {
    return (int)SYSCALL5(NR_MOUNT, type, where, type, 0, NULL);
}

int port_load_module(const char *path) {
    int fd = port_open_read(path);
    if (fd < 0)
        return fd;
    int result = (int)SYSCALL3(NR_FINIT_MODULE, fd, "", 0);
    port_close(fd);
    return result;
}

int port_uname(struct port_utsname *identity) {
    return (int)SYSCALL1(NR_UNAME, identity);
}

int port_create_file(const char *path) {
    return (int)SYSCALL4(NR_OPENAT, AT_CURRENT_FOLDER, path, CREATE_CLOSED_BY_EXEC, 0600);
}

void port_tcdrain(int fd) {
    SYSCALL3(NR_IOCTL, fd, TCSBRK, 1);
}

static _Noreturn void end_by_kernel(void) {
    SYSCALL4(NR_REBOOT, REBOOT_MAGIC, REBOOT_MAGIC_2, REBOOT_POWER_OFF, NULL);
    SYSCALL4(NR_REBOOT, REBOOT_MAGIC, REBOOT_MAGIC_2, REBOOT_RESTART, NULL);
    port_exit(1); /* the kernel panics when its first process ends */
}

/* The emulator's files: a selector, and a register from which the chosen one is read on and on. */
enum { FW_CFG_SIGNATURE = 0, FW_CFG_DIRECTORY = 0x19, FW_CFG_NAME = 56 };
static void fw_cfg_select(uint16_t which);
static void fw_cfg_read(void *buffer, size_t size);

/* One file of fw_cfg's directory; its numbers have their most significant byte first. */
struct fw_cfg_file {
    uint32_t size;
    uint16_t selector, reserved;
    char name[FW_CFG_NAME];
};

static bool same(const char *left, const char *right) {
    while (*left && *left == *right)
        left++, right++;
    return *left == *right;
}

long port_read_order(char *buffer, size_t size) {
    char signature[5] = {0};
    uint32_t count;
    struct fw_cfg_file file;

    fw_cfg_select(FW_CFG_SIGNATURE);
    fw_cfg_read(signature, 4);
    if (!same(signature, "QEMU"))
        return -PORT_E_NOENT;
    fw_cfg_select(FW_CFG_DIRECTORY);
    fw_cfg_read(&count, sizeof count);
    for (count = __builtin_bswap32(count); count; count--) {
        fw_cfg_read(&file, sizeof file);
        if (!same(file.name, "opt/swapstone/order"))
            continue;
        uint32_t bytes = __builtin_bswap32(file.size);
        if (bytes > size)
            return -PORT_E_NOSPC;
        fw_cfg_select(__builtin_bswap16(file.selector));
        fw_cfg_read(buffer, bytes);
        return bytes;
    }
    return -PORT_E_NOENT;
}

#ifdef ARCH_HAS_IO_PORTS

enum {
    PORT_DEBUG_CONSOLE = 0xe9,
    PORT_DEBUG_EXIT = 0xf4,
    PORT_WATCHDOG = 0x443,
    PORT_FW_CFG_SELECT = 0x510,
    PORT_FW_CFG_DATA = 0x511,
    WATCHDOG_AT_ONCE = 15, /* the last of its times is 0 s */
    END_WELL = 0x20,       /* QEMU ends with twice this and one */
    END_FAILED = 0x21,
};

static const uint16_t owned[][2] = {
    {PORT_DEBUG_CONSOLE, 1}, {PORT_DEBUG_EXIT, 1}, {PORT_WATCHDOG, 1}, {PORT_FW_CFG_SELECT, 2}};

static int permit(bool on) {
    int result = 0;
    for (size_t i = 0; i < sizeof owned / sizeof *owned && result == 0; i++)
        result = (int)SYSCALL3(NR_IOPERM, owned[i][0], owned[i][1], on);
    return result;
}

int port_acquire_devices(void) {
    return permit(true);
}

void port_release_devices(void) {
    permit(false);
}

void port_request_pause(void) {
    arch_outb(PORT_WATCHDOG, WATCHDOG_AT_ONCE);
}

static void fw_cfg_select(uint16_t which) {
    arch_outw(PORT_FW_CFG_SELECT, which);
}

static void fw_cfg_read(void *buffer, size_t size) {
    arch_insb(PORT_FW_CFG_DATA, buffer, size);
}

long port_write_channel(const void *data, size_t size) {
    arch_outsb(PORT_DEBUG_CONSOLE, data, size);
    return (long)size;
}

void port_stop_machine(bool failed) {
    arch_outb(PORT_DEBUG_EXIT, failed ? END_FAILED : END_WELL);
    end_by_kernel();
}

#else

/* A machine without I/O ports: its devices are registers in memory, seen through /dev/mem. The watchdog
 * (i6300esb) and the channel (ivshmem-plain: memory that is a file of the host) lie on its PCI bus, at the
 * addresses that targets/vm/qemu.py gives them; where they lie in memory, the kernel has decided. */
enum {
    OPEN_BOTH_WAYS_AT_ONCE = 02 | 02000000 | 04010000, /* O_RDWR, O_CLOEXEC, O_SYNC: not cached */
    PROTECT_READ_WRITE = 3,
    MAP_SHARED_MEMORY = 1,
    WINDOW = 1 << 16, /* the largest page that a kernel may have */
    SEEK_FROM_START = 0,
    PCI_COMMAND = 4,
    PCI_COMMAND_MEMORY = 2,
    PCI_BAR_0 = 0x10,
    PCI_BAR_2 = 0x18,
    FW_CFG_ADDRESS = 0x09020000, /* of the machine "virt" */
    FW_CFG_SELECTOR = 8,
    WATCHDOG_CONFIG = 0x60,
    WATCHDOG_LOCK = 0x68,
    WATCHDOG_FIRST_TIME = 0,
    WATCHDOG_SECOND_TIME = 4,
    WATCHDOG_RELOAD = 0xc,
    WATCHDOG_KEY_1 = 0x80,
    WATCHDOG_KEY_2 = 0x86,
    WATCHDOG_QUICK = 4, /* counts microseconds; its other bits: no interrupt, an action when time is up */
    WATCHDOG_ON = 2,
    CHANNEL_BYTES = 16 << 20, /* as targets/vm/qemu.py has it */
    CHANNEL_START = 4096,     /* before: how many bytes were written, 8 bytes, the least significant first */
};

#define WATCHDOG_FOLDER "/sys/bus/pci/devices/0000:00:01.0"
#define CHANNEL_FOLDER "/sys/bus/pci/devices/0000:00:02.0"

static struct {
    int memory; /* /dev/mem */
    volatile unsigned char *fw_cfg;
    volatile unsigned char *watchdog;
    uint64_t channel, written;
    volatile unsigned char *first, *window; /* of the channel: its first, and the one that is written to */
    uint64_t window_at;
} devices;

/* A window of the machine's memory, which begins at a multiple of its size; NULL where there is none. */
static volatile unsigned char *map_window(uint64_t address) {
    long result = arch_syscall(NR_MMAP, 0, WINDOW, PROTECT_READ_WRITE, MAP_SHARED_MEMORY, devices.memory,
                               (long)(address / ARCH_MMAP_UNIT));
    return result < 0 && result > -4096 ? NULL : (volatile unsigned char *)result;
}

static int open_both_ways(const char *path) {
    return (int)SYSCALL4(NR_OPENAT, AT_CURRENT_FOLDER, path, OPEN_BOTH_WAYS_AT_ONCE, 0);
}

/* Reads or writes a PCI device's configuration. */
static long configure(int fd, long where, void *bytes, size_t size, bool writes) {
    long result = SYSCALL3(NR_LSEEK, fd, where, SEEK_FROM_START);
    if (result >= 0)
        result = SYSCALL3(writes ? NR_WRITE : NR_READ, fd, bytes, size);
    return result < 0 ? result : result == (long)size ? 0 : -PORT_E_NOENT;
}

/* Lets a PCI device answer, and says where one of its memories lies. */
static int find_memory(const char *path, int bar, uint64_t *address) {
    uint16_t command = 0;
    uint32_t words[2] = {0};
    int fd = open_both_ways(path);
    if (fd < 0)
        return fd;
    long result = configure(fd, PCI_COMMAND, &command, sizeof command, false);
    command |= PCI_COMMAND_MEMORY;
    if (result == 0)
        result = configure(fd, PCI_COMMAND, &command, sizeof command, true);
    if (result == 0)
        result = configure(fd, bar, words, sizeof words, false);
    port_close(fd);
    bool is_long = words[0] & 4;
    *address = (words[0] & ~(uint32_t)15) | (is_long ? (uint64_t)words[1] << 32 : 0);
    return result < 0 ? (int)result : *address ? 0 : -PORT_E_NOENT;
}

int port_acquire_devices(void) {
    uint64_t watchdog;
    devices.memory = open_both_ways("/dev/mem");
    if (devices.memory < 0)
        return devices.memory;
    int result = find_memory(WATCHDOG_FOLDER "/config", PCI_BAR_0, &watchdog);
    if (result == 0)
        result = find_memory(CHANNEL_FOLDER "/config", PCI_BAR_2, &devices.channel);
    if (result < 0)
        return result;
    devices.fw_cfg = map_window(FW_CFG_ADDRESS);
    devices.watchdog = map_window(watchdog - watchdog % WINDOW);
    devices.first = map_window(devices.channel);
    if (!devices.fw_cfg || !devices.watchdog || !devices.first)
        return -PORT_E_NOMEM;
    devices.watchdog += watchdog % WINDOW;
    devices.window = devices.first;
    return 0;
}

/* The memory goes with exec, and exec is all that is done without it. */
void port_release_devices(void) {}

static void set_register(int where, uint32_t value) {
    volatile uint16_t *key = (volatile uint16_t *)(devices.watchdog + WATCHDOG_RELOAD);

    *key = WATCHDOG_KEY_1;
    *key = WATCHDOG_KEY_2;
    *(volatile uint32_t *)(devices.watchdog + where) = value;
}

void port_request_pause(void) {
    uint16_t config = WATCHDOG_QUICK;
    uint8_t lock = WATCHDOG_ON;
    int fd = open_both_ways(WATCHDOG_FOLDER "/config");

    set_register(WATCHDOG_FIRST_TIME, 1);
    set_register(WATCHDOG_SECOND_TIME, 1);
    configure(fd, WATCHDOG_CONFIG, &config, sizeof config, true);
    configure(fd, WATCHDOG_LOCK, &lock, sizeof lock, true);
    port_close(fd);
}

static void fw_cfg_select(uint16_t which) {
    *(volatile uint16_t *)(devices.fw_cfg + FW_CFG_SELECTOR) = __builtin_bswap16(which);
}

static void fw_cfg_read(void *buffer, size_t size) {
    volatile uint64_t *words = (volatile uint64_t *)devices.fw_cfg;
    unsigned char *at = buffer;

    for (; size >= sizeof *words; size -= sizeof *words) {
        uint64_t word = *words;
        for (size_t i = 0; i < sizeof word; i++)
            *at++ = ((unsigned char *)&word)[i];
    }
    for (; size; size--)
        *at++ = *devices.fw_cfg;
}

/* The window of the channel that a byte lies in; NULL where there is none. */
static volatile unsigned char *window_of(uint64_t at) {
    uint64_t begin = at - at % WINDOW;

    if (begin == devices.window_at)
        return devices.window;
    if (devices.window != devices.first)
        port_munmap((void *)devices.window, WINDOW);
    devices.window_at = begin;
    return devices.window = begin ? map_window(devices.channel + begin) : devices.first;
}

long port_write_channel(const void *data, size_t size) {
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size; i++) {
        uint64_t at = CHANNEL_START + devices.written + i;
        volatile unsigned char *window = at < CHANNEL_BYTES ? window_of(at) : NULL;
        if (!window)
            return -PORT_E_NOSPC;
        window[at % WINDOW] = bytes[i];
    }
    devices.written += size;
    for (size_t i = 0; i < sizeof devices.written; i++)
        devices.first[i] = (unsigned char)(devices.written >> 8 * i);
    return (long)size;
}

void port_stop_machine(bool failed) {
    (void)failed;
    port_tcdrain(1);
    end_by_kernel();
}

#endif
