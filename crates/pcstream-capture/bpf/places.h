/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Places of pages in write buffers, and the call paths kept for them.
 *
 * A page's place is (space, offset): for shared memory the file behind it, so that all processes mean the same page wherever they
 * have mapped it; for private memory the address space.
 *
 * Known weaknesses: a mapping that was replaced by another of the same place is noticed when the number of mappings changes; a
 * space has one size of pages.
 */
#ifndef PCSTREAM_PLACES_H
#define PCSTREAM_PLACES_H

#include "maps.h"

struct buffer_page {
	u64 context;
	u64 writer; /* the write that took it; 0: it waits for one */
	u64 marked_ns;
	u32 rank;
	u32 unused;
};

/* A page that waits for its write is looked at again after this time at the earliest. Hot pages become dirty many times
 * before they are written; and memory that is used again for something else, without having been written, has long waited. */
#define LOOK_AGAIN_NS 100000000

/* The loader sets its size. The least recently used page gives way: it has waited for longest. */
MAP(buffer_pages, LRU_HASH, 1, struct buffer_key, struct buffer_page);

/* How many it has, nearly; what gave way is not taken off, so it stays full. */
u32 buffer_pages_kept = 0;

/* Spaces that hold pages of buffers, with the size of those. */
MAP(pools, LRU_HASH, 16384, u64, u32);

/* Whether there are any. */
u32 has_pools = 0;

/* The private memory of a program. */
static __always_inline u64 space_of_process(struct task_struct *task)
{
	return program_of(task);
}

/* A hash that tells a file from a later one at the same address. */
static __always_inline u64 space_of_file(u64 inode_at)
{
	struct inode *inode = (void *)inode_at;
	u64 hash = signature_mix(inode_at, BPF_CORE_READ(inode, i_ino));

	return signature_mix(hash, BPF_CORE_READ(inode, i_generation));
}

static long note_mapping(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	struct memory *to = *(struct memory **)ctx;
	u64 inode = 0;

	to->start = vma->vm_start;
	to->end = vma->vm_end;
	if (vma->vm_flags & VM_SHARED)
		inode = (u64)BPF_CORE_READ(vma, vm_file, f_inode);
	if (inode) {
		to->space = space_of_file(inode);
		to->base = (vma->vm_pgoff << PAGE_SHIFT) - vma->vm_start;
		to->device = BPF_CORE_READ((struct inode *)inode, i_sb, s_dev);
	} else {
		to->space = space_of_process(task);
		to->base = 0;
		to->device = 0;
	}
	return 0;
}

/* The mapping that an address lies in; NULL: none. While somebody changes mappings of the process, they cannot be looked at: then
 * the one that was there before is taken. */
static __always_inline struct memory *memory_of(struct task_cache *cache, struct task_struct *task, u64 address)
{
	struct memory *found, *before = NULL;
	struct mm_struct *mm = task->mm;
	long error;
	u32 i;

	if (!cache || !mm)
		return NULL;
	for (i = 0; i < CACHED_MEMORIES; i++) {
		found = &cache->memory[i];
		if (found->mm != (u64)mm || address - found->start >= found->end - found->start)
			continue;
		if (found->mappings == mm->map_count)
			return found;
		before = found;
	}
	found = before ?: &cache->memory[cache->next_memory & (CACHED_MEMORIES - 1)];
	error = bpf_find_vma(task, address, note_mapping, &found, 0);
	if (error == -EBUSY && before)
		return before;
	if (error) {
		if (before)
			before->mm = 0;
		count(BUFFERS_UNPLACED);
		return NULL;
	}
	if (!before)
		cache->next_memory++;
	found->mm = (u64)mm;
	found->mappings = mm->map_count;
	return found;
}

/* The same if it is a pool's. */
static __always_inline struct memory *pool_of(struct task_cache *cache, struct task_struct *task, u64 address)
{
	struct memory *memory = memory_of(cache, task, address);

	return memory && bpf_map_lookup_elem(&pools, &memory->space) ? memory : NULL;
}

#endif
