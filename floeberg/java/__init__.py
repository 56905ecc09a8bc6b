"""The JDK, the jars from Maven that Spark and the demo's broker need, and the plugin's own jar."""
