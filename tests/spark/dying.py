"""A part of test programs whose driver is killed: sinks that die `before` or `after` they write, as `die` says."""

DYING = """
write = writers.Writer.write

def dying(self, batch):
    if die == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, batch)
    if die == "after":
        os.kill(os.getpid(), signal.SIGKILL)
"""
