/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The native half of the agent: walks the stack of the calling thread, turns it into a signature
 * and puts that where the BPF program reads it.
 *
 * Idea: one call before a write (enter), which walks and stores to the thread's slot, and one after
 * it (leave), which stores 0. Names of methods and of paths are looked up in two tables that are
 * read without locks; only a method or a path that is new takes a mutex. Stacks are walked quickly where
 * the JVM can and tells all that the path needs, and by JVMTI otherwise.
 *
 * Invariants:
 *  - The slot is not 0 only between enter and leave, that is around one call into the kernel.
 *  - Slots are thread-local memory of native threads: valid as long as the thread lives. After that
 *    the kernel has nobody to read them for, so nothing is taken back at the end of a thread.
 *  - A virtual thread uses the slot of its carrier. It cannot leave the carrier between enter and
 *    leave, because only a call that blocks in the kernel lies between (see WriteTransformer).
 *  - Entries of the tables are never freed or changed (but for `recurs`): see table.h.
 *
 * Known weaknesses:
 *  - A jmethodID is taken to name one method for ever. HotSpot keeps this up: ids of unloaded
 *    classes are not given again. In another JVM that recycles them a path may get an old name.
 *  - Memory grows with the number of distinct methods and paths, up to MOST_METHODS and MOST_PATHS;
 *    what comes later is published as "no path" and without a name, respectively.
 *  - A quick walk that breaks off at the method in which the thread began, which called itself for the first time in
 *    this program, is taken for a whole one (see ends_once).
 *  - The JVM itself takes short locks in GetStackTrace (memory of its walk).
 *  - A seccomp filter that kills at unknown prctl options kills the program.
 */
#include "class_name.h"
#include "java_signature.h"
#include "quick_frames.h"
#include "table.h"
#include "thread_role.h"
#include "pcstream_runtime.h"

#include <jni.h>
#include <jvmti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct pcstream_slot) == 16, "the BPF program reads 16 bytes");
_Static_assert(sizeof(struct pcstream_path) == 16, "the BPF program reads the text behind 16 bytes");

#define MOST_DEPTH 32
#define MOST_METHODS (1u << 18)
#define MOST_PATHS (1u << 16)
#define MOST_ROLES 256 /* programs may name threads as they like; those beyond have none */
#define AGAIN_MS 1000  /* registrations are repeated after this time */
#define QUICK_AGAIN 16 /* walks by JVMTI after one that could not be quick */
#define MEMOS 64       /* streams whose paths a thread caches, a power of two */

/*
 * A walk begins above the hook's own two frames and those of the instrumented class (looking up the
 * jmethodID of a class that was retransformed takes a lock of the JVM), and looks at no more than
 * MOST_FRAMES. Each frame costs, so a thread first asks for as many as its last walks needed,
 * and for the rest if frames of the program are still missing.
 */
#define HOOK_FRAMES 2

struct method {
	u64 id; /* its jmethodID: key */
	u64 class_hash, method_hash;
	char *class_name, *name;
	int skipped; /* of the JDK or of the agent */
	enum {
		ANYWHERE,
		BEGINS_THREAD,	/* by its name it may be where a thread begins */
		BEGINS_VIRTUAL, /* the outermost frame of a virtual thread: nothing of it lies in the heap */
		CUTS_OFF	/* frames further out lie in the heap, or are the carrier's */
	} place;
	atomic_int recurs; /* it was outermost and further in on one stack */
};

struct frame {
	const struct method *method;
	jlocation bytecode_index;
};

/* Frames of the program, innermost first. */
struct walked {
	struct frame frames[MOST_DEPTH + 1]; /* and the role */
	unsigned int n;
	const struct method *methods[MOST_FRAMES]; /* of frames of all kinds; NULL: its class is gone */
	jint seen;				   /* of those */
	jint needed; /* frames to ask for, to see as much at once; one more than there are to see the end */
	u64 hash;
};

struct memo {
	unsigned int stream; /* identity hash code, 0: unused */
	unsigned int left;   /* writes before the next walk */
	struct pcstream_path *path;
};

struct thread {
	struct pcstream_slot slot;
	u64 registered_ms;
	jint needed;			/* frames, by the last walks */
	unsigned int slow_walks;	/* before the next quick one */
	const struct method *outermost; /* where JVMTI last saw this thread's stack end; NULL: nowhere that differs from others */
	const struct method *role;	/* what the thread is for; NULL: not known, or not asked for */
	u64 role_ms;			/* when that was found out */
	struct memo memo[MEMOS];
};

static __thread struct thread self __attribute__((aligned(8)));
static struct table methods = { .lock = PTHREAD_MUTEX_INITIALIZER, .most = MOST_METHODS };
static struct table paths = { .lock = PTHREAD_MUTEX_INITIALIZER, .most = MOST_PATHS };
static struct table roles = { .lock = PTHREAD_MUTEX_INITIALIZER, .most = MOST_ROLES };
static jvmtiEnv *jvmti;
static unsigned int depth, memo_period;
static int verbose, by_role;
static enum { WALK_JVMTI, WALK_QUICK, WALK_BOTH } way;
static atomic_ulong alike, unlike, slow; /* paths walked both ways, and those that JVMTI alone could tell */
static jclass virtual_thread;		 /* NULL: this JDK has none */

static u64 now_ms(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (u64)now.tv_sec * 1000 + (u64)now.tv_nsec / 1000000 + 1; /* 0 stands for never */
}

static void method_free(struct method *method)
{
	free(method->class_name);
	free(method->name);
	free(method);
}

static int method_place(const char *class_name, const char *name)
{
	if (!strcmp(class_name, "jdk.internal.vm.Continuation")) {
		if (!strcmp(name, "enter"))
			return BEGINS_VIRTUAL;
		/* What is in the heap returns to enterSpecial, and that to run, which is the carrier's. */
		return !strcmp(name, "enterSpecial") || !strcmp(name, "run") ? CUTS_OFF : ANYWHERE;
	}
	return !strcmp(name, "run") || !strcmp(name, "main") ? BEGINS_THREAD : ANYWHERE;
}

/* The slow way to a method's names; NULL if its class is gone or memory is short. */
static const struct method *method_resolve(JNIEnv *env, jmethodID id)
{
	struct method *method = calloc(1, sizeof(*method));
	char *name = NULL, *signature = NULL;
	jclass class = NULL;
	u64 *found = NULL;

	if (!method)
		return NULL;
	if ((*jvmti)->GetMethodName(jvmti, id, &name, NULL, NULL) || (*jvmti)->GetMethodDeclaringClass(jvmti, id, &class) ||
	    (*jvmti)->GetClassSignature(jvmti, class, &signature, NULL))
		goto out;
	method->id = (u64)(uintptr_t)id;
	method->name = strdup(name);
	method->class_name = strdup(pcstream_class_name(signature));
	if (!method->name || !method->class_name)
		goto out;
	method->class_hash = pcstream_bytes_hash(method->class_name, strlen(method->class_name));
	method->method_hash = pcstream_bytes_hash(method->name, strlen(method->name));
	method->skipped = pcstream_class_is_jdk(method->class_name);
	method->place = method_place(method->class_name, name);
	found = pcstream_table_insert(&methods, &method->id);
out:
	if (found != &method->id)
		method_free(method);
	if (class)
		(*env)->DeleteLocalRef(env, class);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)signature);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)name);
	return (const struct method *)found;
}

/* One line on standard error for a new path; one write, so that lines of threads do not mix. */
static void path_print(const struct pcstream_path *path, const struct frame *frames, unsigned int n)
{
	char *line = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&line, &size);

	if (!out)
		return;
	fprintf(out, "pcstream: %016llx ", path->signature);
	for (unsigned int i = 0; i < n; i++)
		fprintf(out, "%s%s.%s:%lld", i ? " < " : "", frames[i].method->class_name, frames[i].method->name,
			(long long)frames[i].bytecode_index);
	fputc('\n', out);
	if (!fclose(out) && write(STDERR_FILENO, line, size) < 0) {
		/* Nobody listens. */
	}
	free(line);
}

/* Makes the entry of a path that is seen for the first time; NULL if there is no room. */
static struct pcstream_path *path_new(u64 signature, const struct frame *frames, unsigned int n)
{
	char text[PCSTREAM_PATH_TEXT];
	unsigned int bytes = 0, lines = 0;
	struct pcstream_path *path, *found;

	for (; lines < n; lines++) {
		int length = snprintf(text + bytes, sizeof(text) - bytes, "%s\t%s\t%lld\n", frames[lines].method->class_name,
				      frames[lines].method->name, (long long)frames[lines].bytecode_index);

		if (length < 0 || (unsigned int)length >= sizeof(text) - bytes)
			break;
		bytes += (unsigned int)length;
	}
	path = calloc(1, sizeof(*path) + bytes);
	if (!path)
		return NULL;
	path->signature = signature;
	path->bytes = bytes;
	path->frames = lines;
	memcpy(path->text, text, bytes);
	found = (struct pcstream_path *)pcstream_table_insert(&paths, &path->signature);
	if (found != path)
		free(path);
	else if (verbose)
		path_print(path, frames, n);
	return found;
}

/* A role as the outermost frame of paths. */
static const struct method *role_resolve(const char *name)
{
	static const char class_name[] = "thread";
	char text[PCSTREAM_ROLE_BYTES];
	unsigned int length = pcstream_thread_role(name, text);
	struct method *role;
	u64 hash, key, *found;

	if (!length)
		return NULL;
	hash = pcstream_bytes_hash(text, length);
	key = hash ? hash : 1;
	found = pcstream_table_find(&roles, key);
	if (found)
		return (const struct method *)found;
	role = calloc(1, sizeof(*role));
	if (!role)
		return NULL;
	role->id = key;
	role->name = strdup(text);
	role->class_name = strdup(class_name);
	role->class_hash = pcstream_bytes_hash(class_name, strlen(class_name));
	role->method_hash = hash;
	found = role->name && role->class_name ? pcstream_table_insert(&roles, &role->id) : NULL;
	if (found != &role->id)
		method_free(role);
	return (const struct method *)found;
}

/*
 * The role of the calling thread, looked at once a second. A virtual thread has none: its carrier, which `self` belongs to,
 * takes up others in between.
 */
static const struct method *thread_role(JNIEnv *env)
{
	jvmtiThreadInfo info = { 0 };
	jthread thread = NULL;
	u64 now = now_ms();

	if (self.role_ms && now - self.role_ms < AGAIN_MS)
		return self.role;
	self.role_ms = now;
	self.role = NULL;
	if ((*jvmti)->GetCurrentThread(jvmti, &thread) || !thread)
		return NULL;
	if ((!virtual_thread || !(*env)->IsInstanceOf(env, thread, virtual_thread)) &&
	    !(*jvmti)->GetThreadInfo(jvmti, thread, &info)) {
		if (info.name)
			self.role = role_resolve(info.name);
		(*jvmti)->Deallocate(jvmti, (unsigned char *)info.name);
		if (info.thread_group)
			(*env)->DeleteLocalRef(env, info.thread_group);
		if (info.context_class_loader)
			(*env)->DeleteLocalRef(env, info.context_class_loader);
	}
	(*env)->DeleteLocalRef(env, thread);
	return self.role;
}

static const struct method *method_find(jmethodID id)
{
	return (const struct method *)pcstream_table_find(&methods, (u64)(uintptr_t)id);
}

static void walked_begin(struct walked *walked)
{
	walked->n = 0;
	walked->seen = 0;
	walked->needed = 0;
	walked->hash = SIGNATURE_SEED;
}

static void walked_add(struct walked *walked, const struct method *method, jlocation bytecode_index)
{
	walked->frames[walked->n].method = method;
	walked->frames[walked->n++].bytecode_index = bytecode_index;
	walked->hash = pcstream_java_frame_mix(walked->hash, method->class_hash, method->method_hash, bytecode_index);
}

static void walked_see(struct walked *walked, const struct method *method, jlocation bytecode_index)
{
	walked->methods[walked->seen++] = method;
	walked->needed = walked->seen;
	if (method && !method->skipped)
		walked_add(walked, method, bytecode_index);
}

/*
 * The method in which a stack ends that was seen to its end. NULL if threads do not begin in such, or if that
 * method was found further in, too, on this stack or on another: where a walk breaks off could look like the end.
 */
static const struct method *ends_once(const struct walked *walked)
{
	jint inner = walked->seen - 1;
	struct method *outermost = inner >= 0 ? (struct method *)walked->methods[inner] : NULL;

	if (!outermost || outermost->place != BEGINS_THREAD)
		return NULL;
	while (inner > 0)
		if (walked->methods[--inner] == outermost)
			atomic_store_explicit(&outermost->recurs, 1, memory_order_relaxed);
	return atomic_load_explicit(&outermost->recurs, memory_order_relaxed) ? NULL : outermost;
}

static jint first_batch(void)
{
	return self.needed ? self.needed : (jint)depth;
}

/*
 * Walks quickly. Returns whether that is what JVMTI would tell: all frames that a path has, or the stack's end and there the
 * frame that is outermost in this thread.
 */
static int walk_quickly(JNIEnv *env, jint above, struct walked *walked)
{
	jvmtiFrameInfo infos[MOST_FRAMES];

	for (jint batch = first_batch();; batch = MOST_FRAMES) {
		jint count = pcstream_quick_frames(env, HOOK_FRAMES + above, batch, infos);

		walked_begin(walked);
		for (jint i = 0; i < count && walked->n < depth; i++) {
			const struct method *method = method_find(infos[i].method);

			if (!method || method->place == CUTS_OFF)
				return 0;
			walked_see(walked, method, infos[i].location);
			if (method->place == BEGINS_VIRTUAL)
				return 1;
		}
		if (walked->n == depth)
			return 1;
		if (count < batch) {
			walked->needed = walked->seen + 1;
			return self.outermost && ends_once(walked) == self.outermost;
		}
		if (batch == MOST_FRAMES)
			return 1;
	}
}

static void walk_by_jvmti(JNIEnv *env, jint above, struct walked *walked)
{
	jvmtiFrameInfo infos[MOST_FRAMES];
	jint batch = first_batch(), count;
	jvmtiError problem;

	walked_begin(walked);
	do {
		count = 0;
		problem = (*jvmti)->GetStackTrace(jvmti, NULL, HOOK_FRAMES + above + walked->seen, batch, infos, &count);
		for (jint i = 0; !problem && i < count && walked->n < depth; i++) {
			const struct method *method = method_find(infos[i].method);

			walked_see(walked, method ? method : method_resolve(env, infos[i].method), infos[i].location);
		}
		if (walked->n == depth)
			return;
		if (problem || count < batch) {
			walked->needed = walked->seen + 1;
			/* An illegal argument: nothing is above what was seen. */
			self.outermost = !problem || problem == JVMTI_ERROR_ILLEGAL_ARGUMENT ? ends_once(walked) : NULL;
			return;
		}
		batch = MOST_FRAMES - walked->seen;
	} while (batch > 0);
}

/* For tests of a JVM: what both ways tell is compared, and JVMTI believed. */
static void walk_both_ways(JNIEnv *env, jint above, struct walked *walked)
{
	struct walked quick;
	int found = walk_quickly(env, above, &quick);

	walk_by_jvmti(env, above, walked);
	if (found)
		atomic_fetch_add(quick.n == walked->n && quick.hash == walked->hash ? &alike : &unlike, 1);
	else
		atomic_fetch_add(&slow, 1);
}

__attribute__((destructor)) static void tell_both_ways(void)
{
	if (way == WALK_BOTH)
		fprintf(stderr, "pcstream: walked both ways %lu alike, %lu unlike, %lu by JVMTI alone\n", alike, unlike, slow);
}

static void walk_frames(JNIEnv *env, jint above, struct walked *walked)
{
	if (way == WALK_BOTH) {
		walk_both_ways(env, above, walked);
		return;
	}
	if (way == WALK_QUICK && !self.slow_walks) {
		if (walk_quickly(env, above, walked))
			return;
		self.slow_walks = QUICK_AGAIN;
	}
	if (self.slow_walks)
		self.slow_walks--;
	walk_by_jvmti(env, above, walked);
}

/*
 * The path of the calling thread above its first frames, which are of the JDK; its signature alone if
 * it cannot be kept; 0: none but JDK frames.
 */
static u64 walk(JNIEnv *env, jint above, struct pcstream_path **path)
{
	const struct method *role;
	struct walked walked;
	u64 signature;

	*path = NULL;
	walk_frames(env, above, &walked);
	/* Threads that write in several ways: to ask twice costs more than to ask for a frame too many. */
	self.needed = walked.needed < self.needed ? self.needed - 1 : walked.needed;
	if (self.needed > MOST_FRAMES)
		self.needed = MOST_FRAMES;
	if (!walked.n)
		return 0;
	role = by_role ? thread_role(env) : NULL;
	if (role)
		walked_add(&walked, role, -1);
	signature = pcstream_java_signature_end(walked.hash);
	*path = (struct pcstream_path *)pcstream_table_find(&paths, signature);
	if (!*path)
		*path = path_new(signature, walked.frames, walked.n);
	return signature;
}

/* Between the two stores reads only a probe that interrupts this thread; it takes the signature for what counts. */
static void slot_set(u64 signature, const struct pcstream_path *path)
{
	__atomic_store_n(&self.slot.path, path, __ATOMIC_RELAXED);
	__atomic_store_n(&self.slot.signature, signature, __ATOMIC_RELAXED);
}

static void slot_register(u64 now)
{
	if (self.registered_ms && now - self.registered_ms < AGAIN_MS)
		return;
	self.registered_ms = now;
	prctl(PCSTREAM_THREAD_SLOT, &self.slot, 0, 0, 0);
}

/*
 * Before a write. stream: identity of what is written to, 0: do not cache its path. above: frames of
 * the instrumented class.
 */
JNIEXPORT void JNICALL Java_org_pcstream_agent_PcStreamHook_enter0(JNIEnv *env, jclass class, jint stream, jint above)
{
	struct memo *memo = &self.memo[(unsigned int)stream % MEMOS];
	u64 now = now_ms(), signature;
	struct pcstream_path *path;

	(void)class;
	slot_register(now);
	if (stream && memo->stream == (unsigned int)stream && memo->left) {
		memo->left--;
		path = memo->path;
		signature = path ? path->signature : 0;
	} else {
		signature = walk(env, above, &path);
		/* A path that could not be kept cannot be cached either. */
		if (stream && (path || !signature)) {
			memo->stream = (unsigned int)stream;
			memo->left = memo_period - 1;
			memo->path = path;
		}
	}
	slot_set(signature, path);
}

/* After it. */
JNIEXPORT void JNICALL Java_org_pcstream_agent_PcStreamHook_leave0(JNIEnv *env, jclass class)
{
	(void)env;
	(void)class;
	slot_set(0, NULL);
}

/* The signature of the caller's path, for a write that another thread will do. */
JNIEXPORT jlong JNICALL Java_org_pcstream_agent_PcStreamHook_walk0(JNIEnv *env, jclass class)
{
	struct pcstream_path *path;
	u64 signature = walk(env, 1, &path);

	(void)class;
	return (jlong)signature;
}

/* That write, in the other thread. */
JNIEXPORT void JNICALL Java_org_pcstream_agent_PcStreamHook_enterKnown0(JNIEnv *env, jclass class, jlong signature)
{
	u64 now = now_ms();
	struct pcstream_path *path = (struct pcstream_path *)pcstream_table_find(&paths, (u64)signature);

	(void)env;
	(void)class;
	slot_register(now);
	slot_set((u64)signature, path);
}

/* After a file was mapped: the buffer over it, or NULL and its address. */
JNIEXPORT void JNICALL Java_org_pcstream_agent_PcStreamHook_mapped0(JNIEnv *env, jclass class, jobject buffer, jlong address,
								    jlong length)
{
	uintptr_t start = buffer ? (uintptr_t)(*env)->GetDirectBufferAddress(env, buffer) : (uintptr_t)address;
	uintptr_t inside = start & (uintptr_t)(getpagesize() - 1);
	struct pcstream_path *path;
	u64 signature;

	(void)class;
	if (!start || length <= 0)
		return;
	signature = walk(env, 1, &path);
	if (!signature || !path)
		return;
	/* The mapping begins at a page, the buffer where the caller asked. */
	prctl(PCSTREAM_MAPPED, start - inside, (unsigned long)length + inside, path, 0);
}

/* Whether the JVM gives what is needed. */
JNIEXPORT jboolean JNICALL Java_org_pcstream_agent_PcStreamHook_start0(JNIEnv *env, jclass class, jint frames, jint period,
								       jboolean print, jboolean roles_wanted, jint way_wanted)
{
	jclass found;
	JavaVM *vm;

	(void)class;
	if ((*env)->GetJavaVM(env, &vm) || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) || !jvmti)
		return JNI_FALSE;
	depth = frames < 1 ? 1 : frames > MOST_DEPTH ? MOST_DEPTH : (unsigned int)frames;
	memo_period = period < 1 ? 1 : (unsigned int)period;
	verbose = print;
	by_role = roles_wanted;
	if (way_wanted == WALK_BOTH || way_wanted == WALK_QUICK)
		way = pcstream_quick_start(jvmti) || way_wanted == WALK_BOTH ? way_wanted : WALK_JVMTI;
	found = (*env)->FindClass(env, "java/lang/BaseVirtualThread");
	if (found)
		virtual_thread = (*env)->NewGlobalRef(env, found);
	else
		(*env)->ExceptionClear(env);
	return JNI_TRUE;
}
