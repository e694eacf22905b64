/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The executable mappings of a process: which file, and which place in it, an address of code means.
 *
 *   known_ranges  the table as an earlier capture left it
 *   read_ranges   the table as the kernel has it now
 *   locate        the range of a word that may be an address of code
 *   range_of      the range of an address that must be one
 *
 * All but the first need interrupts on.
 *
 * A table is read once and holds until the process maps or unmaps code (exec_vm) or becomes another program (program_of). Kernels
 * before 6.7 cannot iterate mappings, and a table may be full. Then it is incomplete: an address that lies in no known range is
 * looked up alone. So is one that must be code, for exec_vm does not tell all: code that can be written does not count, nor does code
 * that replaced as many pages of other code. Before a stack is sent to user space, the table is read again.
 *
 * Known weakness: code that replaces as many pages of other code, between two captures, is taken for that where both lay.
 */
#ifndef PCSTREAM_MAPPINGS_H
#define PCSTREAM_MAPPINGS_H

#include "names.h"

struct bpf_iter_task_vma {
	u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *task, u64 addr) __ksym __weak;
extern struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it) __ksym __weak;

/* Whether mappings are looked up one by one, when an address asks for them. */
static __always_inline bool per_address(void)
{
	return !bpf_ksym_exists(bpf_iter_task_vma_new) || per_address_lookup;
}

static __always_inline void set_range(struct workspace *ws, struct range *to, struct vm_area_struct *vma, u64 file)
{
	to->start = vma->vm_start;
	to->end = vma->vm_end;
	to->module = file ? module_of(ws, file) : MODULE_ANON;
	to->base = (file ? vma->vm_pgoff << PAGE_SHIFT : 0) - vma->vm_start;
	ws->ranges_changed = 1;
}

/* Whether a mapping can hold return addresses. The kernel's own for programs (vdso, uprobes) call nobody; they lie above the
 * stack, and all addresses of the stack would be between mappings. */
static __always_inline bool may_return_to(struct mm_struct *mm, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_EXEC) || (!vma->vm_file && vma->vm_start > mm->start_stack))
		return false;
	if (vma->vm_end <= USER_END)
		return true;
	count(DROPPED_MAPPINGS);
	return false;
}

/* Adds a mapping to the table, in place of another one if it is full. */
static long add_range(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	struct workspace *ws = *(struct workspace **)ctx;
	struct ranges *r = &ws->ranges;
	u32 at = r->count;

	if (!may_return_to(task->mm, vma))
		return 0;
	if (vma->vm_start < r->lowest)
		r->lowest = vma->vm_start;
	if (vma->vm_end > r->highest)
		r->highest = vma->vm_end;
	if (at < MAX_RANGES) {
		r->count = at + 1;
	} else {
		r->incomplete = 1;
		at = r->next++ & (MAX_RANGES - 1);
	}
	set_range(ws, &r->range[at], vma, number_of(ws, vma->vm_file));
	return 0;
}

/* The index of the range that an address lies in, plus one; 0: none. */
static __always_inline u32 find_range(struct ranges *r, u64 address)
{
	u32 i;

	for (i = 0; i < MAX_RANGES; i++) {
		if (i >= r->count)
			break;
		if (address - r->range[i].start < r->range[i].end - r->range[i].start)
			return i + 1;
	}
	return 0;
}

/* Whether an address can lie in a range: most words of a stack do not. */
static __always_inline bool within(struct ranges *r, u64 address)
{
	return address >= r->lowest && address < r->highest;
}

/* The index of the range that an address lies in, plus one; 0: none. Any word may be asked for, unless it `must` be code. */
__noinline int find_code(struct workspace *ws, u64 address, bool must)
{
	u32 at;

	if (!ws || !(must || within(&ws->ranges, address)))
		return 0;
	at = find_range(&ws->ranges, address);
	if (at || !(must || ws->ranges.incomplete))
		return at;
	if (bpf_find_vma(bpf_get_current_task_btf(), address, add_range, &ws, 0) == -EBUSY) {
		count(LOCKED_MAPPINGS);
		return 0;
	}
	return find_range(&ws->ranges, address);
}

/* Whether a word is an address of code. */
static __always_inline bool locate(struct workspace *ws, u64 word)
{
	return find_code(ws, word, false);
}

/* The range that an address of code lies in; NULL: none. */
static __always_inline struct range *range_of(struct workspace *ws, u64 address)
{
	u32 at = find_code(ws, address, true);

	if (!at)
		return NULL;
	at--;
	/* Else compilers that know how large it can be leave out what the verifier needs to see. */
	asm volatile("" : "+r"(at));
	return &ws->ranges.range[at & (MAX_RANGES - 1)];
}

/* Fills ws->ranges with the executable mappings of the current process, if they are known as they are now. */
__noinline int known_ranges(struct workspace *ws)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	u64 key = (u64)mm, program;
	struct ranges *known;
	u32 ranges;

	if (!ws || !mm)
		return 0;
	ws->ranges_changed = 0;
	program = program_of(task);
	known = bpf_map_lookup_elem(&mappings, &key);
	if (!known || known->program != program || known->exec_vm != mm->exec_vm)
		return 0;
	/* Only what is used: the table is large. */
	ranges = known->count;
	if (ranges > MAX_RANGES)
		ranges = MAX_RANGES;
	if (bpf_probe_read_kernel(&ws->ranges, offsetof(struct ranges, range) + ranges * sizeof(struct range), known))
		return 0;
	/* The map may have given the entry to another process meanwhile. */
	return ws->ranges.program == program && ws->ranges.exec_vm == mm->exec_vm && known->program == program &&
	       known->exec_vm == mm->exec_vm;
}

/* Fills ws->ranges with the executable mappings of the current process, from the kernel. Returns 0 if they could not be read. */
__noinline int read_ranges(struct workspace *ws)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	struct ranges *r, *before;
	u64 key = (u64)mm;

	if (!ws || !mm)
		return 0;
	r = &ws->ranges;
	r->incomplete = per_address();
	r->lowest = r->incomplete ? LOWEST_ADDRESS : ~0UL;
	r->highest = r->incomplete ? USER_END : 0;
	r->exec_vm = mm->exec_vm;
	r->program = program_of(task);
	before = bpf_map_lookup_elem(&mappings, &key);
	r->unwind = before && before->program == r->program ? before->unwind : 0;
	r->count = 0;
	r->next = 0;
	r->executable = executable_of(ws, mm);
	ws->ranges_changed = 1;
	count(ENUMERATIONS);
	if (bpf_ksym_exists(bpf_iter_task_vma_new) && !per_address_lookup) {
		struct bpf_iter_task_vma it;
		struct vm_area_struct *vma;
		int failed = bpf_iter_task_vma_new(&it, task, 0);

		while ((vma = bpf_iter_task_vma_next(&it)))
			add_range(task, vma, &ws);
		bpf_iter_task_vma_destroy(&it);
		if (failed) {
			count(LOCKED_MAPPINGS);
			return 0;
		}
	}
	return 1;
}

static __always_inline void store_ranges(struct workspace *ws)
{
	u64 key;

	/* With a module of which user space does not know, the table would keep it from being sent again. */
	if (!ws->ranges_changed || ws->unsent)
		return;
	key = (u64)bpf_get_current_task_btf()->mm;
	/* The same workspace, but as Linux 6.1 wants values: not an argument, but out of a map. */
	ws = workspace_of(ws->index);
	if (ws)
		bpf_map_update_elem(&mappings, &key, &ws->ranges, BPF_ANY);
}

#endif
