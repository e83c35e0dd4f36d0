-- the average price of the last ten auctions that each seller closed
SELECT q.seller, q.id, avg(q.final) OVER (
    PARTITION BY q.seller ORDER BY q.date_time, q.id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
FROM (
    SELECT DISTINCT ON (a.id) a.id, a.seller, b.price AS final, b.date_time
    FROM auction AS a, bid AS b
    WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
    ORDER BY a.id, b.price DESC, b.date_time
) AS q
