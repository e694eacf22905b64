/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Frames of the calling thread by AsyncGetCallTrace, which HotSpot exports for profilers: some half of what GetStackTrace
 * costs, as the thread need not enter the JVM (no lock, no change of state, no table of where a frame has its objects).
 *
 * Profilers call it from signals at any place; here the thread is in a native method, where HotSpot has noted its last Java frame
 * and no context of a signal is asked for.
 *
 * Known weaknesses:
 *  - It is exported, but no official interface: looked for in libjvm.so, and done without where it is missing.
 *  - It is silent about what it cannot walk, such as a frame whose caller was deoptimised or is native code: too few frames look
 *    like the end of the stack. The caller has to know the outermost.
 *  - Of a virtual thread it sees the frames that are on the stack; those still in the heap are left out. Between them and the
 *    carrier's are frames of jdk.internal.vm.Continuation.
 *  - It gives no ids of methods that have none yet: NULL, until GetStackTrace was asked.
 *  - While the world is stopped for garbage collection it refuses; but collection, and redefinition of classes, may begin during
 *    a walk. HotSpot is made for that, with exceptions: before 18 and 17.0.7 it looks through a list of memory areas which unloading
 *    of classes may shorten (JDK-8275704), and the ids of a class's methods move when redefinition adds methods.
 */
#define _GNU_SOURCE
#include "quick_frames.h"

#include <dlfcn.h>
#include <string.h>

#define MOST_SKIPPED 16
#define LINE_NATIVE (-3) /* of a native method; JVMTI says -1 */

/* HotSpot's forte.cpp. */
struct call_frame {
	jint bytecode_index;
	jmethodID method;
};

struct call_trace {
	JNIEnv *env;
	jint count; /* negative: why there are none */
	struct call_frame *frames;
};

typedef void (*walk_function)(struct call_trace *, jint, void *);

static walk_function async_get_call_trace;

static void JNICALL on_class_load(jvmtiEnv *jvmti, JNIEnv *env, jthread thread, jclass class)
{
	(void)jvmti;
	(void)env;
	(void)thread;
	(void)class;
}

int pcstream_quick_start(jvmtiEnv *jvmti)
{
	/* HotSpot walks only where loading of classes is listened to. */
	jvmtiEventCallbacks callbacks = { .ClassLoad = on_class_load };
	const char *name;
	void *library;
	Dl_info info;

	if (!dladdr((void *)(*jvmti)->GetStackTrace, &info) || !info.dli_fname)
		return 0;
	name = strrchr(info.dli_fname, '/');
	if (strcmp(name ? name + 1 : info.dli_fname, "libjvm.so"))
		return 0;
	library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	async_get_call_trace = library ? (walk_function)dlsym(library, "AsyncGetCallTrace") : NULL;
	if (!async_get_call_trace)
		return 0;
	if ((*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks)) ||
	    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_CLASS_LOAD, NULL))
		async_get_call_trace = NULL;
	return async_get_call_trace != NULL;
}

jint pcstream_quick_frames(JNIEnv *env, jint skipped, jint most, jvmtiFrameInfo *frames)
{
	struct call_frame found[MOST_SKIPPED + MOST_FRAMES];
	struct call_trace trace = { .env = env, .frames = found };
	jint count;

	if (!async_get_call_trace || skipped > MOST_SKIPPED || most > MOST_FRAMES)
		return -1;
	async_get_call_trace(&trace, skipped + most, NULL);
	if (trace.count < skipped)
		return -1;
	count = trace.count - skipped;
	for (jint i = 0; i < count; i++) {
		const struct call_frame *frame = &found[skipped + i];

		frames[i].method = frame->method;
		frames[i].location = frame->bytecode_index == LINE_NATIVE ? -1 : frame->bytecode_index;
	}
	return count;
}
