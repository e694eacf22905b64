// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Which call path wrote every page: the attached programs.
 *
 * A page becomes dirty first: its writer is the current task, whose call path can be read, and the folio gets a tag. Later, in some
 * kernel thread, the page goes to the device: the request is walked, the tags are read and the runs are reported. Direct I/O has
 * only the second step, but there the writer is still the current task.
 *
 *   on_ext4_write, on_xfs_write
 *                    a write begins: which pages it is about (tags.h)
 *   on_clean_begin, on_clean_end
 *                    F2FS moves data of others from a segment, in a thread of its own or in a task that needs room
 *   on_flush_begin, on_flush_end
 *                    ext4 writes pages back, perhaps in a task that calls fsync, and makes those dirty again for which its journal
 *                    has no room yet
 *   on_dirty_folio   tags the folio's pages with file and place
 *   on_mark_dirty    follows at once in the same task, with interrupts on: the tags get the context of the task's call path, and a
 *                    file that is new is named with it
 *   on_migrate       a folio moves in memory, and its tags go with it, where the kernel lets its functions be watched
 *   on_uring_submit  the submitter of an io_uring write, which may be run by a worker, or later by whatever the task does then: its
 *                    context is kept under the request
 *   on_buffer_page   a page of a program's own write buffer became dirty (buffers.h), or the program asks for the stream of its
 *                    write (device.h)
 *   on_prctl         a language runtime registers its paths (runtimes.h)
 *   on_fcntl         a program's write hint that the kernel refuses, where it lets its functions be watched
 *   note_recorder    run by the recorder itself, whose own pages are left out
 *   on_exit          the end of a process that made pages dirty
 *   on_fork          a followed process starts another (followed.h)
 *   on_bio           requests: writes with owner, file page and context; discards, flushes, reads
 *   on_placed_bio    the same, and writes are given a stream (streams.h). Only one of the two is loaded: a program that calls
 *                    a function of a module pins the module
 *
 * Some kernels have other hooks for on_uring_submit and on_prctl, which user space names when it loads them.
 *
 * Known weaknesses: only the first writer of a dirty page is seen; io_uring with a kernel-side submission thread has no user stack;
 * a page that was written before keeps that writer where the new one could not be looked up (LOST_PENDING); a linked io_uring write to the
 * page cache that no worker runs has the path of whatever its task does then.
 */
#include "settings.h"
#include <bpf/bpf_tracing.h>
#include "hooks.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Run once by the recorder itself, which need not know its number here: it may live in a PID namespace. */
SEC("syscall")
int note_recorder(void *ctx)
{
	recorder = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(on_dirty_folio, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task;
	struct task_cache *cache;
	struct workspace *ws;
	struct inode *inode;
	struct tagging *t;
	u32 pages, others;
	bool is_write;

	if (!target_dev || !folio || !mapping)
		return 0;
	inode = mapping->host;
	if (!inode || !IS_OF_TARGET(inode))
		return 0;
	ws = workspace_of(OF_DIRTY_FOLIO);
	if (!ws)
		return 0;
	task = bpf_get_current_task_btf();
	t = &ws->tagging;
	t->head = number_of(ws, folio);
	t->at = folio->index;
	t->file = file_key(inode->i_ino, inode->i_generation);
	t->from = t->end = 0;
	t->context = 0;
	t->later = false;
	cache = bpf_task_storage_get(&tasks, task, 0, 0);
	others = cache ? cache->for_others : 0;
	if (others == CLEANS) {
		/* It moves pages of others, who stay their writers as far as they are known. */
		t->later = true;
		tag_folio(ws);
	} else if (task->flags & PF_KTHREAD || others) {
		/* It makes a page dirty again that somebody else had made dirty: it still belongs to that writer. Or it writes
		 * for a loop device, to a file that nobody else may ever write to: then who wrote the page before has nothing to
		 * do with it. */
		tag_folio(ws);
	} else {
		t->context = context_without_path(task, inode);
		cache = cache ?: cache_of(task);
		t->later = !t->context && cache;
		/* A store to mapped memory is no write. */
		is_write = task->flags & PF_IO_WORKER || (s32)user_regs(task)->orig_ax >= 0;
		find_written(t, is_write ? cache : NULL);
		pages = tag_folio(ws);
		/* The next write may be to the same page. */
		if (is_write && cache && pages == 1 && cache->write_file == t->file && cache->write_from == t->at)
			cache->write_tag = tag_index(t->head) + 1;
		if (cache && t->later) {
			postpone(cache, t);
			return 0;
		}
	}
	if (task->tgid != recorder)
		name_file(ws, inode, t->file, t->context);
	return 0;
}

SEC("tp_btf/writeback_mark_inode_dirty")
int BPF_PROG(on_mark_dirty, struct inode *inode)
{
	struct task_struct *task;
	struct task_cache *cache;
	struct workspace *ws;
	struct tagging *t;
	u64 file;

	if (!target_dev || !inode || !IS_OF_TARGET(inode))
		return 0;
	task = bpf_get_current_task_btf();
	cache = bpf_task_storage_get(&tasks, task, 0, 0);
	file = file_key(inode->i_ino, inode->i_generation);
	ws = workspace_of(OF_MARK_DIRTY);
	if (!cache || cache->pending_file != file || !ws)
		return 0;
	t = &ws->tagging;
	t->head = cache->pending_folio;
	t->at = cache->pending_at;
	t->file = file;
	t->from = cache->pending_from;
	t->end = cache->pending_end;
	t->later = false;
	cache->pending_file = 0;
	t->context = context_of_buffer(cache, task, t->from) ?: context_now(ws, cache, task, inode);
	tag_folio(ws);
	name_file(ws, inode, file, t->context);
	return 0;
}

/* The pages of a folio, and what is known of it, were moved to another one; but for the data, perhaps. */
SEC("fentry/folio_migrate_flags")
int BPF_PROG(on_migrate, struct folio *now, struct folio *before)
{
	struct workspace *ws;
	u64 mapping;

	if (!target_dev || !now || !before)
		return 0;
	mapping = (u64)BPF_CORE_READ(now, mapping);
	ws = workspace_of(OF_MIGRATE);
	/* Of a page of a process's own memory it is something else. */
	if (!ws || !mapping || mapping & 3 || !leads_to_target(BPF_CORE_READ((struct address_space *)mapping, host)))
		return 0;
	ws->tagging.head = number_of(ws, now);
	ws->tagging.page = number_of(ws, before);
	move_tags(ws);
	return 0;
}

/* Of the tracepoint f2fs_gc_begin. */
SEC("raw_tp")
int on_clean_begin(void *ctx)
{
	return begin_for_others(CLEANS);
}

/* Of f2fs_gc_end. */
SEC("raw_tp")
int on_clean_end(void *ctx)
{
	return end_for_others(CLEANS);
}

/* Of ext4_writepages. */
SEC("raw_tp")
int on_flush_begin(void *ctx)
{
	return begin_for_others(FLUSHES);
}

/* Of ext4_writepages_result. */
SEC("raw_tp")
int on_flush_end(void *ctx)
{
	return end_for_others(FLUSHES);
}

/* Of both tracepoints ext4_da_write_begin and ext4_write_begin. */
SEC("raw_tp")
int BPF_PROG(on_ext4_write, struct inode *inode, s64 position, u32 bytes)
{
	return begin_write(inode, position, bytes, true);
}

SEC("raw_tp")
int BPF_PROG(on_xfs_write, struct kiocb *iocb, struct iov_iter *data)
{
	struct file *file = LOAD(iocb, ki_filp);

	return begin_write(LOAD(file, f_inode), LOAD(iocb, ki_pos), LOAD(data, count), false);
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *req)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 key = (u64)req, context = 0;
	struct workspace *ws;

	if (!target_dev || !req)
		return 0;
	ws = workspace_of(OF_URING);
	/* The kernel's submission thread has no user stack. Nor is the context of whoever had this request before its. */
	if (ws && writes(req) && !(task->flags & (PF_KTHREAD | PF_IO_WORKER)) && task->tgid != recorder && !of_others(task) &&
	    may_lead_to_target(task, req))
		context = context_now(ws, cache_of(task), task, NULL);
	if (context)
		bpf_map_update_elem(&uring_contexts, &key, &context, BPF_ANY);
	else if (context_of_request(key))
		bpf_map_delete_elem(&uring_contexts, &key);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	/* Threads, too: one that becomes another program (exec) takes the place of the leader. */
	if (bpf_task_storage_get(&followed_processes, parent->group_leader, 0, 0) &&
	    !bpf_task_storage_get(&followed_processes, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		count(LOST_TASK_STORAGE);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 pid = task->tgid;
	u64 *known;

	if (!target_dev || BPF_CORE_READ(task, signal, live.counter))
		return 0;
	known = bpf_map_lookup_elem(&processes, &pid);
	if (!known)
		return 0;
	emit_process(pid, *known, true);
	bpf_map_delete_elem(&processes, &pid);
	return 0;
}

SEC("tp_btf/task_prctl_unknown")
int BPF_PROG(on_prctl, int option, unsigned long first, unsigned long second, unsigned long third)
{
	return register_runtime(option, first, third);
}

SEC("fexit/do_fcntl")
int BPF_PROG(on_fcntl, int descriptor, unsigned int command, unsigned long argument, struct file *file, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (target_dev && result < 0 && (command == F_SET_RW_HINT || command == F_SET_FILE_RW_HINT) && file &&
	    leads_to_target(BPF_CORE_READ(file, f_inode)) && task->tgid != recorder && !of_others(task))
		count(REFUSED_HINTS);
	return 0;
}

SEC("uprobe")
int on_buffer_page(void *ctx)
{
	struct task_struct *task;
	struct buffer_key key = {};
	struct buffer_rule *rule;
	struct task_cache *cache;
	struct workspace *ws;
	struct memory *memory;
	struct pt_regs *regs;
	u32 at, page_bytes;
	u64 address, context, now_ns;

	if (!target_dev)
		return 0;
	at = bpf_get_attach_cookie(ctx);
	rule = bpf_map_lookup_elem(&buffer_rules, &at);
	task = bpf_get_current_task_btf();
	regs = user_regs(task);
	if (!rule || !regs || !task->mm || of_others(task))
		return 0;
	page_bytes = rule->page_bytes_argument ? register_of(regs, rule->page_bytes_argument) : rule->page_bytes;
	if (!page_of(rule, regs, page_bytes, &address)) {
		count(BUFFERS_UNPLACED);
		return 0;
	}
	/* Not a page of a pool: the write as a whole. */
	if (rule->kind == BUFFER_STREAM)
		page_bytes = page_bytes < MIN_BUFFER_BYTES   ? MIN_BUFFER_BYTES
			     : page_bytes > MAX_BUFFER_BYTES ? MAX_BUFFER_BYTES
							     : page_bytes;
	/* What a program says of itself may be anything. */
	if (!address || (rule->kind == BUFFER_DIRTY && (page_bytes < MIN_BUFFER_BYTES || page_bytes > MAX_BUFFER_BYTES)))
		return 0;
	cache = cache_of(task);
	if (!cache)
		return 0;
	memory = memory_of(cache, task, address);
	if (!memory)
		return 0;
	key.space = memory->space;
	key.offset = address + memory->base;
	if (rule->kind == BUFFER_COPIED) {
		cache->copied = key;
		cache->copied_at = write_syscalls(task);
		return 0;
	}
	count(BUFFER_MARKS);
	now_ns = bpf_ktime_get_ns();
	if (!rule->was_clean && stands(bpf_map_lookup_elem(&buffer_pages, &key), rule->rank, now_ns))
		return 0;
	/* Looked up although it is known: that keeps it in the map. */
	if (!bpf_map_lookup_elem(&pools, &memory->space)) {
		bpf_map_update_elem(&pools, &memory->space, &page_bytes, BPF_ANY);
		has_pools = 1;
	}
	ws = claim_workspace();
	if (!ws) {
		count(BUFFERS_UNPLACED);
		return 0;
	}
	context = mark_page(ws, cache, task, regs, rule->rank, &key, now_ns);
	ws->claimed = 0;
	if (rule->kind == BUFFER_STREAM)
		answer(task, context, regs->dx, regs->cx);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	return take_bio(bio, false);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_placed_bio, struct bio *bio)
{
	if (keeps_cpu())
		bpf_preempt_disable();
	take_bio(bio, true);
	if (keeps_cpu())
		bpf_preempt_enable();
	return 0;
}
