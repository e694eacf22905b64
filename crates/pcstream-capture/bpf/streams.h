/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The write stream of a request: that of most of its pages. The request gets it by the function of the module pcstream_bio, or it is
 * noted by page for the server of a ublk device, which writes to the disk.
 *
 *   stream_of      the stream of a context
 *   vote           a run ends: its bytes count for the stream of its context
 *   choose_stream  the request has been walked: it gets the stream of more than half of its bytes, or none
 *   note_pages     for the server: the stream of each of its pages, which the server takes
 *
 * User space enters the stream of each context that has one (`context_streams`). Each entry has two versions, and `stream_version`
 * says which of them counts: so many contexts change at once. A request sees one version.
 *
 * Units: write streams as the device numbers them, from 1; 0 is none, and goes where the device puts writes without a stream.
 *
 * Invariants: without an entry there is no stream. What the program or the file system chose stays. Nothing here can fail a write:
 * a stream that is refused is counted, and the request goes on without.
 *
 * Over a device-mapper target, which has no streams, the requests that it makes of the file system's are looked at once more:
 * they hold the same pages.
 *
 * A server makes requests, too, as soon as the file system's are made. It must not run in the middle of this program on the same CPU: the
 * kernel would not run the program for the server's request, and count a loss (`keeps_cpu`).
 *
 * Known weaknesses: below a device-mapper target, direct I/O gets no stream, and encrypted pages are others. Pages that are no
 * majority of their request go with the majority; `minority_bytes` counts them. A note that the server takes at the very time at which
 * another page's replaces it counts as refused.
 */
#ifndef PCSTREAM_STREAMS_H
#define PCSTREAM_STREAMS_H

#include "maps.h"

const volatile u32 placing = 0;	   /* requests are given streams: enum placed_by */
const volatile u32 stream_dev = 0; /* the device below that gives them to the disk; 0: the file system's own */

/* Of the module; a kernel without it refuses every stream. */
extern int bpf_bio_set_write_stream(struct bio *bio, u8 stream) __ksym __weak;

/* Since Linux 6.10. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline bool keeps_cpu(void)
{
	return placing == PLACED_BY_SERVER && bpf_ksym_exists(bpf_preempt_disable);
}

struct stream_versions {
	u8 stream[2];
};

/* As many as there are contexts. */
MAP_WITH(BPF_F_NO_PREALLOC, context_streams, HASH, 65536, u64, struct stream_versions);

MAP(stream_version, ARRAY, 1, u32, u32);

/* Shared with the server, which reads and clears the places and writes the counts. A place is 0, or a page's number on the disk shifted by
 * 8, and its stream. Sized by user space: nobody else needs it. */
MAP_WITH(BPF_F_MMAPABLE, page_streams, ARRAY, 1, u32, u64);

/* What was done, by stream. */
MAP(stream_counts, PERCPU_ARRAY, MAX_WRITE_STREAMS, u32, struct stream_count);

static __always_inline u32 counting_version(void)
{
	u32 only = 0, *version = bpf_map_lookup_elem(&stream_version, &only);

	return version ? *version & 1 : 0;
}

static __always_inline u32 stream_of(u64 context, u32 version)
{
	struct stream_versions *versions = bpf_map_lookup_elem(&context_streams, &context);
	u32 stream = 0;

	if (versions)
		stream = version ? versions->stream[1] : versions->stream[0];
	return stream & (MAX_WRITE_STREAMS - 1);
}

static __always_inline void begin_ballot(struct walk *w)
{
	__builtin_memset(&w->ballot, 0, sizeof(w->ballot));
	w->ballot.version = counting_version();
}

static __always_inline void vote(struct walk *w)
{
	u32 stream = stream_of(w->run.owner.context, w->ballot.version);

	w->ballot.bytes += w->run.bytes;
	w->ballot.votes[stream] += w->run.bytes;
	if (w->ballot.votes[stream] > w->ballot.most) {
		w->ballot.most = w->ballot.votes[stream];
		w->ballot.leader = stream;
	}
}

struct noted {
	u64 page;
	u64 stream;
};

/* Of a page whose note gives way to that of another page, before the server has taken it. It goes without its stream. */
static __always_inline void count_replaced(u64 note)
{
	u32 stream = note & (MAX_WRITE_STREAMS - 1);
	struct stream_count *count = bpf_map_lookup_elem(&stream_counts, &stream);

	if (count)
		__sync_fetch_and_add(&count->refused_bytes, PAGE_SIZE);
}

static long note_page(u64 i, struct noted *noted)
{
	u64 page = noted->page + i, before, *place;
	u32 at = page & (PAGE_STREAM_SLOTS - 1);

	place = bpf_map_lookup_elem(&page_streams, &at);
	if (!place)
		return 1;
	/* What was noted for an earlier request of this page is stale; what is another page's stays, unless the place is needed. */
	before = *(volatile u64 *)place;
	if (noted->stream) {
		*(volatile u64 *)place = page << 8 | noted->stream;
		if (before && before >> 8 != page)
			count_replaced(before);
	} else if (before >> 8 == page) {
		*(volatile u64 *)place = 0;
	}
	return 0;
}

/* Pages are counted from the beginning of the disk, as the kernel has added a partition's start by now. */
static __always_inline void note_pages(struct bio *bio, u32 bytes, u32 stream)
{
	u64 sector = bio->bi_iter.bi_sector, end = sector + (bytes >> 9);
	struct noted noted = { .page = sector >> 3, .stream = stream };

	if (bytes)
		bpf_loop(((end + 7) >> 3) - noted.page, note_page, &noted, 0);
}

static __always_inline void choose_stream(struct walk *w, struct bio *bio)
{
	u32 stream = w->ballot.leader & (MAX_WRITE_STREAMS - 1);
	u32 bytes = w->ballot.bytes, agree = w->ballot.most;
	struct stream_count *count;

	if (w->run.write_stream) {
		stream = w->run.write_stream & (MAX_WRITE_STREAMS - 1);
	} else if (placing == PLACED_BY_PROGRAMS || agree <= bytes / 2) {
		stream = 0;
		agree = placing == PLACED_BY_PROGRAMS ? bytes : w->ballot.votes[0];
	}
	count = bpf_map_lookup_elem(&stream_counts, &stream);
	if (!count)
		return;
	if (w->run.write_stream) {
		__sync_fetch_and_add(&count->bytes_of_programs, bytes);
		return;
	}
	if (placing == PLACED_BY_SERVER)
		note_pages(bio, bytes, stream);
	else if (stream && (!bpf_ksym_exists(bpf_bio_set_write_stream) || bpf_bio_set_write_stream(bio, stream))) {
		__sync_fetch_and_add(&count->refused_bytes, bytes);
		return;
	}
	__sync_fetch_and_add(&count->requests, 1);
	__sync_fetch_and_add(&count->bytes, bytes);
	__sync_fetch_and_add(&count->minority_bytes, bytes - agree);
}

#endif
