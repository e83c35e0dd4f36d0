-- bids in sessions of each bidder
SELECT bidder, count(*) AS n, window_start, window_end
FROM SESSION(bid, date_time, INTERVAL '10 seconds', bidder)
GROUP BY bidder, window_start, window_end
----
SELECT bidder, count(*), min(date_time), max(date_time) + INTERVAL '10 seconds'
FROM (
    SELECT bidder, date_time, sum(fresh) OVER (PARTITION BY bidder ORDER BY date_time) AS s
    FROM (
        SELECT bidder, date_time, CASE WHEN date_time - lag(date_time) OVER w <= INTERVAL '10 seconds' THEN 0 ELSE 1 END
            AS fresh
        FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY date_time)
    )
)
GROUP BY bidder, s
