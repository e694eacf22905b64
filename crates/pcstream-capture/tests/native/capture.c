/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs `capture` of the BPF program over stacks from standard input, one case after another, and writes the record
 * that each sent to standard output: a context, or a stack for want of a rule. See ../native.rs, which makes the cases.
 */
#include "pcstream.bpf.c"

long read(int descriptor, void *to, unsigned long size);
long write(int descriptor, const void *from, unsigned long size);
void abort(void);
void *malloc(unsigned long size);
void free(void *memory);

#define MAX_RULES 64
#define MAX_STACK (256 << 10)

struct known_rule {
	struct module_offset key;
	struct unwind_rule rule;
};

static struct {
	u64 ip, sp, bp;
	u32 ranges, rules, stack_bytes;
	u32 faulty_from, faulty_bytes; /* of the stack: cannot be read */
	u32 entry;
} test_case;
static struct known_rule known[MAX_RULES];
static struct ranges mapped;
static u8 stack[MAX_STACK];
static struct workspace workspace;
static u64 counted;
static struct mm_struct mm = { .exec_vm = 1 };
static struct task_struct task = { .mm = &mm, .group_leader = &task, .start_boottime = 1 };
static struct pt_regs regs;
static void *sent;
static u64 sent_bytes;
static u32 *times_asked;  /* for the rule that is missing; NULL: never */
static u64 *last_shipped; /* a stack like this one; NULL: never */

static long whole(void *to, unsigned long size)
{
	u8 *at = to;

	while (size) {
		long got = read(0, at, size);

		if (got <= 0)
			return at == to ? 0 : (abort(), 0);
		at += got;
		size -= got;
	}
	return 1;
}

void *native_lookup(void *map, const void *key)
{
	if (map == &mappings)
		return &mapped;
	/* Asked for before. */
	if (map == &processes)
		return &mapped.executable;
	if (map == &asked)
		return times_asked;
	if (map == &shipped)
		return last_shipped;
	if (map == &counters)
		return &counted;
	if (map == &rules) {
		const struct module_offset *wanted = key;

		for (u32 i = 0; i < test_case.rules; i++)
			if (known[i].key.module == wanted->module && known[i].key.offset == wanted->offset)
				return &known[i].rule;
	}
	return NULL;
}

long native_update(void *map, const void *key, const void *value)
{
	return 0;
}

/* Below the stack, in its first page, is what nobody may take for a part of it. */
static unsigned read_below(void *to, unsigned size, u64 from)
{
	unsigned below = 0;

	for (; from + below < test_case.sp && below + 8 <= size && (from ^ test_case.sp) < PAGE_SIZE; below += 8)
		__builtin_memcpy((char *)to + below, &test_case.ip, 8);
	return below;
}

long native_read_user(void *to, unsigned size, const void *from)
{
	unsigned below = read_below(to, size, (u64)from);
	u64 at = (u64)from + below - test_case.sp;
	bool inside, faulty;

	to = (char *)to + below;
	size -= below;
	inside = at <= test_case.stack_bytes && size <= test_case.stack_bytes - at;
	faulty = at < (u64)test_case.faulty_from + test_case.faulty_bytes && at + size > test_case.faulty_from;

	if (!inside || faulty) {
		__builtin_memset((char *)to - below, 0, size + below);
		return -14;
	}
	__builtin_memcpy(to, stack + at, size);
	return 0;
}

void *native_reserve(unsigned long long size)
{
	sent_bytes = size;
	/* Bytes of an earlier record are what the kernel gives. */
	sent = malloc(size);
	__builtin_memset(sent, 0xa5, size);
	return sent;
}

void native_submit(void *record)
{
	if (record != sent)
		abort();
}

void native_output(const void *record, unsigned long long size)
{
	__builtin_memcpy(native_reserve(size), record, size);
}

struct task_struct *native_task(void)
{
	return &task;
}

void *bpf_rdonly_cast(const void *object, u32 type)
{
	return (void *)object;
}

/* Nobody can list the mappings: those of the test are known. */
int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *of, u64 address)
{
	return -EBUSY;
}

struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it)
{
	return NULL;
}

void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it)
{
}

long native_regs(void)
{
	return (long)&regs;
}

static u64 captured(void)
{
	begin_capture(&workspace, &task, &regs, test_case.entry);
	return capture(&workspace);
}

static u64 look_up(struct task_cache *cache, s32 entry)
{
	begin_capture(&workspace, &task, &regs, entry);
	return look_up_path(&workspace, cache, &task, path_cache_key(&workspace));
}

/* A path in the cache: its return addresses, and the frame pointers by which it was found. */
struct expected {
	u64 context;
	u32 slots, offset[MAX_DEPTH], bp_end[MAX_DEPTH], first;
	bool by_bp, near; /* whether each frame pointer lies in its frame, near the return address, as compilers have it */
};

static bool is_found(struct task_cache *cache, const struct expected *e)
{
	u64 found = look_up(cache, test_case.entry);

	if (found && found != e->context)
		abort();
	return found;
}

/* Nor is it found if this word of the stack is another. */
static void lost_without(struct task_cache *cache, const struct expected *e, u32 at)
{
	stack[at] ^= 8;
	if (is_found(cache, e))
		abort();
	stack[at] ^= 8;
}

/* The path that was inserted last is found, and not if one of its return addresses or frame pointers is another, or unreadable. */
static void found_in_cache(struct task_cache *cache, const struct expected *e)
{
	u32 i, n = e->slots, faulty_from = test_case.faulty_from, faulty_bytes = test_case.faulty_bytes;
	/* Between slots, which are read together, nothing may be unreadable; real stacks have no such holes. */
	bool hole = n && faulty_bytes && faulty_from < e->offset[n - 1] + 8 && faulty_from + faulty_bytes > e->first;

	if (is_found(cache, e) != (n > 0) && !hole && e->near)
		abort();
	if (look_up(cache, test_case.entry + 1))
		abort();
	if (e->by_bp && n) {
		regs.bp += 8;
		if (is_found(cache, e))
			abort();
		regs.bp -= 8;
	}
	for (i = 0; i < n; i++) {
		lost_without(cache, e, e->offset[i]);
		if (e->bp_end[i] && e->near)
			lost_without(cache, e, e->bp_end[i] - 8);
		test_case.faulty_from = e->offset[i];
		test_case.faulty_bytes = 8;
		if (is_found(cache, e))
			abort();
		test_case.faulty_from = faulty_from;
		test_case.faulty_bytes = faulty_bytes;
	}
}

static void cached(u64 context)
{
	static struct task_cache cache;
	struct expected e = { .context = context, .slots = workspace.found, .by_bp = workspace.by_bp, .near = true };
	u32 i, below = 0;

	for (i = 0; i < e.slots; i++) {
		u32 offset = e.offset[i] = workspace.slot[i].offset, bp_end = e.bp_end[i] = workspace.slot[i].bp_end;

		if (bp_end && (bp_end > offset || bp_end < below + 8 || (offset - bp_end) & 7 ||
			       offset + 16 - bp_end > sizeof(workspace.words)))
			e.near = false;
		below = offset + 8;
	}
	e.first = e.bp_end[0] ? e.bp_end[0] - 8 : e.offset[0];
	__builtin_memset(&cache, 0, sizeof(cache));
	insert_path(&cache, &workspace, path_cache_key(&workspace), context);
	__builtin_memset(&workspace, 0x5a, sizeof(workspace));
	found_in_cache(&cache, &e);
}

/* The key that the stack's context gets while rules are late; nothing is sent. */
static u64 key_of_late(void)
{
	u64 key = captured();

	if (sent)
		abort();
	return key;
}

/* Moves the stack, with all that points near the place `sp`. */
static void move_stack(u64 sp, u64 by)
{
	const u64 near = 4 * STACK_BYTES;
	u64 word;

	for (u32 at = 0; at + 8 <= test_case.stack_bytes; at += 8) {
		__builtin_memcpy(&word, stack + at, 8);
		if (word - sp + near >= 2 * near)
			continue;
		word += by;
		__builtin_memcpy(stack + at, &word, 8);
	}
	test_case.sp += by;
	regs.sp += by;
	if (regs.bp - sp + near < 2 * near)
		regs.bp += by;
}

/* Until the rules of a stack that was shipped come, others have its key if all that the rest of a walk can depend on is the same. */
static void known_while_late(u64 context, const struct stack_record *r)
{
	static u64 just_now = 12345;
	u64 i, word, at = r->sp - test_case.sp;
	u32 range;

	last_shipped = &just_now;
	if (key_of_late() != context)
		abort();
	for (i = 0; i < PAGE_SIZE / 8; i += 7) {
		if (test_case.faulty_bytes || at + PAGE_SIZE > test_case.stack_bytes || !find_range(&mapped, test_case.ip))
			break;
		__builtin_memcpy(&word, stack + at + i * 8, 8);
		range = find_range(&mapped, word);
		__builtin_memcpy(stack + at + i * 8, &test_case.ip, 8);
		if ((key_of_late() == context) != (word == test_case.ip))
			abort();
		__builtin_memset(stack + at + i * 8, 0, 8);
		if ((key_of_late() == context) != (!range && word - r->sp >= STACK_BYTES))
			abort();
		__builtin_memcpy(stack + at + i * 8, &word, 8);
	}
	/* Threads have stacks of their own. */
	move_stack(r->sp, 1 << 21);
	if (key_of_late() != context)
		abort();
	move_stack(r->sp + (1 << 21), -(1UL << 21));
	last_shipped = NULL;
}

/* If nobody answers for long, the path is read as far as it can be, and not cached as if that were all. */
static void guessed_without_answer(void)
{
	static u32 often = MAX_SHIPPED;

	times_asked = &often;
	if (!captured() || !sent || *(u32 *)sent != RECORD_CONTEXT || workspace.found)
		abort();
	times_asked = NULL;
	free(sent);
}

static void known_without_rules(u64 context)
{
	void *slowly = sent;
	u64 bytes = sent_bytes;

	sent = NULL;
	known_while_late(context, slowly);
	guessed_without_answer();
	sent = slowly;
	sent_bytes = bytes;
}

int main(void)
{
	u64 context;

	while (whole(&test_case, sizeof(test_case))) {
		if (test_case.ranges > MAX_RANGES || test_case.rules > MAX_RULES || test_case.stack_bytes > MAX_STACK)
			abort();
		__builtin_memset(&mapped, 0, sizeof(mapped));
		mapped.exec_vm = mm.exec_vm;
		mapped.program = program_of(&task);
		mapped.executable = 77;
		mapped.count = test_case.ranges;
		whole(mapped.range, test_case.ranges * sizeof(struct range));
		whole(known, test_case.rules * sizeof(struct known_rule));
		whole(stack, test_case.stack_bytes);
		mapped.lowest = ~0UL;
		for (u32 i = 0; i < test_case.ranges; i++) {
			if (mapped.range[i].start < mapped.lowest)
				mapped.lowest = mapped.range[i].start;
			if (mapped.range[i].end > mapped.highest)
				mapped.highest = mapped.range[i].end;
		}
		regs.ip = test_case.ip;
		regs.sp = test_case.sp;
		regs.bp = test_case.bp;
		__builtin_memset(&workspace, 0x5a, sizeof(workspace));
		sent = NULL;
		context = captured();
		if (!context || !sent)
			abort();
		if (*(u32 *)sent == RECORD_CONTEXT)
			cached(context);
		else
			known_without_rules(context);
		for (u64 at = 0; at < sent_bytes;) {
			long put = write(1, (u8 *)sent + at, sent_bytes - at);

			if (put <= 0)
				abort();
			at += put;
		}
		free(sent);
	}
	return 0;
}
