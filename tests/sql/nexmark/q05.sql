-- hot items: the auctions with most bids in windows of 10 seconds, every 2 seconds
WITH counted AS (
    SELECT auction, count(*) AS num, window_start, window_end
    FROM HOP(bid, date_time, INTERVAL '2 seconds', INTERVAL '10 seconds')
    GROUP BY auction, window_start, window_end
)
SELECT c.auction, c.num, c.window_start
FROM counted AS c
JOIN (SELECT max(num) AS most, window_start, window_end FROM counted GROUP BY window_start, window_end) AS m
    ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.most
----
WITH counted AS (
    SELECT auction, count(*) AS num, window_start
    FROM (
        SELECT auction, time_bucket(INTERVAL '2 seconds', date_time, TIMESTAMP '1970-01-01') - i * INTERVAL '2 seconds'
            AS window_start
        FROM bid, range(5) AS r(i)
    )
    GROUP BY auction, window_start
)
SELECT c.auction, c.num, c.window_start
FROM counted AS c JOIN (SELECT max(num) AS most, window_start FROM counted GROUP BY window_start) AS m
    ON c.window_start = m.window_start AND c.num >= m.most
