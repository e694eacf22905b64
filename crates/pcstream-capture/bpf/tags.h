/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Tags: who made each page of the page cache dirty.
 *
 * A tag lives in an array indexed by the page's place in the memory map, so it costs no hash, no eviction and no deletion: 16 bytes for
 * each page frame of the machine. The kernel says when a folio becomes dirty. A folio may have many pages, and a write may be to some of
 * them, or to others while it is dirty already. So the beginning of each write says which pages it is about.
 *
 *   tag_index     where a page's tag is
 *   find_written  which pages are written where a folio became dirty
 *   tag_folio     a folio became dirty, or the context that its tags were to wait for is there
 *   claims_pages  a write begins: its pages that are in folios of several pages, and not dirty, are its own
 *   move_tags     a folio was moved in memory, to make room for larger ones (compaction)
 *
 * Invariants: a tag is used only if it names the file and place that the page has now. The first writer since a page was written back has
 * it. In a folio of several pages, those that no write is about belong to the task that made the folio dirty.
 *
 * Known weaknesses: of a write of more than MAX_CLAIMED pages the others go with their folio (LONG_WRITES); a write that fails keeps
 * what it claimed until it is written; where the kernel does not let its functions be watched, a page that is migrated between dirtying
 * and writeback loses its tag, and UNTAGGED_PAGES counts it. Where no tracepoint says what a write is about (other file systems than
 * ext4 and XFS, block devices, stores to mapped memory), all of a folio's pages go to who made it dirty.
 */
#ifndef PCSTREAM_TAGS_H
#define PCSTREAM_TAGS_H

#include "names.h"

/* Pages of a folio, at most. */
#define MAX_TAGGED (1 << 20)
/* Pages of a write that are looked at when it begins, at most: no other task of the processor runs meanwhile. */
#define MAX_CLAIMED (1 << 14)
/* Levels of a page cache's tree, and entries of a node (XA_CHUNK_SIZE). */
#define XA_LEVELS 6
#define XA_BITS 6
#define XA_SLOTS (1 << XA_BITS)

static __always_inline u32 tag_index(u64 page)
{
	u64 bytes = bpf_core_type_size(struct page);

	/* It is 64 on nearly all kernels, and to divide by another number takes longer. */
	return (bytes == 64 ? page / 64 : page / bytes) & tag_mask;
}

/* The first page of a page's folio. For `at` see number_by: other pages have a pointer in place of the number. */
static __always_inline u64 head_of(u64 *at, u64 page)
{
	u64 word;

	if (!bpf_core_field_exists(((struct page___info *)0)->compound_info)) {
		word = number_by(at, LOAD((struct page *)page, compound_head));
		return word & 1 ? word - 1 : page;
	}
	word = number_by(at, LOAD((struct page___info *)page, compound_info));
	if (!(word & 1))
		return page;
	return word >> 32 == 0xffffffff ? page & word : word - 1;
}

/* Whether a folio has several pages. */
static __always_inline bool is_large(u64 *at, u64 head)
{
	return head_of(at, head + bpf_core_type_size(struct page)) == head;
}

/* Whether the folio has this page of its file, or one behind it. */
static __always_inline bool is_page_of(struct tagging *t, u64 page)
{
	return page <= t->at || head_of(&t->number, t->head + (page - t->at) * bpf_core_type_size(struct page)) == t->head;
}

static long tag_page(u64 i, struct workspace **ws)
{
	struct tagging *t = &(*ws)->tagging;
	u64 page = t->head + i * bpf_core_type_size(struct page), file_page = t->at + i;
	bool written = file_page >= t->from && file_page < t->end;
	u32 index = tag_index(page);
	struct tag *tag;

	if (i && head_of(&t->number, page) != t->head)
		return 1;
	tag = bpf_map_lookup_elem(&tags, &index);
	if (!tag)
		return 1;
	/* The folio was clean: such a page is on its way to the device, in a request that is yet to be seen. */
	if (!written && is_tag_of(tag, t->file, file_page) && tag->file & TAG_DIRTY)
		return 0;
	/* So may be what was written before. */
	if (!t->later || !is_tag_of(tag, t->file, file_page))
		tag->context = t->context;
	tag->file = written ? t->file | TAG_DIRTY : t->file & ~TAG_DIRTY;
	tag->page = file_page;
	return 0;
}

/* Finds out which pages the current task writes of the folio that it made dirty: those that its write is about. `cache` is NULL if it
 * is in no write that says so: then it is all of them. */
static __always_inline void find_written(struct tagging *t, const struct task_cache *cache)
{
	t->from = t->at;
	t->end = t->at + MAX_TAGGED;
	if (cache && cache->write_file == t->file && cache->write_end > t->at && is_page_of(t, cache->write_from)) {
		t->from = cache->write_from > t->at ? cache->write_from : t->at;
		t->end = cache->write_end;
	}
}

/* Tags the pages of a folio that became dirty. Returns how many it has. */
__noinline int tag_folio(struct workspace *ws)
{
	struct tagging *t;

	if (!ws)
		return 0;
	t = &ws->tagging;
	if (is_large(&t->number, t->head))
		return bpf_loop(MAX_TAGGED, tag_page, &ws, 0) - 1;
	tag_page(0, &ws);
	return 1;
}

static long move_tag(u64 i, struct workspace **ws)
{
	struct tagging *t = &(*ws)->tagging;
	u64 offset = i * bpf_core_type_size(struct page);
	u32 from = tag_index(t->page + offset), to = tag_index(t->head + offset);
	struct tag *before, *now;

	if (i && head_of(&t->number, t->head + offset) != t->head)
		return 1;
	before = bpf_map_lookup_elem(&tags, &from);
	now = bpf_map_lookup_elem(&tags, &to);
	if (!before || !now)
		return 1;
	/* A write may have claimed it meanwhile. */
	if (!is_tag_of(now, before->file, before->page) || !(now->file & TAG_DIRTY))
		*now = *before;
	/* The next writeback is not of this place. */
	before->file &= ~TAG_DIRTY;
	return 0;
}

/* The pages of the folio at t->page are now those of the one at t->head: so are their tags. */
static __always_inline void move_tags(struct workspace *ws)
{
	if (is_large(&ws->tagging.number, ws->tagging.head))
		bpf_loop(MAX_TAGGED, move_tag, &ws, 0);
	else
		move_tag(0, &ws);
}

/* What a file's page cache has at a place; 0: no folio, and none up to `next`. */
static __always_inline u64 folio_at(u64 mapping, u64 at, u64 *next)
{
	u64 entry = (u64)BPF_CORE_READ((struct address_space *)mapping, i_pages.xa_head), below, slot;
	u32 i, shift = 0;

	for (i = 0; i < XA_LEVELS; i++) {
		struct xa_node *node = (void *)(entry - 2);

		/* An entry of the tree's own is a node; small ones lead to the slot before that has the folio. */
		if ((entry & 3) != 2 || entry < 4096)
			break;
		shift = LOAD(node, shift) & 63;
		slot = at >> shift;
		if (!i && slot >= XA_SLOTS) {
			*next = -1UL;
			return 0;
		}
		slot &= XA_SLOTS - 1;
		below = (u64)node + bpf_core_field_offset(struct xa_node, slots);
		if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(below + slot * 8)))
			return 0;
		if ((entry & 3) == 2 && entry < 4096 &&
		    bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(below + (entry >> 2 & (XA_SLOTS - 1)) * 8)))
			return 0;
	}
	*next = ((at >> shift) + 1) << shift;
	/* A file of one page has no node. The lowest bits are set in what is no folio. */
	return (!i && at) || entry & 3 ? 0 : entry;
}

/* Finds a page of the write that is no writer's yet, in a folio of several; or gives all of them to t->context. */
static long claim_page(u64 i, struct workspace **ws)
{
	u64 size = bpf_core_type_size(struct page), head, next = 0;
	struct tagging *t = &(*ws)->tagging;
	struct folio *folio;
	struct tag *tag;
	u32 index;

	t->index = 0;
	if (t->at >= t->end)
		return 1;
	if (t->head && head_of(&t->number, t->page + size) == t->head) {
		t->page += size;
	} else if (t->single && t->at != t->from) {
		t->at = t->end;
		return 1;
	} else {
		head = folio_at(t->mapping, t->at, &next);
		if (!head) {
			t->head = 0;
			t->at = next;
			return 0;
		}
		folio = (void *)head;
		t->page = head + (t->at - LOAD(folio, index)) * size;
		/* The only page of its folio has a tag when the folio becomes dirty. Nor is the folio locked: it may be another file's by now. */
		if (is_large(&t->number, head) && head_of(&t->number, t->page) == head &&
		    (u64)BPF_CORE_READ(folio, mapping) == t->mapping)
			t->head = head;
		else
			t->head = 0;
	}
	index = tag_index(t->page);
	t->index = index + 1;
	if (!t->head) {
		t->at++;
		return 0;
	}
	tag = bpf_map_lookup_elem(&tags, &index);
	if (!tag)
		return 1;
	if (!is_tag_of(tag, t->file, t->at) || !(tag->file & TAG_DIRTY)) {
		if (!t->claims)
			return 1;
		tag->context = t->context;
		tag->file = t->file | TAG_DIRTY;
		tag->page = t->at;
	}
	t->at++;
	return 0;
}

static __always_inline void claim_all(struct workspace *ws)
{
	struct tagging *t = &ws->tagging;

	t->from = t->at;
	t->head = 0;
	if (t->end == t->at + 1)
		claim_page(0, &ws);
	else if (bpf_loop(MAX_CLAIMED, claim_page, &ws, 0) == MAX_CLAIMED)
		count(LONG_WRITES);
}

/* Looks for pages, up to `end`, that the write of the current task may claim; with `single`, in its first folio. False: there are
 * none. */
static __always_inline bool claims_pages(struct workspace *ws, struct task_cache *cache, struct inode *inode, u64 end,
					 bool single)
{
	struct tagging *t = &ws->tagging;

	t->file = cache->write_file;
	t->at = cache->write_from;
	t->end = cache->write_end < end ? cache->write_end : end;
	t->single = single;
	t->claims = false;
	t->mapping = (u64)BPF_CORE_READ(inode, i_mapping);
	claim_all(ws);
	cache->write_tag = t->index;
	return t->at < t->end;
}

/* Whether a write is to the page of this file that the task wrote last, and that is dirty still. */
static __always_inline bool is_written_again(struct task_cache *cache, u64 file, u64 from, u64 end)
{
	u32 index = cache->write_tag - 1;
	struct tag *tag;

	if (!cache->write_tag || file != cache->write_file || end != from + 1 || end != cache->write_end)
		return false;
	tag = bpf_map_lookup_elem(&tags, &index);
	return tag && is_tag_of(tag, file, from) && tag->file & TAG_DIRTY;
}

#endif
