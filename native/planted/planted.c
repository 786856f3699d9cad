// SPDX-License-Identifier: GPL-2.0
/* A section that nothing can preempt, planted on purpose: a positive control for whoever looks for the worst
 * latency of a kernel. While the module is loaded, a thread of the kernel's wakes every now and then and
 * keeps the processor with its interrupts off. In a thread a real spin would be preempted by PREEMPT_RT as
 * everywhere; interrupts that are off are off there too.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

/* The pause grows by so much each time and starts again after a millisecond, so that the sections don't keep
 * step with a program that wakes at a fixed rate. */
enum { STEP_US = 137, WRAP_US = 1000, MOST_US = 1000000 };

static unsigned int every_us = 100000;
module_param(every_us, uint, 0444);
MODULE_PARM_DESC(every_us, "pause between two sections, in microseconds");

static unsigned int for_us = 2000;
module_param(for_us, uint, 0444);
MODULE_PARM_DESC(for_us, "how long each section lasts, in microseconds");

static unsigned int sections;
module_param(sections, uint, 0444);
MODULE_PARM_DESC(sections, "how many there have been (read only)");

static struct task_struct *thread;

static void hold_processor(void) {
    unsigned long flags;
    ktime_t end;

    local_irq_save(flags);
    end = ktime_add_us(ktime_get(), for_us);
    while (ktime_before(ktime_get(), end))
        cpu_relax();
    local_irq_restore(flags);
}

static int run(void *unused) {
    unsigned int more_us = 0;

    (void)unused;
    while (!kthread_should_stop()) {
        usleep_range(every_us + more_us, every_us + more_us);
        hold_processor();
        sections++;
        more_us = (more_us + STEP_US) % WRAP_US;
    }
    return 0;
}

static int __init planted_init(void) {
    if (every_us == 0 || every_us > MOST_US || for_us == 0 || for_us > MOST_US)
        return -EINVAL;
    thread = kthread_run(run, NULL, "planted");
    return PTR_ERR_OR_ZERO(thread);
}

static void __exit planted_exit(void) {
    kthread_stop(thread);
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("A section that nothing can preempt, planted on purpose");
MODULE_LICENSE("GPL");
