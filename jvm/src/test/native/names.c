/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Checks of what needs no JVM: signatures and names of classes. Prints the golden signatures; fails
 * if they changed, which would make all recorded signatures foreign.
 */
#include "class_name.h"
#include "java_signature.h"
#include "thread_role.h"

#include <stdio.h>
#include <string.h>

static int failures;

static const struct pcstream_java_frame frames[] = {
	{ "org.example.Log", "append", 17 },
	{ "org.example.Store$Flush", "run", 120 },
	{ "org.example.Main", "main", -1 },
};

static void signature(size_t first, size_t n, u64 expected)
{
	u64 is = pcstream_java_signature(frames + first, n);

	printf("%016llx", is);
	for (size_t i = first; i < first + n; i++)
		printf(" %s.%s:%lld", frames[i].class_name, frames[i].method, frames[i].bytecode_index);
	printf("\n");
	if (is != expected) {
		printf("  expected %016llx\n", expected);
		failures++;
	}
}

static void name(const char *from, const char *expected)
{
	char text[256];
	const char *is;

	snprintf(text, sizeof(text), "%s", from);
	is = pcstream_class_name(text);
	if (strcmp(is, expected)) {
		printf("%s is %s, expected %s\n", from, is, expected);
		failures++;
	}
}

static void jdk(const char *of, int expected)
{
	if (pcstream_class_is_jdk(of) != expected) {
		printf("%s: JDK must be %d\n", of, expected);
		failures++;
	}
}

static void role(const char *of, const char *expected)
{
	char is[PCSTREAM_ROLE_BYTES];
	unsigned int length = pcstream_thread_role(of, is);

	if (strcmp(length ? is : "", expected) || (length && length != strlen(is))) {
		printf("thread %s has the role %s, expected %s\n", of, length ? is : "none", expected);
		failures++;
	}
}

static void roles(void)
{
	role("CompactionExecutor:3", "CompactionExecutor:#");
	role("pool-12-thread-7", "pool-#-thread-#");
	role("main", "main");
	role("Thread-0", "Thread-#");
	role("elasticsearch[node-1][flush][T#12]", "elasticsearch[node-#][flush][T#]");
	role("job 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "job_#-#-#-#-#");
	role("deadbeef feed1 face", "deadbeef_#_face"); /* words, but for the one with a digit */
	role("log4j2-flush", "log#j#-flush");
	role("native@0x7f3a21c, 0xyz", "native@#,_#xyz");
	role("Sch\xc3\xbcssel\t1\n", "Sch__ssel_#_");
	role("", "");
	role("17 (4)", "");
	role("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1",
	     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

int main(void)
{
	roles();
	signature(0, 3, 0xfd8720e4c1424817ULL);
	signature(0, 1, 0xd31c9e252bcb6509ULL);
	signature(0, 0, 0x243f6a8885a308d3ULL);

	name("Ljava/lang/String;", "java.lang.String");
	name("LMain;", "Main");
	name("Lorg/example/Main$$Lambda$14.0x0000000800c03000;", "org.example.Main$$Lambda");
	name("Lorg/example/Main$$Lambda$14/0x0000000800c03000;", "org.example.Main$$Lambda");
	name("Lorg/example/Main$$Lambda.0x0000000800c03000;", "org.example.Main$$Lambda");
	name("Lorg/example/Main$$Lambda$1/2093176254;", "org.example.Main$$Lambda");
	name("Lorg/example/Hidden.0x00007f0001000000;", "org.example.Hidden");
	name("Lorg/example/Hidden/0x00007f0001000000;", "org.example.Hidden");
	name("Lorg/example/$Proxy12;", "org.example.$Proxy");
	name("Ljdk/proxy2/$Proxy3;", "jdk.proxy2.$Proxy");
	name("Lorg/example/$Proxy12Factory;", "org.example.$Proxy12Factory");
	name("Ljdk/internal/reflect/GeneratedMethodAccessor7;", "jdk.internal.reflect.GeneratedMethodAccessor");
	name("Lorg/example/Foo$$EnhancerByCGLIB$$1a2b3c4d;", "org.example.Foo$$EnhancerByCGLIB");
	name("Lorg/example/Foo$$FastClassBySpringCGLIB$$1a2b;", "org.example.Foo$$FastClassBySpringCGLIB");
	name("Lorg/example/Foo$$SpringCGLIB$$0;", "org.example.Foo$$SpringCGLIB");
	name("Lorg/example/Foo$ByteBuddy$aBcDeF;", "org.example.Foo$ByteBuddy");
	name("Lorg/example/Foo_$$_jvst1a2_0;", "org.example.Foo_$$_jvst");
	name("Lorg/example/Outer$1;", "org.example.Outer$1");

	jdk("java.io.FileOutputStream", 1);
	jdk("javax.swing.JFrame", 1);
	jdk("sun.nio.ch.FileChannelImpl", 1);
	jdk("jdk.internal.misc.Unsafe", 1);
	jdk("com.sun.proxy.$Proxy", 1);
	jdk("org.pcstream.agent.PcStreamHook", 1);
	jdk("org.example.Main", 0);
	jdk("javassist.Main", 0);
	jdk("com.sunny.Main", 0);
	jdk("Main", 0);
	return failures ? 1 : 0;
}
