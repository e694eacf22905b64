/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The table through which programs get answers to pcstream_stream: what both sides know of it.
 *
 * A ticket is a number of 64 bits whose lowest byte is 0; its place is given by its highest bits. The answer to it is written there:
 * the ticket, with the stream in its lowest byte.
 */
#ifndef PCSTREAM_ANSWERS_H
#define PCSTREAM_ANSWERS_H

/* Places of 8 bytes: 8 pages. */
#define PCSTREAM_ANSWERS 4096
#define PCSTREAM_ANSWER_SHIFT 52

#endif
