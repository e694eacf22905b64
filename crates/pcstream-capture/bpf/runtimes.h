/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Paths of language runtimes (libpcstream/pcstream_runtime.h): code that is compiled while it runs has no
 * call-frame tables and no names, but its runtime knows the path in its own language.
 *
 *   register_runtime  a thread registers its slot, or a file that a path mapped
 *   runtime_path      what the slot holds, or by which path the file was mapped that is stored to
 *   emit_runtime      the context of that path, with its names when it is new
 *
 * Invariants: what a process registers counts for its own writes only, and its names only if their signature is right (user
 * space looks). Memory of the process is read with bounded reads that may fail. Paths are limited in number, for
 * any process may register some: beyond, the context is the program and the entry.
 *
 * Known weaknesses: the last path that mapped a file stands for all its mappings in the process; mapped files beyond the table
 * (the least recently used; they are counted) and those made before the capture began are not known.
 */
#ifndef PCSTREAM_RUNTIMES_H
#define PCSTREAM_RUNTIMES_H

#include "../libpcstream/pcstream_runtime.h"
#include "capture.h"
#include "places.h"

/* See space_of_process and space_of_file. */
struct mapped_key {
	u64 process;
	u64 file;
};

#define MAX_RUNTIME_PATHS 65536 /* as many as the Java agent gives names */
#define MAX_MAPPED_FILES 65536

MAP(mapped_files, LRU_HASH, MAX_MAPPED_FILES, struct mapped_key, struct pcstream_slot);

/* How many were put there. */
u32 files_mapped = 0;

/* Paths whose names were sent, by process and signature; one that is pushed out of `known_names` counts again. */
u32 runtime_paths_sent = 0;

/* For how often the lock of the mappings, which another thread may hold, is tried: half a millisecond or so. */
#define MAPPING_TRIES 8192

struct mapping_search {
	u64 address;
	struct memory found; /* all 0 unless there is one */
};

static long try_mapping(u64 i, struct mapping_search *search)
{
	struct memory *found = &search->found;

	return bpf_find_vma(bpf_get_current_task_btf(), search->address, note_mapping, &found, 0) != -EBUSY;
}

static __always_inline int register_runtime(int option, unsigned long first, unsigned long third)
{
	struct task_struct *task;
	struct mapping_search search = {};
	struct mapped_key key = {};
	struct pcstream_slot by = {};
	struct task_cache *cache;

	if (option != PCSTREAM_THREAD_SLOT && option != PCSTREAM_MAPPED)
		return 0;
	task = bpf_get_current_task_btf();
	if (!task->mm)
		return 0;
	if (option == PCSTREAM_THREAD_SLOT) {
		cache = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!cache)
			return 0;
		cache->slot = first & 7 ? 0 : first;
		cache->slot_process = space_of_process(task);
		return 0;
	}
	if (!target_dev || bpf_probe_read_user(&by.signature, sizeof(by.signature), (void *)third))
		return 0;
	by.path = (void *)third;
	search.address = first;
	if (bpf_loop(MAPPING_TRIES, try_mapping, &search, 0) == MAPPING_TRIES && !search.found.end)
		count(LOCKED_MAPPINGS);
	if (search.found.device != target_dev || !by.signature)
		return 0;
	key.process = space_of_process(task);
	key.file = search.found.space;
	if (!bpf_map_lookup_elem(&mapped_files, &key)) {
		if (files_mapped >= MAX_MAPPED_FILES)
			count(LOST_RUNTIME_MAPPINGS);
		__sync_fetch_and_add(&files_mapped, 1);
	}
	bpf_map_update_elem(&mapped_files, &key, &by, BPF_ANY);
	return 0;
}

/* The runtime's path of the write of this inode that the task is in, after begin_capture. */
static __always_inline bool runtime_path(struct workspace *ws, struct task_cache *cache, struct task_struct *task,
					 struct inode *inode, struct pcstream_slot *path)
{
	s32 entry = ws->context.entry;

	path->signature = 0;
	if (entry == (s32)ENTRY_FAULT && files_mapped) {
		struct mapped_key key = { .process = space_of_process(task), .file = space_of_file(number_of(ws, inode)) };
		struct pcstream_slot *by = bpf_map_lookup_elem(&mapped_files, &key);

		if (by)
			*path = *by;
	} else if (cache->slot && cache->slot_process == space_of_process(task) && entry != (s32)ENTRY_FAULT) {
		if (bpf_probe_read_user(path, sizeof(*path), (void *)cache->slot))
			path->signature = 0;
	}
	return path->signature != 0;
}

/* Sends the names of a path. Whether they could be read and sent; else they are asked for at its next write. */
static __always_inline bool emit_names(struct workspace *ws, struct pcstream_slot *path)
{
	struct runtime_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	u32 bytes = 0;

	if (!r) {
		count(LOST_TABLE_RECORDS);
		ws->unsent = 1;
		return false;
	}
	r->type = RECORD_RUNTIME;
	r->signature = path->signature;
	bpf_probe_read_user(&bytes, sizeof(bytes), (void *)path->path + 8);
	if (bytes > sizeof(r->text))
		bytes = sizeof(r->text);
	if (!bytes || bpf_probe_read_user(r->text, bytes, (void *)path->path + sizeof(*path->path))) {
		count(LOST_RUNTIME_NAMES);
		bpf_ringbuf_discard(r, 0);
		return false;
	}
	r->bytes = bytes;
	bpf_ringbuf_submit(r, record_flags(false));
	return true;
}

/* Its context. */
static __always_inline u64 emit_runtime(struct workspace *ws, struct task_struct *task, struct pcstream_slot *path)
{
	u64 key = signature_mix(space_of_process(task), path->signature), executable = executable_of(ws, task->mm);

	count(RUNTIME_PATHS);
	if (!is_known(key)) {
		if (runtime_paths_sent >= MAX_RUNTIME_PATHS) {
			count(LOST_RUNTIME_PATHS);
			return emit_context(ws, executable, UNWIND_NONE);
		}
		/* Memory that is swapped out is asked for again. */
		if (!path->path || emit_names(ws, path)) {
			__sync_fetch_and_add(&runtime_paths_sent, 1);
			make_known(key);
		}
	}
	ws->found = 0;
	ws->context.frame[0].module = MODULE_RUNTIME;
	ws->context.frame[0].offset = path->signature;
	return emit_context(ws, executable, UNWIND_RUNTIME);
}

#endif
