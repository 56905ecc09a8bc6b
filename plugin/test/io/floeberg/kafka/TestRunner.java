package io.floeberg.kafka;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Runs the tests of the classes named as arguments; prints {@code ok <name>} or {@code failed <name>} and the stack, a line each. */
public final class TestRunner {
    private TestRunner() { }

    public static void main(String[] classes) throws ReflectiveOperationException {
        for (String name : classes)
            for (Method method : Class.forName(name).getDeclaredMethods())
                if (method.isAnnotationPresent(Test.class))
                    run(method);
        System.exit(0);
    }

    private static void run(Method method) throws ReflectiveOperationException {
        Constructor<?> constructor = method.getDeclaringClass().getDeclaredConstructor();
        Object object = constructor.newInstance();
        try {
            method.invoke(object);
            System.out.println("ok " + method.getName());
        } catch (InvocationTargetException e) {
            StringWriter stack = new StringWriter();
            e.getCause().printStackTrace(new PrintWriter(stack));
            System.out.println("failed " + method.getName() + " " + stack.toString().replace("\n", " | "));
        } finally {
            if (object instanceof AutoCloseable)
                close((AutoCloseable) object);
        }
    }

    private static void close(AutoCloseable object) {
        try {
            object.close();
        } catch (Exception e) {
            throw new AssertionError("a test's parts don't close", e);
        }
    }
}
