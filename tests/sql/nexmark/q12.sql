-- bids of each bidder in windows of the time of arrival, which the sender stamps
SELECT bidder, count(*) AS n, window_start, window_end
FROM TUMBLE(bid, arrived, INTERVAL '10 seconds')
GROUP BY bidder, window_start, window_end
----
SELECT bidder, count(*), w, w + INTERVAL '10 seconds'
FROM (SELECT bidder, time_bucket(INTERVAL '10 seconds', arrived, TIMESTAMP '1970-01-01') AS w FROM bid)
GROUP BY bidder, w
