/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The context of whoever writes now.
 *
 *   context_at_once    with interrupts off: from what is known, or not at all
 *   context_now        with interrupts on: by a full capture if need be
 *   context_of_worker  of the submitter for whom an io_uring worker works
 *   direct_owner       of a request of direct I/O
 */
#ifndef PCSTREAM_WRITERS_H
#define PCSTREAM_WRITERS_H

#include "buffers.h"
#include "followed.h"
#include "requests.h"
#include "runtimes.h"

static __always_inline s32 entry_of(struct pt_regs *regs)
{
	return regs ? (s32)regs->orig_ax : ENTRY_FAULT;
}

/* The context of a page that becomes dirty if it is known, else 0; then `*later` says whether a full capture may find it. Works with
 * interrupts off. */
static __always_inline u64 context_at_once(struct task_cache *cache, struct task_struct *task, struct inode *inode,
					   u64 file_page, bool *later)
{
	struct workspace *ws = workspace_of(OF_DIRTY_FOLIO);
	struct pt_regs *regs = user_regs(task);
	s32 entry = entry_of(regs);
	struct pcstream_slot path = {};
	u64 context;

	if (!ws || !task->mm || !regs)
		return 0;
	context = context_of_buffer(cache, task, regs, entry, file_page, false, later);
	if (context || *later)
		return context;
	if (runtime_path(cache, task, entry, number_of(ws, inode), &path)) {
		context = runtime_context(cache, &path, entry);
		if (context)
			count(RUNTIME_PATHS, 1);
	} else {
		begin_capture(ws, task, regs);
		context = look_up_path(ws, cache, task, place_of(ws, entry), entry);
		if (check_every)
			check_path(ws, context);
	}
	*later = !context;
	return context;
}

/* The context of the current task: the runtime's, that of a cached path, or of one that is captured. Needs interrupts on. */
static __always_inline u64 context_now(u32 owner, struct task_struct *task, struct inode *inode)
{
	struct workspace *ws = workspace_of(owner);
	struct pt_regs *regs = user_regs(task);
	s32 entry = entry_of(regs);
	struct pcstream_slot path = {};
	struct task_cache *cache;
	u64 context, place;

	if (!ws || !task->mm || !regs)
		return 0;
	begin_capture(ws, task, regs);
	cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cache) {
		count(LOST_TASK_STORAGE, 1);
		return capture(ws, entry);
	}
	if (runtime_path(cache, task, entry, number_of(ws, inode), &path)) {
		count(RUNTIME_PATHS, 1);
		context = runtime_context(cache, &path, entry);
		return context ? context : emit_runtime(ws, cache, task, &path, entry);
	}
	place = place_of(ws, entry);
	context = look_up_path(ws, cache, task, place, entry);
	if (!context) {
		context = capture(ws, entry);
		insert_path(cache, ws, place, context);
	}
	if (check_every)
		check_path(ws, context);
	return context;
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

/* Pages whose capture is postponed, of all tasks: mostly none, and then on_mark_dirty has nothing to look for. */
u32 postponed_captures = 0;

static __always_inline void postpone(struct task_cache *cache, u32 at)
{
	if (cache->pending)
		count(LOST_PENDING, 1);
	else
		__sync_fetch_and_add(&postponed_captures, 1);
	cache->pending = at + 1;
}

/* Direct I/O: the whole request belongs to one file and to the current task. */
static __always_inline void direct_owner(struct walk *w, struct bio *bio)
{
	/* Read by the helper: since 7.2 a pointer that is loaded directly can be followed, but not hashed. */
	struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);
	struct task_struct *task = bpf_get_current_task_btf();
	struct kiocb *iocb = BPF_CORE_READ(dio, iocb);
	struct file *file = BPF_CORE_READ(iocb, ki_filp);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct workspace *ws = workspace_of(OF_BIO);
	struct task_cache *cache = NULL;
	struct file_key key = {};
	u8 one = 1;

	w->source = SOURCE_DIRECT;
	w->inode = BPF_CORE_READ(inode, i_ino);
	w->generation = BPF_CORE_READ(inode, i_generation);
	/* `size` counts what was submitted so far, this request included. */
	w->file_page = (BPF_CORE_READ(iocb, ki_pos) + BPF_CORE_READ(dio, size) - w->left) >> PAGE_SHIFT;
	w->bytes = w->left;
	if ((w->opf & REQ_OP_MASK) != REQ_OP_WRITE)
		return;
	if (task->tgid == recorder) {
		w->context = CONTEXT_OF_RECORDER;
		return;
	}
	key.inode = w->inode;
	key.generation = w->generation;
	if (ws && !bpf_map_lookup_elem(&known_files, &key) &&
	    emit_path(ws, 0, (u64)BPF_CORE_READ(file, f_path.dentry), 0, (u64)inode))
		bpf_map_update_elem(&known_files, &key, &one, BPF_ANY);
	if (task->flags & PF_KTHREAD)
		return;
	if (of_others(task)) {
		w->context = CONTEXT_OF_OTHERS;
		return;
	}
	if (buffers)
		cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (cache)
		w->context = context_of_direct_buffer(cache, task, dio, w->left);
	if (w->context)
		return;
	if (task->flags & PF_IO_WORKER)
		w->context = context_of_worker(OF_BIO, task);
	else
		w->context = context_now(OF_BIO, task, inode);
}

#endif
