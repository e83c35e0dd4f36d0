"""The second thread: `helper` (sharing work with it), `private_copy` (what it writes to meanwhile)."""
