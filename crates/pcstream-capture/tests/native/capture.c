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
	struct rule_key key;
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
static struct mm_struct mm = { .exec_vm = 1, .arg_start = 1 };
static struct task_struct task = { .mm = &mm };
static struct pt_regs regs;
static void *sent;
static u64 sent_bytes;

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
	/* Told before. */
	if (map == &processes)
		return &mapped.executable;
	if (map == &rules) {
		const struct rule_key *wanted = key;

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

long native_read_user(void *to, unsigned size, const void *from)
{
	u64 at = (u64)from - test_case.sp;
	bool inside = at <= test_case.stack_bytes && size <= test_case.stack_bytes - at;
	bool faulty = at < (u64)test_case.faulty_from + test_case.faulty_bytes && at + size > test_case.faulty_from;

	if (!inside || faulty) {
		__builtin_memset(to, 0, size);
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

struct task_struct *native_task(void)
{
	return &task;
}

long native_regs(void)
{
	return (long)&regs;
}

/* With interrupts off a capture finds the same, or nothing where it would have to ask user space. */
static void same_in_a_hurry(u64 context)
{
	const u32 type = *(const u32 *)sent;
	void *slowly = sent;

	sent = NULL;
	if (capture(&workspace, test_case.entry, true) != (type == RECORD_STACK ? 0 : context))
		abort();
	if (type == RECORD_STACK ? !!sent : !sent || __builtin_memcmp(sent, slowly, sizeof(struct context_record)))
		abort();
	free(sent);
	sent = slowly;
	sent_bytes = type == RECORD_STACK ? sizeof(struct stack_record) : sizeof(struct context_record);
}

int main(void)
{
	u64 context;

	while (whole(&test_case, sizeof(test_case))) {
		if (test_case.ranges > MAX_RANGES || test_case.rules > MAX_RULES || test_case.stack_bytes > MAX_STACK)
			abort();
		__builtin_memset(&mapped, 0, sizeof(mapped));
		mapped.exec_vm = mapped.arg_start = 1;
		mapped.executable = 77;
		mapped.count = test_case.ranges;
		whole(mapped.range, test_case.ranges * sizeof(struct range));
		whole(known, test_case.rules * sizeof(struct known_rule));
		whole(stack, test_case.stack_bytes);
		for (u32 i = 0; i < test_case.ranges; i++)
			widen(&mapped.window[WINDOW_PROGRAM], &mapped.range[i]);
		regs.ip = test_case.ip;
		regs.sp = test_case.sp;
		regs.bp = test_case.bp;
		__builtin_memset(&workspace, 0x5a, sizeof(workspace));
		sent = NULL;
		context = capture(&workspace, test_case.entry, false);
		if (!context || !sent)
			abort();
		__builtin_memset(&workspace, 0xa5, sizeof(workspace));
		same_in_a_hurry(context); /* mappings out of the map */
		same_in_a_hurry(context); /* mappings of the last time */
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
