-- the last bid of each bidder for each auction
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
    SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS n FROM bid
) AS q
WHERE n <= 1
