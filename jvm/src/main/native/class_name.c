/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Classes made at run time carry counters, addresses or random letters in their names. A path that
 * contains them would get another signature in each run, so the names are cut after the part that
 * says what kind of class it is. Two lambdas of one class thereby get one name; the frame of the
 * lambda's body (lambda$main$0) tells them apart.
 *
 * Known weakness: a list of known generators. Names of others stay as they are, and then their
 * paths may differ from run to run.
 */
#include "class_name.h"

#include <string.h>

/* The name ends after each of these... */
static const char *const cut_after[] = {
	"$$Lambda",	   /* $$Lambda$14/0x..., $$Lambda/0x...: the JDK's lambdas */
	"$$SpringCGLIB",   /* $$SpringCGLIB$$0 */
	"$ByteBuddy",	   /* $ByteBuddy$aB3dE */
	"$HibernateProxy", /* $HibernateProxy$aB3dE */
	"$MockitoMock",	   /* $MockitoMock$1234 */
	"_$$_jvst",	   /* _$$_jvst4a_0: Javassist */
	"_$$_javassist",   /* _$$_javassist_0 */
};

/* ... before the next "$$" after each of these... */
static const char *const cut_before_dollars[] = {
	"$$EnhancerBy", /* $$EnhancerByCGLIB$$1a2b3c4d, $$EnhancerBySpringCGLIB$$... */
	"$$FastClassBy",
	"$$KeyFactoryBy",
};

/* ... and before digits at the end after each of these. */
static const char *const cut_digits[] = {
	"$Proxy", /* java.lang.reflect.Proxy */
	"GeneratedMethodAccessor",
	"GeneratedConstructorAccessor",
	"GeneratedSerializationConstructorAccessor",
};

static const char *const jdk[] = {
	"java.", "javax.", "sun.", "jdk.", "com.sun.", "org.pcstream.agent.",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

char *pcstream_class_name(char *signature)
{
	char *name = signature, *end, *at;

	if (*name == 'L')
		name++;
	end = name + strlen(name);
	if (end > name && end[-1] == ';')
		*--end = 0;
	for (at = name; *at; at++)
		if (*at == '/')
			*at = '.';
	for (size_t i = 0; i < COUNT(cut_after); i++)
		if ((at = strstr(name, cut_after[i])))
			at[strlen(cut_after[i])] = 0;
	for (size_t i = 0; i < COUNT(cut_before_dollars); i++)
		if ((at = strstr(name, cut_before_dollars[i])) && (at = strstr(at + 2, "$$")))
			*at = 0;
	/* Hidden classes: an address after the name. No identifier begins with a digit. */
	for (at = strchr(name, '.'); at; at = strchr(at + 1, '.'))
		if (at[1] == '0' && at[2] == 'x') {
			*at = 0;
			break;
		}
	for (size_t i = 0; i < COUNT(cut_digits); i++)
		if ((at = strstr(name, cut_digits[i]))) {
			at += strlen(cut_digits[i]);
			if (at[strspn(at, "0123456789")] == 0)
				*at = 0;
		}
	return name;
}

int pcstream_class_is_jdk(const char *name)
{
	for (size_t i = 0; i < COUNT(jdk); i++)
		if (!strncmp(name, jdk[i], strlen(jdk[i])))
			return 1;
	return 0;
}
