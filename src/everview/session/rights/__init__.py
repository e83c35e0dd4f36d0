"""Who may do what in a session: who acts (`acting`), what is kept about roles (`roles`, `passwords`), and the one place
that decides (`access`).
"""
