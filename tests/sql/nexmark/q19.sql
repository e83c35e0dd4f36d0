-- the ten highest bids of each auction
SELECT auction, bidder, price, date_time, n
FROM (
    SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS n FROM bid
) AS q
WHERE n <= 10
