/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Frames of the calling thread by HotSpot's own walk for profilers. See quick_frames.c. */
#ifndef PCSTREAM_QUICK_FRAMES_H
#define PCSTREAM_QUICK_FRAMES_H

#include <jvmti.h>

#define MOST_FRAMES 128 /* that a walk looks at */

/* Looks for the walk, once, before the first write. Returns whether this JVM has it. */
int pcstream_quick_start(jvmtiEnv *jvmti);

/*
 * Frames of the calling thread, which must be in a native method, as GetStackTrace gives them: the innermost `skipped` left out,
 * at most `most` (up to MOST_FRAMES) of the others. Fewer: the stack ends there, or could not be walked further. -1: not now, or
 * not at all. A method that JVMTI never reported is NULL.
 */
jint pcstream_quick_frames(JNIEnv *env, jint skipped, jint most, jvmtiFrameInfo *frames);

#endif
