/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The context of whoever writes now.
 *
 *   context_now           of the current task's path; needs interrupts on
 *   context_of_worker     of the submitter for whom an io_uring worker works
 *   context_without_path  of those whose paths are not looked at
 *   direct_owner          of a request of direct I/O
 *   device_owner          ... on a device without a file system
 */
#ifndef PCSTREAM_WRITERS_H
#define PCSTREAM_WRITERS_H

#include "device.h"
#include "followed.h"
#include "requests.h"
#include "runtimes.h"

/* The context of the current task, which has this cache or none: its runtime's path, or its call path. */
static __always_inline u64 context_now(u32 owner, struct task_cache *cache, struct task_struct *task, struct inode *inode)
{
	struct workspace *ws = workspace_of(owner);
	struct pt_regs *regs = user_regs(task);
	s32 entry = regs->orig_ax;
	struct pcstream_slot path = {};

	if (!ws || !task->mm)
		return 0;
	if (cache && runtime_path(cache, task, entry, number_of(ws, inode), &path))
		return emit_runtime(ws, task, &path, entry);
	return context_of_call_path(ws, cache, task, regs, entry);
}

/* The context of the submitter for whom an io_uring worker works. */
static __always_inline u64 context_of_worker(u32 owner, struct task_struct *task)
{
	struct io_worker *worker = task->worker_private;
	struct io_wq_work *work = worker ? BPF_CORE_READ(worker, cur_work) : NULL;
	struct workspace *ws = workspace_of(owner);
	u64 request = 0, *context = NULL;

	count(URING_WORKERS, 1);
	if (work) {
		request = (u64)work - bpf_core_field_offset(struct io_kiocb, work);
		context = bpf_map_lookup_elem(&punted, &request);
	}
	if (context)
		return *context;
	count(URING_UNKNOWN, 1);
	if (!ws || !task->mm)
		return 0;
	return emit_context(ws, task->tgid, executable_of(ws, task->mm), ENTRY_URING, UNWIND_NONE);
}

/* The context of a task whose call path is not looked at when it writes to this file; 0: it is. */
static __always_inline u64 context_without_path(u32 owner, struct task_struct *task, struct inode *inode)
{
	if (task->tgid == recorder)
		return CONTEXT_OF_RECORDER;
	if (of_others(task) || is_outside(inode))
		return CONTEXT_OF_OTHERS;
	if (task->flags & PF_IO_WORKER)
		return context_of_worker(owner, task);
	return 0;
}

/* Leaves the context of a tag to on_mark_dirty. False: there is no memory for it. */
static __always_inline bool postpone(struct task_struct *task, u32 tag_at)
{
	struct task_cache *cache = cache_of(task);

	if (!cache)
		return false;
	if (cache->pending)
		count(LOST_PENDING, 1);
	cache->pending = tag_at + 1;
	return true;
}

/* The context of a direct request of the current task, unless its data had one. */
static __always_inline void own_direct(struct io_record *run, struct task_struct *task, struct inode *inode)
{
	if (!run->context)
		run->context = context_without_path(OF_BIO, task, inode);
	if (!run->context)
		run->context = context_now(OF_BIO, cache_of(task), task, inode);
}

/* Direct I/O: the whole request belongs to one file and to the current task. */
static __always_inline void direct_owner(struct workspace *ws, struct io_record *run, struct bio *bio)
{
	/* Read by the helper: since 7.2 a pointer that is loaded directly can be followed, but not hashed. */
	struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);
	struct task_struct *task = bpf_get_current_task_btf();
	struct kiocb *iocb = BPF_CORE_READ(dio, iocb);
	struct file *file = BPF_CORE_READ(iocb, ki_filp);
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	run->source = SOURCE_DIRECT;
	run->inode = BPF_CORE_READ(inode, i_ino);
	run->generation = BPF_CORE_READ(inode, i_generation);
	/* `size` counts what was submitted so far, this request included. */
	run->file_page = (BPF_CORE_READ(iocb, ki_pos) + BPF_CORE_READ(dio, size) - run->bytes) >> PAGE_SHIFT;
	if (run->op != REQ_OP_WRITE)
		return;
	if (!(task->flags & PF_KTHREAD)) {
		run->context = of_others(task) || is_outside(inode) ? CONTEXT_OF_OTHERS :
								      context_of_direct_buffer(task, dio, run->bytes);
		own_direct(run, task, inode);
	}
	if (task->tgid != recorder)
		emit_file(ws, file_key(run->inode, run->generation), (u64)inode,
			  (u64)BPF_CORE_READ(file, f_path.dentry), run->context);
}

/* The same on a device without a file system: what is written is the device's own. */
static __always_inline void device_owner(struct workspace *ws, struct io_record *run, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();

	run->source = SOURCE_DIRECT;
	run->inode = target_dev;
	run->file_page = run->sector >> (PAGE_SHIFT - 9);
	if (run->op != REQ_OP_WRITE || task->flags & PF_KTHREAD)
		return;
	run->context = of_others(task) ? CONTEXT_OF_OTHERS : context_of_device_buffer(ws, task, bio, run->sector);
	own_direct(run, task, NULL);
}

#endif
