"""What goes on: SUBSCRIBE (`subscription`), and CREATE SOURCE, CREATE SINK and RUN (`pipelines`)."""
