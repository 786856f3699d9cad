// SPDX-License-Identifier: GPL-2.0-only
/* A kernel module that disables interrupts periodically: a positive control for measurements of the
 * worst-case latency. While it is loaded, a kernel thread sleeps, disables the local interrupts, spins, and
 * enables them again. On PREEMPT_RT a thread that holds a spinlock can be preempted; one that disables
 * interrupts can't.
 *
 *     insmod planted.ko every_us=100000 for_us=2000
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

/* Each pause is STEP_US longer than the one before, modulo WRAP_US. So the sections do not stay in phase with
 * a program that wakes up periodically. */
enum { STEP_US = 137, WRAP_US = 1000, MAX_US = 1000000 };

static unsigned int every_us = 100000;
module_param(every_us, uint, 0444);
MODULE_PARM_DESC(every_us, "pause between two sections with interrupts disabled, in microseconds");

static unsigned int for_us = 2000;
module_param(for_us, uint, 0444);
MODULE_PARM_DESC(for_us, "duration of each section, in microseconds");

static unsigned int sections;
module_param(sections, uint, 0444);
MODULE_PARM_DESC(sections, "number of sections since the module was loaded (read only)");

static struct task_struct *thread;

static void spin_with_interrupts_disabled(void) {
    unsigned long flags;
    ktime_t end;

    local_irq_save(flags);
    end = ktime_add_us(ktime_get(), for_us);
    while (ktime_before(ktime_get(), end))
        cpu_relax();
    local_irq_restore(flags);
}

static int run_thread(void *unused) {
    unsigned int extra_us = 0;

    (void)unused;
    while (!kthread_should_stop()) {
        usleep_range(every_us + extra_us, every_us + extra_us);
        spin_with_interrupts_disabled();
        sections++;
        extra_us = (extra_us + STEP_US) % WRAP_US;
    }
    return 0;
}

static int __init planted_init(void) {
    if (every_us == 0 || every_us > MAX_US || for_us == 0 || for_us > MAX_US)
        return -EINVAL;
    thread = kthread_run(run_thread, NULL, "planted");
    return PTR_ERR_OR_ZERO(thread);
}

static void __exit planted_exit(void) {
    kthread_stop(thread);
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("Disables interrupts periodically, to test latency measurements");
MODULE_LICENSE("GPL");
