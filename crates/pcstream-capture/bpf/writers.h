/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The context of whoever writes now.
 *
 *   context_without_path  of those who are not captured
 *   context_now           of all others; needs interrupts on
 *   direct_owner          of a request of direct I/O
 *   device_owner          ... on a device without a file system
 */
#ifndef PCSTREAM_WRITERS_H
#define PCSTREAM_WRITERS_H

#include "device.h"
#include "followed.h"
#include "requests.h"
#include "runtimes.h"

/* The context of whoever submitted an io_uring request; 0: it is none, or not known. */
static __always_inline u64 context_of_request(u64 request)
{
	u64 *context = bpf_map_lookup_elem(&uring_contexts, &request);

	return context ? *context : 0;
}

/* The context of the submitter for whom an io_uring worker works. */
static __always_inline u64 context_of_worker(struct workspace *ws, struct task_struct *task)
{
	struct io_worker *worker = task->worker_private;
	struct io_wq_work *work = worker ? BPF_CORE_READ(worker, cur_work) : NULL;
	u64 context = 0;

	/* Its page is counted when it becomes dirty. */
	if (ws->index != OF_WRITE)
		count(URING_WORKERS);
	if (work)
		context = context_of_request((u64)work - bpf_core_field_offset(struct io_kiocb, work));
	if (context)
		return context;
	if (ws->index != OF_WRITE)
		count(URING_UNKNOWN);
	return emit_context(ws, executable_of(ws, task->mm), UNWIND_NONE);
}

/* The context of the current task, which has this cache or none: of its runtime's path, or of its call path. */
static __always_inline u64 context_now(struct workspace *ws, struct task_cache *cache, struct task_struct *task,
				       struct inode *inode)
{
	bool is_worker = task->flags & PF_IO_WORKER;
	struct pt_regs *regs = user_regs(task);
	struct pcstream_slot path = {};

	if (!task->mm)
		return 0;
	begin_capture(ws, task, regs, is_worker ? ENTRY_URING : entry_of(task, regs));
	if (is_worker)
		return context_of_worker(ws, task);
	if (cache && runtime_path(ws, cache, task, inode, &path))
		return emit_runtime(ws, task, &path);
	return context_of_call_path(ws, cache, task);
}

/* The context of a task that is not captured when it writes to this file; 0: it is. */
static __always_inline u64 context_without_path(struct task_struct *task, struct inode *inode)
{
	if (task->tgid == recorder)
		return CONTEXT_OF_RECORDER;
	return of_others(task) || is_outside(inode) ? CONTEXT_OF_OTHERS : 0;
}

/* Leaves the context of a folio's tags to on_mark_dirty. */
static __always_inline void postpone(struct task_cache *cache, const struct tagging *t)
{
	if (cache->pending_file)
		count(LOST_PENDING);
	cache->pending_file = t->file;
	cache->pending_folio = t->head;
	cache->pending_at = t->at;
	cache->pending_from = t->from;
	cache->pending_end = t->end;
}

/* Came to Linux 7.0 with the change that makes it count a request of direct I/O once that is submitted, and not before. */
extern const void bio_iov_iter_bounce __ksym __weak;

/* Bytes of a direct read or write that come before its request that is submitted now. */
static __always_inline u64 submitted_before(struct iomap_dio *dio, u32 bytes)
{
	u64 counted = BPF_CORE_READ(dio, size);

	return &bio_iov_iter_bounce ? counted : counted - bytes;
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
	u64 before = submitted_before(dio, run->bytes);

	run->owner.source = SOURCE_DIRECT;
	run->owner.inode = BPF_CORE_READ(inode, i_ino);
	run->owner.generation = BPF_CORE_READ(inode, i_generation);
	run->file_page = (BPF_CORE_READ(iocb, ki_pos) + before) >> PAGE_SHIFT;
	if (run->op != REQ_OP_WRITE)
		return;
	if (!(task->flags & PF_KTHREAD))
		run->owner.context = context_without_path(task, inode) ?:
			       context_of_direct_buffer(task, dio, before) ?:
			       context_of_request(request_of((u64)iocb)) ?:
			       context_now(ws, cache_of(task), task, inode);
	if (task->tgid != recorder)
		emit_file(ws, file_key(run->owner.inode, run->owner.generation), (u64)inode,
			  (u64)BPF_CORE_READ(file, f_path.dentry), run->owner.context);
}

/* The same on a device without a file system: what is written is the device's own. */
static __always_inline void device_owner(struct workspace *ws, struct io_record *run, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();

	run->owner.source = SOURCE_DIRECT;
	run->owner.inode = target_dev;
	run->file_page = run->sector >> (PAGE_SHIFT - 9);
	if (run->op != REQ_OP_WRITE || task->flags & PF_KTHREAD)
		return;
	run->owner.context = context_without_path(task, NULL) ?:
		       context_of_device_buffer(ws, task, bio, run->sector) ?:
		       context_of_request((u64)uring_of(ws, bio)) ?:
		       context_now(ws, cache_of(task), task, NULL);
}

#endif
