/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Settings, limits and small helpers that all parts of the program share.
 *
 * A setting is written before the program is loaded: the verifier leaves out the code that it switches off.
 */
#ifndef PCSTREAM_SETTINGS_H
#define PCSTREAM_SETTINGS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "../libpcstream/signature.h"

#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000
#define VM_EXEC 4
#define VM_SHARED 8
#define EBUSY 16 /* of bpf_find_vma: another thread holds the lock of the mappings */
#define F_SET_RW_HINT 1036
#define F_SET_FILE_RW_HINT 1038
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define USER_END (1UL << 47)

const volatile u32 scan_depth = SCAN_DEPTH;
const volatile u32 fp_depth = FP_DEPTH;
const volatile u32 unwind = 0;		   /* enum unwind_mode: this way and no other; 0: the best that each stack allows */
const volatile u32 tag_mask = 0;	   /* entries of the tags array, less one */
const volatile u32 check_every = 0;	   /* one path in so many is sent with its whole stack; 0: none */
const volatile u32 no_cache = 0;	   /* for measurements: 1: each path is captured in full */
const volatile u32 per_address_lookup = 0; /* 1: look mappings up one by one even if they can be iterated */
const volatile u32 most_buffer_pages = 0;  /* entries of buffer_pages */
const volatile u32 buffers = 0;		   /* 1: there are rules for write buffers, and their probes are attached */
const volatile u32 raw = 0;		   /* 1: the target is a device without a file system */
const volatile u32 answering = 0;	   /* 1: programs that ask for the stream of a write get it (device.h) */

const volatile u32 prompt = 0; /* 1: user space is woken for every record: somebody waits for it */

void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

/* A field behind any address; 0 where there is nothing. Since Linux 6.2 it is a load, which costs much less than the call before that. */
#define LOAD(pointer, field) \
	(bpf_ksym_exists(bpf_rdonly_cast) \
		 ? ((typeof(pointer))bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(typeof(*(pointer)))))->field \
		 : BPF_CORE_READ(pointer, field))

/* Set once the file system is mounted; 0 switches everything off. */
u32 target_dev = 0;

#define REQ_F_FIXED_FILE 1
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define S_IFMT 0170000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFREG 0100000

/* Inodes 1 and 2 are no files on ext4, XFS and F2FS. F2FS, whose own they are, leaves in their i_mode what was there before. */
#define INTERNAL_INODES 2

/* Whether an inode is the target's: of a file on it, or, on a device without a file system, the device's own. */
#define IS_OF_TARGET(inode) \
	(raw ? (inode)->i_rdev == target_dev && ((inode)->i_mode & S_IFMT) == S_IFBLK \
	     : (inode)->i_sb->s_dev == target_dev && (inode)->i_ino > INTERNAL_INODES && ((inode)->i_mode & S_IFMT) == S_IFREG)

/* Whether any address is an inode on the target, of a file or not. */
static __always_inline bool is_on_target(struct inode *inode)
{
	struct super_block *sb;

	if (raw)
		return LOAD(inode, i_rdev) == target_dev && (LOAD(inode, i_mode) & S_IFMT) == S_IFBLK;
	sb = LOAD(inode, i_sb);
	return LOAD(sb, s_dev) == target_dev;
}

/* The same as IS_OF_TARGET of any address. */
static __always_inline bool leads_to_target(struct inode *inode)
{
	return is_on_target(inode) &&
	       (raw || (LOAD(inode, i_ino) > INTERNAL_INODES && (LOAD(inode, i_mode) & S_IFMT) == S_IFREG));
}

/* The process that records. What it writes is not captured. */
u32 recorder = 0;

/* Compares an index that the compiler knows to be in range once more, where it is used: the verifier of Linux 6.1
 * forgets what it learnt of a number whose copy was on the stack meanwhile. */
#define verified_below(n, limit) \
	({ \
		asm volatile("" : "+r"(n)); \
		(n) < (limit); \
	})

#endif
