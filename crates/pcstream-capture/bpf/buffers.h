/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Pages of write buffers: who made them dirty, whoever writes them (FAST'19, section 5.4).
 *
 * A database changes pages in a buffer of its own, and some other thread or process writes them much later. The
 * call path of that write says nothing. Here a probe on the function that the program calls when a page becomes dirty
 * keeps that call path under the page's place in memory, and a write whose data lies there gets it.
 *
 *   mark_page     a page became dirty: its path is kept under its place (places.h), and its context returned
 *   context_of_buffer, context_of_direct_buffer
 *                 the kept path of the page that a write takes its data from
 *
 * Invariants: a kept path answers for one write after each time that the page became dirty, so memory that is used again
 * for something else does not inherit it. Where the program marks pages that were clean, the path is that of the change that
 * made the page dirty. Elsewhere a weak path (a hint bit) does not replace a strong one that waits for its write; of equal ones it is
 * the first, or one at least LOOK_AGAIN_NS later.
 *
 * Known weaknesses: where the program marks pages that were clean, one that is changed while it is being written, or was dirty
 * when the capture began, has no path until its next write; elsewhere a page that is dropped without having been written keeps its path
 * until it becomes dirty again (a weak path does not replace it); a write of several pages gets the path of its first, and the others
 * keep theirs; data given by vectors (writev) is not looked for; io_uring is, where the request is direct. With O_APPEND only the first
 * page of a write is found. Where no tracepoint says that a write begins (other file systems than ext4 and XFS, block devices), one to
 * pages of a file that are dirty already leaves the path with the buffer's page. Pages can become dirty much faster than user space
 * answers for call-frame rules, so those of the first milliseconds on a path may have a coarser one.
 */
#ifndef PCSTREAM_BUFFERS_H
#define PCSTREAM_BUFFERS_H

#include "capture.h"
#include "places.h"

/* Write calls whose data is at an address (x86-64). */
#define CALL_WRITE 1
#define CALL_PWRITE64 18
#define O_APPEND 02000

static __always_inline u64 write_syscalls(struct task_struct *task)
{
	if (bpf_core_field_exists(task->ioac.syscw))
		return task->ioac.syscw;
	return 0;
}

MAP(buffer_rules, ARRAY, MAX_BUFFER_RULES, u32, struct buffer_rule);

/* A register by its place in pt_regs, from 1; the stack pointer is beyond. */
static __always_inline u64 register_of(struct pt_regs *regs, u32 place)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)regs + ((place - 1) & 15) * sizeof(value));
	return value;
}

/* The argument of the function, which may be in the middle. */
static __always_inline bool argument_of(struct buffer_rule *rule, struct pt_regs *regs, u64 *value)
{
	u64 base = 0;

	if (rule->base && bpf_probe_read_user(&base, sizeof(base), (void *)(regs->ip + rule->base)))
		return false;
	*value = (s64)(register_of(regs, rule->argument) - base - rule->bias) >> (rule->shift & 63);
	return true;
}

/* The address of the page that a probed function is about; 0: of none. False: memory that leads to it cannot be read. */
static __always_inline bool page_of(struct buffer_rule *rule, struct pt_regs *regs, u32 page_bytes, u64 *page)
{
	s64 number;
	u32 i;

	if (!argument_of(rule, regs, page))
		return false;
	if (rule->numbered) {
		number = (s64)(s32)*page - rule->from;
		/* PostgreSQL numbers the pages of temporary tables, which only their process writes, downwards from -1. */
		*page = 0;
		if (number < 0)
			return true;
		if (bpf_probe_read_user(page, sizeof(*page), (void *)(regs->ip + rule->variable)))
			return false;
		*page += number * page_bytes;
		return true;
	}
	for (i = 0; i < MAX_BUFFER_OFFSETS; i++) {
		if (i >= rule->offsets)
			break;
		if (bpf_probe_read_user(page, sizeof(*page), (void *)(*page + rule->offset[i])))
			return false;
	}
	return true;
}

/* Whether a page waits for its write under a path that stands. */
static __always_inline bool stands(struct buffer_page *page, u32 rank, u64 now_ns)
{
	return page && !page->writer && (page->rank > rank || (page->rank == rank && now_ns - page->marked_ns < LOOK_AGAIN_NS));
}

static __always_inline void keep_page(struct buffer_key *key, struct buffer_page *page)
{
	/* Another task may take it off meanwhile, or put it there. */
	if (bpf_map_lookup_elem(&buffer_pages, key) && !bpf_map_update_elem(&buffer_pages, key, page, BPF_EXIST))
		return;
	if (bpf_map_update_elem(&buffer_pages, key, page, BPF_NOEXIST))
		bpf_map_update_elem(&buffer_pages, key, page, BPF_EXIST);
	else if (buffer_pages_kept >= most_buffer_pages)
		count(LOST_BUFFER_PAGES);
	else
		__sync_fetch_and_add(&buffer_pages_kept, 1);
}

static __always_inline u64 mark_page(struct workspace *ws, struct task_cache *cache, struct task_struct *task,
				     struct pt_regs *regs, u32 rank, struct buffer_key *key, u64 now_ns)
{
	struct buffer_page page = { .rank = rank, .marked_ns = now_ns };

	begin_capture(ws, task, regs, ENTRY_BUFFER);
	page.context = context_of_call_path(ws, cache, task);
	if (page.context)
		keep_page(key, &page);
	return page.context;
}

/* Working memory for a probe, which may be preempted by another one on the same CPU; NULL: all is in use. */
static __always_inline struct workspace *claim_workspace(void)
{
	u32 index;

	for (index = OF_BUFFER; index < OF_BUFFER + BUFFER_WORKSPACES; index++) {
		struct workspace *ws = workspace_of(index);

		if (ws && !__sync_val_compare_and_swap(&ws->claimed, 0, 1))
			return ws;
	}
	return NULL;
}

/* A task takes the path of a page: that of the page before has answered, and makes room. */
static __always_inline void take_next(struct task_cache *cache, struct buffer_key *next, u64 writer)
{
	struct buffer_key before = cache->taken; /* on the stack, as kernels before 6.2 want keys */
	struct buffer_page *page = NULL;

	/* A write of several folios asks several times. */
	if (cache->taken_by && (before.space != next->space || before.offset != next->offset))
		page = bpf_map_lookup_elem(&buffer_pages, &before);
	/* It may have become dirty again, and been written by somebody else. */
	if (page && page->writer == cache->taken_by && !bpf_map_delete_elem(&buffer_pages, &before))
		__sync_fetch_and_sub(&buffer_pages_kept, 1);
	cache->taken = *next;
	cache->taken_by = writer;
}

/* The path kept for a page that is being written by `writer`, a write of the task that has this cache; 0: none waits. */
static __always_inline u64 take_page(struct task_cache *cache, struct buffer_key *key, u64 writer)
{
	struct buffer_page *page = bpf_map_lookup_elem(&buffer_pages, key);

	writer |= 1;
	if (!page || (page->writer && page->writer != writer))
		return 0;
	if (!page->writer)
		count(BUFFER_WRITES);
	page->writer = writer;
	take_next(cache, key, writer);
	return page->context;
}

/* The path kept for the page that lies `into` bytes into data at `address` of this pool; 0: none, or there is no pool. */
static __always_inline u64 take_data(struct task_cache *cache, struct memory *pool, u64 address, u64 into, u64 writer)
{
	u32 *page_bytes = pool ? bpf_map_lookup_elem(&pools, &pool->space) : NULL;
	struct buffer_key key = {};

	if (!page_bytes)
		return 0;
	key.space = pool->space;
	key.offset = address + pool->base + (into - into % *page_bytes);
	return take_page(cache, &key, writer);
}

/* The file of a descriptor; NULL: there is none. */
static __always_inline struct file *file_of(struct task_struct *task, u32 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = NULL;

	if (descriptor < BPF_CORE_READ(table, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + descriptor);
	return file;
}

/* Whether a task is in a write call of its own. */
static __always_inline bool is_writing(struct task_struct *task, struct pt_regs *regs)
{
	s32 entry = regs->orig_ax;

	return !(task->flags & PF_IO_WORKER) && (entry == CALL_WRITE || entry == CALL_PWRITE64);
}

/* This call, for `take_page`. */
static __always_inline u64 call_writer(struct task_struct *task)
{
	return signature_mix((u64)task->tgid << 32 | task->pid, write_syscalls(task));
}

/* Where it begins in its file; if it appends, `anywhere`. */
static __always_inline u64 write_start(struct task_struct *task, struct pt_regs *regs, u64 anywhere)
{
	struct file *file;

	if ((s32)regs->orig_ax == CALL_PWRITE64)
		return regs->r10;
	file = file_of(task, regs->di);
	return BPF_CORE_READ(file, f_flags) & O_APPEND ? anywhere : BPF_CORE_READ(file, f_pos);
}

/* The path kept for the page that the task said its next write call has a copy of. */
static __always_inline u64 context_of_copy(struct task_cache *cache, struct task_struct *task)
{
	struct buffer_key copied;

	if (!cache->copied.space || cache->copied_at != write_syscalls(task))
		return 0;
	copied = cache->copied;
	return take_page(cache, &copied, call_writer(task));
}

/* The path kept for what a task's write of a file page is a copy of. */
static __always_inline u64 context_of_buffer(struct task_cache *cache, struct task_struct *task, u64 file_page)
{
	u64 at = file_page << PAGE_SHIFT, from, into, context = 0;
	struct pt_regs *regs = user_regs(task);
	struct memory *pool;

	if (!buffers || !has_pools || !task->mm || !is_writing(task, regs))
		return 0;
	pool = pool_of(cache, task, regs->si);
	if (pool) {
		from = write_start(task, regs, at);
		into = at > from ? at - from : 0;
		if (into < regs->dx)
			context = take_data(cache, pool, regs->si, into, call_writer(task));
	}
	return context ?: context_of_copy(cache, task);
}

/* The same for direct I/O, whose requests know where their data is. `into`: bytes of the write before this request. */
static __always_inline u64 context_of_direct_buffer(struct task_struct *task, struct iomap_dio *dio, u64 into)
{
	struct task_cache *cache = cache_of(task);
	u64 address, writer, context;
	struct iov_iter *data;

	if (!buffers || !has_pools || !cache)
		return 0;
	data = BPF_CORE_READ(dio, submit.iter);
	if (BPF_CORE_READ(data, iter_type) != bpf_core_enum_value(enum iter_type, ITER_UBUF))
		return 0;
	address = (u64)BPF_CORE_READ(data, ubuf);
	/* The same memory may hold the state of many writes one after another. */
	writer = signature_mix((u64)dio, write_syscalls(task));
	writer = signature_mix(signature_mix(writer, BPF_CORE_READ(dio, iocb, ki_pos)), (u64)BPF_CORE_READ(dio, iocb, ki_filp));
	context = take_data(cache, pool_of(cache, task, address), address, into, writer);
	if (context || !task->mm || !is_writing(task, user_regs(task)))
		return context;
	return context_of_copy(cache, task);
}

#endif
