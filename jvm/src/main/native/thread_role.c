/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Servers name their threads after what they do ("CompactionExecutor:3", "kafka-log-cleaner-thread-0"). Threads of one pool differ in
 * numbers only, so a run of digits becomes one "#"; words of hexadecimal digits that contain a decimal one (parts of UUIDs, addresses) do, too.
 *
 * Known weakness: a name with text that changes from run to run (a host, a random word) gives another role in each.
 */
#include "thread_role.h"

#include <string.h>

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_hexadecimal(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Bytes from `word` on that are one number: a word of hexadecimal digits with a decimal one among them, or a run of decimal ones. */
static size_t number_length(const char *word, int begins_word)
{
	size_t hexadecimal = 0, decimal = 0, digits = 0;

	if (begins_word && word[0] == '0' && word[1] == 'x' && is_hexadecimal(word[2])) {
		for (hexadecimal = 2; is_hexadecimal(word[hexadecimal]); hexadecimal++)
			;
		return hexadecimal;
	}
	while (is_digit(word[decimal]))
		decimal++;
	while (is_hexadecimal(word[hexadecimal]))
		digits += is_digit(word[hexadecimal++]) != 0;
	if (begins_word && digits && hexadecimal >= 4 && !is_letter(word[hexadecimal]))
		return hexadecimal;
	return decimal;
}

unsigned int pcstream_thread_role(const char *name, char role[PCSTREAM_ROLE_BYTES])
{
	unsigned int n = 0, letters = 0;
	char before = 0;

	while (*name && n < PCSTREAM_ROLE_BYTES - 1) {
		size_t number = number_length(name, !is_letter(before) && !is_digit(before));

		if (number) {
			before = '0';
			name += number;
			if (!n || role[n - 1] != '#')
				role[n++] = '#';
			continue;
		}
		before = *name++;
		letters += is_letter(before) != 0;
		role[n++] = before > ' ' && before <= '~' ? before : '_';
	}
	role[n] = 0;
	return letters ? n : 0;
}
