/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Words of the current process's memory without a call, while interrupts are off.
 *
 * To recognise a path takes a dozen words from some four pages of its stack. bpf_probe_read_user costs a hundred nanoseconds
 * whatever it reads, and copying all that lies between those words costs more. But the kernel maps all memory for itself, and a
 * program may load from there with one instruction, which yields 0 where nothing is mapped. So the page tables of the process
 * are walked as its processor would, once for each page, and its words are loaded where the kernel has them.
 *
 *   find_direct_map  run once, by user space: where the kernel's mapping of all memory begins, and how many levels page tables
 *                    have. Both are tried out on memory whose content is known: what is found is proven, not assumed. And where
 *                    a task's user registers are in its kernel stack, which is the same for all tasks of a kernel
 *   user_word        a word of the process's memory
 *   windows_held     whether what was read may be used
 *
 * Invariants: only below USER_END, through entries that are present and the program's own to use, and only what lies in
 * memory (devices do not), so nothing is read that the process has not mapped itself. Only with interrupts off, which keeps
 * page tables in place. Pages may go, if a hypervisor or the processor spares the kernel the interrupt that announces it; so an
 * entry is looked at once more when its page is left, and if it has changed, nothing of what was read is used: it is read by
 * calls, a moment later. So is everything that is not as expected here.
 *
 * Known weaknesses: x86-64 only. Not in a paravirtual guest of Xen, whose page tables hold other addresses (nothing is
 * proven there), nor where interrupts are never off (PREEMPT_RT) or memory may not be touched yet (user space looks). Memory
 * that the kernel does not map (memfd_secret) reads as 0, and protection keys, which a process sets for itself, are not obeyed.
 */
#ifndef PCSTREAM_DIRECT_H
#define PCSTREAM_DIRECT_H

void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/* Entries of page tables (AMD64 manual, volume 2, section 5.3). */
#define ENTRY_PRESENT (1UL << 0)
#define ENTRY_USER (1UL << 2)
#define ENTRY_USED (3UL << 5) /* accessed, dirty: set by processors at any time */
#define ENTRY_LEAF (1UL << 7) /* a large page, above the last level */
#define LEVEL_BITS 9
#define LEVELS 5
#define GIGA_SHIFT 30
#define TABLE_SHIFT 21 /* what one table of the last level maps */
/* Bits of an address below the index of the first level, of four and of five. */
#define TOP_OF_FOUR 39
#define TOP_OF_FIVE 48
/* Attributes begin above the addresses that the kernel can map; where encryption's is depends on the processor. */
#define PHYSICAL_OF_FOUR ((1UL << 46) - PAGE_SIZE)
#define PHYSICAL_OF_FIVE ((1UL << 51) - PAGE_SIZE)
/* Of struct window: no page, no part of the address space. */
#define NOWHERE (~0UL)

/* How to get at memory: what find_direct_map has proven. */
struct direct {
	u64 map;      /* where the kernel maps the first byte of all memory; 0: not known, and processes are read by calls */
	u64 end;      /* of memory: its last address, plus one */
	u64 physical; /* bits of an entry that are an address */
	u32 top;      /* bits of an address below the index of the first table */
	u32 regs;     /* where a task's user registers are in its kernel stack */
} direct = {};

/* A page of the process, where the kernel has it. */
struct window {
	u64 page;      /* its address */
	u64 shift;     /* add to an address of it */
	u64 entry_at, entry; /* that led there, without ENTRY_USED */
	u64 part, table;     /* an address >> TABLE_SHIFT, and the last level's table for it */
	u64 first;	     /* table of the process */
	u32 lost;	     /* an entry had changed, or is not for direct reads: what was read is not used */
	u32 unused;
};

/* Words of the kernel's, each 0 where it maps nothing: no more than struct pt_regs has before what is not a word on all kernels. */
_Static_assert(GROUP_WORDS <= 16, "r15 to orig_ax");
static __always_inline const u64 *kernel_words(u64 address)
{
	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return NULL;
	return bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct pt_regs));
}

static __always_inline u64 kernel_word(u64 address)
{
	const u64 *words = kernel_words(address);

	return words ? *words : 0;
}

static __always_inline void show_page(struct window *w, u64 entry_at, u64 entry, u64 address, u64 page)
{
	w->entry_at = entry_at;
	w->entry = entry & ~ENTRY_USED;
	w->page = address & ~(PAGE_SIZE - 1);
	w->shift = page - w->page;
}

/* Where the entry for an address is in a table. */
static __always_inline u64 entry_for(u64 table, u64 address, u32 shift)
{
	return table + (address >> shift & ((1UL << LEVEL_BITS) - 1)) * 8;
}

static __always_inline bool leads_on(u64 entry)
{
	return (entry & (ENTRY_PRESENT | ENTRY_USER)) == (ENTRY_PRESENT | ENTRY_USER);
}

/* Where the kernel has the table or page that an entry leads to. */
static __always_inline bool follow(struct window *w, const struct direct *d, u64 entry, u64 *to)
{
	if (!leads_on(entry))
		return false;
	*to = d->map + (entry & d->physical);
	/* Beyond memory the kernel's mapping ends, and something else begins. */
	if ((entry & d->physical) < d->end)
		return true;
	w->lost = 1;
	return false;
}

/* Opens the page of an address in the part of the address space whose table is known. */
static __always_inline bool open_here(struct window *w, const struct direct *d, u64 address)
{
	u64 page, at = entry_for(w->table, address, PAGE_SHIFT), entry = kernel_word(at);

	if (!follow(w, d, entry, &page))
		return false;
	show_page(w, at, entry, address, page);
	return true;
}

/* Opens the page of an address from the first table on. */
static __always_inline bool open_from(struct window *w, const struct direct *d, u64 table, u64 address)
{
	u32 i, shift = d->top;

	for (i = 0; i < LEVELS - 1; i++) {
		u64 at = entry_for(table, address, shift), entry = kernel_word(at);

		if (!follow(w, d, entry, &table))
			return false;
		if (entry & ENTRY_LEAF) {
			u64 inside = (1UL << (shift & 63)) - PAGE_SIZE;

			show_page(w, at, entry, address, (table & ~inside) + (address & inside));
			return true;
		}
		shift -= LEVEL_BITS;
		if (shift <= PAGE_SHIFT)
			break;
	}
	w->part = address >> TABLE_SHIFT;
	w->table = table;
	return open_here(w, d, address);
}

/* Begins to read a process anew. */
static __always_inline void close_windows(struct window *w, const void *first_table)
{
	number_through(&w->first, first_table);
	w->page = NOWHERE;
	w->part = NOWHERE;
	w->lost = 0;
}

static __always_inline bool windows_held(struct window *w)
{
	if (w->page != NOWHERE && (kernel_word(w->entry_at) & ~ENTRY_USED) != w->entry)
		w->lost = 1;
	return !w->lost;
}

static __always_inline bool open_anew(struct window *w, u64 address)
{
	if (address >= USER_END) {
		w->lost = 1;
		return 0;
	}
	if (w->part == address >> TABLE_SHIFT)
		return open_here(w, &direct, address);
	return open_from(w, &direct, w->first, address);
}

/* Opens the page of an address, and leaves the one before. Returns 0 if it cannot be read. */
__noinline int open_window(struct window *w, u64 address)
{
	if (!w || !windows_held(w))
		return 0;
	w->page = NOWHERE;
	return open_anew(w, address);
}

/* Opens the page of an address if none is open yet, without a call. */
static __always_inline void open_first(struct window *w, u64 address)
{
	if (w->page == NOWHERE)
		open_anew(w, address);
}

/* Whether the page of an address can be read; then it is the one that the window shows. */
static __always_inline bool user_page(struct window *w, u64 address)
{
	return (address & ~(PAGE_SIZE - 1)) == w->page || open_window(w, address);
}

/* A word of the current process, at a multiple of 8. */
static __always_inline bool user_word(struct window *w, u64 address, u64 *word)
{
	if (!user_page(w, address))
		return false;
	*word = kernel_word(address + w->shift);
	return true;
}

/* ------------------------------------------------------------------ proof */

/* What find_direct_map is given: memory of its caller's, what is there, and where all memory ends. What it found is in `direct`. */
struct direct_proof {
	u64 address; /* a multiple of 32 */
	u64 word[4]; /* that are not found by chance */
	u64 end;
	u64 pgd;
	u64 regs;
	u64 stack;
} direct_proof = {};

static __always_inline bool proven(u64 map, u64 physical, u32 top)
{
	struct direct d = { .map = map, .end = direct_proof.end, .physical = physical, .top = top, .regs = direct_proof.regs };
	struct window w = {};
	u32 i;

	if (!open_from(&w, &d, direct_proof.pgd, direct_proof.address))
		return false;
	for (i = 0; i < 4; i++)
		if (kernel_word(direct_proof.address + w.shift + 8 * i) != direct_proof.word[i])
			return false;
	direct = d;
	return true;
}

/* The map begins with a multiple of 1 GiB, and the first table is somewhere in it. */
static long try_place(u64 i, void *unused)
{
	u64 map = (direct_proof.pgd >> GIGA_SHIFT << GIGA_SHIFT) - (i << GIGA_SHIFT);

	return proven(map, PHYSICAL_OF_FOUR, TOP_OF_FOUR) || proven(map, PHYSICAL_OF_FIVE, TOP_OF_FIVE);
}

SEC("syscall")
int find_direct_map(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;

	if (!bpf_ksym_exists(bpf_rdonly_cast) || !mm)
		return 0;
	direct_proof.regs = number_through(&direct_proof.regs, (void *)bpf_task_pt_regs(task)) -
			    number_through(&direct_proof.stack, task->stack);
	number_through(&direct_proof.pgd, mm->pgd);
	bpf_loop((direct_proof.end >> GIGA_SHIFT) + 1, try_place, NULL, 0);
	direct_proof.pgd = direct_proof.stack = 0;
	return 0;
}

#endif
