/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Requests to the device, cut into runs of one file and one context.
 *
 *   begin_walk            what a request says of itself
 *   walk_page             a page of a request: ends the run if its owner is another
 *   metadata_owner        what can be said of a request that is no file's
 *
 * Invariant: what a page that belongs to no file leads to counts only if it is a page of an inode on the target.
 */
#ifndef PCSTREAM_REQUESTS_H
#define PCSTREAM_REQUESTS_H

#include "streams.h"
#include "tags.h"

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1

/* Parts of a request that are walked, each of a page at most. A request has less than 2^32 bytes, so only one of many small parts
 * has more. XFS sends a large file in requests of hundreds of MiB, which the block layer splits later. */
#define MAX_BIO_PAGES (1 << 20)

/* Completion functions tell what bi_private is. One that the kernel does not have is 0. */
extern const void iomap_dio_bio_end_io __ksym __weak;
extern const void end_bio_bh_io_sync __ksym __weak; /* until 7.1; since then the two below, without a step between */
extern const void bh_end_write __ksym __weak;
extern const void bh_end_async_write __ksym __weak;
extern const void xfs_buf_bio_end_io __ksym __weak;
extern const void end_swap_bio_write __ksym __weak;

#define COMPLETES_BY(end_io, function) (&(function) && (end_io) == (u64)(&(function)))

/* Ends a run. */
static __always_inline void emit_run(struct walk *w)
{
	if (placing && w->run.op == REQ_OP_WRITE)
		vote(w);
	if (w->run.owner.context != CONTEXT_OF_RECORDER && !(placing && w->below) &&
	    bpf_ringbuf_output(&records, &w->run, sizeof(w->run), record_flags(true)))
		count(LOST_IO_RECORDS);
	w->run.sector += w->run.bytes >> 9;
	w->run.bytes = 0;
}

/* Looks at a folio that the walk meets: who owns its pages. */
static __always_inline void enter_folio(struct walk *w, u64 at)
{
	struct folio *folio = (void *)at;
	u64 mapping = (u64)BPF_CORE_READ(folio, mapping), plain = 0;
	struct inode *inode = NULL;
	u32 type;

	/* fscrypt writes a page of its own, which holds a page of the cache encrypted, and leads to it. */
	if (!mapping && w->run.op == REQ_OP_WRITE)
		plain = (u64)BPF_CORE_READ(folio, private);
	if (plain) {
		folio = (void *)head_of(&w->number, plain);
		mapping = (u64)BPF_CORE_READ(folio, mapping);
	}
	w->folio = at;
	w->tagged = plain ? plain : at;
	w->folio_index = 0;
	w->owner = (struct owner){ .source = w->other_source };
	/* The low bits mark anonymous and movable memory. */
	if (!(mapping & 3))
		inode = BPF_CORE_READ((struct address_space *)mapping, host);
	else if (mapping & 1 && !plain && w->other_source == SOURCE_NONE)
		w->owner.source = SOURCE_SWAP;
	/* Memory of the kernel has something else in this place: it does not lead to our device. */
	if (!inode || !is_on_target(inode))
		return;
	if (!leads_to_target(inode)) {
		/* F2FS keeps directories and inodes in page caches, too. */
		type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
		w->owner.inode = BPF_CORE_READ(inode, i_ino);
		w->owner.source = w->owner.inode > INTERNAL_INODES && type == S_IFDIR ? SOURCE_DIRECTORY : SOURCE_INTERNAL;
		return;
	}
	w->owner.source = SOURCE_CACHE;
	w->folio_index = BPF_CORE_READ(folio, index);
	w->owner.inode = BPF_CORE_READ(inode, i_ino);
	w->owner.generation = BPF_CORE_READ(inode, i_generation);
	w->file = file_key(w->owner.inode, w->owner.generation);
	/* Beside each other in a folio of the cache, they lie in pages apart. */
	if (plain)
		w->folio_index += (plain - (u64)folio) / bpf_core_type_size(struct page);
}

/* Who made a page of the cache dirty that is written now. */
static __always_inline void read_tag(struct walk *w, u64 page, u64 file_page)
{
	u32 index = tag_index(page);
	struct tag *tag = bpf_map_lookup_elem(&tags, &index);

	w->owner.context = 0;
	if (tag && is_tag_of(tag, w->file, file_page)) {
		w->owner.context = tag->context;
		/* What goes by a buffer may be on its way to the journal only, on ext4. */
		if ((raw || w->other_source == SOURCE_NONE) && !(placing && w->below))
			tag->file &= ~TAG_DIRTY;
	}
	if (!w->owner.context && !(placing && w->below))
		count(UNTAGGED_PAGES);
}

static __always_inline bool is_same_owner(const struct owner *a, const struct owner *b)
{
	return a->source == b->source && a->inode == b->inode && a->generation == b->generation && a->context == b->context;
}

static long walk_page(u64 i, struct walk **at)
{
	struct walk *w = *at;
	struct io_record *run = &w->run;
	u64 page, head, file_page;
	u32 chunk;

	if (!w->left)
		return 1;
	if (!w->segment_left) {
		struct bio_vec vec = {};

		if (bpf_probe_read_kernel(&vec, bpf_core_type_size(struct bio_vec), w->vec))
			return 1;
		w->vec = (void *)w->vec + bpf_core_type_size(struct bio_vec);
		if (vec.bv_len <= w->skip)
			return 1;
		w->page = (u64)vec.bv_page;
		w->segment_offset = vec.bv_offset + w->skip;
		w->segment_left = vec.bv_len - w->skip;
		if (w->segment_left > w->left)
			w->segment_left = w->left;
		w->skip = 0;
	}
	page = w->page + (w->segment_offset >> PAGE_SHIFT) * bpf_core_type_size(struct page);
	chunk = PAGE_SIZE - (w->segment_offset & (PAGE_SIZE - 1));
	if (chunk > w->segment_left)
		chunk = w->segment_left;
	head = head_of(&w->number, page);
	if (head != w->folio)
		enter_folio(w, head);
	file_page = w->owner.source == SOURCE_CACHE ? w->folio_index + (page - head) / bpf_core_type_size(struct page) : 0;
	if (w->owner.source == SOURCE_CACHE && run->op == REQ_OP_WRITE)
		read_tag(w, w->tagged + (page - head), file_page);
	if (run->bytes && (!is_same_owner(&run->owner, &w->owner) ||
			   (w->owner.source == SOURCE_CACHE && file_page != run->file_page + (run->bytes >> PAGE_SHIFT))))
		emit_run(w);
	if (!run->bytes) {
		run->owner = w->owner;
		run->file_page = file_page;
	}
	run->bytes += chunk;
	w->segment_offset += chunk;
	w->segment_left -= chunk;
	w->left -= chunk;
	return 0;
}

/* Begins to look at a request. Its walk is in the workspace rather than on the stack: the verifier would track every number there. */
static __always_inline struct walk *begin_walk(struct workspace *ws, struct bio *bio)
{
	struct bio___streamed *streamed = (void *)bio;
	struct bio___hinted *hinted = (void *)bio;
	struct walk *w = &ws->walk;

	__builtin_memset(w, 0, __builtin_offsetof(struct walk, ballot));
	w->left = bio->bi_iter.bi_size;
	w->run.type = RECORD_IO;
	w->run.op = bio->bi_opf & REQ_OP_MASK;
	w->run.time_ns = bpf_ktime_get_ns();
	w->run.sector = bio->bi_iter.bi_sector;
	/* The kernel adds a partition's start to requests that have a size, and to no others (a flush). */
	if (w->left)
		w->run.sector -= bio->bi_bdev->bd_start_sect;
	/* What the program asked of the device, as far as the running kernel carries it this far. */
	if (w->run.op == REQ_OP_WRITE && bpf_core_field_exists(hinted->bi_write_hint))
		w->run.write_hint = hinted->bi_write_hint;
	if (w->run.op == REQ_OP_WRITE && bpf_core_field_exists(streamed->bi_write_stream))
		w->run.write_stream = streamed->bi_write_stream;
	return w;
}

/* Looks at the pages of a request. */
static __always_inline void walk_pages(struct workspace *ws, struct walk *w, struct bio *bio)
{
	w->vec = (void *)(number_of(ws, bio->bi_io_vec) + bio->bi_iter.bi_idx * bpf_core_type_size(struct bio_vec));
	w->skip = bio->bi_iter.bi_bvec_done;
	bpf_loop(MAX_BIO_PAGES, walk_page, &w, 0);
	if (w->run.bytes)
		emit_run(w);
}

/* What the owner of a metadata request says about it. */
static __always_inline void metadata_owner(struct walk *w, struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io;

	if (COMPLETES_BY(end_io, end_bio_bh_io_sync) || COMPLETES_BY(end_io, bh_end_write) ||
	    COMPLETES_BY(end_io, bh_end_async_write)) {
		struct buffer_head *bh = bio->bi_private;
		char *data = BPF_CORE_READ(bh, b_data);
		u64 size = BPF_CORE_READ(bh, b_size);

		w->other_source = SOURCE_BUFFER;
		bpf_probe_read_kernel(w->run.head, sizeof(w->run.head), data);
		bpf_probe_read_kernel(w->run.tail, sizeof(w->run.tail), data + size - sizeof(w->run.tail));
	} else if (COMPLETES_BY(end_io, xfs_buf_bio_end_io)) {
		struct xfs_buf *buffer = bio->bi_private;
		const char *name = BPF_CORE_READ(buffer, b_ops, name);

		w->other_source = SOURCE_XFS_BUFFER;
		bpf_probe_read_kernel_str(w->run.head, sizeof(w->run.head), name);
	} else if (COMPLETES_BY(end_io, end_swap_bio_write)) {
		w->other_source = SOURCE_SWAP;
	}
}

#endif
