-- people who have opened an auction in the 10 seconds in which they came
SELECT p.id, p.name, p.starttime
FROM (
    SELECT id, name, window_start AS starttime, window_end AS endtime
    FROM TUMBLE(person, date_time, INTERVAL '10 seconds')
    GROUP BY id, name, window_start, window_end
) AS p
JOIN (
    SELECT seller, window_start AS starttime, window_end AS endtime
    FROM TUMBLE(auction, date_time, INTERVAL '10 seconds')
    GROUP BY seller, window_start, window_end
) AS a ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime
----
SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL '10 seconds', p.date_time, TIMESTAMP '1970-01-01')
FROM person AS p JOIN auction AS a ON p.id = a.seller
    AND time_bucket(INTERVAL '10 seconds', p.date_time, TIMESTAMP '1970-01-01')
        = time_bucket(INTERVAL '10 seconds', a.date_time, TIMESTAMP '1970-01-01')
