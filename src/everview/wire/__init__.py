"""What goes between a server and Everview's own clients, in a form that both know.

    values       Python values as JSON, and back, exactly
    envelopes    a message: JSON, and Arrow tables behind it
    mistakes     errors as JSON, and back, of the same classes
    plans        collections as data, over tables and views by name

Nothing here is a pickle, and nothing that is read makes anything but plain values and plans: a message from a stranger
can be wrong, and is refused then, but it cannot run code. Other clients (browsers, curl) are spoken to in plainer JSON,
see `everview.server.http.shown`.
"""
