-- the highest bid of every 10 seconds
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b JOIN (
    SELECT max(price) AS most, window_start, window_end
    FROM TUMBLE(bid, date_time, INTERVAL '10 seconds')
    GROUP BY window_start, window_end
) AS m ON b.price = m.most
WHERE b.date_time BETWEEN m.window_start AND m.window_end
----
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b JOIN (
    SELECT max(price) AS most, time_bucket(INTERVAL '10 seconds', date_time, TIMESTAMP '1970-01-01') AS w
    FROM bid GROUP BY w
) AS m ON b.price = m.most
WHERE b.date_time BETWEEN m.w AND m.w + INTERVAL '10 seconds'
