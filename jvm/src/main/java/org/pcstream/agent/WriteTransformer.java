// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TryCatchBlockNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * Puts calls of {@link PcStreamHook} around the writes of the JDK.
 *
 * <p>Idea: not the public methods are wrapped, but the calls in them that lead straight into the
 * kernel (native methods of FileOutputStream and RandomAccessFile, IOUtil.write and the file
 * dispatcher of channels). The stack is the same there but for JDK frames, which do not count, and
 * between enter and leave neither code of the program runs (a channel that transferTo writes to, a
 * completion handler) nor can a virtual thread leave its carrier (it can where a channel takes its
 * lock). Hence there is nothing that could nest. It also covers the variants that newer JDKs added
 * to the public methods for tracing.
 *
 * <p>Invariants: leave follows a call that returned, begins every exception handler of a method
 * that has such a call, and ends a method that throws. Neither fields nor methods are added. Frames
 * of the verifier are right.
 *
 * <p>Known weaknesses: names of JDK internals (checked as they load, see {@link #tell}). A native
 * method that is public itself cannot be wrapped: RandomAccessFile.setLength of JDK 17 and older.
 * IOUtil.write may allocate a direct buffer, and if direct memory is exhausted it sleeps: a virtual
 * thread then leaves its carrier, whose slot keeps the path until the carrier's next write.
 */
final class WriteTransformer implements ClassFileTransformer {
    private static final String HOOK = "org/pcstream/agent/PcStreamHook";
    private static final String FILE_OUTPUT = "java/io/FileOutputStream";
    private static final String RANDOM_ACCESS = "java/io/RandomAccessFile";
    private static final String CHANNEL = "sun/nio/ch/FileChannelImpl";
    private static final String ASYNCHRONOUS = "sun/nio/ch/SimpleAsynchronousFileChannelImpl";

    static final List<String> CLASSES = List.of(FILE_OUTPUT, RANDOM_ACCESS, CHANNEL, ASYNCHRONOUS);

    /** File dispatchers of all JDKs since 11. */
    private static final Set<String> DISPATCHERS =
            Set.of(
                    "sun/nio/ch/FileDispatcher",
                    "sun/nio/ch/FileDispatcherImpl",
                    "sun/nio/ch/UnixFileDispatcherImpl",
                    "sun/nio/ch/NativeDispatcher");

    private static final Set<String> DISPATCHED =
            Set.of("truncate", "allocate", "transferTo", "transferFrom");

    /** Takes what could not be done, as lines for the user. Tasks load late, so there is no end. */
    private final Consumer<String> tell;

    WriteTransformer(Consumer<String> tell) {
        this.tell = tell;
    }

    /**
     * Whether the class is a task of an asynchronous channel (they are anonymous, and load late).
     */
    static boolean isTask(String name) {
        return name.startsWith(ASYNCHRONOUS + "$");
    }

    @Override
    public byte[] transform(
            ClassLoader loader,
            String name,
            Class<?> loaded,
            ProtectionDomain domain,
            byte[] bytes) {
        if (name == null || loader != null || !CLASSES.contains(name) && !isTask(name)) {
            return null;
        }
        try {
            return instrument(name, bytes);
        } catch (Throwable problem) {
            tell.accept(
                    "cannot instrument "
                            + name.replace('/', '.')
                            + " ("
                            + problem
                            + "); its writes carry no Java path");
            return null;
        }
    }

    private byte[] instrument(String name, byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassNode node = new ClassNode();
        reader.accept(node, ClassReader.EXPAND_FRAMES);

        Set<String> natives = new HashSet<>();
        for (MethodNode method : node.methods) {
            boolean writes =
                    method.name.startsWith("write")
                            || method.name.startsWith("setLength")
                            || method.name.startsWith("transferTo");
            if ((method.access & Opcodes.ACC_NATIVE) != 0 && writes) {
                natives.add(method.name + method.desc);
            }
        }
        int writes = 0;
        int others = 0;
        for (MethodNode method : node.methods) {
            writes += wrapWrites(node.name, method, natives);
            others += name.equals(CHANNEL) ? registerMap(method) : 0;
            others += name.equals(ASYNCHRONOUS) ? wrapTasks(method) : 0;
        }
        if (!isTask(name) && writes == 0) {
            tell.accept(
                    "no write found in "
                            + name.replace('/', '.')
                            + " of this JDK; its writes carry no Java path");
        }
        if (others == 0 && (name.equals(CHANNEL) || name.equals(ASYNCHRONOUS))) {
            tell.accept(
                    "no "
                            + (name.equals(CHANNEL) ? "mapping" : "asynchronous write")
                            + " found in "
                            + name.replace('/', '.')
                            + " of this JDK; these carry no Java path");
        }
        if (writes + others == 0) {
            return null;
        }
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        node.accept(writer);
        return writer.toByteArray();
    }

    /** Calls that lead straight into the kernel. */
    private static boolean isWrite(String owner, MethodInsnNode call, Set<String> natives) {
        return call.owner.equals(owner) && natives.contains(call.name + call.desc)
                || call.owner.equals("sun/nio/ch/IOUtil") && call.name.equals("write")
                || DISPATCHERS.contains(call.owner) && DISPATCHED.contains(call.name);
    }

    private static int wrapWrites(String owner, MethodNode method, Set<String> natives) {
        List<MethodInsnNode> calls = new ArrayList<>();
        for (AbstractInsnNode at : method.instructions) {
            if (at instanceof MethodInsnNode && isWrite(owner, (MethodInsnNode) at, natives)) {
                calls.add((MethodInsnNode) at);
            }
        }
        if (calls.isEmpty()) {
            return 0;
        }
        boolean isStatic = (method.access & Opcodes.ACC_STATIC) != 0;
        for (MethodInsnNode call : calls) {
            InsnList before = new InsnList();
            if (isTask(owner)) {
                before.add(hook("enterSubmitted", "()V"));
            } else {
                before.add(
                        isStatic
                                ? new InsnNode(Opcodes.ACONST_NULL)
                                : new VarInsnNode(Opcodes.ALOAD, 0));
                // A private method is called by its class, so that one more frame is known to be of
                // the JDK.
                boolean isPrivate = (method.access & Opcodes.ACC_PRIVATE) != 0;
                before.add(new InsnNode(isPrivate ? Opcodes.ICONST_2 : Opcodes.ICONST_1));
                before.add(hook("enter", "(Ljava/lang/Object;I)V"));
            }
            method.instructions.insertBefore(call, before);
            method.instructions.insert(call, hook("leave", "()V"));
        }
        // Handlers of the method first, so that none runs with the path still set.
        Set<LabelNode> handlers = new HashSet<>();
        for (TryCatchBlockNode block : method.tryCatchBlocks) {
            handlers.add(block.handler);
        }
        for (LabelNode handler : handlers) {
            AbstractInsnNode first = handler;
            while (first.getOpcode() < 0) {
                first = first.getNext();
            }
            method.instructions.insertBefore(first, hook("leave", "()V"));
        }
        // Then one for the rest, last in the table. Parameters keep their types all through a
        // method
        // that javac made, so they and the exception are the whole frame.
        List<Object> locals = new ArrayList<>();
        if (!isStatic) {
            locals.add(owner);
        }
        for (Type type : Type.getArgumentTypes(method.desc)) {
            locals.add(verifierType(type));
        }
        LabelNode start = new LabelNode();
        LabelNode end = new LabelNode();
        method.instructions.insert(start);
        method.instructions.add(end);
        method.instructions.add(
                new FrameNode(
                        Opcodes.F_NEW,
                        locals.size(),
                        locals.toArray(),
                        1,
                        new Object[] {"java/lang/Throwable"}));
        method.instructions.add(hook("leave", "()V"));
        method.instructions.add(new InsnNode(Opcodes.ATHROW));
        method.tryCatchBlocks.add(new TryCatchBlockNode(start, end, end, null));
        return calls.size();
    }

    /**
     * FileChannel.map(mode, position, size[, arena]): registers the result before it is returned.
     */
    private static int registerMap(MethodNode method) {
        if (!method.name.equals("map")
                || !method.desc.startsWith("(Ljava/nio/channels/FileChannel$MapMode;JJ")) {
            return 0;
        }
        int returns = 0;
        for (AbstractInsnNode at : method.instructions.toArray()) {
            if (at.getOpcode() == Opcodes.ARETURN) {
                InsnList before = new InsnList();
                before.add(new InsnNode(Opcodes.DUP));
                before.add(new VarInsnNode(Opcodes.ALOAD, 1));
                before.add(new VarInsnNode(Opcodes.LLOAD, 4));
                before.add(hook("mapped", "(Ljava/lang/Object;Ljava/lang/Object;J)V"));
                method.instructions.insertBefore(at, before);
                returns++;
            }
        }
        return returns;
    }

    /** executor.execute(task) in implWrite: the task takes the path of this thread along. */
    private static int wrapTasks(MethodNode method) {
        int tasks = 0;
        if (method.name.equals("implWrite")) {
            for (AbstractInsnNode at : method.instructions.toArray()) {
                if (at instanceof MethodInsnNode
                        && ((MethodInsnNode) at).name.equals("execute")
                        && ((MethodInsnNode) at).desc.equals("(Ljava/lang/Runnable;)V")) {
                    method.instructions.insertBefore(
                            at, hook("submitted", "(Ljava/lang/Runnable;)Ljava/lang/Runnable;"));
                    tasks++;
                }
            }
        }
        return tasks;
    }

    private static MethodInsnNode hook(String name, String descriptor) {
        return new MethodInsnNode(Opcodes.INVOKESTATIC, HOOK, name, descriptor, false);
    }

    private static Object verifierType(Type type) {
        switch (type.getSort()) {
            case Type.BOOLEAN:
            case Type.CHAR:
            case Type.BYTE:
            case Type.SHORT:
            case Type.INT:
                return Opcodes.INTEGER;
            case Type.FLOAT:
                return Opcodes.FLOAT;
            case Type.LONG:
                return Opcodes.LONG;
            case Type.DOUBLE:
                return Opcodes.DOUBLE;
            default:
                return type.getInternalName();
        }
    }
}
