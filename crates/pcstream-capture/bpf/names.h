/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Names of files and modules, sent to user space when they are new.
 *
 *   emit_path   the path of a dentry, as a record
 *   emit_file   the name of a written file
 *   module_of   the key of a mapped file
 *
 * Known weakness: a path beyond MAX_COMPONENTS or PATH_TEXT keeps its last components and is marked.
 */
#ifndef PCSTREAM_NAMES_H
#define PCSTREAM_NAMES_H

#include "maps.h"

static long climb_step(u64 i, struct workspace **ws)
{
	struct path_record *r = &(*ws)->path;
	struct climb *climb = &(*ws)->climb;
	struct dentry *dentry = climb->dentry, *parent;
	struct mount *mount = climb->mount;
	const unsigned char *name;
	u32 at = climb->at, n = r->components, len;

	if (!dentry)
		return 1;
	parent = BPF_CORE_READ(dentry, d_parent);
	/* The file of memfd_create has a name, but lies nowhere below the root of its file system. */
	if ((parent == dentry && (n || !mount)) || (mount && dentry == BPF_CORE_READ(mount, mnt.mnt_root))) {
		struct mount *up = mount ? BPF_CORE_READ(mount, mnt_parent) : NULL;

		if (up == mount)
			return 1;
		climb->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		climb->mount = up;
		return 0;
	}
	if (n >= MAX_COMPONENTS || at >= PATH_TEXT) {
		r->truncated = 1;
		return 1;
	}
	len = BPF_CORE_READ(dentry, d_name.len) & (NAME_BYTES - 1);
	name = BPF_CORE_READ(dentry, d_name.name);
	if (!verified_below(at, PATH_TEXT) || bpf_probe_read_kernel(&r->text[at], len, name))
		return 1;
	if (!verified_below(n, MAX_COMPONENTS))
		return 1;
	r->length[n] = len;
	r->components = n + 1;
	climb->at = at + len;
	climb->dentry = parent;
	return 0;
}

#define FUSE_SUPER_MAGIC 0x65735546

/* Whether a user may have mounted a file system: in a user namespace, or served by a process. */
static __always_inline bool is_of_user(struct super_block *sb)
{
	return BPF_CORE_READ(sb, s_user_ns, level) != 0 || BPF_CORE_READ(sb, s_magic) == FUSE_SUPER_MAGIC;
}

/* Reports the path of `dentry`: up to the root of its file system or, if `mnt` is the address of a
 * vfsmount, on through the mounts. It is a module's if there is a vfsmount, else a file's. Returns 1 if
 * the record was sent. */
__noinline int emit_path(struct workspace *ws, u64 key, u64 dentry, u64 mnt, u64 inode_at)
{
	struct inode *inode = (void *)inode_at;
	struct path_record *r;
	u32 text;

	if (!ws)
		return 0;
	r = &ws->path;
	r->type = mnt ? RECORD_MODULE : RECORD_FILE;
	r->pid = bpf_get_current_pid_tgid() >> 32;
	r->key = key;
	r->inode = BPF_CORE_READ(inode, i_ino);
	r->generation = BPF_CORE_READ(inode, i_generation);
	r->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	r->components = 0;
	r->truncated = 0;
	/* A file that an overlay shows has another file system than its name. */
	r->of_user = is_of_user(BPF_CORE_READ(inode, i_sb)) || is_of_user(BPF_CORE_READ((struct dentry *)dentry, d_sb));
	ws->climb.dentry = (void *)dentry;
	ws->climb.mount = mnt ? (void *)(mnt - bpf_core_field_offset(struct mount, mnt)) : NULL;
	ws->climb.at = 0;
	bpf_loop(2 * MAX_COMPONENTS, climb_step, &ws, 0);
	/* Only what is used: a record of each small file would fill the buffer. */
	text = ws->climb.at;
	if (!verified_below(text, sizeof(r->text) + 1) || !send(r, offsetof(struct path_record, text) + text, !mnt))
		return 0;
	return 1;
}

/* Where a dentry has its place in the list of its inode's. */
static __always_inline u64 alias_offset(void)
{
	if (bpf_core_field_exists(((struct dentry___flat *)0)->d_alias))
		return bpf_core_field_offset(struct dentry___flat, d_alias);
	return bpf_core_field_offset(struct dentry, d_u.d_alias);
}

static __always_inline u64 file_key(u64 inode, u32 generation)
{
	return signature_mix(signature_mix(SIGNATURE_SEED, inode), generation);
}

/* The address of the first dentry of an inode; 0: it has none. */
static __always_inline u64 first_dentry(struct workspace *ws, struct inode *inode)
{
	u64 alias = number_of(ws, inode->i_dentry.first);

	return alias ? alias - alias_offset() : 0;
}

/* Reports the name of a written file when it is new, also of one that was renamed, and who writes it. Without a dentry a file keeps
 * the name that it had. */
static __always_inline void emit_file(struct workspace *ws, u64 key, u64 inode_at, u64 dentry, u64 context)
{
	u64 named = key;

	if (dentry)
		named = signature_mix(key, LOAD((struct dentry *)dentry, d_name.hash));
	/* Most pages are of the same file as the one before. */
	if (named == ws->named)
		return;
	if (!is_known(named)) {
		if (!emit_path(ws, context, dentry, 0, inode_at))
			return;
		make_known(named);
		if (dentry)
			make_known(key);
	}
	ws->named = named;
}

/* The same of an inode that the kernel passed; a device without a file system has no files. */
static __always_inline void name_file(struct workspace *ws, struct inode *inode, u64 key, u64 context)
{
	if (!raw)
		emit_file(ws, key, number_of(ws, inode), first_dentry(ws, inode), context);
}

static __always_inline s64 mtime_of(struct inode *inode)
{
	struct inode___mtime_split *split = (void *)inode;
	struct inode___mtime_whole *whole = (void *)inode;
	struct inode___mtime_underscored *under = (void *)inode;

	if (bpf_core_field_exists(split->i_mtime_sec))
		return BPF_CORE_READ(split, i_mtime_sec) * 1000000000 + BPF_CORE_READ(split, i_mtime_nsec);
	if (bpf_core_field_exists(whole->i_mtime))
		return BPF_CORE_READ(whole, i_mtime.tv_sec) * 1000000000 + BPF_CORE_READ(whole, i_mtime.tv_nsec);
	return BPF_CORE_READ(under, __i_mtime.tv_sec) * 1000000000 + BPF_CORE_READ(under, __i_mtime.tv_nsec);
}

/* The module key of a mapped file, reported when it is new; if it could not be, `unsent` says so, and the key means nothing to user
 * space. Keys hold for this boot only; user space replaces them by build ids. */
__noinline u64 module_of(struct workspace *ws, u64 file_at)
{
	struct file *file = (void *)file_at;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u64 key = SIGNATURE_SEED;

	if (!ws || !inode)
		return MODULE_ANON;
	key = signature_mix(key, BPF_CORE_READ(inode, i_sb, s_dev));
	key = signature_mix(key, BPF_CORE_READ(inode, i_ino));
	key = signature_mix(key, mtime_of(inode));
	key = signature_mix(key, BPF_CORE_READ(inode, i_size));
	if (is_known(key))
		return key;
	if (emit_path(ws, key, (u64)BPF_CORE_READ(file, f_path.dentry), (u64)BPF_CORE_READ(file, f_path.mnt), (u64)inode))
		make_known(key);
	else
		ws->unsent = 1;
	return key;
}

static __always_inline u64 executable_of(struct workspace *ws, struct mm_struct *mm)
{
	struct file *exe = BPF_CORE_READ(mm, exe_file);

	return exe ? module_of(ws, (u64)exe) : MODULE_ANON;
}

#endif
