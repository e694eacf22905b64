/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Pages of write buffers: who made them dirty, whoever writes them (FAST'19, section 5.4).
 *
 * A database changes pages in a buffer of its own, and some other thread or process writes them much later. The
 * call path of that write says nothing. Here a probe on the function that the program calls when a page becomes dirty
 * keeps that call path under the page's place in memory, and a write whose data lies there gets it.
 *
 *   place         a page's place is (space, offset): for shared memory the file behind it, so that all processes mean
 *                 the same page wherever they have mapped it; for private memory the address space
 *   on_buffer_page a page became dirty: its path is kept under its place; or a page was copied: the thread's
 *                 next write is that page, wherever its data lies
 *   context_of_buffer, context_of_direct_buffer
 *                 the kept path of the page that a write takes its data from
 *
 * Invariants: a kept path answers for one write after each time that the page became dirty, so memory that is used again
 * for something else does not inherit it. Where the program tells pages that were clean, the path is that of the change that
 * made the page dirty. Elsewhere a weak path (a hint bit) does not replace a strong one that waits for its write; of equal ones it is
 * the first, or one at least LOOK_AGAIN_NS later.
 *
 * Known weaknesses: where the program tells pages that were clean, one that is changed while it is being written, or was dirty
 * when the capture began, has no path until its next write; elsewhere a page that is dropped without having been written keeps its path
 * until it becomes dirty again (a weak path does not replace it); a mapping that was replaced by another of the same place is noticed when the number of mappings
 * changes; a space has one size of pages; a direct request over several pages gets the path of its first; data
 * given by vectors (writev) is not looked for; io_uring is, where the request is direct. With O_APPEND only the first page
 * of a write is found. Pages can become dirty much faster than user space answers for call-frame rules, so those of the first
 * milliseconds on a path may have a coarser one.
 */
#ifndef PCSTREAM_BUFFERS_H
#define PCSTREAM_BUFFERS_H

#define VM_SHARED 8

/* Write calls whose data is at an address (x86-64). */
#define CALL_WRITE 1
#define CALL_PWRITE64 18
#define O_APPEND 02000

/* 1: rules are there and their probes are attached. */
const volatile u32 buffers = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_BUFFER_RULES);
	__type(key, u32);
	__type(value, struct buffer_rule);
} buffer_rules SEC(".maps");

struct buffer_page {
	u64 context;
	u64 writer; /* the write that took it; 0: it waits for one */
	u64 marked_ns;
	u32 rank;
	u32 unused;
};

/* A page that waits for its write is looked at anew after this time at the earliest. Hot pages become dirty many times
 * before they are written; and memory that is used again for something else, without having been written, has long waited. */
#define LOOK_AGAIN_NS 100000000

/* The loader sets its size. The least recently used page gives way: it has been clean for longest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct buffer_key);
	__type(value, struct buffer_page);
} buffer_pages SEC(".maps");

/* Spaces that hold pages of buffers, with the size of those. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u32);
} pools SEC(".maps");

/* Counts additions to `pools`: what was no pool may be one now. */
u32 pools_added = 0;

static long note_mapping(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	struct memory *to = *(struct memory **)ctx;
	u64 inode = 0;

	to->start = vma->vm_start;
	to->end = vma->vm_end;
	if (vma->vm_flags & VM_SHARED)
		inode = (u64)BPF_CORE_READ(vma, vm_file, f_inode);
	if (inode) {
		to->space = signature_mix(inode, BPF_CORE_READ((struct inode *)inode, i_ino));
		to->base = (vma->vm_pgoff << PAGE_SHIFT) - vma->vm_start;
	} else {
		/* Where its stack begins tells a process from a later one at the same address. */
		to->space = signature_mix((u64)BPF_CORE_READ(task, mm), BPF_CORE_READ(task, mm, start_stack));
		to->base = 0;
	}
	return 0;
}

static __always_inline void note_pool(struct memory *of)
{
	u32 *page_bytes = bpf_map_lookup_elem(&pools, &of->space);

	of->pools_added = pools_added;
	of->page_bytes = page_bytes ? *page_bytes : 0;
}

/* The mapping that an address lies in, if the task met it before. Works with interrupts off. */
static __always_inline struct memory *known_memory(struct task_cache *cache, struct mm_struct *mm, u64 address)
{
	u32 i;

	for (i = 0; i < CACHED_MEMORIES; i++) {
		struct memory *known = &cache->memory[i];

		if (known->mm != (u64)mm || known->mappings != mm->map_count ||
		    address - known->start >= known->end - known->start)
			continue;
		if (!known->page_bytes && known->pools_added != pools_added)
			note_pool(known);
		return known;
	}
	return NULL;
}

/* The mapping that an address lies in. Needs interrupts on. */
static __always_inline struct memory *memory_of(struct task_cache *cache, struct task_struct *task, u64 address)
{
	struct mm_struct *mm = task->mm;
	struct memory *found;

	if (!mm)
		return NULL;
	found = known_memory(cache, mm, address);
	if (found)
		return found;
	found = &cache->memory[cache->next_memory++ & (CACHED_MEMORIES - 1)];
	found->mm = 0;
	if (bpf_find_vma(task, address, note_mapping, &found, 0)) {
		count(BUFFERS_UNPLACED, 1);
		return NULL;
	}
	found->mm = (u64)mm;
	found->mappings = mm->map_count;
	note_pool(found);
	return found;
}

/* --------------------------------------------------------------- marking */

/* Arguments come first, in the order of the ABI. */
static __always_inline u64 register_of(struct pt_regs *regs, u32 number)
{
	switch (number) {
	case 1:
		return regs->di;
	case 2:
		return regs->si;
	case 3:
		return regs->dx;
	case 4:
		return regs->cx;
	case 5:
		return regs->r8;
	case 6:
		return regs->r9;
	case 7:
		return regs->ax;
	case 8:
		return regs->bx;
	case 9:
		return regs->bp;
	case 10:
		return regs->r10;
	case 11:
		return regs->r11;
	case 12:
		return regs->r12;
	case 13:
		return regs->r13;
	case 14:
		return regs->r14;
	case 15:
		return regs->r15;
	}
	return 0;
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

/* The address of the page that a probed function is about; 0: of none. */
static __always_inline u64 page_of(struct buffer_rule *rule, struct pt_regs *regs, u32 page_bytes)
{
	u64 value;
	u32 i;

	if (!argument_of(rule, regs, &value)) {
		count(BUFFERS_UNPLACED, 1);
		return 0;
	}
	if (rule->numbered) {
		s64 number = (s64)(s32)value - rule->from;
		u64 pool;

		/* PostgreSQL numbers the pages of temporary tables, which only their process writes, downwards from -1. */
		if (number < 0)
			return 0;
		if (bpf_probe_read_user(&pool, sizeof(pool), (void *)(regs->ip + rule->variable))) {
			count(BUFFERS_UNPLACED, 1);
			return 0;
		}
		return pool + number * page_bytes;
	}
	for (i = 0; i < MAX_BUFFER_OFFSETS; i++) {
		if (i >= rule->offsets)
			break;
		if (bpf_probe_read_user(&value, sizeof(value), (void *)(value + rule->offset[i]))) {
			count(BUFFERS_UNPLACED, 1);
			return 0;
		}
	}
	return value;
}

/* Whether a page waits for its write under a path that stands. */
static __always_inline bool stands(struct buffer_page *page, u32 rank, u64 now_ns)
{
	return page && !page->writer &&
	       (page->rank > rank || (page->rank == rank && now_ns - page->marked_ns < LOOK_AGAIN_NS));
}

static __always_inline void mark_page(struct workspace *ws, struct task_cache *cache, struct task_struct *task,
				      struct pt_regs *regs, u32 rank, struct buffer_key *key, u64 now_ns)
{
	struct buffer_page *page, fresh = {};
	u64 context, place;

	note_entry(ws, task, regs);
	place = place_of(ws, ENTRY_BUFFER);
	context = recognise(ws, cache, task, regs, place, ENTRY_BUFFER, false);
	if (!context) {
		context = capture(ws, task, regs, ENTRY_BUFFER, READ_CALMLY);
		remember(cache, ws, task, place, context);
	}
	if (!context)
		return;
	page = bpf_map_lookup_elem(&buffer_pages, key);
	if (page) {
		page->context = context;
		page->rank = rank;
		page->marked_ns = now_ns;
		page->writer = 0;
		return;
	}
	fresh.context = context;
	fresh.rank = rank;
	fresh.marked_ns = now_ns;
	bpf_map_update_elem(&buffer_pages, key, &fresh, BPF_ANY);
}

/* Working memory for a probe, which may be preempted by another one on the same CPU; NULL: all is in use. */
static __always_inline struct workspace *claim_workspace(void)
{
	u32 owner;

	for (owner = OF_BUFFER; owner < OF_BUFFER + BUFFER_WORKSPACES; owner++) {
		struct workspace *ws = workspace_of(owner);

		if (ws && !__sync_val_compare_and_swap(&ws->claimed, 0, 1))
			return ws;
	}
	return NULL;
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
	u64 address, now_ns;

	if (!target_dev || left_out)
		return 0;
	at = bpf_get_attach_cookie(ctx);
	rule = bpf_map_lookup_elem(&buffer_rules, &at);
	task = bpf_get_current_task_btf();
	regs = user_regs(task);
	if (!rule || !regs || !task->mm)
		return 0;
	page_bytes = rule->page_bytes_argument ? register_of(regs, rule->page_bytes_argument) : rule->page_bytes;
	address = page_of(rule, regs, page_bytes);
	/* What a program says of itself may be anything. */
	if (!address || (rule->kind == BUFFER_DIRTY && (page_bytes < MIN_BUFFER_BYTES || page_bytes > MAX_BUFFER_BYTES)))
		return 0;
	cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cache) {
		count(LOST_TASK_STORAGE, 1);
		return 0;
	}
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
	count_recognition(BUFFER_MARKS);
	now_ns = bpf_ktime_get_ns();
	if (!rule->was_clean && stands(bpf_map_lookup_elem(&buffer_pages, &key), rule->rank, now_ns))
		return 0;
	/* Looked up although it is known: that keeps it in the map. */
	if (!bpf_map_lookup_elem(&pools, &memory->space)) {
		memory->page_bytes = page_bytes;
		bpf_map_update_elem(&pools, &memory->space, &page_bytes, BPF_ANY);
		__sync_fetch_and_add(&pools_added, 1);
	}
	ws = claim_workspace();
	if (!ws) {
		count(BUFFERS_UNPLACED, 1);
		return 0;
	}
	mark_page(ws, cache, task, regs, rule->rank, &key, now_ns);
	ws->claimed = 0;
	return 0;
}

/* --------------------------------------------------------------- writing */

/* The path kept for a page that is being written by `writer`; 0: none waits. */
static __always_inline u64 take_page(struct buffer_key *key, u64 writer)
{
	struct buffer_page *page = bpf_map_lookup_elem(&buffer_pages, key);

	/* A write of several folios asks several times. */
	if (!page || (page->writer && page->writer != writer))
		return 0;
	page->writer = writer;
	count(BUFFER_WRITES, 1);
	return page->context;
}

/* The path kept for the page that lies `into` bytes into data at `address`. */
static __always_inline u64 take_page_at(struct memory *memory, u64 address, u64 into, u64 writer)
{
	u32 page_bytes = memory->page_bytes;
	struct buffer_key key = { .space = memory->space };

	if (!page_bytes)
		return 0;
	key.offset = address + memory->base + (into - into % page_bytes);
	return take_page(&key, writer);
}

/* Where a write without a position of its own begins; for an appending one, `anywhere`. */
static __always_inline u64 file_position(struct task_struct *task, u32 descriptor, u64 anywhere)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = NULL;

	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + descriptor);
	return BPF_CORE_READ(file, f_flags) & O_APPEND ? anywhere : BPF_CORE_READ(file, f_pos);
}

/* What a task's write of a file page is a copy of. Where the mapping of the data is not known and may not be looked up
 * (interrupts are off), `*postponed` becomes true. */
static __always_inline u64 context_of_buffer(struct task_cache *cache, struct task_struct *task, struct pt_regs *regs,
					     s32 entry, u64 file_page, bool may_look_up, bool *postponed)
{
	u64 writer, from, into, context;
	struct buffer_key copied = {};
	struct memory *memory;

	if (!buffers || !pools_added || !regs || !task->mm || (entry != CALL_WRITE && entry != CALL_PWRITE64))
		return 0;
	writer = signature_mix((u64)task->tgid << 32 | task->pid, write_syscalls(task)) | 1;
	memory = known_memory(cache, task->mm, regs->si);
	if (!memory) {
		if (!may_look_up) {
			*postponed = true;
			return 0;
		}
		memory = memory_of(cache, task, regs->si);
	}
	if (memory && memory->page_bytes) {
		from = entry == CALL_PWRITE64 ? regs->r10 : file_position(task, regs->di, file_page << PAGE_SHIFT);
		into = (file_page << PAGE_SHIFT) > from ? (file_page << PAGE_SHIFT) - from : 0;
		if (into < regs->dx) {
			context = take_page_at(memory, regs->si, into, writer);
			if (context)
				return context;
		}
	}
	if (!cache->copied.space || cache->copied_at != write_syscalls(task))
		return 0;
	copied = cache->copied;
	return take_page(&copied, writer);
}

/* The same for direct I/O, whose requests know where their data is. */
static __always_inline u64 context_of_direct_buffer(struct task_cache *cache, struct task_struct *task,
						    struct iomap_dio *dio, u32 bytes)
{
	struct iov_iter *data;
	struct memory *memory;
	u64 address, writer;

	if (!buffers || !pools_added || !task->mm)
		return 0;
	data = BPF_CORE_READ(dio, submit.iter);
	if (BPF_CORE_READ(data, iter_type) != bpf_core_enum_value(enum iter_type, ITER_UBUF))
		return 0;
	address = (u64)BPF_CORE_READ(data, ubuf);
	memory = memory_of(cache, task, address);
	if (!memory)
		return 0;
	/* The same memory may hold the state of many writes one after another. */
	writer = signature_mix((u64)dio, write_syscalls(task));
	writer = signature_mix(signature_mix(writer, BPF_CORE_READ(dio, iocb, ki_pos)), (u64)BPF_CORE_READ(dio, iocb, ki_filp));
	/* `size` counts what was submitted so far, this request included. */
	return take_page_at(memory, address, BPF_CORE_READ(dio, size) - bytes, writer | 1);
}

#endif
