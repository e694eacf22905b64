/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * libpcstream.so: the calls of pcstream.h as functions, for languages that call C. Make it with `make libpcstream`.
 */
#define pcstream_page_dirty pcstream_page_dirty_inline
#define pcstream_page_copied pcstream_page_copied_inline
#include "pcstream.h"
#undef pcstream_page_dirty
#undef pcstream_page_copied

__attribute__((visibility("default"))) void pcstream_page_dirty(const void *page, size_t bytes)
{
	pcstream_page_dirty_inline(page, bytes);
}

__attribute__((visibility("default"))) void pcstream_page_copied(const void *page)
{
	pcstream_page_copied_inline(page);
}
