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
static bool contexts_sent;   /* contexts are known to have been sent */
static u32 *times_asked;   /* for the rule that is missing; NULL: never */
static u64 *last_shipped;  /* a stack like this one; NULL: never */
static u32 contexts_asked;   /* how often it was looked up whether one is */

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

/* A place may hold its rule, or one that came before it. */
static struct near_rule *near_place(u32 place)
{
	static struct near_rule near;

	for (u32 i = 0; i < test_case.rules; i++) {
		const struct rule_key *key = &known[i].key;

		if (signature_mix(key->module, key->offset) % NEAR_RULES != place)
			continue;
		near.key = *key;
		near.rule = known[i].rule;
		if (place & 1) {
			near.key.offset ^= 64;
			near.rule.cfa_offset ^= 8;
		}
		return &near;
	}
	__builtin_memset(&near, 0, sizeof(near));
	return &near;
}

void *native_lookup(void *map, const void *key)
{
	if (map == &mappings)
		return &mapped;
	/* Told before. */
	if (map == &processes)
		return &mapped.executable;
	if (map == &known_contexts) {
		static u8 known_to_be_sent = 1;

		contexts_asked++;
		return contexts_sent ? &known_to_be_sent : NULL;
	}
	if (map == &asked)
		return times_asked;
	if (map == &shipped)
		return last_shipped;
	if (map == &near_rules)
		return near_place(*(const u32 *)key);
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

/* The kernel's mapping of all memory: page tables of the stack, whose pages lie there in another order. */
#define MAP 0xffff936a40000000UL
#define TABLE(level) (MAP + ((level) + 7) * PAGE_SIZE)
#define STACK_PAGES (1UL << 30)
/* Of five levels; of four, the first one is left out. Of the last level there are two tables, for a stack may need both. */
#define LAST_LEVEL 4
#define LAST_TABLES 2

static bool remapped; /* entries of the last level are others whenever they are looked at */

/* The beginning of what the last level's table of this number maps. */
static u64 part(u32 number)
{
	return ((test_case.sp >> TABLE_SHIFT) + number) << TABLE_SHIFT;
}

/* Where the kernel has the page of this entry of that table. */
static u64 scattered(u32 number, u32 index)
{
	return STACK_PAGES + ((u64)number << TABLE_SHIFT) + (index * 77 & 511) * PAGE_SIZE;
}

static bool absent(u64 page)
{
	u64 first = test_case.sp & ~(PAGE_SIZE - 1), end = test_case.sp + test_case.stack_bytes;

	return page < first || page >= end ||
	       (test_case.faulty_bytes && page + PAGE_SIZE > test_case.sp + test_case.faulty_from &&
		page < test_case.sp + test_case.faulty_from + test_case.faulty_bytes);
}

/* An entry of the table at TABLE(level). Encrypted memory has bit 51, processors set bits 5 and 6, and what is absent may be
 * somebody else's. */
static u64 entry_of_table(u32 level, u32 index)
{
	static u32 asked;
	u64 attributes = 1UL << 63 | 1UL << 51 | 0x07 | (u64)(++asked & 3) << 5;
	u32 way, number = level - LAST_LEVEL;

	if (level < LAST_LEVEL) {
		way = index - (test_case.sp >> (PAGE_SHIFT + LEVEL_BITS * (LAST_LEVEL - level)) & 511);
		if (way >= (level == LAST_LEVEL - 1 ? LAST_TABLES : 1))
			return 0;
		return (TABLE(level + 1 + way) - MAP) | attributes;
	}
	if (remapped)
		attributes |= (u64)(asked & 15) << 52;
	if (absent(part(number) + index * PAGE_SIZE))
		attributes &= index & 1 ? ~ENTRY_PRESENT : ~ENTRY_USER;
	return scattered(number, index) | attributes;
}

static u64 native_kernel_word(u64 address)
{
	u32 level = (address - TABLE(0)) / PAGE_SIZE, index = (address & (PAGE_SIZE - 1)) / 8;
	u64 page, at, word;

	if (address & 7)
		abort();
	if (level < LAST_LEVEL + LAST_TABLES)
		return entry_of_table(level, index);
	for (u32 i = 0; i < 512 * LAST_TABLES; i++) {
		page = part(0) + i * PAGE_SIZE;
		if ((address & ~(PAGE_SIZE - 1)) != MAP + scattered(i / 512, i % 512))
			continue;
		at = page + (address & (PAGE_SIZE - 1)) - test_case.sp;
		/* A page that is absent by now still has its content. */
		word = test_case.ip;
		if (at < test_case.stack_bytes)
			__builtin_memcpy(&word, stack + at, 8);
		return word;
	}
	abort();
}

void *bpf_rdonly_cast(const void *address, u32 type)
{
	static u64 words[GROUP_WORDS];
	u64 i, read = (PAGE_SIZE - ((u64)address & (PAGE_SIZE - 1))) / 8;

	/* Of page tables, one entry at a time: each time that it is looked at counts. */
	if ((u64)address - TABLE(0) < (LAST_LEVEL + LAST_TABLES) * PAGE_SIZE)
		read = 1;
	for (i = 0; i < GROUP_WORDS; i++)
		words[i] = i < read ? native_kernel_word((u64)address + i * 8) : test_case.ip;
	return words;
}

/* Pages are absent as a whole, so cases whose fault is part of one are for calls only. */
static bool can_be_direct(void)
{
	u64 first = test_case.sp + test_case.faulty_from;

	return !test_case.faulty_bytes || !((first | test_case.faulty_bytes) & (PAGE_SIZE - 1));
}

/* Begins to read the stack anew, by its page tables. */
static void read_anew(void)
{
	direct.map = MAP;
	direct.end = STACK_PAGES + ((u64)LAST_TABLES << TABLE_SHIFT);
	direct.physical = test_case.entry & 1 ? PHYSICAL_OF_FIVE : PHYSICAL_OF_FOUR;
	direct.top = test_case.entry & 1 ? TOP_OF_FIVE : TOP_OF_FOUR;
	close_windows(&workspace.window, (void *)(test_case.entry & 1 ? TABLE(0) : TABLE(1)));
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

static u64 captured(enum reading reading)
{
	note_entry(&workspace, &task, &regs);
	return capture(&workspace, &task, &regs, test_case.entry, reading);
}

static enum reading hurrying(bool directly)
{
	return directly ? READ_DIRECTLY : READ_HURRIEDLY;
}

/* With interrupts off a capture is to find this context and send what was sent before, or to find nothing and ask. */
static void in_a_hurry(u64 context, bool told, bool directly)
{
	u64 bytes = sent_bytes;
	void *slowly = sent;

	sent = NULL;
	read_anew();
	if (captured(hurrying(directly)) != context || workspace.asks != !told)
		abort();
	if (told ? !sent || __builtin_memcmp(sent, slowly, bytes) : !!sent)
		abort();
	free(sent);
	sent = slowly;
	sent_bytes = bytes;
}

/* With interrupts off, and pages that go away meanwhile, nothing is found, and it is asked for with interrupts on. */
static void not_while_remapped(void)
{
	void *slowly = sent;
	u64 context;

	sent = NULL;
	remapped = true;
	read_anew();
	context = captured(READ_DIRECTLY);
	remapped = false;
	if ((workspace.window.lost || workspace.window.page != NOWHERE) && (context || sent || !workspace.asks))
		abort();
	free(sent);
	sent = slowly;
}

/* A context that was sent is told without being looked up, by the key that was computed on the way. */
static void at_sight(u64 context, bool directly)
{
	void *slowly = sent;
	u32 turn;

	sent = NULL;
	contexts_sent = true;
	for (turn = 0; turn < 2; turn++) {
		contexts_asked = 0;
		read_anew();
		if (captured(hurrying(directly)) != context || sent)
			abort();
	}
	if (contexts_asked)
		abort();
	contexts_sent = false;
	__builtin_memset(workspace.met, 0, sizeof(workspace.met));
	sent = slowly;
}

static void same_in_a_hurry(u64 context)
{
	bool told = *(u32 *)sent == RECORD_CONTEXT;

	in_a_hurry(told ? context : 0, told, false);
	if (can_be_direct())
		in_a_hurry(told ? context : 0, told, true);
	if (told)
		at_sight(context, can_be_direct());
}

static u64 recognise_anew(struct task_cache *cache, s32 entry, bool directly)
{
	read_anew();
	note_entry(&workspace, &task, &regs);
	return recognise(&workspace, cache, &task, &regs, place_of(&workspace, entry), entry, directly);
}

/* What the last capture remembers is recognised, and not if one of its return addresses is another, or unreadable. */
static void recognised(struct task_cache *cache, u64 context, const u32 *offset, bool directly)
{
	u32 i, n = cache->path[cache->last].slots, entry = test_case.entry;
	u32 faulty_from = test_case.faulty_from, faulty_bytes = test_case.faulty_bytes;
	bool hole;

	/* Between slots, which are read together, nothing may be unreadable; real stacks have no such holes. */
	hole = n && faulty_bytes && faulty_from < offset[n - 1] + 8 && faulty_from + faulty_bytes > offset[0];
	if (!hole && recognise_anew(cache, entry, directly) != (n ? context : 0))
		abort();
	if (recognise_anew(cache, entry + 1, directly))
		abort();
	for (i = 0; i < n; i++) {
		stack[offset[i]] ^= 1;
		if (recognise_anew(cache, entry, directly))
			abort();
		stack[offset[i]] ^= 1;
		test_case.faulty_from = offset[i];
		test_case.faulty_bytes = 8;
		if (recognise_anew(cache, entry, directly))
			abort();
		test_case.faulty_from = faulty_from;
		test_case.faulty_bytes = faulty_bytes;
	}
}

/* A page that goes away while the last window shows it: nothing that was read is used. */
static void lost(struct task_cache *cache, const u32 *offset)
{
	u32 n = cache->path[cache->last].slots, faulty_bytes = test_case.faulty_bytes, faulty_from = test_case.faulty_from;

	if (!n || !recognise_anew(cache, test_case.entry, true))
		return;
	test_case.faulty_from = offset[n - 1];
	test_case.faulty_bytes = 8;
	if (windows_held(&workspace.window) ||
	    recognise(&workspace, cache, &task, &regs, place_of(&workspace, test_case.entry), test_case.entry,
		      true))
		abort();
	test_case.faulty_from = faulty_from;
	test_case.faulty_bytes = faulty_bytes;
}

static void remembered(u64 context)
{
	static struct task_cache cache;
	u32 offset[MAX_DEPTH];

	for (u32 i = 0; i < MAX_DEPTH; i++)
		offset[i] = workspace.slot[i].offset;
	__builtin_memset(&cache, 0, sizeof(cache));
	remember(&cache, &workspace, &task, place_of(&workspace, test_case.entry), context);
	__builtin_memset(&workspace, 0x5a, sizeof(workspace));
	recognised(&cache, context, offset, false);
	if (!can_be_direct())
		return;
	recognised(&cache, context, offset, true);
	lost(&cache, offset);
}

/* The key that the stack's context gets while rules are late; nothing is sent. */
static u64 key_of_late(void)
{
	u64 key = captured(READ_CALMLY);

	if (sent)
		abort();
	return key;
}

/* Until the rules of a stack that was shipped come, others have its key if all that the rest of a walk can depend on is the same. */
static void told_while_late(u64 context, const struct stack_record *r)
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
	last_shipped = NULL;
}

/* If nobody answers for long, the path is told as far as it can be, and not remembered as if that were all. */
static void told_without_answer(void)
{
	static u32 often = MAX_SHIPPED;

	times_asked = &often;
	if (!captured(READ_CALMLY) || !sent ||
	    *(u32 *)sent != RECORD_CONTEXT || workspace.found)
		abort();
	times_asked = NULL;
	free(sent);
}

static void told_without_rules(u64 context)
{
	void *slowly = sent;
	u64 bytes = sent_bytes;

	sent = NULL;
	told_while_late(context, slowly);
	told_without_answer();
	sent = slowly;
	sent_bytes = bytes;
}

/* What is known of a page holds for one table of mappings, also when they have no new number left. */
static void pages_forgotten(void)
{
	const u64 page = 5, at = 3;

	__builtin_memset(&workspace, 0, sizeof(workspace));
	workspace.known_page[page] = page << RANGE_BITS | at;
	if (range_of(&workspace, page << PAGE_SHIFT) != at)
		abort();
	forget_pages(&workspace);
	if (range_of(&workspace, page << PAGE_SHIFT))
		abort();
	workspace.known_as = -KNOWN_AS_STEP;
	forget_pages(&workspace);
	if (workspace.known_as || range_of(&workspace, page << PAGE_SHIFT))
		abort();
}

int main(void)
{
	u64 context;

	pages_forgotten();
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
		mapped.lowest = ~0UL;
		for (u32 i = 0; i < test_case.ranges; i++)
			widen(&mapped, &mapped.range[i]);
		regs.ip = test_case.ip;
		regs.sp = test_case.sp;
		regs.bp = test_case.bp;
		__builtin_memset(&workspace, 0x5a, sizeof(workspace));
		sent = NULL;
		context = captured(READ_CALMLY);
		if (!context || !sent)
			abort();
		if (*(u32 *)sent == RECORD_CONTEXT)
			remembered(context);
		else
			told_without_rules(context);
		__builtin_memset(&workspace, 0xa5, sizeof(workspace));
		same_in_a_hurry(context); /* mappings out of the map */
		mapped.exec_vm = 2;
		same_in_a_hurry(context); /* mappings of the last time */
		mm.exec_vm = 3; /* of neither */
		in_a_hurry(0, false, true);
		mm.exec_vm = 1;
		mapped.exec_vm = 1;
		if (can_be_direct())
			not_while_remapped();
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
