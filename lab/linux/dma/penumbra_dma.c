// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A Linux driver for the DMA engine of Penumbra's soc, and the benchmark of it.
 *
 * The engine is words in uncached memory and two doorbells (abi/src/dma.rs): registers, rings and
 * the chip page have physical addresses that come as module parameters, since nothing announces
 * them. Doorbells go both ways through the ivshmem device, 1af4:1110: a store to its register rings
 * the soc, and the soc's completions arrive as an MSI-X interrupt of this driver.
 *
 * /sys/kernel/debug/penumbra_dma/command takes one line at a time:
 *     check BYTES        one transfer, and a comparison of what came
 *     run BYTES TIMES    the benchmark: clear the destination, take a free descriptor, write it,
 *                        ring, sleep until the interrupt, give the descriptor back; TIMES over
 * A write ends when the work has ended, with an error when it failed.
 *
 * The chip's caches are not coherent with the engine, so each transfer cleans the source and cleans
 * and invalidates the destination, before, and invalidates the destination after it, line by line,
 * as Linux does for such devices.
 *
 * Without the parameters, the ivshmem device or an engine at the addresses, the module reports it
 * and does not load (ENODEV).
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include "layout.h"

#define NAME "penumbra_dma"
/* Registers of the ivshmem device, in BAR 0. */
#define IVSHMEM_RING 0x0c
/* Of a session; beside it a position has the epoch, and a status how it went. */
#define GENERATION 0x0000ffff00000000UL
#define PATIENCE (2 * HZ)

static unsigned long registers, rings, chip, buffer;
module_param(registers, ulong, 0444);
MODULE_PARM_DESC(registers, "physical address of the engine's register block");
module_param(rings, ulong, 0444);
MODULE_PARM_DESC(rings, "physical address of the first channel's ring");
module_param(chip, ulong, 0444);
MODULE_PARM_DESC(chip, "physical address of the chip page");
module_param(buffer, ulong, 0444);
MODULE_PARM_DESC(buffer, "physical address of 8 MiB for transfers: source, then destination");
static unsigned int domain, vector, kick, soc;
module_param(domain, uint, 0444);
MODULE_PARM_DESC(domain, "index of this domain");
module_param(vector, uint, 0444);
MODULE_PARM_DESC(vector, "doorbell vector of the engine's interrupt");
module_param(kick, uint, 0444);
MODULE_PARM_DESC(kick, "doorbell vector at the soc that makes the engine look");
module_param(soc, uint, 0444);
MODULE_PARM_DESC(soc, "doorbell slot of the soc");

static struct {
	struct pci_dev *device;
	void __iomem *doorbell, *registers, *rings, *chip;
	void *source, *destination;
	unsigned int channel;
	/* The session: epoch << 48 | generation << 32. */
	u64 session;
	/* Descriptors written so far; `lock` guards it and `busy`. */
	u32 submitted;
	unsigned long busy;
	spinlock_t lock;
	wait_queue_head_t news;
	struct dentry *folder;
} engine;

static u64 status_word(unsigned int field)
{
	return readq(engine.registers + PD_STATUS + engine.channel * PD_LINE + field);
}

/* Submits descriptors: this store is after those to the descriptors and before the doorbell. */
static void submit(u32 index)
{
	wmb();
	writeq(engine.session | index,
	       engine.registers + PD_CONTROL + engine.channel * PD_LINE + PD_CONTROL_SUBMITTED);
	mb();
	writel(soc << 16 | kick, engine.doorbell + IVSHMEM_RING);
}

static bool completed(u32 index)
{
	u64 word = status_word(PD_STATUS_COMPLETED);

	if ((word ^ engine.session) >> 32)
		return false;
	return (s32)((u32)word - index) >= 0;
}

static irqreturn_t interrupted(int line, void *nothing)
{
	wake_up(&engine.news);
	return IRQ_HANDLED;
}

/* Cleans, or cleans and invalidates, each line of a range; the top of the file says when. */
static void maintain(const void *from, size_t bytes, bool invalidate)
{
	u64 type, line, at = (u64)from, end = at + bytes;

	asm("mrs %0, ctr_el0" : "=r"(type));
	line = 4UL << (type >> 16 & 15);
	for (at &= ~(line - 1); at < end; at += line) {
		if (invalidate)
			asm volatile("dc civac, %0" : : "r"(at) : "memory");
		else
			asm volatile("dc cvac, %0" : : "r"(at) : "memory");
	}
	asm volatile("dsb sy" : : : "memory");
}

/* A free descriptor, or an error: one thread at a time waits, so the ring cannot be full for long. */
static int take_slot(u32 *index)
{
	unsigned long flags;
	int slot;

	spin_lock_irqsave(&engine.lock, flags);
	slot = engine.submitted % PD_RING;
	if (engine.busy & BIT(slot)) {
		spin_unlock_irqrestore(&engine.lock, flags);
		return -EBUSY;
	}
	engine.busy |= BIT(slot);
	*index = engine.submitted++;
	spin_unlock_irqrestore(&engine.lock, flags);
	return 0;
}

static void give_slot(u32 index)
{
	unsigned long flags;

	spin_lock_irqsave(&engine.lock, flags);
	engine.busy &= ~BIT(index % PD_RING);
	spin_unlock_irqrestore(&engine.lock, flags);
}

static void __iomem *describe(u32 index, size_t bytes)
{
	void __iomem *ring = engine.rings + engine.channel * PD_RING * PD_DESCRIPTOR;
	void __iomem *slot = ring + index % PD_RING * PD_DESCRIPTOR;

	writeq(buffer, slot + PD_DESCRIPTOR_SOURCE);
	writeq(buffer + PD_MAX_BYTES, slot + PD_DESCRIPTOR_DESTINATION);
	writeq(bytes, slot + PD_DESCRIPTOR_BYTES);
	writeq(PD_FLAG_COPY, slot + PD_DESCRIPTOR_FLAGS);
	writeq(engine.session | index, slot + PD_DESCRIPTOR_POSITION);
	return slot;
}

/* One transfer from beginning to end. */
static int transfer(size_t bytes)
{
	void __iomem *slot;
	u64 status;
	u32 index;
	int error;

	memset(engine.destination, 0, bytes);
	error = take_slot(&index);
	if (error)
		return error;
	maintain(engine.source, bytes, false);
	maintain(engine.destination, bytes, true);
	slot = describe(index, bytes);
	submit(index + 1);
	if (!wait_event_timeout(engine.news, completed(index + 1), PATIENCE)) {
		pr_err(NAME ": descriptor %u did not end: completed %#llx, fault %llu\n", index,
		       status_word(PD_STATUS_COMPLETED), status_word(PD_STATUS_FAULT));
		return -ETIMEDOUT;
	}
	rmb();
	status = readq(slot + PD_DESCRIPTOR_STATUS);
	maintain(engine.destination, bytes, true);
	give_slot(index);
	if (status != (PD_STATUS_DONE << 48 | (engine.session & GENERATION) | index)) {
		pr_err(NAME ": descriptor %u ended with status %#llx\n", index, status);
		return -EIO;
	}
	return 0;
}

static int check(size_t bytes)
{
	static u8 salt;
	size_t i;
	int error;

	salt++;
	for (i = 0; i < bytes; i++)
		((u8 *)engine.source)[i] = (u8)(i * 31 + salt);
	error = transfer(bytes);
	if (error == 0 && memcmp(engine.source, engine.destination, bytes) != 0) {
		pr_err(NAME ": the destination of %zu bytes is not what the source is\n", bytes);
		error = -EIO;
	}
	return error;
}

static ssize_t command(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	char line[64], verb[8];
	unsigned long bytes, times = 1;
	int error = 0;

	if (length >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, length))
		return -EFAULT;
	line[length] = 0;
	if (sscanf(line, "%7s %lu %lu", verb, &bytes, &times) < 2)
		return -EINVAL;
	if (bytes == 0 || bytes > PD_MAX_BYTES)
		return -EINVAL;
	if (strcmp(verb, "check") == 0) {
		error = check(bytes);
	} else if (strcmp(verb, "run") == 0) {
		while (times-- && error == 0)
			error = transfer(bytes);
	} else {
		error = -EINVAL;
	}
	return error ? error : length;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.write = command,
};

/* Opens a session of our channel under the epoch that the soc gave this domain. */
static int open_session(void)
{
	u64 count = readq(engine.registers + PD_ENGINE_CHANNELS);
	u64 epoch = readq(engine.chip + domain * PD_LINE) >> 8;
	u64 before, generation = 1;

	if (readq(engine.registers + PD_ENGINE_MAGIC) != PD_MAGIC) {
		pr_err(NAME ": no engine at %#lx (no magic word there)\n", registers);
		return -ENODEV;
	}
	for (engine.channel = 0; engine.channel < count; engine.channel++)
		if (status_word(PD_STATUS_OWNER) == domain)
			break;
	if (engine.channel >= count || count > PD_MAX_CHANNELS) {
		pr_err(NAME ": the engine has no channel for domain %u\n", domain);
		return -ENODEV;
	}
	before = status_word(PD_STATUS_COMPLETED);
	if (before >> 48 == (epoch & 0xffff))
		generation = (before >> 32 & 0xffff) + 1;
	engine.session = epoch << 48 | (generation & 0xffff) << 32;
	submit(0);
	if (!wait_event_timeout(engine.news, completed(0), PATIENCE)) {
		pr_err(NAME ": the engine does not answer: epoch %llu, completed %#llx\n", epoch,
		       status_word(PD_STATUS_COMPLETED));
		return -ENODEV;
	}
	return 0;
}

static void unmap(void)
{
	if (engine.doorbell)
		pci_iounmap(engine.device, engine.doorbell);
	if (engine.registers)
		iounmap(engine.registers);
	if (engine.rings)
		iounmap(engine.rings);
	if (engine.chip)
		iounmap(engine.chip);
	if (engine.source)
		memunmap(engine.source);
}

static int map(struct pci_dev *device)
{
	engine.doorbell = pci_iomap(device, 0, 0);
	engine.registers = ioremap(registers, PAGE_SIZE);
	engine.rings = ioremap(rings, PD_MAX_CHANNELS * PD_RING * PD_DESCRIPTOR);
	engine.chip = ioremap(chip, PAGE_SIZE);
	engine.source = memremap(buffer, 2 * PD_MAX_BYTES, MEMREMAP_WB);
	if (!engine.doorbell || !engine.registers || !engine.rings || !engine.chip ||
	    !engine.source) {
		pr_err(NAME ": cannot map the addresses of the parameters\n");
		unmap();
		return -ENODEV;
	}
	engine.destination = engine.source + PD_MAX_BYTES;
	return 0;
}

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	int line, error = pci_enable_device(device);

	if (error)
		return error;
	engine.device = device;
	pci_set_master(device);
	error = map(device);
	if (error)
		goto disable;
	/* Vectors count from 0 and ours need not be the first. */
	error = pci_alloc_irq_vectors(device, vector + 1, vector + 1, PCI_IRQ_MSIX);
	if (error < 0) {
		pr_err(NAME ": no MSI-X vector %u: %d\n", vector, error);
		goto unmap;
	}
	line = pci_irq_vector(device, vector);
	error = request_irq(line, interrupted, 0, NAME, &engine);
	if (error)
		goto vectors;
	error = open_session();
	if (error)
		goto interrupt;
	engine.folder = debugfs_create_dir(NAME, NULL);
	debugfs_create_file("command", 0200, engine.folder, NULL, &operations);
	pr_info(NAME ": channel %u, %llu MB/s, interrupt %d\n", engine.channel,
		readq(engine.registers + PD_ENGINE_BANDWIDTH_MBPS), line);
	return 0;

interrupt:
	free_irq(line, &engine);
vectors:
	pci_free_irq_vectors(device);
unmap:
	unmap();
disable:
	pci_disable_device(device);
	engine.device = NULL;
	return error;
}

static void remove(struct pci_dev *device)
{
	debugfs_remove(engine.folder);
	free_irq(pci_irq_vector(device, vector), &engine);
	pci_free_irq_vectors(device);
	unmap();
	pci_disable_device(device);
	engine.device = NULL;
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(0x1af4, 0x1110) },
	{ 0 },
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = {
	.name = NAME,
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

static int __init load(void)
{
	int error;

	if (!registers || !rings || !chip || !buffer) {
		pr_err(NAME ": registers=, rings=, chip= and buffer= say where the engine is\n");
		return -ENODEV;
	}
	spin_lock_init(&engine.lock);
	init_waitqueue_head(&engine.news);
	error = pci_register_driver(&driver);
	if (error)
		return error;
	if (!engine.device) {
		pr_err(NAME ": no doorbell device (1af4:1110) that works; see above\n");
		pci_unregister_driver(&driver);
		return -ENODEV;
	}
	return 0;
}

static void __exit unload(void)
{
	pci_unregister_driver(&driver);
}

module_init(load);
module_exit(unload);
MODULE_DESCRIPTION("DMA engine of Penumbra's soc, with a benchmark");
MODULE_AUTHOR("The Penumbra developers");
MODULE_LICENSE("Dual MIT/GPL");
