"""The wire format between a server and Everview's own clients.

    values         Python values as JSON, and back, exactly
    envelopes      a message: JSON, followed by Arrow tables
    error_records  errors as JSON, and back, of the same classes
    plans          collections as data, over tables and views by name

Nothing here is a pickle, and reading creates only plain values and plans: a message from an untrusted client may be
invalid and is then refused, but it cannot run code. Other clients (browsers, curl) use plainer JSON, see
`everview.server.http.json_values`.
"""
