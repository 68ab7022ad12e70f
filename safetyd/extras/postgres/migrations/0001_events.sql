-- Every event as it stands in the audit files, and what it says in columns. The tables besides
-- `events` are made of it by the views of 0002, so they can be compared with it at any time.

-- Where loading stopped: changed in the transaction of the rows themselves.
CREATE TABLE progress (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    journal text NOT NULL,                          -- whose events these are
    seq bigint NOT NULL,
    hash text NOT NULL,                             -- at the end of that event's audit line
    loaded_at timestamptz NOT NULL DEFAULT now()
);

-- Events that no audit file had when somebody said to go on without them.
CREATE TABLE gaps (
    first_seq bigint PRIMARY KEY,
    last_seq bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE events (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    event text NOT NULL,
    agent text,
    hash text NOT NULL,
    line text NOT NULL,                             -- the journal's line, byte by byte
    -- jsonb has no NUL, and agents may send one.
    body jsonb GENERATED ALWAYS AS (replace(line, '\u0000', '\ufffd')::jsonb) STORED,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON events (event, at);
CREATE INDEX ON events (agent, at);

CREATE TABLE decisions (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    agent text NOT NULL,
    proposal_id text,
    type text NOT NULL,
    decision text NOT NULL,
    rule text,                                      -- of the strictest verdict
    cause text,
    reason text,
    rules text[] NOT NULL,                          -- of all verdicts
    tier text NOT NULL,
    risk text NOT NULL,
    reversibility text NOT NULL,
    counts boolean NOT NULL,                        -- no dry run, and not the repeat of an id
    keyless boolean NOT NULL,
    request_id text,                                -- that it opened or joined
    used_request_id text,                           -- whose approval it used up
    grants text[] NOT NULL,
    session text,
    project text,
    chain text,
    task text,
    model text,
    provider text,
    dependency text,
    confidence double precision,
    estimate_usd numeric,
    description text,
    text text,
    paths text[] NOT NULL,
    digest text NOT NULL,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON decisions (agent, at);
CREATE INDEX ON decisions (proposal_id);

CREATE TABLE outcomes (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    agent text NOT NULL,
    proposal_id text,
    ok boolean NOT NULL,
    type text,
    session text,
    chain text,
    task text,
    model text,
    dependency text,
    cost_usd numeric,                               -- said, or by its tokens if that is more
    input_tokens bigint,
    output_tokens bigint,
    latency_ms double precision,
    files_changed bigint,
    keyless boolean NOT NULL,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON outcomes (agent, at);
CREATE INDEX ON outcomes (proposal_id);

CREATE TABLE requests (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    request_id text NOT NULL,
    agent text NOT NULL,
    proposal_id text,
    type text NOT NULL,
    urgency text NOT NULL,
    deadline timestamptz,
    rule text,
    reason text,
    description text,
    session text,
    project text,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON requests (request_id);

CREATE TABLE request_steps (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    request_id text NOT NULL,
    step text NOT NULL,
    agent text,
    proposal_id text,
    by text,
    via text,
    words text,
    PRIMARY KEY (seq, request_id, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON request_steps (request_id);

CREATE TABLE deliveries (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    delivery_id text NOT NULL,
    recipient text NOT NULL,
    channel text NOT NULL,
    urgency text NOT NULL,
    request_ids text[] NOT NULL,
    items bigint NOT NULL,                          -- with those that it tells by number only
    expires timestamptz,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON deliveries (delivery_id);

CREATE TABLE delivery_steps (
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    delivery_id text NOT NULL,
    channel text,
    state text NOT NULL,
    attempts bigint,
    took_s double precision,
    error text,
    by text,
    PRIMARY KEY (seq, delivery_id, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON delivery_steps (delivery_id);

-- Gives every table its part for a month. A part is attached, which lets others read meanwhile.
CREATE FUNCTION add_month(first date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    part text;
BEGIN
    FOR parent IN
        SELECT relname FROM pg_class
        WHERE relkind = 'p' AND relnamespace = current_schema()::regnamespace ORDER BY relname
    LOOP
        part := parent || to_char(first, '_YYYY_MM');
        CONTINUE WHEN to_regclass(quote_ident(part)) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING GENERATED)', part, parent);
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            parent, part,
            to_char(first, 'YYYY-MM-DD "00:00:00+00"'),
            to_char(first + interval '1 month', 'YYYY-MM-DD "00:00:00+00"'));
    END LOOP;
END
$$;
