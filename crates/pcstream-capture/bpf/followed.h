/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Attached captures: which tasks are followed. What all others write has one context.
 *
 *   of_others   whether a task is none of those that are followed
 *   is_outside  whether a file is not in the only directory that is followed
 *   on_fork     what a followed process starts is followed, too
 *
 * A followed process is marked in the storage of its threads, not by its number: the recorder may live in a PID namespace, and numbers
 * are used again. The leader's mark counts. A cgroup stands for all that are below it.
 *
 * Known weaknesses: before Linux 6.9, a thread that ran already when the capture began is not marked, and if it becomes another program
 * that is not followed; a page that others made dirty first is theirs until it is written; of a file with several names, MAX_NAMES
 * are looked at, and those alone that the kernel has in its cache.
 */
#ifndef PCSTREAM_FOLLOWED_H
#define PCSTREAM_FOLLOWED_H

#include "names.h"
#include <bpf/bpf_tracing.h>

const volatile u32 followed = FOLLOWED_ALL;
const volatile u64 only_below = 0; /* inode of the only directory that is followed, with what is below it; 0: there is none */

#define MAX_NAMES 4
/* Directories above a file, at most: more than any path can name. */
#define MAX_DIRECTORIES 4096

MAP_WITH(BPF_F_NO_PREALLOC, followed_processes, TASK_STORAGE, 0, int, u32);

MAP(followed_cgroup, CGROUP_ARRAY, 1, u32, u32);

/* `task` is the current one. */
static __always_inline bool of_others(struct task_struct *task)
{
	if (followed == FOLLOWED_CGROUP)
		return bpf_current_task_under_cgroup(&followed_cgroup, 0) != 1;
	if (followed == FOLLOWED_PROCESSES)
		return !bpf_task_storage_get(&followed_processes, task->group_leader, 0, 0);
	return false;
}

struct ascent {
	struct dentry *dentry;
	bool found;
};

static long ascend(u64 i, struct ascent *ascent)
{
	struct dentry *dentry = ascent->dentry;

	ascent->found = BPF_CORE_READ(dentry, d_inode, i_ino) == only_below;
	ascent->dentry = BPF_CORE_READ(dentry, d_parent);
	return ascent->found || ascent->dentry == dentry;
}

/* Inodes are compared, not names: so renames, links, bind mounts and names of any length and coding do not matter. */
static __always_inline bool is_outside(struct inode *inode)
{
	u64 alias;
	u32 i;

	if (!only_below || !inode)
		return false;
	alias = (u64)BPF_CORE_READ(inode, i_dentry.first);
	for (i = 0; i < MAX_NAMES && alias; i++) {
		struct ascent ascent = { .dentry = (void *)(alias - alias_offset()) };

		bpf_loop(MAX_DIRECTORIES, ascend, &ascent, 0);
		if (ascent.found)
			return false;
		alias = (u64)BPF_CORE_READ((struct hlist_node *)alias, next);
	}
	return true;
}

#endif
