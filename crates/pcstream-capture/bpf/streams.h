/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The write stream of a request: that of most of its pages, through the function of the module pcstream_bio.
 *
 *   stream_of      the stream of a context
 *   vote           a run ends: its bytes count for the stream of its context
 *   choose_stream  the request has been walked: it gets the stream of more than half of its bytes, or none
 *
 * User space enters the stream of each context that has one (`context_streams`). Each entry has two versions, and `stream_version`
 * says which of them counts: so many contexts change at once. A request sees one version.
 *
 * Units: write streams as the device numbers them, from 1; 0 is none, and goes where the device puts writes without a stream.
 *
 * Invariants: without an entry there is no stream. What the program or the file system chose stays. Nothing here can fail a write:
 * a stream that is refused is counted, and the request goes on without.
 *
 * Over a device-mapper target, which has no streams, the requests that it makes of the file system's are looked at once more
 * (`on_bio_below`): they hold the same pages.
 *
 * Known weaknesses: below a device-mapper target, direct I/O gets no stream, and encrypted pages are others. Pages that are no
 * majority of their request go with the majority; `minority_bytes` counts them.
 */
#ifndef PCSTREAM_STREAMS_H
#define PCSTREAM_STREAMS_H

#include "maps.h"

const volatile u32 placing = 0;	   /* 1: requests are given streams */
const volatile u32 only_counting = 0; /* 1: ... or not: programs do that themselves, and what they gave is counted */
const volatile u32 stream_dev = 0; /* the device below that gives them to the disk; 0: the file system's own */

/* Of the module; a kernel without it refuses every stream. */
extern int bpf_bio_set_write_stream(struct bio *bio, u8 stream) __ksym __weak;

struct stream_versions {
	u8 stream[2];
};

/* As many as there are contexts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct stream_versions);
} context_streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} stream_version SEC(".maps");

/* What was done, by stream. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WRITE_STREAMS);
	__type(key, u32);
	__type(value, struct stream_count);
} stream_counts SEC(".maps");

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
	u32 stream = stream_of(w->run.context, w->ballot.version);

	w->ballot.bytes += w->run.bytes;
	w->ballot.votes[stream] += w->run.bytes;
	if (w->ballot.votes[stream] > w->ballot.most) {
		w->ballot.most = w->ballot.votes[stream];
		w->ballot.leader = stream;
	}
}

static __always_inline void choose_stream(struct walk *w, struct bio *bio)
{
	u32 stream = w->ballot.leader & (MAX_WRITE_STREAMS - 1);
	u32 bytes = w->ballot.bytes, agree = w->ballot.most;
	struct stream_count *count;

	if (w->run.write_stream) {
		stream = w->run.write_stream & (MAX_WRITE_STREAMS - 1);
		count = bpf_map_lookup_elem(&stream_counts, &stream);
		if (count)
			__sync_fetch_and_add(&count->bytes_of_programs, bytes);
		return;
	}
	if (only_counting || agree <= bytes / 2) {
		stream = 0;
		agree = only_counting ? bytes : w->ballot.votes[0];
	}
	count = bpf_map_lookup_elem(&stream_counts, &stream);
	if (!count)
		return;
	if (stream && (!bpf_ksym_exists(bpf_bio_set_write_stream) || bpf_bio_set_write_stream(bio, stream))) {
		__sync_fetch_and_add(&count->refused_bytes, bytes);
		return;
	}
	__sync_fetch_and_add(&count->requests, 1);
	__sync_fetch_and_add(&count->bytes, bytes);
	__sync_fetch_and_add(&count->minority_bytes, bytes - agree);
}

#endif
