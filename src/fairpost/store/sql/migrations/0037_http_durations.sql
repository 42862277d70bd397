-- How long HTTP requests took, by route, for Prometheus. Each process of the service adds what it has seen; nothing is ever subtracted.
CREATE TABLE fairpost.http_durations (
    route text NOT NULL,        -- a template like /v1/emails/{email_id}, never a path
    method text NOT NULL,
    status text NOT NULL,       -- 2xx
    bucket smallint NOT NULL,   -- of BOUNDS_S in observe/http_durations.py
    n bigint NOT NULL,
    total_us bigint NOT NULL,
    PRIMARY KEY (route, method, status, bucket)
) WITH (fillfactor = 50);
