/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * What several attached programs share, or one alone that is long.
 *
 *   begin_for_others, end_for_others  the current task moves or flushes data of others
 *   begin_write                       of a file, before its pages are dirty
 *   writes, may_lead_to_target        of a request to io_uring
 *   take_bio                          a request to the block layer
 */
#ifndef PCSTREAM_HOOKS_H
#define PCSTREAM_HOOKS_H

#include "writers.h"

/* The current task begins what is for others. */
static __always_inline int begin_for_others(u32 what)
{
	struct task_cache *cache = cache_of(bpf_get_current_task_btf());

	if (cache && !cache->for_others)
		cache->for_others = what;
	return 0;
}

static __always_inline int end_for_others(u32 what)
{
	struct task_cache *cache = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);

	if (cache && cache->for_others == what)
		cache->for_others = 0;
	return 0;
}

/* A write begins. With `single` it is of what follows up to the end of a folio, and the kernel says so again for the rest. */
static __always_inline int begin_write(struct inode *inode, u64 position, u64 bytes, bool single)
{
	u64 from = position >> PAGE_SHIFT, end = (position + bytes + PAGE_SIZE - 1) >> PAGE_SHIFT, file, in_file, kept;
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_cache *cache;
	struct tagging *tagging;
	struct workspace *ws;

	if (!target_dev || !inode || !bytes)
		return 0;
	/* First what most small writes are: to a page that this task made dirty just now. */
	cache = bpf_task_storage_get(&tasks, task, 0, 0);
	file = file_key(LOAD(inode, i_ino), LOAD(inode, i_generation));
	if ((cache && !buffers && is_written_again(cache, file, from, end)) || !leads_to_target(inode))
		return 0;
	cache = cache ?: cache_of(task);
	ws = workspace_of(OF_WRITE);
	if (!cache || !ws)
		return 0;
	cache->write_file = file;
	cache->write_from = from;
	cache->write_end = end;
	cache->write_tag = 0;
	/* It uses up what was kept for its data, even if all pages of the file are dirty already. */
	kept = context_of_buffer(cache, task, from);
	/* Behind the end of the file nothing is in the cache. */
	in_file = (LOAD(inode, i_size) + PAGE_SIZE - 1) >> PAGE_SHIFT;
	if (from >= in_file || !claims_pages(ws, cache, inode, in_file, single))
		return 0;
	tagging = &ws->tagging;
	tagging->context = 0;
	/* A thread of the kernel writes for whoever wrote to a loop device. */
	if (!(task->flags & PF_KTHREAD))
		tagging->context = context_without_path(task, inode) ?: kept ?: context_now(ws, cache, task, inode);
	tagging->claims = tagging->context || task->flags & PF_KTHREAD;
	if (tagging->claims)
		claim_all(ws);
	return 0;
}

/* Whether a request to io_uring writes. */
static __always_inline bool writes(struct io_kiocb *req)
{
	u32 op = req->opcode;

	return op == IORING_OP_WRITE || op == IORING_OP_WRITEV || op == IORING_OP_WRITE_FIXED || op == IORING_OP_SPLICE ||
	       op == IORING_OP_WRITEV_FIXED;
}

/* Whether a request is to a file of the target, or may be: its file is often not known yet. A file that an overlay shows may be there. */
static __always_inline bool may_lead_to_target(struct task_struct *task, struct io_kiocb *req)
{
	struct inode *inode;
	struct file *file;

	if (!bpf_core_field_exists(req->cqe.fd) || req->flags & REQ_F_FIXED_FILE)
		return true;
	file = file_of(task, req->cqe.fd);
	inode = BPF_CORE_READ(file, f_inode);
	return leads_to_target(inode) || BPF_CORE_READ(inode, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC;
}

/* Emits a request, and with `place` gives it a stream. */
static __always_inline int take_bio(struct bio *bio, bool place)
{
	bool below, has_data, direct;
	struct workspace *ws;
	struct walk *w;
	u32 op;

	if (!target_dev || !bio)
		return 0;
	op = bio->bi_opf & REQ_OP_MASK;
	/* A write that a device-mapper target makes of one of the file system's, which was reported already. */
	below = place && stream_dev && bio->bi_bdev->bd_dev == stream_dev && op == REQ_OP_WRITE && bio->bi_iter.bi_size;
	if (!below && bio->bi_bdev->bd_dev != target_dev)
		return 0;
	ws = workspace_of(OF_BIO);
	if (!ws)
		return 0;
	w = begin_walk(ws, bio);
	w->below = below;
	place = place && (below || !stream_dev);
	if (place)
		begin_ballot(w);
	has_data = w->left && (op == REQ_OP_WRITE || op == REQ_OP_READ);
	direct = has_data && !below && (raw ? is_direct_on_device(bio) : COMPLETES_BY((u64)bio->bi_end_io, iomap_dio_bio_end_io));
	if (has_data && !direct) {
		metadata_owner(w, bio);
		walk_pages(ws, w, bio);
		if (w->left && !below)
			count(LOST_LONG_REQUESTS);
	} else {
		w->run.bytes = w->left;
		if (direct && raw)
			device_owner(ws, &w->run, bio);
		else if (direct)
			direct_owner(ws, &w->run, bio);
		emit_run(w);
	}
	if (place && has_data && op == REQ_OP_WRITE)
		choose_stream(w, bio);
	return 0;
}

#endif
