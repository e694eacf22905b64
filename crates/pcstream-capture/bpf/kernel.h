/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The kernel types that the programs read, reduced to the members they read.
 *
 * Every structure is marked preserve_access_index, so the loader moves each access to where the
 * running kernel keeps the member (CO-RE). Nothing here depends on the kernel it was built on, and
 * no header generated from a kernel is needed. A member that exists in some kernels only lives in a
 * "flavour" (name___suffix) and is asked for with bpf_core_field_exists first.
 */
#ifndef PCSTREAM_KERNEL_H
#define PCSTREAM_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1, BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, sp;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct qstr {
	u32 hash;
	u32 len;
	const unsigned char *name;
};

struct user_namespace {
	int level; /* 0: the first one */
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct user_namespace *s_user_ns;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	u16 i_mode;
	u32 i_rdev;
	long long i_size;
	struct address_space *i_mapping;
	struct hlist_head i_dentry;
};

struct inode___mtime_split { /* since 6.11 */
	s64 i_mtime_sec;
	u32 i_mtime_nsec;
};

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};

struct inode___mtime_whole { /* to 6.6; 6.7 to 6.10 call it __i_mtime */
	struct timespec64 i_mtime;
};

struct inode___mtime_underscored {
	struct timespec64 __i_mtime;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct dentry___flat { /* since 7.2: the union has no name */
	union {
		struct hlist_node d_alias;
	};
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	unsigned int f_flags;
	long long f_pos;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	u8 shift;
	void *slots[1];
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
};

struct page {
	unsigned long compound_head;
};

struct page___info { /* since 7.2: of a tail page the head | 1, or a mask | 1 if all page structures lie in one mapping */
	unsigned long compound_info;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
	void *private;
};

struct mm_struct {
	unsigned long exec_vm;
	unsigned long start_stack;
	int map_count;
	struct file *exe_file;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_pgoff, vm_flags;
	struct file *vm_file;
};

struct task_io_accounting {
	u64 syscw;
};

struct atomic {
	int counter;
};

struct signal_struct {
	struct atomic live; /* threads */
};

struct thread_info {
	u32 status;
};

struct task_struct {
	struct thread_info thread_info;
	struct signal_struct *signal;
	unsigned int flags;
	int pid, tgid;
	struct task_struct *group_leader;
	u64 start_boottime, self_exec_id;
	struct mm_struct *mm;
	struct files_struct *files;
	struct task_io_accounting ioac;
	void *worker_private;
};

struct block_device {
	u64 bd_start_sect;
	u32 bd_dev;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
} __attribute__((packed));

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
	struct bio_vec *bi_io_vec;
};

/* What the program said of the lifetime of what it writes (F_SET_RW_HINT). */
enum rw_hint {
	WRITE_LIFE_NOT_SET,
} __attribute__((packed));

struct bio___hinted { /* since 6.9 */
	enum rw_hint bi_write_hint;
};

struct bio___streamed { /* since 6.16 */
	u8 bi_write_stream;
};

struct buffer_head {
	unsigned long b_size;
	char *b_data;
};

struct xfs_buf_ops {
	char *name;
};

struct xfs_buf {
	const struct xfs_buf_ops *b_ops;
};

struct kiocb {
	struct file *ki_filp;
	long long ki_pos;
	void *ki_complete;
};

enum iter_type {
	ITER_UBUF,
};

struct iov_iter {
	u8 iter_type;
	void *ubuf;
	unsigned long count;
};

struct iomap_dio {
	struct kiocb *iocb;
	unsigned long size;
	union {
		struct {
			struct iov_iter *iter;
		} submit;
	};
};

/* Direct I/O on a block device itself. */
struct blkdev_dio {
	struct kiocb *iocb; /* in a union: of a synchronous one, the task that waits */
	struct bio bio;
};

/* A read or write of io_uring; since 6.0. */
struct io_rw {
	struct kiocb kiocb;
	u64 addr;
};

struct io_wq_work {
	int cancel_seq;
};

struct io_cqe {
	int fd; /* until the request is done */
};

struct io_kiocb {
	struct file *file;
	u8 opcode;
	u32 flags;
	struct io_cqe cqe;
	struct io_wq_work work;
};

/* Numbers of an interface, so they are the same in all kernels. */
enum io_uring_op {
	IORING_OP_WRITEV = 2,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_WRITE = 23,
	IORING_OP_SPLICE = 30,
	IORING_OP_WRITEV_FIXED = 61, /* since 6.15 */
};

struct io_worker {
	struct io_wq_work *cur_work;
};

#pragma clang attribute pop

#endif
