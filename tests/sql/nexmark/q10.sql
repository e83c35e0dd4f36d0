-- a log with the day and minute that its files are called by (the files are a sink: docs/pipelines.md)
SELECT auction, bidder, price, date_time, extra, to_char(date_time, 'YYYY-MM-DD') AS day,
    to_char(date_time, 'HH24:MI') AS minute
FROM bid
----
SELECT auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d'), strftime(date_time, '%H:%M') FROM bid
