// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that call the module's function, to test it without anything else of pcstream. One of these is defined:
 *   BY_INODE    the stream of a bio is what the map `streams` has for the inode of its first page
 *   AT_RANDOM   every bio of a write gets one of the streams 1 to 8
 *   TOO_LARGE   asks for a stream that no device has
 *   WRONG_HOOK  calls the function where the bio is complete already: refused when it is loaded
 *   WRONG_BIO   passes a bio that is not the tracepoint's: refused when it is loaded
 * `counts` tells how many bios and bytes got each stream, and how many were refused.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern int bpf_bio_set_write_stream(struct bio *bio, u8 stream) __ksym;

struct count {
	u64 bios, bytes, refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u32);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct count);
} counts SEC(".maps");

#define REQ_OP_WRITE_ 1

static __always_inline bool is_write(struct bio *bio)
{
	return (bio->bi_opf & 0xff) == REQ_OP_WRITE_ && bio->bi_iter.bi_size;
}

static __always_inline void set_stream(struct bio *bio, u32 stream)
{
	struct count *count = bpf_map_lookup_elem(&counts, &stream);
	u32 bytes = bio->bi_iter.bi_size;

	if (!count)
		return;
	if (bpf_bio_set_write_stream(bio, stream)) {
		__sync_fetch_and_add(&count->refused, 1);
		return;
	}
	__sync_fetch_and_add(&count->bios, 1);
	__sync_fetch_and_add(&count->bytes, bytes);
}

#if defined(BY_INODE)
/* Of the first page's file; 0 for anonymous memory. Folios of these tests' files are found by their head only. */
static __always_inline u64 inode_of(struct bio *bio)
{
	struct bio_vec *vec = BPF_CORE_READ(bio, bi_io_vec);
	u64 page, head, mapping;

	vec += BPF_CORE_READ(bio, bi_iter.bi_idx);
	page = (u64)BPF_CORE_READ(vec, bv_page);
	head = BPF_CORE_READ((struct page *)page, compound_info);
	if (head & 1)
		page = head >> 32 == 0xffffffff ? page & head : head - 1;
	mapping = (u64)BPF_CORE_READ((struct folio *)page, mapping);
	return mapping && !(mapping & 3) ? BPF_CORE_READ((struct address_space *)mapping, host, i_ino) : 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	u64 inode;
	u32 *stream;

	if (!is_write(bio))
		return 0;
	inode = inode_of(bio);
	stream = bpf_map_lookup_elem(&streams, &inode);
	if (stream)
		set_stream(bio, *stream);
	return 0;
}
#elif defined(AT_RANDOM)
SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	if (is_write(bio))
		set_stream(bio, 1 + bpf_get_prandom_u32() % 8);
	return 0;
}
#elif defined(TOO_LARGE)
SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	if (is_write(bio))
		set_stream(bio, 200);
	return 0;
}
#elif defined(WRONG_HOOK)
SEC("tp_btf/block_bio_complete")
int BPF_PROG(on_bio, struct request_queue *queue, struct bio *bio)
{
	return bpf_bio_set_write_stream(bio, 1);
}
#elif defined(WRONG_BIO)
SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	struct bio *next = bio->bi_next;

	if (next)
		bpf_bio_set_write_stream(next, 1);
	return 0;
}
#endif

char LICENSE[] SEC("license") = "GPL";
